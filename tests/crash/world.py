"""Everything of one run that outlives a process: the disk, the truth of every partition, the clients, the trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from random import Random

from barnabas.channel.messages import AppendResult
from barnabas.cluster.messages import (
    Broker,
    LeaderAndIsr,
    PartitionMetadata,
    StopReplica,
    StopReplicaPartition,
    TopicMetadata,
    UpdateMetadata,
)
from barnabas.wire.errors import ErrorCode
from services.logstore.core.storage.effects import StorageEffect, WriteEffect
from services.logstore.core.storage.log import PartitionLog
from tests.crash.clients import Producer, Sent, is_surely_remembered, is_within_window
from tests.crash.life import CLUSTER_ID, CONTROLLER_EPOCH, NODE_ID, Life
from tests.crash.truth import TrueBatch, TruePartition
from tests.sim.disk_model import DiskModel

LINES_KEPT = 4_000
# The log is offline, or not led under that epoch any more: whatever is there, nobody is told that it is.
INDETERMINATE = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@dataclass(slots=True, frozen=True)
class Shape:
    """`topics` are names with their partitions; `defaults` the topic settings of the logstore."""

    directories: tuple[str, ...]
    topics: tuple[tuple[str, int], ...]
    defaults: tuple[tuple[str, str], ...]
    producers: int


class End(Enum):
    """How a life ended, and what that may take."""

    KILL = "kill"
    POWER_CUT = "power cut"
    CLEAN_STOP = "clean stop"


@dataclass(slots=True)
class Trace:
    """What has happened, as lines; the last ones are kept, and all of them are in `digest`."""

    lines: list[str] = field(default_factory=list)
    _hash: object = field(default_factory=sha256)

    def note(self, line: str) -> None:
        self._hash.update(line.encode())  # type: ignore[attr-defined]
        self.lines.append(line)
        if len(self.lines) > 2 * LINES_KEPT:
            del self.lines[:LINES_KEPT]

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()  # type: ignore[attr-defined, no-any-return]


class World:
    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.disk = DiskModel()
        self.trace = Trace()
        self.hits: Counter[str] = Counter()
        self.now_ms = 0
        self.boots = 0
        self.life: Life | None = None
        self.truths: list[TruePartition] = []
        """Of every topic that is or was, in the order of their creation."""
        self.producers: list[Producer] = []
        self.chance = Random(0)
        """Of the present life."""
        self._truth_of_log: dict[PartitionLog, TruePartition] = {}
        self._topics_made = 0
        self._uniques = 0
        self._lives = 0
        self._revision = 0
        self.add_missing_topics()

    # --- topics ---

    @property
    def defaults(self) -> dict[str, str]:
        return dict(self.shape.defaults)

    def alive(self) -> list[TruePartition]:
        return [truth for truth in self.truths if not truth.is_deleted]

    def forget_topic(self, topic: str) -> None:
        """The controller's word that a topic is deleted."""
        for truth in self.alive():
            truth.is_deleted |= truth.topic == topic
        self.producers = [producer for producer in self.producers if not producer.truth.is_deleted]

    def add_missing_topics(self) -> list[TruePartition]:
        """The controller's word that there are topics (again); logs are made by `lead`."""
        there = {truth.topic for truth in self.alive()}
        missing = [each for each in self.shape.topics if each[0] not in there]
        return [truth for topic, partitions in missing for truth in self._add_topic(topic, partitions)]

    def _add_topic(self, topic: str, partitions: int) -> list[TruePartition]:
        self._topics_made += 1
        topic_id = self._topics_made.to_bytes(16, "big")
        made = [TruePartition(topic, topic_id, number) for number in range(partitions)]
        for truth in made:
            truth.is_flushed_before_acknowledged = self.defaults.get("flush.messages") == "1"
            first_id = 100 * self._topics_made + 10 * truth.partition
            self.producers.append(Producer(-1, truth))
            self.producers += [Producer(first_id + index, truth) for index in range(self.shape.producers)]
        self.truths += made
        return made

    def truth_of(self, log: PartitionLog) -> TruePartition | None:
        truth = self._truth_of_log.get(log)
        if truth is None and self.life is not None:
            for partition in self.life.partitions:
                if partition.log is log:
                    truth = self.truth(partition.topic_id, partition.partition)
                    self._truth_of_log[log] = truth
        return truth

    def truth(self, topic_id: bytes, number: int) -> TruePartition:
        return next(each for each in self.truths if each.topic_id == topic_id and each.partition == number)

    # --- lives ---

    def begin_life(self, chance: int) -> None:
        """A process starts. Raises DiskError where it would refuse to, and MachineStopped."""
        self._lives += 1
        self._truth_of_log.clear()
        self.life = None
        for producer in self.producers:
            producer.must_repeat = True
        self.chance = self.disk.chance = Random(chance)
        self.life = Life(
            self.disk,
            self.shape.directories,
            self.defaults,
            boot_id=f"boot {self.boots}",
            unique=self._unique,
            broker_epoch=self._lives,
            now_ms=self.now_ms,
            written=self._on_written,
        )

    def _unique(self) -> str:
        self._uniques += 1
        return f"{self._uniques:032x}"

    def lead_everything(self) -> None:
        """What a controller says first: what is deleted, what is led (under new epochs), and that this is all."""
        life = self._life
        deleted = [truth for truth in self.truths if truth.is_deleted]
        gone = [
            StopReplicaPartition(truth.topic, truth.topic_id, truth.partition, -2, True)
            for truth in deleted
            if life.partition(truth.topic_id, truth.partition) is not None
        ]
        if gone:
            self.note(f"deletes again what was deleted before: {len(gone)} partitions")
            life.command(StopReplica(gone), self.chance)
        self.add_missing_topics()
        self.lead(self.alive(), full=True)
        self._revision += 1
        broker = Broker(NODE_ID, "", 0)
        topics = [_metadata([truth]) for truth in self.alive()]
        life.command(
            UpdateMetadata(self._revision, True, CLUSTER_ID, CONTROLLER_EPOCH, [broker], [], topics), self.chance
        )

    def lead(self, truths: list[TruePartition], *, full: bool = False) -> None:
        """LeaderAndIsr, each under a new leader epoch."""
        for truth in truths:
            truth.leader_epoch += 1
            truth.partition_epoch += 1
        response = self._life.command(LeaderAndIsr(full, [_metadata([truth]) for truth in truths]), self.chance)
        for error in response.partition_errors:
            name = f"{self.truth(error.topic_id, error.partition).name}: {ErrorCode(error.error_code).name}"
            self.note(f"can't lead {name}")
            assert error.error_code == ErrorCode.KAFKA_STORAGE_ERROR, name
            assert self._life.offline, f"{name}, and no directory is offline"

    @property
    def _life(self) -> Life:
        assert self.life is not None
        return self.life

    # --- appends ---

    def send(self, producer: Producer, sent: Sent) -> None:
        """Hand a batch in, and hold the answer against what has to come of it."""
        life, truth = self._life, producer.truth
        partition = life.partition(truth.topic_id, truth.partition)
        if partition is None or partition.leader_epoch != truth.leader_epoch:
            producer.must_repeat = True
            return
        earlier = sent.is_in(truth) if producer.is_idempotent else None
        placed = None
        expected = ErrorCode.NONE
        if earlier is None:
            expected = _verdict_on_new(truth, sent)
            if expected is ErrorCode.NONE:
                placed = sent.placed(truth.next_offset, truth.leader_epoch)
        elif not is_within_window(earlier, truth):
            expected = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        is_sure = earlier is None or is_surely_remembered(earlier, truth)

        def answer(result: AppendResult) -> None:
            code = ErrorCode(result.error_code)
            if code in INDETERMINATE:
                producer.must_repeat = True
                return
            batch = placed or earlier
            is_refused = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if is_refused and not is_sure:
                self.hits["repetitions refused, as older than the snapshot tells"] += 1
            else:
                assert code is expected, f"{truth.name}: a batch is {code.name}, and should be {expected.name}"
            if is_refused and earlier is not None and sent in producer.unanswered:
                producer.unanswered.remove(sent)
            if code is not ErrorCode.NONE or batch is None:
                return
            assert result.base_offset == batch.base_offset, (
                f"{truth.name}: acknowledged at {result.base_offset}, and belongs at {batch.base_offset}"
            )
            self.hits["repetitions recognised"] += earlier is not None
            truth.acknowledged(batch)
            if sent in producer.unanswered:
                producer.unanswered.remove(sent)

        if life.append(truth.topic_id, truth.partition, truth.leader_epoch, sent.records, answer):
            if placed is not None:
                truth.batches.append(placed)
            self.hits["batches sent"] += 1
        else:
            producer.must_repeat = True

    def repeat(self, producer: Producer) -> None:
        """Everything that was not answered once more, in order."""
        producer.must_repeat = False
        for sent in list(producer.unanswered):
            self.note(f"{producer.truth.name}: producer {producer.producer_id} repeats {sent.header.base_sequence}")
            self.send(producer, sent)

    def _on_written(self, effect: StorageEffect) -> None:
        if isinstance(effect, WriteEffect):
            truth = self.truth_of(effect.log)
            if truth is not None:
                truth.written_offset = max(truth.written_offset, effect.end_offset)

    def look(self) -> None:
        """What must be true at any moment; and take the logs by their word of what is durable."""
        if self.life is None:
            return
        for partition in self.life.partitions:
            if not partition.online:
                continue
            log = partition.log
            assert log.log_start_offset <= partition.high_watermark <= log.log_end_offset <= log.next_offset, (
                f"{log.directory}: {log.log_start_offset} {partition.high_watermark} {log.log_end_offset}"
            )
            assert log.recovery_point <= log.log_end_offset, f"{log.directory}: a recovery point past the end"
            truth = self.truth_of(log)
            assert truth is not None
            truth.durable_offset = max(truth.durable_offset, log.recovery_point)

    # --- the story ---

    def note(self, line: str) -> None:
        self.trace.note(line)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """No faults while somebody looks."""
        disk = self.disk
        kept = disk.faults, disk.capacity_bytes, disk.interrupt_after
        disk.faults, disk.capacity_bytes, disk.interrupt_after = [], None, None
        yield
        disk.faults, disk.capacity_bytes, disk.interrupt_after = kept


def _verdict_on_new(truth: TruePartition, sent: Sent) -> ErrorCode:
    """What has to come of a batch that is not in the log."""
    header = sent.header
    if header.producer_id < 0:
        return ErrorCode.NONE
    produced: list[TrueBatch] = truth.produced_by(header.producer_id)
    if not produced:
        return ErrorCode.NONE
    last = produced[-1].header
    if header.producer_epoch < last.producer_epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    next_sequence = (last.last_sequence + 1) & 0x7FFFFFFF if header.producer_epoch == last.producer_epoch else 0
    return ErrorCode.NONE if header.base_sequence == next_sequence else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def _metadata(truths: list[TruePartition]) -> TopicMetadata:
    first = truths[0]
    states = [
        PartitionMetadata(each.partition, NODE_ID, each.leader_epoch, each.partition_epoch, [NODE_ID], [NODE_ID])
        for each in truths
    ]
    return TopicMetadata(first.topic, first.topic_id, {}, states)
