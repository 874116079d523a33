"""I11: no request of a stale epoch changes anything, seen where it is received.

A logstore obeys only the newest controller that it has heard of, and only what is meant for its own registration; the
controller grants an ISR only to the leader of the epoch that is asked for, adds no replica for what an older life of it
has fetched (KIP-903), and says of the ISR what etcd has.
"""

from __future__ import annotations

from barnabas.channel.messages import ReplicaFetch, ReplicaPiece
from barnabas.cluster.keys import ControllerRegistration, Keys, Role, decode_registration
from barnabas.cluster.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlRequest,
    ControlResponse,
    IsrChange,
)
from barnabas.ports.etcd import Get, Put, Txn
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.image import ControllerImage
from barnabas_logstore.core.logstore import LogstoreCore
from barnabas_logstore.core.replica.partition import Partition
from tests.sim.elections import Elections
from tests.sim.etcd_model import EtcdModel
from tests.sim.history import name
from tests.sim.scheduler import InvariantViolation

FENCED = (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH)


class CommandFence:
    """The control listener of one logstore's life."""

    def __init__(self, logstore: str, core: LogstoreCore) -> None:
        self._logstore = logstore
        self._by_key = core._replicas.by_key
        # By session and sequence: the command, the registration of its time, and of what it tells the replicas that
        # knew better then.
        self._commands: dict[tuple[int, int], tuple[ControlRequest, int, list[Partition]]] = {}
        self._controller_epoch = -1

    def received(self, session_id: int, command: ControlRequest, broker_epoch: int) -> None:
        self._commands[session_id, command.sequence] = (command, broker_epoch, self._who_knows_better(command))

    def _who_knows_better(self, command: ControlRequest) -> list[Partition]:
        known: list[Partition] = []
        for topic in command.leader_and_isr.topics if command.leader_and_isr is not None else ():
            for state in topic.partitions:
                partition = self._by_key.get((topic.topic_id, state.partition))
                if partition is not None and (state.leader_epoch, state.partition_epoch) < (
                    partition.leader_epoch,
                    partition.partition_epoch,
                ):
                    known.append(partition)
        return known

    def answered(self, session_id: int, answer: ControlResponse, broker_epoch: int) -> None:
        """In the order in which commands are carried out."""
        command, epoch_before, who_knows_better = self._commands.pop((session_id, answer.sequence))
        if answer.error_code in FENCED:
            return
        if command.controller_epoch < self._controller_epoch:
            raise InvariantViolation(
                f"I11: {self._logstore} obeys controller epoch {command.controller_epoch}, it knows of "
                f"{self._controller_epoch}"
            )
        if command.broker_epoch not in (epoch_before, broker_epoch):
            raise InvariantViolation(
                f"I11: {self._logstore} of broker epoch {broker_epoch} obeys a command for {command.broker_epoch}"
            )
        self._controller_epoch = command.controller_epoch
        refused = {(each.topic_id, each.partition) for each in answer.partition_errors}
        for partition in who_knows_better:
            if partition.key not in refused and self._by_key.get(partition.key) is partition:
                raise InvariantViolation(f"I11: {self._logstore} takes an old state of {name(partition.key)} for news")


class IsrFence:
    """AlterPartition of one controller's life: no replica joins an ISR as an older life than the one that the
    controller knew of when it was asked.
    """

    def __init__(self, image: ControllerImage) -> None:
        self._image = image
        # Changes that named no older life. A repeated request may have been granted.
        self._sound: dict[object, None] = {}

    def asked(self, request: AlterPartitionRequest) -> list[frozenset[int]]:
        """By change: who may not join."""
        return [self._former_lives(request.broker_id, change) for change in request.partitions]

    def _former_lives(self, leader_id: int, change: IsrChange) -> frozenset[int]:
        members = tuple([(each.broker_id, each.broker_epoch) for each in change.in_sync_replicas])
        reported = (leader_id, change.topic_id, change.partition, change.leader_epoch, change.partition_epoch, members)
        partition = self._image.partition(change.topic_id, change.partition)
        registered = self._image.logstores
        former = frozenset(
            [
                node_id
                for node_id, broker_epoch in members
                if node_id in registered and -1 != broker_epoch < registered[node_id].epoch
            ]
        )
        if not former:
            self._sound[reported] = None
        if partition is None or reported in self._sound:
            return frozenset()
        return former.difference(partition.in_sync_replicas)

    def answered(self, former: list[frozenset[int]], answer: AlterPartitionResponse) -> None:
        for nodes, result in zip(former, answer.partitions, strict=False):
            joined = [] if result.error_code else sorted(nodes.intersection(result.in_sync_replicas))
            if joined:
                raise InvariantViolation(f"I11: {joined} join an ISR by what their older lives have fetched: {result}")


def check_isr_answer(elections: Elections, asked: AlterPartitionRequest, answer: AlterPartitionResponse) -> None:
    """What a controller has granted."""
    for change, result in zip(asked.partitions, answer.partitions, strict=False):
        if result.error_code or answer.error_code:
            continue
        key = (change.topic_id, change.partition)
        if change.topic_id in elections.deleted:
            continue
        leads = elections.record_of(key, change.leader_epoch)
        reported = elections.record_at(key, result.leader_epoch, result.partition_epoch)
        if leads is None or leads.leader != asked.broker_id or result.leader_epoch < change.leader_epoch:
            raise InvariantViolation(f"I11: {asked.broker_id} is granted an ISR of {name(key)} by {change}: {result}")
        if reported is None or set(reported.in_sync_replicas) != set(result.in_sync_replicas):
            raise InvariantViolation(f"I11: of {name(key)} a controller tells {result}, etcd has {reported}")


def check_writer(model: EtcdModel, writer: str, txn: Txn, revision_before: int) -> None:
    """What the cluster is, only the controller that is elected at that moment writes (a lease is not a lock)."""
    keys = Keys()
    decided = (keys.topics, keys.partitions, keys.deletions, keys.controller_epoch)
    written = [each.key for each in txn.success if isinstance(each, Put) and each.key.startswith(decided)]
    is_applied = any(model.get(Get(key))[0].mod_revision > revision_before for key in written if model.get(Get(key)))
    if not is_applied:
        return
    election = model.get(Get(keys.election))
    elected = decode_registration(Role.CONTROLLER, election[0].value) if election else None
    if not isinstance(elected, ControllerRegistration) or elected.controller_id != writer:
        raise InvariantViolation(f"I11: {writer} has written {written}, elected is {elected}")


class ReplicationFence:
    """Both ends of the replication streams of one logstore: what was said under another leader epoch counts for nothing
    (KIP-320). `core` is looked at before a message and after it.
    """

    def __init__(self, core: LogstoreCore) -> None:
        self._replication = core._replication
        self._by_key = core._replicas.by_key
        self._before: list[tuple[Partition, int, object]] = []

    def fetching(self, stream_id: int, fetch: ReplicaFetch) -> None:
        """A follower's fetch has come."""
        stream = self._replication._streams.get(stream_id)
        self._before.clear()
        if stream is None or stream.fetch is not None:
            return  # It is looked at later.
        replica_id = stream.session.replica_id
        for position in fetch.positions:
            partition = self._by_key.get((position.topic_id, position.partition))
            if partition is not None and partition.leading and position.current_leader_epoch != partition.leader_epoch:
                self._before.append((partition, replica_id, _progress(partition, replica_id)))

    def fetched(self) -> None:
        for partition, replica_id, before in self._before:
            if _progress(partition, replica_id) != before:
                raise InvariantViolation(
                    f"I11: {name(partition.key)}: a fetch of another epoch counts for {replica_id}"
                )

    def hearing(self, leader_id: int, piece: ReplicaPiece) -> None:
        """A leader's answer has come."""
        self._before.clear()
        fetcher = self._replication.following._fetchers.get(leader_id)
        for data in piece.partitions if fetcher is not None else ():
            assert fetcher is not None
            followed = fetcher._by_slot.get(data.slot)
            if followed is None:
                continue
            partition, position = followed.partition, followed.position
            if (
                position is None
                or position.leader_epoch != partition.leader_epoch
                or followed.reported_in > piece.request_id
            ):
                self._before.append((partition, leader_id, (partition.log.next_offset, partition.high_watermark)))

    def heard(self) -> None:
        for partition, leader_id, before in self._before:
            if (partition.log.next_offset, partition.high_watermark) != before:
                raise InvariantViolation(
                    f"I11: {name(partition.key)}: an answer of {leader_id} to an older fetch counts"
                )


def _progress(partition: Partition, replica_id: int) -> object:
    follower = partition.followers.get(replica_id)
    return follower and (follower.log_end_offset, follower.last_fetch_ms, follower.leader_end_at_last_fetch)
