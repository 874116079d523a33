"""The coordinators' logs: the partitions of their internal topics that this logstore leads.

A coordinator's events follow from the present state of the partitions (`Watches.coordinated`), however many changes
led to it. An append of the coordinator is handled like a client's, but without a request that waits: the high watermark
shows when it is committed. One that can't be written ends the epoch for the coordinator, and starts it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.containment import CONTAINING, Guard, Place
from barnabas.wire.errors import ErrorCode, Refused
from barnabas.wire.markers import ProducerInTransaction, TransactionEnd
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.coordinator.runtime.coordinator_log import Coordinator
from barnabas_logstore.core.coordinator.runtime.log_reads import LogReader, LogReads
from barnabas_logstore.core.data.appends import Appends
from barnabas_logstore.core.replica.containment import APPEND_TO_LOG, COORDINATOR_LOAD, COORDINATOR_STATE
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.checkpoints import TopicPartition
from barnabas_logstore.core.storage.log.state.verification_guards import NO_GUARD
from barnabas_logstore.core.streams.outbox import Outbox

_ALL_REPLICAS = -1
# A coordinator whose state is in doubt loads its partition again after this, then after twice as long.
PAUSE_MS_MIN = 100
PAUSE_MS_MAX = 30_000
LOADS_FAILED_MAX = 3


class LedPartition(LogReader):
    """One partition under one leader epoch, as its coordinator uses it (`coordinator_log.CoordinatedLog`)."""

    __slots__ = ("_appended_upto", "_led", "is_in_doubt", "sent_high_watermark")

    def __init__(self, led: Leadership, partition: Partition) -> None:
        super().__init__(partition)
        self._led = led
        self.sent_high_watermark = partition.high_watermark
        self.is_in_doubt = False
        """What its coordinator has made of the log may be half-changed."""
        self._appended_upto = 0

    @property
    def holds(self) -> bool:
        """Whether it still leads, its log can be read, nothing that the coordinator has appended was rolled back, and
        its state is not in doubt.
        """
        partition = self.partition
        leads = partition.leading and partition.leader_epoch == self.leader_epoch
        is_whole = not (self.is_unreadable or self.is_in_doubt)
        return leads and is_whole and partition.log.next_offset >= self._appended_upto

    def check_append(self, expected_epoch: int) -> ErrorCode:
        partition = self.partition
        error = partition.check_append(expected_epoch, _ALL_REPLICAS)
        if error:
            return error
        if not self.holds:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.KAFKA_STORAGE_ERROR if partition.log.no_room is not None else ErrorCode.NONE

    def batch_bytes_max(self) -> int:
        config = self.partition.log.config
        return min(config.max_message_bytes, config.segment_bytes)

    def append(self, expected_epoch: int, records: list[Record]) -> int | Refused:
        error = self.check_append(expected_epoch)
        if error:
            return Refused(error)
        outcome = self._led.append(self.partition, build_batch(records))
        if not isinstance(outcome, Refused):
            self._appended_upto = outcome
        return outcome

    def append_in_transaction(
        self, expected_epoch: int, records: list[Record], producer: ProducerInTransaction
    ) -> int | Refused:
        error = self.check_append(expected_epoch)
        if error:
            return Refused(error)
        batch = build_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        outcome = self._led.append_in_transaction(self.partition, batch, producer.verification_guard)
        if not isinstance(outcome, Refused):
            self._appended_upto = outcome
        return outcome

    def begin_verification(self, producer: ProducerInTransaction) -> int:
        return self._led.begin_verification(self.partition, producer)

    def append_marker(self, expected_epoch: int, ended: TransactionEnd) -> int | Refused:
        error = self.check_append(expected_epoch)
        if error:
            return Refused(error)
        outcome = self._led.append_marker(self.partition, ended)
        if not isinstance(outcome, Refused):
            self._appended_upto = outcome
        return outcome

    def read(self, expected_epoch: int, offset: int) -> None:
        assert expected_epoch == self.leader_epoch
        self.wanted_offset = offset
        self._led.reads.want(self)

    def end_offset(self) -> int:
        return self.partition.log.next_offset

    def high_watermark(self) -> int:
        return self.partition.high_watermark

    def state_in_doubt(self, place: Place, error: Exception) -> None:
        self._led.state_in_doubt(self, place, error)


@dataclass(slots=True)
class _Pause:
    """Before a coordinator whose state was in doubt loads its partition again."""

    pause_ms: int
    until_ms: int
    loads_failed: int = 0


class Leadership:
    """A coordinator may call a partition's methods from inside its own; none of those calls it back."""

    def __init__(
        self,
        replicas: Replicas,
        appends: Appends,
        changed: dict[Partition, None],
        outbox: Outbox,
        coordinators: Mapping[str, Coordinator],
    ) -> None:
        """`changed` is filled elsewhere, and emptied here; `coordinators` are by their topics."""
        self._replicas = replicas
        self._appends = appends
        self._changed = changed
        self._coordinators = coordinators
        self._led: dict[TopicPartition, LedPartition] = {}
        # By partition: the epoch under which its log turned out to be unreadable.
        self._unreadable: dict[Partition, int] = {}
        self.reads = LogReads(replicas, outbox, self._give_up)
        self._pauses: dict[Partition, _Pause] = {}
        self._now_ms = self._wall_ms = 0
        self.is_stopped = False
        self.problems: list[str] = []
        """Partitions that can't be coordinated although they are led; the host takes them for its log file."""

    # --- what becomes of partitions ---

    @property
    def has_changes(self) -> bool:
        return bool(self._changed)

    def follow(self, now_ms: int, wall_ms: int) -> None:
        """Report the partitions' changes to their coordinators."""
        self._now_ms, self._wall_ms = now_ms, wall_ms
        changed = list(self._changed)
        self._changed.clear()
        for partition in changed:
            self._follow(partition, now_ms)

    def _follow(self, partition: Partition, now_ms: int) -> None:
        number, coordinator = partition.partition, self._coordinators[partition.topic]
        led = self._led.get((partition.topic, number))
        if led is None or not led.holds:
            pause = self._pauses.get(partition)
            begins = self._may_begin(partition) and (pause is None or now_ms >= pause.until_ms)
            if led is not None:
                self._forget(led)
                # Under the same epoch it only starts again: what was appended was rolled back.
                if not begins or led.partition is not partition or led.leader_epoch != partition.leader_epoch:
                    self._lose(coordinator, led, now_ms)
            if begins:
                self._unreadable.pop(partition, None)
                led = self._led[partition.topic, number] = LedPartition(self, partition)
                with Guard(led, COORDINATOR_LOAD):
                    coordinator.on_leadership(number, led.leader_epoch, led, now_ms)
        elif led.partition is partition and partition.high_watermark > led.sent_high_watermark:
            led.sent_high_watermark = partition.high_watermark
            with Guard(led, COORDINATOR_STATE):
                coordinator.on_committed(number, led.leader_epoch, partition.high_watermark, now_ms)

    def _may_begin(self, partition: Partition) -> bool:
        """Whether it is to be coordinated, unless it is already or a pause is not over."""
        is_readable = self._unreadable.get(partition) != partition.leader_epoch
        return partition.leading and is_readable and not self.is_stopped

    def _lose(self, coordinator: Coordinator, led: LedPartition, now_ms: int) -> None:
        """Report a lost epoch, a second time if something unexpected ends that: a coordinator that has not let go of
        its state would go on to serve it, half-changed or half-loaded. Raises Uncontained if that ends so, too.
        """
        number = led.partition.partition
        try:
            coordinator.on_lost(number, led.leader_epoch, now_ms)
        except Exception as error:
            with CONTAINING:
                self._replicas.contained.contain(COORDINATOR_STATE, error, _name(led.partition))
                coordinator.on_lost(number, led.leader_epoch, now_ms)

    # --- states in doubt ---

    def state_in_doubt(self, led: LedPartition, place: Place, error: Exception) -> None:
        """See `CoordinatedLog`. A partition that can't be loaded three times in a row goes offline."""
        contained, partition, now_ms = self._replicas.contained, led.partition, self._now_ms
        contained.contain(place, error, _name(partition))
        if led.is_in_doubt:
            return
        led.is_in_doubt = True
        pause = self._pauses.get(partition)
        if pause is None or now_ms > pause.until_ms + PAUSE_MS_MAX:
            pause = self._pauses[partition] = _Pause(PAUSE_MS_MIN, 0)
        pause.until_ms = now_ms + pause.pause_ms
        pause.pause_ms = min(2 * pause.pause_ms, PAUSE_MS_MAX)
        pause.loads_failed = pause.loads_failed + 1 if place is COORDINATOR_LOAD else 0
        if pause.loads_failed >= LOADS_FAILED_MAX:
            with CONTAINING:
                contained.doubt(partition.log, error)
        self._changed[partition] = None

    def resume(self, now_ms: int) -> None:
        """Begin again with the partitions whose pause is over."""
        if not self._pauses:
            return
        for partition, pause in list(self._pauses.items()):
            if not partition.leading:
                del self._pauses[partition]
            elif now_ms >= pause.until_ms and self._waits(partition):
                self._changed[partition] = None

    def next_pause_ms(self) -> int | None:
        """Return when the first pause is over."""
        if not self._pauses:
            return None
        return min([pause.until_ms for each, pause in self._pauses.items() if self._waits(each)], default=None)

    def _waits(self, partition: Partition) -> bool:
        """Whether it begins when its pause is over: of any other one the end of a pause would be due for ever."""
        return (partition.topic, partition.partition) not in self._led and self._may_begin(partition)

    @property
    def unreadable_partitions(self) -> list[Partition]:
        return [each for each, epoch in self._unreadable.items() if each.leading and each.leader_epoch == epoch]

    def _forget(self, led: LedPartition) -> None:
        del self._led[led.partition.topic, led.partition.partition]
        self.reads.forget(led)

    def stop(self, now_ms: int) -> None:
        """Stop coordinating."""
        self.is_stopped = True
        for led in list(self._led.values()):
            self._forget(led)
            self._lose(self._coordinators[led.partition.topic], led, now_ms)

    def epoch_of(self, topic: str, topic_id: bytes, partition: int) -> int:
        """Return the leader epoch under which the partition is coordinated here, or -1."""
        led = self._led.get((topic, partition))
        return led.leader_epoch if led is not None and led.partition.topic_id == topic_id else -1

    # --- appends ---

    def append(self, partition: Partition, batch: bytes) -> int | Refused:
        """Return the high watermark that commits the batch."""
        return self._append(partition, batch, NO_GUARD)

    def append_in_transaction(self, partition: Partition, batch: bytes, verification_guard: int) -> int | Refused:
        """Return the high watermark that commits the batch."""
        return self._append(partition, batch, verification_guard)

    def begin_verification(self, partition: Partition, producer: ProducerInTransaction) -> int:
        """Return the guard of the partition's log."""
        return partition.log.begin_verification(
            producer.producer_id,
            producer.producer_epoch,
            0,
            self._wall_ms,
            supports_epoch_bump=producer.supports_epoch_bump,
        )

    def _append(self, partition: Partition, batch: bytes, verification_guard: int) -> int | Refused:
        log = partition.log
        try:
            outcome = log.append_of_coordinator(
                memoryview(batch), partition.leader_epoch, self._wall_ms, verification_guard
            )
        except Exception as doubt:
            with CONTAINING:
                self._replicas.contained.log_in_doubt(APPEND_TO_LOG, doubt, log)
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR)
        if isinstance(outcome, ErrorCode):
            if log.error is not None:
                self._replicas.disk_failed(log, log.error)
            return Refused(outcome)
        self._appends.has_writes(log)
        return outcome.required_offset

    def append_marker(self, partition: Partition, ended: TransactionEnd) -> int | Refused:
        """Return the high watermark that commits the marker."""
        return self._appends.append_marker(partition, ended, self._wall_ms)

    # --- reads ---

    def deliver(self, now_ms: int) -> None:
        """Pass one piece that has arrived to its coordinator."""
        while self.reads.arrived:
            led, data, next_offset = self.reads.arrived.popleft()
            partition = led.partition
            if self._led.get((partition.topic, partition.partition)) is led:
                coordinator = self._coordinators[partition.topic]
                with Guard(led, COORDINATOR_LOAD):
                    coordinator.on_read(partition.partition, led.leader_epoch, data, next_offset, now_ms)
                return

    def _give_up(self, led: LogReader, error: ErrorCode) -> None:
        """A part of its log can't be read: no answer is given from a possibly incomplete state."""
        partition = led.partition
        self._unreadable = {each: epoch for each, epoch in self._unreadable.items() if each.leading}
        self._unreadable[partition] = led.leader_epoch
        self.problems.append(
            f"{partition.topic}-{partition.partition} can't be read, {error.name}: what is in it has no coordinator"
        )
        led.is_unreadable = True
        self._changed[partition] = None


def _name(partition: Partition) -> dict[str, str | int]:
    return {"topic": partition.topic, "partition": partition.partition, "leader_epoch": partition.leader_epoch}
