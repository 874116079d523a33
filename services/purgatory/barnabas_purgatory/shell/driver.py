"""PurgatoryDriver: the host of the core, between its gateways' streams, its logstores' streams and the clock.

Input is passed to the core as it arrives; output is sent once per turn of the event loop, so that everything that
arrived together leaves together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator

from barnabas.channel.generated.packing import pack_park_response, scan_park_request
from barnabas.channel.messages import GroupState, ParkRequest, ParkResponse, PartitionState
from barnabas.channel.packing_in_steps import scan_park_request_in_steps
from barnabas.channel.packing_primitives import MalformedMessage
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import UpdateMetadata
from barnabas.containment import Uncontained
from barnabas.metrics.conditions import Condition
from barnabas.metrics.family import Measured, Sample
from barnabas.metrics.purgatory_families import GATEWAY_STREAMS, LOGSTORE_STREAMS, LOGSTORE_STREAMS_LOST
from barnabas.metrics.recent_exceptions import RecentExceptions
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.contained import log_contained
from barnabas.runtime.large_messages import LARGE_BYTES, over_turns
from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.input_selector import TurnScheduler
from barnabas.runtime.streams import ServerStream
from barnabas.runtime.tracing.traces import TraceExporter
from barnabas_purgatory.core.meter import MESSAGE
from barnabas_purgatory.core.purgatory import PurgatoryCore
from barnabas_purgatory.shell.logstores import LogstoreLinks
from barnabas_purgatory.shell.spans import TracedWaits

_log = get_logger("purgatory.pod")


class PurgatoryDriver:
    """Everything of one pod runs on one event loop and does not await."""

    def __init__(self, pod_id: str, entries_max: int, traces: TraceExporter | None = None) -> None:
        self.pod_id = pod_id
        self._traced = None if traces is None else TracedWaits(traces)
        self.image = ClusterImage()
        self.logstores = LogstoreLinks(pod_id, self)
        self._core = PurgatoryCore(monotonic_ms(), entries_max)
        self._streams: dict[int, ServerStream] = {}
        self._streams_opened = 0
        self._logstores_up = 0
        self._logstores_lost = 0
        self._exceptions = RecentExceptions()
        self._loop = asyncio.get_running_loop()
        self._schedule_turn = TurnScheduler(self._turn).request
        self._timer: asyncio.TimerHandle | None = None
        self.failed: asyncio.Future[None] = self._loop.create_future()
        """Fails if there can be no more turns."""
        self.measured: list[Measured] = [self._core, self]

    # --- gateways ----------------------------------------------------------------------------------------------------

    def open_stream(self, stream: ServerStream) -> ParkStream:
        """A gateway's processor opens a stream to park requests."""
        self._streams_opened += 1
        self._streams[self._streams_opened] = stream
        return ParkStream(self, self._streams_opened, stream)

    def park(self, stream_id: int, request: ParkRequest) -> None:
        """Process one message of a gateway."""
        if request.heartbeat:
            return
        stream = self._streams[stream_id]
        if request.hello is not None:
            mine, theirs = self.image.cluster_id, request.hello.cluster_id
            if mine and theirs and mine != theirs:
                stream.close(f"this is purgatory pod {self.pod_id} of cluster {mine}, not of {theirs}")
                return
            stream.send(pack_park_response(ParkResponse(pod_id=self.pod_id)))
        if request.traced and self._traced is not None:
            self._traced.parked(stream_id, request.traced)
        now_ms = monotonic_ms()
        core = self._core
        for produce in request.produces:
            core.park_produce(stream_id, produce, now_ms)
        for fetch in request.fetches:
            core.park_fetch(stream_id, fetch, now_ms)
        for group in request.groups:
            core.park_group(stream_id, group, now_ms)
        for entry_id in request.cancels:
            core.cancel(stream_id, entry_id)
        if request.cancels and self._traced is not None:
            self._traced.cancelled(stream_id, request.cancels)
        self._schedule_turn()

    def stream_closed(self, stream_id: int) -> None:
        del self._streams[stream_id]
        self._core.stream_closed(stream_id)
        if self._traced is not None:
            self._traced.stream_closed(stream_id)
        self._schedule_turn()

    # --- logstores and controller ------------------------------------------------------------------------------------

    def metadata_updated(self, update: UpdateMetadata) -> None:
        """Apply what the controller publishes: the logstores' addresses, and which epochs have ended."""
        try:
            if self.image.apply(update):
                self.logstores.follow(self.image.cluster_id, self.image.brokers.values())
                self._core.metadata_applied(self.image)
                self._schedule_turn()
        except (Exception, Uncontained) as error:
            self.fail(error)

    def logstore_up(self, node_id: int) -> None:
        """Implements `LogstoreWatcher`, with the methods below."""
        self._logstores_up += 1
        try:
            self._core.logstore_up(node_id)
        except Exception as error:
            self.fail(error)
        self._schedule_turn()

    def partition_states(self, node_id: int, states: list[PartitionState]) -> None:
        try:
            self._core.partition_states(node_id, states)
        except (Exception, Uncontained) as error:
            self.message_failed(f"logstore {node_id}", error)
            raise MalformedMessage("an internal error") from error
        self._schedule_turn()

    def group_states(self, node_id: int, states: list[GroupState]) -> None:
        try:
            self._core.group_states(node_id, states)
        except (Exception, Uncontained) as error:
            self.message_failed(f"logstore {node_id}", error)
            raise MalformedMessage("an internal error") from error
        self._schedule_turn()

    def logstore_down(self, node_id: int) -> None:
        self._logstores_up -= 1
        self._logstores_lost += 1
        try:
            self._core.logstore_down(node_id)
        except Exception as error:
            self.fail(error)

    def samples(self) -> Iterator[Sample]:
        yield Sample(GATEWAY_STREAMS, (), len(self._streams))
        yield Sample(LOGSTORE_STREAMS, (), self._logstores_up)
        yield Sample(LOGSTORE_STREAMS_LOST, (), self._logstores_lost)

    def conditions(self) -> list[Condition]:
        """Return what the pod reports of its own health."""
        contained = self._core.contained
        self._exceptions.follow({place.name: count for place, count in contained.counts.items()}, monotonic_ms())
        return self._exceptions.conditions()

    # --- turns -------------------------------------------------------------------------------------------------------

    def message_failed(self, peer: str, error: Exception | Uncontained) -> None:
        """A message was not handled; the stream that it came on is closed by the caller."""
        if isinstance(error, Uncontained):
            self.fail(error)
        else:
            self._core.contained.contain(MESSAGE, error, {"peer": peer})
        self._schedule_turn()

    def fail(self, error: Exception | Uncontained) -> None:
        """End the process: what entries share can't be trusted any more."""
        if isinstance(error, Uncontained):
            cause, error = error, RuntimeError("what parked entries share may be half-changed")
            error.__cause__ = cause
        if not self.failed.done():
            self.failed.set_exception(error)

    def _turn(self) -> None:
        try:
            self._take_turn()
        except (Exception, Uncontained) as error:
            self.fail(error)

    def _take_turn(self) -> None:
        now_ms = monotonic_ms()
        self._core.expire(now_ms)
        outputs = self._core.take_outputs()
        log_contained(self._core.contained.take_reports())
        for node_id, request in outputs.watch_requests():
            self.logstores.send(node_id, request)
        for stream_id, completions in outputs.completions.items():
            self._streams[stream_id].send(pack_park_response(ParkResponse(completions=completions)))
            if self._traced is not None:
                self._traced.ended(stream_id, completions)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self._core.next_deadline_ms()
        if deadline_ms is not None:
            self._timer = self._loop.call_later(max(0, deadline_ms - now_ms) / 1000, self._schedule_turn)


class ParkStream:
    """One processor's stream, as `barnabas.runtime.streams` provides it."""

    __slots__ = ("_pod", "_stream", "_stream_id")

    def __init__(self, pod: PurgatoryDriver, stream_id: int, stream: ServerStream) -> None:
        self._pod = pod
        self._stream_id = stream_id
        self._stream = stream

    def on_message(self, data: bytes) -> Awaitable[None] | None:
        """Raises MalformedMessage, as the awaitable does."""
        if len(data) >= LARGE_BYTES:
            return self._read_large(data)
        self._take(scan_park_request(data))
        return None

    async def _read_large(self, data: bytes) -> None:
        """Read a message of many conditions over several turns."""
        self._take(await over_turns(scan_park_request_in_steps(data)))

    def _take(self, request: ParkRequest) -> None:
        try:
            self._pod.park(self._stream_id, request)
        except (Exception, Uncontained) as error:
            self._pod.message_failed(self._stream.peer, error)
            self._stream.close("an internal error")

    def on_closed(self, reason: str) -> None:
        _log.debug("gateway gone", peer=self._stream.peer, reason=reason)
        try:
            self._pod.stream_closed(self._stream_id)
        except (Exception, Uncontained) as error:
            self._pod.fail(error)

    def pack_heartbeat(self, count: int) -> bytes:
        return pack_park_response(ParkResponse(heartbeat=count))
