"""How gateways and purgatory pods hear from the active controller: `barnabas.runtime.membership.MembershipClient`
here."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.cluster.controller_calls.table import MembershipRequest, MembershipResponse
from barnabas.cluster.keys import ControllerRegistration, Role, decode_registration
from barnabas.cluster.messages import AllocateProducerIdsRequest, UpdateMetadata
from barnabas.ports.etcd import KeyValue, Snapshot, WatchBatch
from tests.sim.links import BACKOFF_US_MIN
from tests.sim.network import End
from tests.sim.nodes.etcd import EtcdClient
from tests.sim.process import Process
from tests.sim.protocols import MEMBERSHIP, Call, Return, Subscribe
from tests.sim.scheduler import MS

ANSWER_MARGIN_US = 2_000 * MS

Request = MembershipRequest
Answer = MembershipResponse


class Membership:
    """One connection to the active controller, moved with the election; calls travel on it too.

    A call is answered once: by the controller, or with None when its answer was lost or its time is over.
    """

    def __init__(
        self,
        process: Process,
        etcd: EtcdClient,
        role: Role,
        pod_id: str,
        on_update: Callable[[UpdateMetadata], None] | None,
        on_answer: Callable[[int, Answer | None], None],
    ) -> None:
        """Without `on_update` it is for calls alone."""
        self._process = process
        self._role = role
        self._pod_id = pod_id
        self._on_update = on_update
        self._on_answer = on_answer
        self._applied_revision = -1
        self._controller: KeyValue | None = None
        self._end: End | None = None
        # Calls that wait for a connection, and those whose answer is awaited.
        self._waiting: dict[int, Request] = {}
        self._asked: dict[int, Request] = {}
        etcd.watch(etcd.keys.election, self._election_changed)

    def acknowledge(self, revision: int) -> None:
        if revision > self._applied_revision:
            self._applied_revision = revision
            if self._end is not None:
                self._end.send(Subscribe(self._role.value, self._pod_id, revision))

    def call(self, call_id: int, request: Request, timeout_ms: int) -> None:
        self._waiting[call_id] = request
        self._process.after(
            timeout_ms * MS + ANSWER_MARGIN_US, f"gives up call {call_id}", lambda: self._give_up(call_id)
        )
        self._send_waiting()

    def _give_up(self, call_id: int) -> None:
        if self._waiting.pop(call_id, None) is not None or self._asked.pop(call_id, None) is not None:
            self._on_answer(call_id, None)

    # --- the controller ----------------------------------------------------------------------------------------------

    def _election_changed(self, change: Snapshot | WatchBatch) -> None:
        found = (
            change.key_values
            if isinstance(change, Snapshot)
            else tuple(event.key_value for event in change.events if not event.deleted)
        )
        for key_value in found:
            if self._controller is None or key_value.create_revision != self._controller.create_revision:
                self._controller = key_value
                if self._end is not None:
                    self._end.close("another controller is active")
                    self._lost()
                self._connect()

    def _connect(self) -> None:
        if self._end is not None or self._controller is None:
            return
        registration = decode_registration(Role.CONTROLLER, self._controller.value)
        assert isinstance(registration, ControllerRegistration)
        self._end = self._process.network.connect(MEMBERSHIP, self._process, registration.address, self)
        if self._on_update is not None:
            self._end.send(Subscribe(self._role.value, self._pod_id, self._applied_revision))
        self._send_waiting()

    def _send_waiting(self) -> None:
        if self._end is not None:
            for call_id, request in self._waiting.items():
                self._end.send(Call(call_id, request))
            self._asked |= self._waiting
            self._waiting.clear()

    def on_message(self, message: UpdateMetadata | Return) -> None:
        if isinstance(message, UpdateMetadata):
            assert self._on_update is not None
            self._on_update(message)
            return
        request = self._asked.pop(message.call_id, None)
        if request is None:
            return
        if message.answer is None and message.untouched:
            self._waiting[message.call_id] = request  # Not active: nothing was done, another one will be asked.
        else:
            self._on_answer(message.call_id, message.answer)

    def on_closed(self, reason: str) -> None:
        self._lost()
        self._process.after(BACKOFF_US_MIN, "looks for the controller", self._connect)

    def _lost(self) -> None:
        """Answers of calls that were sent are lost; only producer ids may be asked for again."""
        self._end = None
        asked, self._asked = self._asked, {}
        for call_id, request in asked.items():
            if isinstance(request, AllocateProducerIdsRequest):
                self._waiting[call_id] = request
            else:
                self._on_answer(call_id, None)
