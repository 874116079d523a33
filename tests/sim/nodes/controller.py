"""A controller: the core between etcd, the logstores' control listeners and its subscribers."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import TypeAlias, assert_never

from barnabas.cluster.keys import ControllerRegistration, Role
from barnabas.cluster.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlRequest,
    ControlResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from barnabas.ports.etcd import Snapshot, TxnResult, WatchBatch
from barnabas_controller.core.controller import ControllerCore
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
from barnabas_controller.core.state.settings import ElectionSettings
from barnabas_controller.core.topics.internal_topics import OffsetsTopic, TransactionStateTopic
from barnabas_controller.core.topics.topic_creation import TopicDefaults
from tests.sim.fencing import IsrFence
from tests.sim.groups.shape import OFFSETS_PARTITIONS, OFFSETS_REPLICATION_FACTOR
from tests.sim.links import Link
from tests.sim.network import End
from tests.sim.nodes.etcd import EtcdClient
from tests.sim.nodes.registrar import Registrar
from tests.sim.process import CrashPoint, Process
from tests.sim.protocols import CONTROL, Call, Return, Subscribe
from tests.sim.scheduler import Event, injected
from tests.sim.transactions.shape import STATE_PARTITIONS, STATE_REPLICATION_FACTOR

DEFAULT_PARTITIONS = 2
DEFAULT_REPLICATION_FACTOR = 3
LEADER_IMBALANCE_CHECK_MS = 10_000

AclsRequest: TypeAlias = CreateAclsRequest | DeleteAclsRequest
AclsAnswer: TypeAlias = CreateAclsResponse | DeleteAclsResponse


class ControllerNode(Process):
    """`isr_answered` sees every answer to AlterPartition before it leaves, `acls_answered` those to changes of ACLs."""

    core: ControllerCore | None = None
    isr_answered: Callable[[AlterPartitionRequest, AlterPartitionResponse], None] = staticmethod(
        lambda request, response: None
    )

    acls_answered: Callable[[ControllerNode, AclsRequest, AclsAnswer], None] = staticmethod(lambda node, *change: None)

    @property
    def is_active(self) -> bool:
        return self.core is not None and self.core.active

    def boot(self) -> None:
        random = self.scheduler.random
        self._etcd = EtcdClient(self)
        record = ControllerRegistration(self.name, random.randbytes(16).hex(), f"{self.name}:ops")
        self.core = ControllerCore(
            keys=self._etcd.keys,
            registration=record,
            defaults=TopicDefaults(
                DEFAULT_PARTITIONS,
                DEFAULT_REPLICATION_FACTOR,
                OffsetsTopic(OFFSETS_PARTITIONS, OFFSETS_REPLICATION_FACTOR),
                TransactionStateTopic(STATE_PARTITIONS, STATE_REPLICATION_FACTOR),
            ),
            new_topic_id=lambda: random.randbytes(16),
            new_cluster_id=lambda: urlsafe_b64encode(random.randbytes(16)).decode().rstrip("="),
            wall_ms=lambda: self.wall_ms,
            settings=ElectionSettings(leader_imbalance_check_interval_ms=LEADER_IMBALANCE_CHECK_MS),
        )
        self._links: dict[tuple[int, int], Link] = {}
        self._ends: dict[int, End] = {}
        # The connection and the caller's own id of each request.
        self._calls: dict[int, tuple[End, int]] = {}
        # What operators have asked for, by the id of the request.
        self._operations: dict[int, Callable[[OperatorResponse], None]] = {}
        self._isr_fence = IsrFence(self.core.image)
        # With those of each change who may not join.
        self._isr_requests: dict[int, tuple[AlterPartitionRequest, list[frozenset[int]]]] = {}
        self._acls_requests: dict[int, AclsRequest] = {}
        self._last_id = 0
        self._timer: Event | None = None
        self.network.listen(f"{self.name}:ops", self, self._accept)
        Registrar(
            self._etcd,
            Role.CONTROLLER,
            self.name,
            lambda incarnation: ControllerRegistration(self.name, incarnation, f"{self.name}:ops"),
            on_renewed=self._lease_renewed,
        )
        self._etcd.watch(self._etcd.keys.prefix, self._image_changed)

    def died(self) -> None:
        self.core = None

    @property
    def running(self) -> ControllerCore:
        assert self.core is not None
        return self.core

    def turn(self) -> None:
        self.running.on_tick(self.now_ms)
        self._carry_out()

    def _lease_renewed(self, lease: int, deadline_ms: int) -> None:
        self.running.on_lease(lease, deadline_ms, self.now_ms)
        self._carry_out()

    def _image_changed(self, change: Snapshot | WatchBatch) -> None:
        self.running.on_image(change, self.now_ms)
        self._carry_out()

    # --- effects -----------------------------------------------------------------------------------------------------

    def _carry_out(self) -> None:
        for each in self.running.contained.take_reports():
            self.scheduler.contained(self, each.place.name, each.place.scope.value, each.traceback)
        for effect in self.running.take_outputs().effects:
            self._carry_out_one(effect)
        deadline_ms = self.running.next_deadline_ms(self.now_ms)
        if deadline_ms is not None:
            deadline_ms = max(deadline_ms, self.now_ms + 1)
        self._timer = self.wake_at_ms(deadline_ms, self._timer)

    def _carry_out_one(self, effect: Effect) -> None:
        match effect:
            case SubmitTxn():
                self._submit(effect)
            case RevokeLease():
                self._etcd.lease("revoke", effect.lease, lambda result: None)
            case ConnectControl():
                self._connect(effect)
            case DisconnectControl():
                self._links.pop((effect.node_id, effect.broker_epoch)).close()
            case SendControl():
                self._links[effect.node_id, effect.broker_epoch].send(effect.request)
            case PublishMetadata():
                for subscriber_id, end in self._ends.items():
                    if subscriber_id in effect.subscriber_ids:
                        end.send(effect.update)
            case EndSubscription():
                if effect.subscriber_id in self._ends:
                    self._ends.pop(effect.subscriber_id).close("not active")
            case Respond(request_id, OperatorResponse() as operated):
                self._operations.pop(request_id)(operated)
            case Respond():
                assert not isinstance(effect.response, OperatorResponse)
                end, call_id = self._calls.pop(effect.request_id)
                asked = self._isr_requests.pop(effect.request_id, None)
                if asked is not None and isinstance(effect.response, AlterPartitionResponse):
                    request, former = asked
                    self._isr_fence.answered(former, effect.response)
                    self.isr_answered(request, effect.response)
                change = self._acls_requests.pop(effect.request_id, None)
                if change is not None and isinstance(effect.response, (CreateAclsResponse, DeleteAclsResponse)):
                    self.acls_answered(self, change, effect.response)
                end.send(Return(call_id, effect.response))
            case Reject() if effect.request_id in self._operations:
                del self._operations[effect.request_id]
            case Reject():
                end, call_id = self._calls.pop(effect.request_id)
                self._isr_requests.pop(effect.request_id, None)
                self._acls_requests.pop(effect.request_id, None)
                end.send(Return(call_id, None, effect.untouched))
            case ActiveChanged():
                word = "active" if effect.active else "standby"
                self.scheduler.note(f"{self.name} is {word} in epoch {effect.controller_epoch}")
            case _:
                assert_never(effect)

    def _submit(self, effect: SubmitTxn) -> None:
        txn_id = effect.txn_id

        def result(outcome: TxnResult) -> None:
            if self.reached(CrashPoint.TXN_ANSWERED):
                return
            self.running.on_txn_result(txn_id, outcome, self.now_ms)
            self._carry_out()

        def ambiguous() -> None:
            self.running.on_txn_ambiguous(txn_id, self.now_ms)
            self._carry_out()

        def refused(reason: str) -> None:
            self.running.on_txn_refused(txn_id, reason, self.now_ms)
            self._carry_out()

        self._etcd.txn(effect.txn, result, ambiguous, refused)

    def _connect(self, effect: ConnectControl) -> None:
        core, node_id, epoch = self.running, effect.node_id, effect.broker_epoch
        was_up = False

        def up(first: ControlResponse) -> None:
            nonlocal was_up
            was_up = True
            core.on_control_connected(node_id, epoch, self.now_ms)
            self._carry_out()

        def response(message: ControlResponse) -> None:
            if message.sequence:
                core.on_control_response(node_id, epoch, message, self.now_ms)
                self._carry_out()

        def down(reason: str) -> None:
            # A link that the core has let go of itself ends within one of its effects.
            if (node_id, epoch) in self._links:
                core.on_control_disconnected(node_id, epoch, self.now_ms)
                self._carry_out()

        def refused() -> None:
            if was_up:
                core.on_peer_gone(node_id, epoch, self.now_ms)
                self._carry_out()

        self._links[node_id, epoch] = Link(
            self,
            CONTROL,
            effect.control_address,
            hello=ControlRequest(0, 0, 0, heartbeat=1),
            on_up=up,
            on_message=response,
            on_down=down,
            on_refused=refused,
        )

    # --- subscribers -------------------------------------------------------------------------------------------------

    def _accept(self, end: End) -> _Subscriber:
        return _Subscriber(self, end)

    def subscribe(self, end: End, message: Subscribe) -> int:
        self._last_id += 1
        subscriber_id = self._last_id
        self._ends[subscriber_id] = end
        self.running.on_subscribed(subscriber_id, Role(message.role), message.pod_id, self.now_ms)
        self._carry_out()
        return subscriber_id

    def acknowledge(self, subscriber_id: int, revision: int) -> None:
        self.running.on_acknowledged(subscriber_id, revision, self.now_ms)
        self._carry_out()

    def unsubscribe(self, subscriber_id: int) -> None:
        self._ends.pop(subscriber_id, None)
        self.running.on_unsubscribed(subscriber_id, self.now_ms)
        self._carry_out()

    def operate(self, request: OperatorRequest, answered: Callable[[OperatorResponse], None]) -> None:
        """As the operators' API does; who is replaced or dies gives no answer."""
        self._last_id += 1
        self._operations[self._last_id] = answered
        try:
            self.running.on_request(self._last_id, request, self.now_ms)
            self._carry_out()
        except Exception as error:
            fault = injected(error)
            if fault is None:
                raise
            # The turn is an operator's, who goes on.
            fault.process.failed(fault)

    def call(self, end: End, call: Call) -> None:
        self._last_id += 1
        self._calls[self._last_id] = (end, call.call_id)
        if isinstance(call.request, AlterPartitionRequest):
            self._isr_requests[self._last_id] = (call.request, self._isr_fence.asked(call.request))
        if isinstance(call.request, (CreateAclsRequest, DeleteAclsRequest)):
            self._acls_requests[self._last_id] = call.request
        self.running.on_request(self._last_id, call.request, self.now_ms)
        self._carry_out()


class _Subscriber:
    """One gateway's or pod's connection."""

    def __init__(self, node: ControllerNode, end: End) -> None:
        self._node = node
        self._end = end
        self._subscriber_id: int | None = None

    def on_message(self, message: Subscribe | Call) -> None:
        if isinstance(message, Call):
            self._node.call(self._end, message)
            return
        if self._subscriber_id is None:
            self._subscriber_id = self._node.subscribe(self._end, message)
        if message.applied_revision > 0:
            self._node.acknowledge(self._subscriber_id, message.applied_revision)

    def on_closed(self, reason: str) -> None:
        if self._subscriber_id is not None:
            self._node.unsubscribe(self._subscriber_id)
