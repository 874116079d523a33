"""Everything of one run that outlives a process: the disk, the truth of every partition, the clients, the trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from random import Random

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
from barnabas_logstore.core.storage.effects import StorageEffect, WriteEffect
from tests.crash.appends import Appends
from tests.crash.clients import Producer, Sent
from tests.crash.life import CLUSTER_ID, CONTROLLER_EPOCH, NODE_ID, WALL_MS, Life, LifeSettings
from tests.crash.truth import TruePartition
from tests.sim.disk_model import DiskModel

LINES_KEPT = 4_000
DAY_MS = 86_400_000
KEPT_OPEN = 0.7
"""The part of the files in use that the disk still has open."""


@dataclass(slots=True, frozen=True)
class Shape:
    """`topics` are names with their partitions; `defaults` the topic settings of the logstore, `options` its own."""

    directories: tuple[str, ...]
    topics: tuple[tuple[str, int], ...]
    defaults: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, int], ...]
    producers: int
    dedupe_buffer_bytes: int


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
        self.disk.wall_ms = lambda: WALL_MS + self.now_ms
        self.trace = Trace()
        self.hits: Counter[str] = Counter()
        self._began_ms = 0
        self.boots = 0
        self.life: Life | None = None
        self.truths: list[TruePartition] = []
        """Of every topic that is or was, in the order of their creation."""
        self.producers: list[Producer] = []
        self.configs: dict[str, dict[str, str]] = {}
        """Of each topic, as last altered."""
        self.chance = Random(0)
        """Of the present life."""
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
        configs = self.configs.setdefault(topic, {})
        made = [TruePartition(topic, topic_id, number, configs) for number in range(partitions)]
        for truth in made:
            self.note_compaction(truth)
            first_id = 100 * self._topics_made + 10 * truth.partition
            self.producers.append(Producer(-1, truth))
            self.producers += [Producer(first_id + index, truth) for index in range(self.shape.producers)]
        self.truths += made
        return made

    def note_compaction(self, truth: TruePartition) -> None:
        """By the settings of a topic as they are now."""
        if "compact" in self.setting(truth, "cleanup.policy"):
            truth.was_ever_compacted = True
            truth.may_lose_tombstones |= self.setting(truth, "delete.retention.ms") == "0"

    def truth_of(self, directory: str) -> TruePartition | None:
        """Of the partition whose log is in `directory`; None once it is gone."""
        for partition in self.life.partitions if self.life is not None else ():
            if partition.log.directory == directory:
                return self.truth(partition.topic_id, partition.partition)
        return None

    def truth(self, topic_id: bytes, number: int) -> TruePartition:
        return next(each for each in self.truths if each.topic_id == topic_id and each.partition == number)

    # --- lives ---

    def begin_life(self, chance: int) -> None:
        """A process starts. Raises DiskError where it would refuse to, and MachineStopped."""
        self._lives += 1
        began_ms = self.now_ms
        self.end_life()
        self.appends = Appends(self.hits, lambda truth: self.setting(truth, "flush.messages") == "1")
        for producer in self.producers:
            producer.must_repeat = True
        self.chance = self.disk.chance = Random(chance)
        self.disk.close_files()
        kept_open = Random(chance)
        self.disk.keeps_open = lambda: kept_open.random() < KEPT_OPEN
        settings = LifeSettings(
            self.shape.directories,
            self.defaults,
            boot_id=f"boot {self.boots}",
            unique=self._unique,
            broker_epoch=self._lives,
            now_ms=began_ms,
            options=dict(self.shape.options),
            dedupe_buffer_bytes=self.shape.dedupe_buffer_bytes,
        )
        self.life = Life(
            self.disk,
            settings,
            written=self._on_written,
            turned=self.look,
            is_deleted=self.is_deleted,
        )

    def end_life(self) -> None:
        self._began_ms = self.now_ms
        self.life = None

    @property
    def now_ms(self) -> int:
        """The clock goes on from life to life."""
        return self._began_ms if self.life is None else self.life.now_ms

    def is_deleted(self, topic_id: bytes) -> bool:
        return all(truth.is_deleted for truth in self.truths if truth.topic_id == topic_id)

    def setting(self, truth: TruePartition, name: str) -> str:
        """A topic's setting in this life; "" if it is not set."""
        return truth.configs.get(name, self.defaults.get(name, ""))

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
        self.tell_metadata(self.alive(), full=True)

    def tell_metadata(self, truths: list[TruePartition], *, full: bool) -> None:
        """UpdateMetadata: that is how altered settings of topics come."""
        self._revision += 1
        broker = Broker(NODE_ID, "", 0)
        topics = [_metadata([truth]) for truth in truths]
        self._life.command(
            UpdateMetadata(self._revision, full, CLUSTER_ID, CONTROLLER_EPOCH, [broker], [], topics), self.chance
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
            assert self.is_disturbed, f"{name}, and nothing is wrong with the disk"

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
        if sent.header.base_sequence > 0 and producer.first_batch_is_undecided:
            producer.must_repeat = True
            return
        if self._may_be_forgotten(producer):
            producer.start_over()
            return
        appends = self.appends
        # The answer may come from within `append`'s turn only: by then it is known what was handed in.
        handed = appends.hand_in(producer, sent)
        life.append(
            truth.topic_id,
            truth.partition,
            truth.leader_epoch,
            sent.content,
            lambda result: appends.answered(handed, result),
        )

    def _may_be_forgotten(self, producer: Producer) -> bool:
        """Its state may have gone with its records, or expired: what comes of a batch is not certain then."""
        truth = producer.truth
        produced = truth.produced_by(producer.producer_id) if producer.is_idempotent else []
        if not produced:
            return False
        is_old = self.may_have_expired(produced[-1].header.max_timestamp)
        return is_old or produced[-1].base_offset < truth.files_begin

    def may_have_expired(self, timestamp_ms: int) -> bool:
        """Whether a producer whose last batch is of that time may have been forgotten."""
        expiration_ms = dict(self.shape.options).get("producer_id_expiration_ms", DAY_MS)
        return timestamp_ms <= WALL_MS + self.now_ms - expiration_ms

    def repeat(self, producer: Producer) -> None:
        """Everything that was not answered once more, in order."""
        producer.must_repeat = False
        for sent in list(producer.unanswered):
            self.note(f"{producer.truth.name}: producer {producer.producer_id} repeats {sent.header.base_sequence}")
            self.send(producer, sent)

    def _on_written(self, effect: StorageEffect) -> None:
        if isinstance(effect, WriteEffect):
            truth = self.truth_of(effect.directory)
            if truth is not None:
                truth.written_offset = max(truth.written_offset, effect.end_offset)

    def look(self) -> None:
        """What must be true at any moment; and take the logs by their word of what is durable."""
        if self.life is None:
            return
        for partition in self.life.partitions:
            log = partition.log
            truth = self.truth_of(log.directory)
            assert truth is not None
            if log.log_start_offset > truth.log_start_asked:
                check_retention(self, truth, log.log_start_offset)
            if not partition.online:
                continue
            assert log.log_start_offset <= partition.high_watermark <= log.log_end_offset <= log.next_offset, (
                f"{log.directory}: {log.log_start_offset} {partition.high_watermark} {log.log_end_offset}"
            )
            assert log.recovery_point <= log.log_end_offset, f"{log.directory}: a recovery point past the end"
            truth.durable_offset = max(truth.durable_offset, log.recovery_point)
            self.appends.follow(truth, log.next_offset, partition.leader_epoch)

    @property
    def is_disturbed(self) -> bool:
        """Something is, or was in this life, wrong with the disk."""
        disk = self.disk
        was_full = disk.capacity_bytes is not None or (self.life is not None and self.life.lacked_room)
        return was_full or any(fault.hits for fault in disk.faults)

    # --- the story ---

    def note(self, line: str) -> None:
        self.trace.note(line)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Inject no faults while the checks read."""
        disk = self.disk
        kept = disk.faults, disk.capacity_bytes, disk.interrupt_after
        disk.faults, disk.capacity_bytes, disk.interrupt_after = [], None, None
        yield
        disk.faults, disk.capacity_bytes, disk.interrupt_after = kept


def check_retention(world: World, truth: TruePartition, log_start_offset: int) -> None:
    """The log start has moved, without a DeleteRecords: by time, by size, or by size and then time, and no further."""
    assert "delete" in world.setting(truth, "cleanup.policy").split(","), f"{truth.name}: its policy deletes nothing"
    retention_ms = int(world.setting(truth, "retention.ms"))
    over_ms = WALL_MS + world.now_ms - retention_ms if retention_ms >= 0 else -1
    end = truth.first_from(log_start_offset)
    first_over = end
    while first_over > 0 and truth.batches[first_over - 1].header.max_timestamp < over_ms:
        first_over -= 1
    if first_over > truth.first_from(truth.log_start_asked):
        retention_bytes = int(world.setting(truth, "retention.bytes"))
        left = sum(len(batch.content) for batch in truth.batches[first_over:])
        assert 0 <= retention_bytes <= left, f"{truth.name}: {left} bytes left of {retention_bytes} to be kept"
    truth.log_start_asked = log_start_offset
    world.hits["log starts moved by retention"] += 1


def _metadata(truths: list[TruePartition]) -> TopicMetadata:
    first = truths[0]
    states = [
        PartitionMetadata(each.partition, NODE_ID, each.leader_epoch, each.partition_epoch, (NODE_ID,), (NODE_ID,))
        for each in truths
    ]
    return TopicMetadata(first.topic, first.topic_id, dict(first.configs), states)
