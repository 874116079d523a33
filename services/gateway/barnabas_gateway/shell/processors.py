"""The acceptor's processors: started, restarted when they die, given connections and metadata, drained."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import msgspec

from barnabas.cluster.access.operator_calls import OperatorCall
from barnabas.cluster.config_description import Setting
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import BrokerConfigs, UpdateMetadata
from barnabas.cluster.quotas.entities import client_quota
from barnabas.cluster.quotas.shares import QuotaUse
from barnabas.metrics.connection_families import CONNECTIONS, METADATA_REVISION, PROCESSOR_DEATHS, PROCESSORS
from barnabas.metrics.family import Sample
from barnabas.runtime.contained import CONTAINED
from barnabas.runtime.health_reports import RecentDeaths
from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas.runtime.metrics.pod_metrics import PodMetrics
from barnabas.runtime.processes import contained_counts
from barnabas.runtime.processes.spawning import ChildProcess, spawn
from barnabas.runtime.tracing.traces import CURRENT
from barnabas_gateway.core.model.outputs import ControllerAnswer, ControllerRequest
from barnabas_gateway.core.model.request_context import ANY_NODE
from barnabas_gateway.shell import processor_ipc
from barnabas_gateway.shell.config import GatewayProperties
from barnabas_gateway.shell.containment import CONTROLLER_CALL

PROCESSOR_MODULE: Final = "barnabas_gateway.processor"

_log = get_logger("gateway.processors")

_RESTART_MS_MIN = 50
_RESTART_MS_MAX = 2_000
_RESTART_CALM_MS = 10_000
"""A processor that has run this long is restarted without delay."""
_CALLS_MAX = 1_000
"""Calls to the controller in flight, as many as it lets wait."""
_STOP_GRACE_MS = processor_ipc.DRAIN_GRACE_MS + 1_000


class _Processor:
    """One processor's process, as long as it lives."""

    __slots__ = ("applied_revision", "child", "connections", "index", "is_draining", "serial", "started_s")

    def __init__(self, index: int, serial: int, child: ChildProcess, started_s: float) -> None:
        self.index = index
        self.serial = serial
        """Never reused, unlike an index."""
        self.child = child
        self.started_s = started_s
        self.applied_revision = -1
        self.connections: dict[int, tuple[str, str]] = {}
        """By connection id: its listener, and the client's address."""
        self.is_draining = False


class Processors:
    """All on the acceptor's event loop."""

    def __init__(
        self,
        properties: GatewayProperties,
        settings: dict[str, Setting],
        bound_ports: dict[str, int],
        image: ClusterImage,
        ask_controller: Callable[[ControllerRequest], Awaitable[ControllerAnswer | None]],
        on_applied: Callable[[int], None],
        on_closed: Callable[[str, str], None],
        metrics: PodMetrics,
    ) -> None:
        """`on_applied(revision)`: every processor answers by it; `on_closed(listener, address)`: a connection is
        closed."""
        self.on_quota_uses: Callable[[str, list[QuotaUse]], list[float]] = lambda _, uses: [use.rate for use in uses]
        """Returns the rates of a processor's shares; set before a processor has clients."""
        self._properties = properties
        self._settings = settings
        self._bound_ports = bound_ports
        self._image = image
        self._ask_controller = ask_controller
        self._on_applied = on_applied
        self._on_closed = on_closed
        self._metrics = metrics
        self._next_serial = 0
        self._deaths = 0
        self.deaths = RecentDeaths("one of its processors")
        self._loop = asyncio.get_running_loop()
        self._by_index: dict[int, _Processor] = {}
        self._draining: list[_Processor] = []
        self._wanted = 0
        self._next = 0
        self._next_connection_id = 1
        self._restart_ms: dict[int, int] = {}
        self._calls = BackgroundTasks(CONTROLLER_CALL)

    def resize(self, count: int) -> None:
        """Change the number of processors; the ones with the highest indexes drain."""
        self._wanted = count
        for processor in self._by_index.values():
            processor.child.messages.send(processor_ipc.PROCESSORS, b"%d" % count)
        for index in range(count):
            if index not in self._by_index:
                self._start(index)
        for index in [index for index in self._by_index if index >= count]:
            self._drain(self._by_index.pop(index))
        self._tell_applied()

    def _start(self, index: int) -> None:
        if index >= self._wanted or index in self._by_index:
            return
        processor: _Processor

        def on_message(kind: bytes, payload: bytes, _fds: list[int]) -> None:
            self._message(processor, kind, payload)

        def on_exit(exit_code: int) -> None:
            self._exited(processor, exit_code)

        def on_silence(_is_silent: bool) -> None:
            self._tell_applied()

        serial = self._next_serial
        self._next_serial += 1
        try:
            child = spawn(PROCESSOR_MODULE, on_message=on_message, on_exit=on_exit, on_silence=on_silence)
        except OSError as error:  # out of processes, descriptors or memory
            _log.error("a processor can't be started", index=index, reason=str(error), again_ms=_RESTART_MS_MAX)
            self._loop.call_later(_RESTART_MS_MAX / 1000, self._start, index)
            return
        processor = _Processor(index, serial, child, self._loop.time())
        self._by_index[index] = processor
        self._metrics.add_process(serial, lambda: child.messages.send(processor_ipc.METRICS))
        settings = processor_ipc.ProcessorSettings(index, self._properties, self._bound_ports, self._settings)
        child.messages.send(processor_ipc.SETTINGS, msgspec.json.encode(settings))
        child.messages.send(processor_ipc.PROCESSORS, b"%d" % self._wanted)
        if self._image.revision >= 0:
            child.messages.send(processor_ipc.METADATA, processor_ipc.encode_metadata(full_update(self._image)))

    def _exited(self, processor: _Processor, exit_code: int) -> None:
        self._metrics.gone(processor.serial)
        for listener, address in processor.connections.values():
            self._on_closed(listener, address)
        processor.connections.clear()
        if processor.is_draining:
            self._draining.remove(processor)
            return
        index = processor.index
        del self._by_index[index]
        lived_ms = (self._loop.time() - processor.started_s) * 1000
        before_ms = self._restart_ms.get(index, 0) if lived_ms < _RESTART_CALM_MS else 0
        self._deaths += 1
        self.deaths.died(exit_code)
        delay_ms = min(max(2 * before_ms, _RESTART_MS_MIN), _RESTART_MS_MAX)
        self._restart_ms[index] = delay_ms
        _log.error("processor died", index=index, pid=processor.child.pid, exit_code=exit_code, restart_ms=delay_ms)
        self._loop.call_later(delay_ms / 1000, self._start, index)
        self._tell_applied()

    def _drain(self, processor: _Processor) -> None:
        processor.is_draining = True
        self._draining.append(processor)
        processor.child.messages.send(processor_ipc.DRAIN)

    # --- connections -------------------------------------------------------------------------------------------------

    def _live(self) -> list[_Processor]:
        """Return them by index, without those that are silent: a stopped process would keep the connections it is
        given.
        """
        return [self._by_index[index] for index in sorted(self._by_index) if not self._by_index[index].child.is_silent]

    def has_live(self) -> bool:
        return bool(self._live())

    def _serving(self) -> list[_Processor]:
        """Return the live ones, or those of them that know the cluster, if there are any: a client of a processor that
        has just been restarted would wait until that is ready."""
        live = self._live()
        return [processor for processor in live if processor.applied_revision >= 0] or live

    def hand_over(
        self, accepted: socket.socket, listener: str, address: str, peer: str, node_id: int = ANY_NODE
    ) -> None:
        """Pass an accepted socket to the next live processor, of which there must be one; `accepted` is closed here."""
        serving = self._serving()
        processor = serving[self._next % len(serving)]
        self._next += 1
        connection_id = self._next_connection_id
        self._next_connection_id += 1
        processor.connections[connection_id] = listener, address
        payload = msgspec.json.encode(processor_ipc.Accepted(connection_id, listener, peer, node_id))
        with accepted:
            processor.child.messages.send(processor_ipc.CONNECTION, payload, [accepted.fileno()])

    # --- metadata and calls ------------------------------------------------------------------------------------------

    def metadata_updated(self, payload: bytes) -> None:
        """Pass an UpdateMetadata on, as protobuf."""
        for processor in (*self._by_index.values(), *self._draining):
            processor.child.messages.send(processor_ipc.METADATA, payload)

    def write_operator_calls(self, calls: list[OperatorCall]) -> None:
        """Have a processor write them to the topic of the audit."""
        serving = self._serving()
        if serving:
            payload = processor_ipc.encode_operator_calls(calls)
            serving[0].child.messages.send(processor_ipc.OPERATOR_CALLS, payload)
        else:
            reason = "no processor is alive"
            _log.warning("records of the audit dropped", records=len(calls), reason=reason, limit_key=reason)

    def applied_revision(self) -> int:
        """Return the revision that every live processor has applied; -1 while one of them has none. A silent processor
        answers no requests, and gets the updates in order when it continues."""
        return min((processor.applied_revision for processor in self._live()), default=-1)

    def _tell_applied(self) -> None:
        if len(self._by_index) == self._wanted and self.applied_revision() >= 0:
            self._on_applied(self.applied_revision())

    def _message(self, processor: _Processor, kind: bytes, payload: bytes) -> None:
        match kind:
            case processor_ipc.APPLIED:
                processor.applied_revision = processor_ipc.decode_revision(payload)
                self._tell_applied()
            case processor_ipc.CLOSED:
                for connection_id in processor_ipc.decode_ids(payload):
                    self._on_closed(*processor.connections.pop(connection_id))
            case processor_ipc.QUOTAS:
                uses = processor_ipc.decode_uses(payload)
                rates = self.on_quota_uses(str(processor.serial), uses)
                processor.child.messages.send(processor_ipc.QUOTAS, processor_ipc.encode_shares(uses, rates))
            case processor_ipc.METRICS:
                self._metrics.heard(processor.serial, payload)
            case contained_counts.KIND:
                contained_counts.take_counts(payload)
            case processor_ipc.CALL if len(self._calls) >= _CALLS_MAX:
                call_id, _, _ = processor_ipc.decode_call(payload)
                processor.child.messages.send(processor_ipc.ANSWER, processor_ipc.encode_answer(call_id, None))
            case processor_ipc.CALL:
                self._calls.start(self._call(processor, payload))
            case _:
                _log.error("an unknown message from a processor", kind=kind)

    async def _call(self, processor: _Processor, payload: bytes) -> None:
        call_id, request, trace = processor_ipc.decode_call(payload)
        CURRENT.set(trace)
        answer: ControllerAnswer | None = None
        try:
            answer = await self._ask_controller(request)
        except Exception as error:
            CONTAINED.contain(CONTROLLER_CALL, error, {"request": type(request).__name__})
        processor.child.messages.send(processor_ipc.ANSWER, processor_ipc.encode_answer(call_id, answer))

    # --- what is measured --------------------------------------------------------------------------------------------

    def samples(self) -> Iterator[Sample]:
        yield Sample(PROCESSORS, (), len(self._live()))
        yield Sample(PROCESSOR_DEATHS, (), self._deaths)
        yield Sample(METADATA_REVISION, (), self.applied_revision())
        for processor in (*self._by_index.values(), *self._draining):
            by_listener = Counter(listener for listener, _ in processor.connections.values())
            for listener in self._bound_ports:
                yield Sample(CONNECTIONS, (listener, str(processor.index)), by_listener[listener])

    # --- the end -----------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Drain all of them; those that take too long are killed."""
        self._wanted = 0
        for processor in list(self._by_index.values()):
            self._drain(processor)
        self._by_index.clear()
        children = [processor.child for processor in self._draining]
        await asyncio.gather(*(_await_exit(child) for child in children))
        await self._calls.stop()


async def _await_exit(child: ChildProcess) -> None:
    try:
        await asyncio.wait_for(asyncio.shield(child.exited), _STOP_GRACE_MS / 1000)
    except TimeoutError:
        await child.stop(0)


def full_update(image: ClusterImage) -> UpdateMetadata:
    """Return the image as one update, for a processor that starts late."""
    return UpdateMetadata(
        revision=image.revision,
        full=True,
        cluster_id=image.cluster_id,
        controller_epoch=image.controller_epoch,
        brokers=list(image.brokers.values()),
        purgatories=image.purgatories,
        topics=list(image.topics_by_id.values()),
        broker_configs=[BrokerConfigs(each, configs) for each, configs in image.broker_configs.items()],
        acls=list(image.acls),
        knows_acls=image.knows_acls,
        scram_credentials=list(image.scram_credentials.values()),
        client_quotas=[client_quota(entity, quotas) for entity, quotas in image.client_quotas.items()],
        gateways=image.gateways,
        delegation_tokens=list(image.delegation_tokens.values()),
        finalized_features=image.finalized_features,
    )
