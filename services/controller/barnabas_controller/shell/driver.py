"""ControllerDriver: feeds the core with what happens, and does what it wants done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import assert_never

from barnabas.cluster.controller_calls.table import MembershipRequest, MembershipResponse
from barnabas.cluster.keys import ControllerRegistration, Keys, Role
from barnabas.cluster.messages import ControlRequest, ControlResponse, UpdateMetadata
from barnabas.metrics.family import Measured
from barnabas.ports.etcd import AmbiguousResult, EtcdRefused, Txn
from barnabas.runtime.clock import monotonic_ms, monotonic_us
from barnabas.runtime.contained import log_contained
from barnabas.runtime.etcd import EtcdClient, EtcdUnavailable, Lease
from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas.runtime.streams import ServerStream
from barnabas_controller.core.controller import ControllerCore
from barnabas_controller.core.observability.measures import Measures
from barnabas_controller.core.state.effects import (
    ActiveChanged,
    ConnectControl,
    DisconnectControl,
    Effect,
    EndSubscription,
    PublishMetadata,
    Reject,
    Respond,
    RevokeLease,
    SendControl,
    SubmitTxn,
)
from barnabas_controller.core.state.operator_requests import OperatorRequest, OperatorResponse
from barnabas_controller.shell.containment import EFFECT
from barnabas_controller.shell.control_stream import ControlStream
from barnabas_controller.shell.meter import DriverMeter
from barnabas_controller.shell.packing import Packer, is_large

_log = get_logger("controller")

# Longer than etcd takes to elect its own leader: that restarts every lease, also those of dead members.
_REVOKE_MS_MAX = 20_000


class NotActive(Exception):  # noqa: N818  (an outcome: ask the active one)
    """`untouched`: the request has certainly changed nothing here."""

    def __init__(self, untouched: bool) -> None:
        super().__init__("this controller is not active")
        self.untouched = untouched


class ControllerDriver:
    """One per process, on its event loop. The core is only ever called from here, and never from within a call."""

    def __init__(
        self, core: ControllerCore, etcd: EtcdClient, keys: Keys, on_ready_changed: Callable[[bool], None]
    ) -> None:
        self.core = core
        self._etcd = etcd
        self._keys = keys
        self._on_ready_changed = on_ready_changed
        self._ready = False
        # Keys in etcd that can't be read and that are already logged.
        self._reported: set[str] = set()
        self._packer = Packer()
        self._streams: dict[tuple[int, int], ControlStream] = {}
        self._subscribers: dict[int, ServerStream] = {}
        self._answers: dict[int, asyncio.Future[MembershipResponse | OperatorResponse]] = {}
        # Done, and then replaced, when there are events to send or another controller is to send them.
        self.changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watched = self._what_watchers_see()
        self._last_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = BackgroundTasks(EFFECT, self.fail)
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails if there can be no more turns."""
        self._meter = DriverMeter()
        self.measured: list[Measured] = [Measures(core), self._meter, core.contained]

    async def follow_etcd(self) -> None:
        """Feed the watch to the core, forever. What is raised by a change ends this, and the process with it: its image
        would lack the rest of the change.
        """
        async with aclosing(self._etcd.watch(self._keys.prefix)) as changes:
            async for change in changes:
                self.core.on_image(change, monotonic_ms())
                self._carry_out()
                self._report_unreadable()

    def _report_unreadable(self) -> None:
        """Log each key once, until it can be read again."""
        unreadable = self.core.image.unreadable
        for key in unreadable.keys() - self._reported:
            _log.error("a key in etcd is unreadable; it is not acted on", key=key, reason=unreadable[key])
        self._reported = set(unreadable)

    def on_lease(self, lease: Lease) -> None:
        with self._fails():
            self.core.on_lease(lease.lease_id, lease.deadline_ms, monotonic_ms())
            self._carry_out()

    async def ask(self, request: MembershipRequest | OperatorRequest) -> MembershipResponse | OperatorResponse:
        """Raises NotActive."""
        request_id = self._next_id()
        answer: asyncio.Future[MembershipResponse | OperatorResponse] = asyncio.get_running_loop().create_future()
        self._answers[request_id] = answer
        since_us = monotonic_us()
        self._meter.pending_requests += 1
        try:
            self.core.on_request(request_id, request, monotonic_ms())
            self._carry_out()
        except Exception as error:
            self.fail(error)
            raise
        try:
            return await answer
        finally:
            self._answers.pop(request_id, None)
            self._meter.pending_requests -= 1
            self._meter.answered(request, since_us)

    def subscribe(self, stream: ServerStream, role: Role, pod_id: str) -> int:
        """Return the id of the subscription, for `confirm` and `unsubscribe`."""
        subscriber_id = self._next_id()
        self._subscribers[subscriber_id] = stream
        with self._fails():
            self.core.on_subscribed(subscriber_id, role, pod_id, monotonic_ms())
            self._carry_out()
        return subscriber_id

    def acknowledge(self, subscriber_id: int, applied_revision: int) -> None:
        with self._fails():
            self.core.on_acknowledged(subscriber_id, applied_revision, monotonic_ms())
            self._carry_out()

    def unsubscribe(self, subscriber_id: int) -> None:
        self._subscribers.pop(subscriber_id, None)
        with self._fails():
            self.core.on_unsubscribed(subscriber_id, monotonic_ms())
            self._carry_out()

    def elected(self) -> ControllerRegistration | None:
        """Return the controller that is active, or was last; None: none is known."""
        election = self.core.image.election
        return election.record if election is not None else None

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.stop()
        await asyncio.gather(*(stream.close() for stream in self._streams.values()))

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def fail(self, error: BaseException) -> None:
        """End the process: what its decisions rely on can't be trusted any more."""
        if not self.failed.done():
            self.failed.set_exception(error)

    @contextmanager
    def _fails(self) -> Iterator[None]:
        """What is raised within ends the process."""
        try:
            yield
        except Exception as error:
            self.fail(error)

    def _tick(self) -> None:
        with self._fails():
            self.core.on_tick(monotonic_ms())
            self._carry_out()

    def _carry_out(self) -> None:
        """Carry out what the core has come to since this was called last."""
        log_contained(self.core.contained.take_reports())
        for effect in self.core.take_outputs().effects:
            self._carry_out_one(effect)
        self._wake_watchers()
        if self.core.ready != self._ready:
            self._ready = self.core.ready
            self._on_ready_changed(self._ready)
        if self._timer is not None:
            self._timer.cancel()
        now_ms = monotonic_ms()
        deadline_ms = self.core.next_deadline_ms(now_ms)
        if deadline_ms is not None:
            # At least a millisecond, so that a clock which rounds down never causes a busy loop.
            wait_ms = max(1, deadline_ms - now_ms)
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._tick)

    def _what_watchers_see(self) -> tuple[int, int, bool]:
        return self.core.events.end, self.core.events.reloads, self.core.active

    def _wake_watchers(self) -> None:
        seen = self._what_watchers_see()
        if seen != self._watched:
            self._watched = seen
            self.changed.set_result(None)
            self.changed = asyncio.get_running_loop().create_future()

    def _carry_out_one(self, effect: Effect) -> None:
        match effect:
            case SubmitTxn():
                self._tasks.start(self._submit(effect.txn_id, effect.txn))
            case RevokeLease():
                self._tasks.start(self._revoke(effect.lease))
            case ConnectControl():
                self._connect(effect)
            case DisconnectControl():
                self._tasks.start(self._streams.pop((effect.node_id, effect.broker_epoch)).close())
            case SendControl():
                self._meter.command_sent(effect.node_id, effect.request)
                self._send(self._streams[effect.node_id, effect.broker_epoch], effect.request)
            case PublishMetadata():
                self._publish(effect.update, effect.subscriber_ids)
            case EndSubscription():
                stream = self._subscribers.pop(effect.subscriber_id, None)
                if stream is not None:
                    stream.close("this controller is not active")
            case Respond():
                answer = self._answers.get(effect.request_id)
                if answer is not None and not answer.done():
                    answer.set_result(effect.response)
            case Reject():
                answer = self._answers.get(effect.request_id)
                if answer is not None and not answer.done():
                    answer.set_exception(NotActive(effect.untouched))
            case ActiveChanged():
                self._meter.became_active += effect.active
                _log.info("active" if effect.active else "standby", controller_epoch=effect.controller_epoch)
            case _:
                assert_never(effect)

    async def _submit(self, txn_id: int, txn: Txn) -> None:
        try:
            result = await self._etcd.txn(txn)
        except AmbiguousResult as ambiguous:
            _log.warning("the outcome of a Txn is unknown", reason=str(ambiguous))
            self.core.on_txn_ambiguous(txn_id, monotonic_ms())
            self._carry_out()
        except EtcdRefused as refused:
            _log.error("etcd refused a Txn", reason=str(refused))
            self.core.on_txn_refused(txn_id, str(refused), monotonic_ms())
            self._carry_out()
        else:
            self.core.on_txn_result(txn_id, result, monotonic_ms())
            self._carry_out()

    async def _revoke(self, lease: int) -> None:
        try:
            await self._etcd.revoke(lease, _REVOKE_MS_MAX)
        except (EtcdUnavailable, EtcdRefused) as error:
            _log.warning("a lease could not be revoked; it expires", reason=str(error))

    def _connect(self, effect: ConnectControl) -> None:
        node_id, broker_epoch, core = effect.node_id, effect.broker_epoch, self.core

        def on_up() -> None:
            with self._fails():
                core.on_control_connected(node_id, broker_epoch, monotonic_ms())
                self._carry_out()

        def on_response(response: ControlResponse) -> None:
            self._meter.command_answered(node_id, response)
            with self._fails():
                core.on_control_response(node_id, broker_epoch, response, monotonic_ms())
                self._carry_out()

        def on_down() -> None:
            self._meter.stream_lost(node_id)
            with self._fails():
                core.on_control_disconnected(node_id, broker_epoch, monotonic_ms())
                self._carry_out()

        def on_gone() -> None:
            with self._fails():
                core.on_peer_gone(node_id, broker_epoch, monotonic_ms())
                self._carry_out()

        stream = ControlStream(
            effect.control_address,
            effect.data_address,
            on_up=on_up,
            on_response=on_response,
            on_down=on_down,
            on_gone=on_gone,
        )
        self._streams[node_id, broker_epoch] = stream
        stream.start()

    def _send(self, stream: ControlStream, request: ControlRequest) -> None:
        if is_large(request):
            stream.send_when_packed(partial(self._packer.large_control_request, request))
        else:
            stream.send(self._packer.control_request(request))

    def _publish(self, update: UpdateMetadata, subscriber_ids: frozenset[int]) -> None:
        streams = [stream for each, stream in self._subscribers.items() if each in subscriber_ids]
        if is_large(update):
            for stream in streams:
                stream.send_when_packed(partial(self._packer.large_subscribe_response, update))
        elif streams:
            data = self._packer.subscribe_response(update)
            for stream in streams:
                stream.send(data)
