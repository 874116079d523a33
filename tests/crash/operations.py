"""What a workload does: one small class each, with all of its numbers in it, so that a program can be taken apart and
run again without some of its steps.

To add one: write the class, and give it a place in `tests/crash/programs.py`. Numbers that choose among what is there
(a partition, an effect in flight) are taken modulo how many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from barnabas.channel.messages import OffsetAnswer, ReadPartitionResult
from barnabas.cluster.administration import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ReplicaMove,
)
from barnabas.cluster.messages import StopReplica, StopReplicaPartition
from barnabas.ports.disk import DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import iterate_headers
from tests.crash.appends import INDETERMINATE
from tests.crash.batches import check_batch
from tests.crash.clients import UNANSWERED_MAX
from tests.crash.life import WALL_MS, Life
from tests.crash.truth import TruePartition
from tests.crash.world import World
from tests.sim.disk_model import Fault

MAX_TIMESTAMP = -3


class Operation(Protocol):
    def run(self, world: World, life: Life) -> None: ...


def _chosen(world: World, choice: int) -> TruePartition:
    alive = world.alive()
    return alive[choice % len(alive)]


@dataclass(slots=True, frozen=True)
class AppendBatches:
    """New batches of one producer, in one message each, all in one turn of the logstore."""

    partition: int
    producer: int
    count: int
    records: int
    value_bytes: int
    jitter_ms: int
    key: int
    are_tombstones: bool = False

    def run(self, world: World, life: Life) -> None:
        truth = _chosen(world, self.partition)
        if life.partition(truth.topic_id, truth.partition) is None:
            return
        producers = [each for each in world.producers if each.truth is truth]
        producer = producers[self.producer % len(producers)]
        if producer.must_repeat:
            world.repeat(producer)
        for index in range(self.count):
            if producer.is_idempotent and len(producer.unanswered) >= UNANSWERED_MAX:
                break
            timestamp_ms = WALL_MS + world.now_ms + self.jitter_ms * (index + 1)
            sent = producer.next_batch(
                self.records, self.value_bytes, timestamp_ms, self.key + index, are_tombstones=self.are_tombstones
            )
            if producer.is_idempotent:
                producer.unanswered.append(sent)
            world.note(
                f"{truth.name}: producer {producer.producer_id} sends {self.records} records, "
                f"sequence {sent.header.base_sequence}, behind offset {truth.next_offset}"
            )
            world.send(producer, sent)
        life.turn()


@dataclass(slots=True, frozen=True)
class RepeatUnanswered:
    """A producer that heard nothing sends everything again, in order."""

    partition: int
    producer: int

    def run(self, world: World, life: Life) -> None:
        truth = _chosen(world, self.partition)
        producers = [each for each in world.producers if each.truth is truth and each.unanswered]
        if not producers:
            return
        world.repeat(producers[self.producer % len(producers)])
        life.turn()


@dataclass(slots=True, frozen=True)
class Work:
    """Workers carry out effects and the core hears of them, some of each."""

    choice: int
    times: int

    def run(self, world: World, life: Life) -> None:
        for index in range(self.times):
            choice = self.choice // (index + 1)
            if life.is_cleaning and choice % 2:
                world.note(life.clean())
            elif life.finished and (choice % 3 == 0 or not life.in_flight):
                world.note(f"reported: {life.report(choice // 3)}")
            elif life.in_flight:
                world.note(life.execute(choice // 3))
        life.turn()


@dataclass(slots=True, frozen=True)
class Settle:
    """Everything that is due is done."""

    def run(self, world: World, life: Life) -> None:
        world.note("comes to rest")
        life.settle(world.chance)


@dataclass(slots=True, frozen=True)
class Wait:
    """Time passes."""

    ms: int

    def run(self, world: World, life: Life) -> None:
        if "producer_id_expiration_ms" in dict(world.shape.options):
            # A repetition that is still waiting when its producer expires would be a new batch.
            life.settle(world.chance)
        life.now_ms += self.ms
        world.note(f"it is {world.now_ms} ms")
        life.tick()
        life.turn()


@dataclass(slots=True, frozen=True)
class NewLeaderEpoch:
    partition: int

    def run(self, world: World, life: Life) -> None:
        truth = _chosen(world, self.partition)
        world.note(f"{truth.name}: led under epoch {truth.leader_epoch + 1}")
        world.lead([truth])


@dataclass(slots=True, frozen=True)
class DeleteTopic:
    """Deleted, and made again under the same name and another id."""

    topic: int

    def run(self, world: World, life: Life) -> None:
        topic, _ = world.shape.topics[self.topic % len(world.shape.topics)]
        leaving = [truth for truth in world.alive() if truth.topic == topic]
        if any(life.partition(truth.topic_id, truth.partition) is None for truth in leaving):
            return
        world.note(f"deletes {topic}")
        asked = [StopReplicaPartition(topic, truth.topic_id, truth.partition, -2, True) for truth in leaving]
        world.forget_topic(topic)
        response = life.command(StopReplica(asked), world.chance)
        assert all(error.error_code == ErrorCode.KAFKA_STORAGE_ERROR for error in response.partition_errors)
        world.note(f"makes {topic} again")
        world.lead(world.add_missing_topics())


@dataclass(slots=True, frozen=True)
class ReadBack:
    """A fetch from somewhere in the log, answered whenever its effects are done."""

    partition: int
    where: int
    bytes_max: int

    def run(self, world: World, life: Life) -> None:
        truth = _chosen(world, self.partition)
        partition = life.partition(truth.topic_id, truth.partition)
        if partition is None or partition.high_watermark == partition.log.log_start_offset:
            return
        start = partition.log.log_start_offset
        offset = start + self.where % (partition.high_watermark - start)

        def answer(result: ReadPartitionResult) -> None:
            if result.error_code in INDETERMINATE:
                return
            if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and offset < partition.log.log_start_offset:
                # Deleted before a worker has opened its file.
                world.hits["fetches of what is deleted meanwhile"] += 1
                return
            assert result.error_code == ErrorCode.NONE, ErrorCode(result.error_code).name
            check_fetched(truth, offset, bytes(result.records))
            world.hits["fetches"] += 1

        life.read(truth.topic_id, truth.partition, offset, self.bytes_max, answer)
        life.turn()


def check_fetched(truth: TruePartition, offset: int, records: bytes) -> None:
    """Whole batches, beginning with the one that holds `offset` or, where that was compacted away, the next one."""
    next_offset = offset
    for position, header in iterate_headers(records):
        batch = check_batch(truth, records[position : position + header.size_bytes])
        is_next = batch.base_offset <= next_offset < batch.next_offset
        assert is_next or (truth.was_ever_compacted and batch.base_offset > next_offset), (
            f"{truth.name}: {header} is read at {next_offset}"
        )
        next_offset = batch.next_offset
    assert next_offset > offset, f"{truth.name}: nothing is read at {offset}"


@dataclass(slots=True, frozen=True)
class LookUp:
    """ListOffsets, for a time near that of some batch, or for the largest."""

    partition: int
    where: int
    past_ms: int

    def run(self, world: World, life: Life) -> None:
        truth = _chosen(world, self.partition)
        partition = life.partition(truth.topic_id, truth.partition)
        if partition is None or not truth.batches or truth.was_ever_compacted:
            return
        batch = truth.batches[self.where % len(truth.batches)]
        timestamp_ms = batch.header.max_timestamp + self.past_ms
        start = partition.log.log_start_offset

        def answer(found: OffsetAnswer) -> None:
            if found.error_code in (*INDETERMINATE, ErrorCode.OFFSET_NOT_AVAILABLE):
                return
            assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code).name
            # What was deleted while it was looked for is found no more. The log may have begun at what was found for a
            # while, by retention, before more of it was deleted.
            end = partition.log.log_start_offset
            starts = (start, end, min(max(start, found.offset), end))
            expected = [truth.first_at_or_after(timestamp_ms, each, upto_offset) for each in starts]
            assert (found.timestamp, found.offset) in expected, (
                f"{truth.name}: {timestamp_ms} is at {(found.timestamp, found.offset)}, and should be at {expected}"
            )
            world.hits["lookups by time"] += 1

        upto_offset = partition.high_watermark
        life.query_offset(truth.topic_id, truth.partition, timestamp_ms, answer)
        life.turn()


@dataclass(slots=True, frozen=True)
class DeleteRecords:
    """Up to some offset, or (0) to the high watermark."""

    partition: int
    where: int

    def run(self, world: World, life: Life) -> None:
        truth = _chosen(world, self.partition)
        partition = life.partition(truth.topic_id, truth.partition)
        if partition is None or partition.leader_epoch != truth.leader_epoch:
            return
        high_watermark = partition.high_watermark
        offset = self.where % (high_watermark + 1) if self.where else -1
        expected = high_watermark if offset < 0 else offset
        is_allowed = "delete" in world.setting(truth, "cleanup.policy").split(",")
        world.note(f"{truth.name}: deletes records before {expected}")
        if is_allowed:
            truth.log_start_asked = max(truth.log_start_asked, expected)

        def answer(response: DeleteRecordsResponse) -> None:
            (deleted,) = response.partitions
            if deleted.error_code in INDETERMINATE:
                return
            assert deleted.error_code == (ErrorCode.NONE if is_allowed else ErrorCode.POLICY_VIOLATION)
            assert not is_allowed or expected <= deleted.low_watermark <= truth.log_start_asked
            world.hits["DeleteRecords"] += is_allowed

        asked = DeleteRecordsPartition(truth.topic_id, truth.partition, offset)
        life.call(DeleteRecordsRequest(0, [asked]), answer)
        life.turn()


@dataclass(slots=True, frozen=True)
class AlterConfigs:
    """Other settings of a topic, as the controller makes them known."""

    topic: int
    settings: tuple[tuple[str, str], ...]

    def run(self, world: World, life: Life) -> None:
        topic, _ = world.shape.topics[self.topic % len(world.shape.topics)]
        # What is under way is done by the old settings.
        life.settle(world.chance)
        world.look()
        world.note(f"{topic}: {', '.join(f'{name}={value}' for name, value in self.settings)}")
        world.configs[topic].update(self.settings)
        altered = [truth for truth in world.alive() if truth.topic == topic]
        for truth in altered:
            world.note_compaction(truth)
        world.tell_metadata(altered, full=False)


@dataclass(slots=True, frozen=True)
class MoveReplica:
    """AlterReplicaLogDirs: to some log directory, perhaps the one where it is."""

    partition: int
    directory: int

    def run(self, world: World, life: Life) -> None:
        truth = _chosen(world, self.partition)
        path = world.shape.directories[self.directory % len(world.shape.directories)]
        if life.partition(truth.topic_id, truth.partition) is None:
            return
        world.note(f"{truth.name}: is to move to {path}")

        def answer(response: AlterReplicaLogDirsResponse) -> None:
            (code,) = response.error_codes
            assert code in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR), ErrorCode(code).name
            world.hits["moves between log directories asked for"] += code == ErrorCode.NONE

        life.call(AlterReplicaLogDirsRequest([ReplicaMove(truth.topic, truth.partition, path)]), answer)
        life.turn()


@dataclass(slots=True, frozen=True)
class KillCleaner:
    """The cleaner's process dies; the logstore's goes on."""

    def run(self, world: World, life: Life) -> None:
        if life.is_cleaning:
            world.note("the cleaner is killed")
            world.hits["cleaners killed"] += 1
            life.kill_cleaner()


@dataclass(slots=True, frozen=True)
class FailDisk:
    """From now on some operation of the disk fails, once."""

    operation: str
    path_part: str
    kind: DiskErrorKind
    skip: int
    written_bytes: int

    def run(self, world: World, life: Life) -> None:
        world.note(f"{self.operation} of *{self.path_part}* will fail after {self.skip}: {self.kind.value}")
        fault = Fault(self.operation, self.path_part, self.kind, self.skip, 1, self.written_bytes)
        world.disk.faults.append(fault)


@dataclass(slots=True, frozen=True)
class FillDisk:
    """Only so much room is left."""

    room_bytes: int

    def run(self, world: World, life: Life) -> None:
        world.note(f"{self.room_bytes} bytes of room are left")
        world.disk.capacity_bytes = world.disk.used_bytes() + self.room_bytes


@dataclass(slots=True, frozen=True)
class FreeDisk:
    def run(self, world: World, life: Life) -> None:
        world.disk.capacity_bytes = None
