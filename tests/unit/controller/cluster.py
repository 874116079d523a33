"""A cluster of controller cores over the etcd model, in virtual time: no process, no socket, no wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from barnabas.cluster.controller_calls.table import MembershipRequest, MembershipResponse
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.keys import (
    ControllerRegistration,
    GatewayRegistration,
    Keys,
    LogstoreRegistration,
    PurgatoryRegistration,
    Registration,
    Role,
    decode_registration,
    encode_registration,
)
from barnabas.cluster.messages import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResult,
    ConfigChange,
    ControlRequest,
    ControlResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewPartitions,
    NewTopic,
    PartitionError,
    PartitionMetadata,
    PartitionReference,
    TopicReference,
)
from barnabas.ports.etcd import AmbiguousResult, Delete, EtcdRefused, Get, KeyValue, Put, Snapshot, Txn, WatchBatch
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.controller import ControllerCore
from barnabas_controller.core.state.effects import (
    ActiveChanged,
    ConnectControl,
    DisconnectControl,
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
from barnabas_controller.core.topics.topic_creation import TopicDefaults
from tests.sim.etcd_model import EtcdModel, Fate

KEYS = Keys()
LEASE_MS = 6000
WALL_MS = 1_700_000_000_000


class FakeLogstore:
    """Does what the control channel says; `answering` False leaves commands unanswered."""

    def __init__(self, node_id: int, lease: int, broker_epoch: int) -> None:
        self.node_id = node_id
        self.lease = lease
        self.broker_epoch = broker_epoch
        self.alive = True
        self.answering = True
        self.connected = False
        self.requests: list[ControlRequest] = []
        # By topic id and partition.
        self.partitions: dict[tuple[bytes, int], PartitionMetadata] = {}
        self.deleted: set[tuple[bytes, int]] = set()
        self.unanswered: deque[ControlRequest] = deque()
        self.error_code = ErrorCode.NONE
        # Lay in a log directory that has failed, or in one that has no room for them.
        self.without_disk: set[tuple[bytes, int]] = set()
        # Lie in a log directory that is full.
        self.without_room: set[tuple[bytes, int]] = set()
        # Of which it knows a later leader epoch than the command has.
        self.ahead: set[tuple[bytes, int]] = set()

    def answer(self, request: ControlRequest) -> ControlResponse:
        """With the errors of the partitions that a LeaderAndIsr names."""
        topics = [] if request.leader_and_isr is None else request.leader_and_isr.topics
        failed, without_room = [], []
        for topic in topics:
            for partition in topic.partitions:
                key = (topic.topic_id, partition.partition)
                if key in self.without_disk:
                    failed.append(PartitionError(*key, ErrorCode.KAFKA_STORAGE_ERROR))
                elif key in self.ahead:
                    failed.append(PartitionError(*key, ErrorCode.STALE_CONTROLLER_EPOCH))
                elif key in self.without_room:
                    without_room.append(PartitionReference(*key))
        return ControlResponse(request.sequence, self.error_code, failed, without_room=without_room)

    def take(self, request: ControlRequest) -> None:
        self.requests.append(request)
        if request.leader_and_isr is not None:
            if request.leader_and_isr.full:
                self.partitions.clear()
            for topic in request.leader_and_isr.topics:
                for partition in topic.partitions:
                    assert self.node_id in partition.replicas
                    self.partitions[topic.topic_id, partition.partition] = partition
        elif request.stop_replica is not None:
            for stopped in request.stop_replica.partitions:
                self.partitions.pop((stopped.topic_id, stopped.partition), None)
                self.deleted.add((stopped.topic_id, stopped.partition))


class ControllerNode:
    """One controller core with its lease, its watch and what is under way to it and from it."""

    def __init__(self, cluster: Cluster, controller_id: str, settings: ElectionSettings) -> None:
        self.cluster = cluster
        self.controller_id = controller_id
        self.core = ControllerCore(
            keys=KEYS,
            registration=ControllerRegistration(controller_id, "incarnation", f"{controller_id}:9090"),
            defaults=TopicDefaults(),
            new_topic_id=cluster.new_topic_id,
            new_cluster_id=lambda: "cluster",
            wall_ms=lambda: WALL_MS + cluster.now_ms,
            settings=settings,
        )
        self.lease = cluster.etcd.grant(LEASE_MS)
        self.watch = cluster.etcd.watch(KEYS.prefix)
        self.changes_due: deque[Snapshot | WatchBatch] = deque()
        # Cut off: nothing reaches it and nothing leaves it, but its clock goes on.
        self.cut_off = False
        self.txns: deque[SubmitTxn] = deque()
        self.submitted: list[Txn] = []
        self.links: dict[int, ConnectControl] = {}
        self.subscribers: dict[int, ClusterImage] = {}
        self.acknowledging = True
        self.responses: dict[int, MembershipResponse | OperatorResponse | Reject] = {}
        self.changes: list[ActiveChanged] = []
        self.last_id = 0
        self.renew()

    def is_active(self) -> bool:
        return self.core.active

    def renew(self) -> None:
        if self.cluster.etcd.keep_alive(self.lease):
            self.core.on_lease(self.lease, self.cluster.now_ms + LEASE_MS, self.cluster.now_ms)
            self.carry_out()

    def request(self, request: MembershipRequest | OperatorRequest) -> int:
        """Its id, by which `responses` has the answer."""
        self.last_id += 1
        self.core.on_request(self.last_id, request, self.cluster.now_ms)
        self.carry_out()
        return self.last_id

    def subscribe(self, role: Role, pod_id: str) -> int:
        self.last_id += 1
        self.subscribers[self.last_id] = ClusterImage()
        self.core.on_subscribed(self.last_id, role, pod_id, self.cluster.now_ms)
        self.carry_out()
        return self.last_id

    def carry_out(self) -> None:
        for effect in self.core.take_outputs().effects:
            match effect:
                case SubmitTxn():
                    self.txns.append(effect)
                    self.submitted.append(effect.txn)
                case RevokeLease():
                    self.cluster.etcd.revoke(effect.lease)
                case ConnectControl():
                    assert effect.node_id not in self.links, "one stream per node"
                    self.links[effect.node_id] = effect
                case DisconnectControl():
                    assert self.links.pop(effect.node_id).broker_epoch == effect.broker_epoch
                    self.cluster.disconnected(self, effect.node_id)
                case SendControl():
                    self.cluster.deliver(self, effect)
                case PublishMetadata():
                    for subscriber_id, image in self.subscribers.items():
                        if subscriber_id in effect.subscriber_ids:
                            assert effect.update.full or image.revision >= 0, "a subscription begins with everything"
                            assert image.apply(effect.update), "nothing is published twice"
                case EndSubscription():
                    del self.subscribers[effect.subscriber_id]
                case Respond():
                    assert effect.request_id not in self.responses, "one answer"
                    self.responses[effect.request_id] = effect.response
                case Reject():
                    assert effect.request_id not in self.responses, "one answer"
                    self.responses[effect.request_id] = effect
                case ActiveChanged():
                    self.changes.append(effect)

    def step(self) -> bool:
        """Let one thing reach it, or go on with what its last turn had no time for; False when there is nothing."""
        cluster = self.cluster
        if self.cut_off:
            return False
        self.changes_due += self.watch.take()
        if self.changes_due:
            self.core.on_image(self.changes_due.popleft(), cluster.now_ms)
            self.carry_out()
            return True
        if self.txns:
            self.submit(self.txns.popleft())
            return True
        if self.core.active and self.core.has_more_to_look_at:
            self.core.on_tick(cluster.now_ms)
            self.carry_out()
            return True
        return self.acknowledge()

    def submit(self, effect: SubmitTxn) -> None:
        now_ms = self.cluster.now_ms
        try:
            result = self.cluster.etcd.txn(effect.txn)
        except AmbiguousResult:
            self.core.on_txn_ambiguous(effect.txn_id, now_ms)
            self.carry_out()
        except EtcdRefused as refused:
            self.core.on_txn_refused(effect.txn_id, str(refused), now_ms)
            self.carry_out()
        else:
            self.core.on_txn_result(effect.txn_id, result, now_ms)
            self.carry_out()

    def acknowledge(self) -> bool:
        acknowledged = False
        for subscriber_id, image in list(self.subscribers.items()) if self.acknowledging else []:
            subscriber = self.core.subscriptions.by_id[subscriber_id]
            if subscriber.applied_revision < image.revision:
                self.core.on_acknowledged(subscriber_id, image.revision, self.cluster.now_ms)
                self.carry_out()
                acknowledged = True
        return acknowledged


class Cluster:
    def __init__(self, fate: Callable[[Txn], Fate] = lambda txn: Fate.ANSWERED) -> None:
        self.fate = fate
        self.etcd = EtcdModel(lambda txn: self.fate(txn))
        self.now_ms = 0
        self.controllers: list[ControllerNode] = []
        self.logstores: dict[int, FakeLogstore] = {}
        self._topic_ids = 1

    def new_topic_id(self) -> bytes:
        self._topic_ids += 1
        return self._topic_ids.to_bytes(16, "big")

    def controller(
        self, controller_id: str = "controller-0", settings: ElectionSettings | None = None
    ) -> ControllerNode:
        node = ControllerNode(self, controller_id, settings or ElectionSettings())
        self.controllers.append(node)
        return node

    def register(self, role: Role, member_id: str, registration: Registration) -> tuple[int, int]:
        """(lease, epoch) of a registration put by a member; an old one is taken away first, as a restart does."""
        key = KEYS.registration(role, member_id)
        self._certain(Txn((), (Delete(key),)))
        lease = self.etcd.grant(LEASE_MS)
        return lease, self._certain(Txn((), (Put(key, encode_registration(registration), lease),)))

    def _certain(self, txn: Txn) -> int:
        fate, self.fate = self.fate, lambda txn: Fate.ANSWERED
        revision = self.etcd.txn(txn).revision
        self.fate = fate
        return revision

    def logstore(self, node_id: int, *, rack: str = "", may_lack_records: bool = False) -> FakeLogstore:
        """Start it, or start it again."""
        registration = LogstoreRegistration(
            node_id,
            f"i{self.etcd.revision}",
            f"d{node_id}",
            f"logstore-{node_id}:9500",
            f"logstore-{node_id}:9501",
            rack,
            may_lack_records=may_lack_records,
        )
        lease, epoch = self.register(Role.LOGSTORE, str(node_id), registration)
        self.logstores[node_id] = FakeLogstore(node_id, lease, epoch)
        return self.logstores[node_id]

    def fail_directory(self, node_id: int, *partitions: tuple[bytes, int]) -> None:
        """One of its log directories goes offline, and these lay in it; its registration says so, and stays."""
        logstore = self.logstores[node_id]
        logstore.without_disk.update(partitions)
        found, registration = self._registration_of(node_id)
        offline = {**registration.offline_log_dirs, f"/data{len(registration.offline_log_dirs)}": "EIO"}
        self._register_again(found, replace(registration, offline_log_dirs=offline))

    def fill_directory(self, node_id: int, *partitions: tuple[bytes, int]) -> None:
        """Its log directory is full, with these partitions in it, and no others; none: it has room again."""
        self.logstores[node_id].without_room = set(partitions)
        found, registration = self._registration_of(node_id)
        full = {"/data": "ENOSPC"} if partitions else {}
        self._register_again(
            found, replace(registration, full_log_dirs=full, room_changes=registration.room_changes + 1)
        )

    def _registration_of(self, node_id: int) -> tuple[KeyValue, LogstoreRegistration]:
        (found,) = self.etcd.get(Get(KEYS.registration(Role.LOGSTORE, str(node_id))))
        registration = decode_registration(Role.LOGSTORE, found.value)
        assert isinstance(registration, LogstoreRegistration)
        return found, registration

    def _register_again(self, found: KeyValue, registration: LogstoreRegistration) -> None:
        self._certain(Txn((), (Put(found.key, encode_registration(registration), found.lease),)))

    def gateway(self, controller: ControllerNode, gateway_id: str = "gateway-0") -> int:
        self.register(Role.GATEWAY, gateway_id, GatewayRegistration(gateway_id, "i", {"PLAINTEXT": "gateway:9092"}))
        return controller.subscribe(Role.GATEWAY, gateway_id)

    def purgatory(self, controller: ControllerNode) -> int:
        self.register(Role.PURGATORY, "purgatory-0", PurgatoryRegistration("purgatory-0", "i", "purgatory:9600"))
        return controller.subscribe(Role.PURGATORY, "purgatory-0")

    def deliver(self, controller: ControllerNode, effect: SendControl) -> None:
        logstore = self.logstores[effect.node_id]
        if logstore.alive and logstore.broker_epoch == effect.broker_epoch and not controller.cut_off:
            assert logstore.connected
            logstore.take(effect.request)
            logstore.unanswered.append(effect.request)

    def disconnected(self, controller: ControllerNode, node_id: int) -> None:
        logstore = self.logstores[node_id]
        logstore.connected = False
        logstore.unanswered.clear()

    def crash(self, node_id: int) -> None:
        """The process goes; its lease stays."""
        logstore = self.logstores[node_id]
        logstore.alive = logstore.connected = False
        logstore.unanswered.clear()
        for controller in self.controllers:
            if not controller.cut_off:
                controller.core.on_control_disconnected(node_id, logstore.broker_epoch, self.now_ms)
                controller.carry_out()

    def stop(self, node_id: int) -> None:
        """It leaves, lease and all."""
        self.crash(node_id)
        self.etcd.revoke(self.logstores[node_id].lease)

    def settle(self) -> None:
        """Until nothing is under way any more, and no turn has left work for the next. Time stands still."""
        while any([controller.step() for controller in self.controllers] + [self._step_logstores()]):
            pass

    def _step_logstores(self) -> bool:
        moved = False
        for controller in self.controllers:
            for node_id, link in list(controller.links.items()):
                logstore = self.logstores[node_id]
                if controller.cut_off or not logstore.alive or logstore.broker_epoch != link.broker_epoch:
                    continue
                if not logstore.connected:
                    logstore.connected = moved = True
                    controller.core.on_control_connected(node_id, link.broker_epoch, self.now_ms)
                    controller.carry_out()
                elif logstore.unanswered and logstore.answering:
                    moved = True
                    request = logstore.unanswered.popleft()
                    response = logstore.answer(request)
                    controller.core.on_control_response(node_id, link.broker_epoch, response, self.now_ms)
                    controller.carry_out()
        return moved

    def advance(self, ms: int, *, step_ms: int = 100) -> None:
        """Time passes; every live process renews its lease; everything in transit arrives."""
        until_ms = self.now_ms + ms
        while self.now_ms < until_ms:
            self.now_ms = min(until_ms, self.now_ms + step_ms)
            for controller in self.controllers:
                if not controller.cut_off:
                    controller.renew()
            for logstore in self.logstores.values():
                if logstore.alive:
                    self.etcd.keep_alive(logstore.lease)
            self.etcd.advance(self.now_ms)
            for controller in self.controllers:
                deadline_ms = controller.core.next_deadline_ms(self.now_ms)
                if deadline_ms is not None and deadline_ms <= self.now_ms:
                    controller.core.on_tick(self.now_ms)
                    controller.carry_out()
            self.settle()


def create(*topics: NewTopic, timeout_ms: int = 10_000, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(list(topics), timeout_ms, validate_only)


def delete(*topics: str, timeout_ms: int = 10_000) -> DeleteTopicsRequest:
    return DeleteTopicsRequest([TopicReference(topic, b"") for topic in topics], timeout_ms)


def created(controller: ControllerNode, request_id: int) -> list[CreateTopicResult]:
    response = controller.responses[request_id]
    assert isinstance(response, CreateTopicsResponse)
    return response.results


def error_codes(controller: ControllerNode, request_id: int) -> list[int]:
    response = controller.responses[request_id]
    assert isinstance(
        response, CreateTopicsResponse | DeleteTopicsResponse | AlterConfigsResponse | CreatePartitionsResponse
    )
    return [result.error_code for result in response.results]


TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def alter(
    name: str,
    *changes: ConfigChange,
    resource_type: int = TOPIC,
    replace: bool = False,
    validate_only: bool = False,
    timeout_ms: int = 10_000,
) -> AlterConfigsRequest:
    """One resource's configs changed."""
    resource = AlterConfigsResource(resource_type, name, replace, list(changes))
    return AlterConfigsRequest([resource], timeout_ms, validate_only)


def to_set(name: str, value: str) -> ConfigChange:
    return ConfigChange(name, SET, value)


def grow(*topics: tuple[str, int], timeout_ms: int = 10_000, validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest([NewPartitions(topic, count) for topic, count in topics], timeout_ms, validate_only)


def altered(controller: ControllerNode, request_id: int) -> AlterConfigsResult:
    response = controller.responses[request_id]
    assert isinstance(response, AlterConfigsResponse)
    (result,) = response.results
    return result
