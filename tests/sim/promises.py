"""What is promised, and who can keep it: I1 a new leader has everything committed, I2 so has every replica in sync, I3
the same offset and epoch is the same batch on every disk, I8 a process's death costs no record, a loss of power none
that was flushed.

How much may be lost, honestly: a record is committed when as many disks have it as `min.insync.replicas` says, at
least. kill -9 costs none of them anything. A loss of power costs a disk what it has not flushed, and from then on until
that replica is whole again it counts as lossy. With fewer lossy replicas than the minimum ISR nothing committed may be
lost; with as many the next leader may lack what they had not flushed. An unclean election loses what its leader lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.cluster.keys import PartitionRecord
from barnabas.ports.disk import Buffer
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.compaction import BadCleaning, CleanedLog, check_cleaned
from tests.sim.elections import Elections
from tests.sim.history import History, name
from tests.sim.history import Partition as PartitionKey
from tests.sim.nodes.logstore import LogstoreNode
from tests.sim.replica_logs import Batch, BatchConflict, BatchRegister, Book, ReplicaLog
from tests.sim.scheduler import InvariantViolation


class Promise:
    """Of one partition."""

    def __init__(self) -> None:
        self.register = BatchRegister()
        self.book = Book()
        # By node id.
        self.replicas: dict[int, ReplicaLog] = {}
        # As many disks have lost something as a record is on: the next leader may lack what is beyond.
        self.loss_floor: int | None = None
        # Leaders of this epoch and earlier ones cannot tell whether that has cost anything.
        self.loss_epoch = -1
        # The last unclean election: what leaders of earlier epochs commit is no promise.
        self.unclean_epoch = -1
        # Epochs whose leader has been looked at.
        self.led_epoch = -1


class Promises:
    def __init__(self, history: History) -> None:
        self._history = history
        self.elections = Elections(self._elected, self._altered)
        self._promises: dict[PartitionKey, Promise] = {}
        self.losses_allowed = 0
        # Heard by those who read along: batches that are committed, and from where on none of it is any more.
        self.committed: list[Callable[[PartitionKey, list[Batch]], None]] = []
        self.lost: list[Callable[[PartitionKey, int], None]] = []

    def of(self, key: PartitionKey) -> Promise:
        promise = self._promises.get(key)
        if promise is None:
            promise = self._promises[key] = Promise()
        return promise

    @property
    def all(self) -> list[Promise]:
        return list(self._promises.values())

    # --- disks -------------------------------------------------------------------------------------------------------

    def writing(self, node: LogstoreNode, partition: Partition, data: Buffer) -> list[Batch]:
        """Before a write: I3, and that the batches of an epoch come from its leader."""
        key = partition.key
        batches = self._checked(key, node, self.of(key).register.take, data)
        if partition.leading:
            for batch in batches:
                record = self.elections.record_of(key, batch.leader_epoch)
                # What it has fetched before it was elected may be written after.
                was_fetched = batch.leader_epoch < partition.leader_epoch
                if not was_fetched and (record is None or record.leader != node.node_id):
                    raise InvariantViolation(
                        f"I11: {node.name} writes {name(key)} offset {batch.base_offset} in epoch {batch.leader_epoch}"
                    )
        return batches

    def wrote(self, node: LogstoreNode, partition: Partition, batches: Iterable[Batch]) -> None:
        """They are in its page cache."""
        for batch in batches:
            batch.is_doubtful = False
        replica = self.replica(node, partition)
        self._follow_start(partition.key, replica)
        replica.add(batches)

    def _follow_start(self, key: PartitionKey, replica: ReplicaLog, leader: ReplicaLog | None = None) -> None:
        """What is below the start of a log from which records are deleted is not read by any client; nor is what is
        below its leader's start, of which a replica hears with the next answer.
        """
        topic = self.elections.topics.get(key[0])
        if topic is not None and (topic.topic, key[1]) in self._history.shortened:
            replica.follow_start()
            if leader is not None:
                replica.agreed_end = max(replica.agreed_end, min(leader.log.log_start_offset, replica.end))

    def failed(self, batches: Iterable[Batch]) -> None:
        """A write of them found no room, or an error. They are taken back, unless a crash comes first."""
        for batch in batches:
            batch.is_doubtful = True

    def starts_over(self, node: LogstoreNode, partition: Partition) -> None:
        """A follower begins to remove all that it has."""
        self.replica(node, partition).starts_over = True

    def cut(self, node: LogstoreNode, partition: Partition, end: int, *, truncate_fully: bool) -> None:
        """A follower has cut its log: no record that is committed, but what others have cleaned. A leader whose log has
        nothing of an epoch, since its records were cleaned before it got them, has its followers cut all of that epoch.
        """
        promise = self.of(partition.key)
        replica = self.replica(node, partition)
        agreed = promise.book.agree(replica)
        is_cleaned = all(batch.whole.is_removed for batch in replica.batches_from(end, agreed))
        if end < agreed and not (truncate_fully or is_cleaned):
            raise InvariantViolation(
                f"I8: {node.name} cuts {name(partition.key)} at {end}, of which up to {agreed} is committed"
            )
        replica.cut(end, truncate_fully=truncate_fully)

    def cleaned(self, node: LogstoreNode, partition: Partition, cleaned: CleanedLog) -> None:
        """A cleaned segment takes the place of others: rule 22."""
        promise, replica = self.of(partition.key), self.replica(node, partition)
        before = replica.batches_from(cleaned.first_offset, cleaned.end_offset)
        try:
            after = check_cleaned(before, cleaned, promise.register, promise.book.keys)
        except BadCleaning as bad:
            raise InvariantViolation(f"22: {name(partition.key)} is cleaned at {node.name}: {bad}") from None
        if after != before:
            replica.replace(cleaned.first_offset, cleaned.end_offset, after)

    def flushed(self, node: LogstoreNode, partition: Partition, offset: int) -> None:
        replica = self.replica(node, partition)
        replica.flushed = max(replica.flushed, offset)

    def removed(self, node: LogstoreNode, key: PartitionKey) -> None:
        """The controller has had it give up its replica."""
        self.of(key).replicas.pop(node.node_id, None)

    def replica(self, node: LogstoreNode, partition: Partition) -> ReplicaLog:
        """What is on its disk; read again if it is another log than before."""
        promise = self.of(partition.key)
        replica = promise.replicas.get(node.node_id)
        if replica is None or replica.log is not partition.log:
            before, replica = replica, self._read(node, partition.key, partition.log)
            promise.replicas[node.node_id] = replica
            if before is not None:
                replica.is_lossy, replica.kept_end = before.is_lossy or before.is_unknown, before.kept_end
        return replica

    def _read(self, node: LogstoreNode, key: PartitionKey, log: PartitionLog) -> ReplicaLog:
        register = self.of(key).register
        try:
            return ReplicaLog.read(node.disk, log, register)
        except BatchConflict as conflict:
            raise InvariantViolation(f"I3: {name(key)} at {node.name}: {conflict}") from None

    def _checked(
        self, key: PartitionKey, node: LogstoreNode, take: Callable[[Buffer], list[Batch]], data: Buffer
    ) -> list[Batch]:
        try:
            return take(data)
        except BatchConflict as conflict:
            raise InvariantViolation(f"I3: {name(key)} at {node.name}: {conflict}") from None

    # --- crashes -----------------------------------------------------------------------------------------------------

    def power_lost(self, node: LogstoreNode) -> None:
        """Before the disk forgets."""
        for key, promise in self._promises.items():
            replica = promise.replicas.get(node.node_id)
            if replica is None:
                continue
            replica.kept_end = min(promise.book.agree(replica), replica.flushed)
            replica.is_unknown = True
            record = self.elections.current.get(key)
            lossy = self._lossy(key, promise)
            if record is None:
                continue
            able = (*record.in_sync_replicas, *record.eligible_leader_replicas)
            # The leader of an unclean election starts alone: one copy is all that there need be until others join it.
            is_last_copy = promise.unclean_epoch >= 0 and set(able) <= set(lossy)
            if len(lossy) < self.elections.min_isr(key) and not is_last_copy:
                continue
            floors = [promise.replicas[each].kept_end for each in lossy if each in able]
            known = [] if promise.loss_floor is None else [promise.loss_floor]
            promise.loss_floor = min([*floors, *known], default=None)
            promise.loss_epoch = record.leader_epoch if record.leader in lossy else record.leader_epoch - 1

    def _lossy(self, key: PartitionKey, promise: Promise) -> list[int]:
        """Replicas that have lost power and are not seen whole again."""
        record = self.elections.current.get(key)
        lossy: list[int] = []
        for node_id in record.replicas if record is not None else ():
            replica = promise.replicas.get(node_id)
            if replica is None:
                continue
            replica.is_lossy = replica.is_lossy and promise.book.agree(replica) < promise.book.end
            if replica.is_unknown or replica.is_lossy:
                lossy.append(node_id)
        return lossy

    def opened(self, node: LogstoreNode) -> None:
        """A process has opened its logs: I8, what was written is there, or what was flushed."""
        here = {partition.key: partition for partition in node.partitions}
        for key, promise in self._promises.items():
            before = promise.replicas.get(node.node_id)
            if before is None:
                continue
            kept = before.kept_end if before.is_unknown else promise.book.agree(before)
            if before.starts_over or (before.is_unknown and kept <= before.start):
                # In what was flushed there is no record that it still had.
                kept = 0
            partition = here.get(key)
            if partition is None:
                agreed = 0
            else:
                replica = promise.replicas[node.node_id] = self._read(node, key, partition.log)
                agreed = promise.book.agree(replica)
                replica.flushed = min(before.flushed, replica.end)
                replica.is_lossy = before.is_unknown or before.is_lossy
                replica.kept_end = kept
            if agreed < kept and self._is_assigned(key, node.node_id):
                raise InvariantViolation(
                    f"I8: {name(key)} at {node.name} is like the committed records up to {agreed} after a restart, "
                    f"it was up to {kept}"
                )

    def _is_assigned(self, key: PartitionKey, node_id: int) -> bool:
        record = self.elections.current.get(key)
        return record is not None and node_id in record.replicas and not self._is_deleted(key)

    def _is_deleted(self, key: PartitionKey) -> bool:
        return key[0] in self.elections.deleted

    # --- leaders -----------------------------------------------------------------------------------------------------

    def look_at_leader(self, node: LogstoreNode, partition: Partition) -> None:
        """After a turn in which something of a partition that it leads has changed."""
        key, promise = partition.key, self.of(partition.key)
        replica = self.replica(node, partition)
        epoch = partition.leader_epoch
        if epoch < promise.unclean_epoch:
            # Another is elected, unclean: this one may report so of its records until it learns of that.
            beyond = replica.batches_from(promise.book.agree(replica), partition.high_watermark)
            self._history.lost(key, [pair for batch in beyond for pair in batch.values().items()])
            return
        if epoch > promise.led_epoch:
            self._look_at_new_leader(node, partition, promise, replica)
            promise.led_epoch = epoch
            self._forget_losses(key, promise)
        self._check_maximal_isr(node, partition)
        if partition.high_watermark > promise.book.end:
            self._commit(node, partition, promise, replica)
        elif promise.book.agree(replica) < partition.high_watermark:
            raise InvariantViolation(
                f"I1: {node.name} has {name(key)} committed up to {partition.high_watermark} in epoch {epoch}, its log "
                f"is another one from {replica.agreed_end} on"
            )

    def _look_at_new_leader(
        self, node: LogstoreNode, partition: Partition, promise: Promise, replica: ReplicaLog
    ) -> None:
        epoch, book = partition.leader_epoch, promise.book
        has, needs = book.agree(replica), book.end_before(epoch)
        if has >= needs:
            return
        is_unclean = promise.unclean_epoch > promise.led_epoch
        if not is_unclean and (promise.loss_floor is None or has < promise.loss_floor):
            raise InvariantViolation(
                f"I1: {node.name} leads {name(partition.key)} in epoch {epoch} and has what is committed up to {has} "
                f"of {needs}"
            )
        self._lose(partition.key, promise, has)

    def _lose(self, key: PartitionKey, promise: Promise, end: int) -> None:
        """What was committed from here on is a promise no longer."""
        lost = promise.book.cut(end)
        self._history.lost(key, [pair for batch in lost for pair in batch.values().items()])
        for lost_from in self.lost:
            lost_from(key, end)
        self.losses_allowed += 1
        for replica in promise.replicas.values():
            replica.agreed_end = min(replica.agreed_end, end)
            replica.kept_end = min(replica.kept_end, end)

    def _forget_losses(self, key: PartitionKey, promise: Promise) -> None:
        """A leader was elected since, and enough replicas are whole again: nothing more may be lost.

        Not before: the controller does not distinguish a logstore that has lost nothing by luck.
        """
        if promise.loss_floor is None or promise.led_epoch <= promise.loss_epoch:
            return
        if len(self._lossy(key, promise)) < self.elections.min_isr(key):
            promise.loss_floor = None

    def _commit(self, node: LogstoreNode, partition: Partition, promise: Promise, replica: ReplicaLog) -> None:
        key, book, epoch = partition.key, promise.book, partition.leader_epoch
        upto = partition.high_watermark
        batches = replica.batches_from(max(book.end, replica.start), upto)
        if book.agree(replica) < book.end:
            raise InvariantViolation(
                f"I1: {node.name} commits {name(key)} up to {upto} in epoch {epoch}, its log is another one from "
                f"{replica.agreed_end} on, and up to {book.end} it was committed before"
            )
        if replica.end < upto:
            raise InvariantViolation(
                f"I7: {name(key)} at {node.name}: high watermark {upto}, written up to {replica.end}"
            )
        book.add(batches, upto, epoch)
        for hear in self.committed:
            hear(key, batches)
        record = self.elections.record_of(key, epoch)
        if record is not None:
            self._check_complete(key, promise, record)

    # --- etcd --------------------------------------------------------------------------------------------------------

    def _elected(self, key: PartitionKey, record: PartitionRecord, is_unclean: bool) -> None:
        if is_unclean:
            self.of(key).unclean_epoch = record.leader_epoch

    def _altered(self, key: PartitionKey, record: PartitionRecord) -> None:
        promise = self.of(key)
        self._forget_losses(key, promise)
        self._check_complete(key, promise, record)

    def _check_complete(self, key: PartitionKey, promise: Promise, record: PartitionRecord) -> None:
        """I2: every replica that may be elected has everything that is committed, or has lost power since.

        `record` may be the last of a leader that has not heard yet who is a replica no longer: that one may have given
        up its log, and will not be elected.
        """
        if promise.unclean_epoch > promise.led_epoch or promise.loss_floor is not None or self._is_deleted(key):
            return
        replicas = self.elections.current.get(key, record).replicas
        for node_id in (*record.in_sync_replicas, *record.eligible_leader_replicas):
            if node_id not in replicas:
                continue
            replica = promise.replicas.get(node_id)
            if replica is not None:
                self._follow_start(key, replica, promise.replicas.get(record.leader))
            has = 0 if replica is None else promise.book.agree(replica)
            if has < promise.book.end and not (replica is not None and (replica.is_lossy or replica.is_unknown)):
                raise InvariantViolation(
                    f"I2: {node_id} is in sync in {record}, and has of {name(key)} up to {has} of {promise.book.end}"
                )

    def _check_maximal_isr(self, node: LogstoreNode, partition: Partition) -> None:
        """I4, of the leader's own epoch."""
        record = self.elections.record_of(partition.key, partition.leader_epoch)
        if record is None or not set(record.in_sync_replicas) <= set(partition.isr.maximal):
            raise InvariantViolation(
                f"I4: {node.name} has {partition.isr.maximal} for the ISR of {name(partition.key)} in epoch "
                f"{partition.leader_epoch}, etcd has {record}"
            )
