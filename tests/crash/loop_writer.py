"""The process that writes while its power is cut: `LogstoreCore` over a real directory, batches that can be made
again, and a line on the standard output for everything that is acknowledged.

    python -m tests.crash.loop_writer DIRECTORY ROUND

Partition 0 has flush.messages=1: what it acknowledges has to survive a power cut. Partition 1 leaves flushing to the
roll of its segments, partition 2 is compacted on top. A line is `<partition> <end offset> <recovery point>`.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import count
from random import Random

from barnabas.channel.messages import AppendResult
from barnabas.cluster.messages import Broker, LeaderAndIsr, PartitionMetadata, TopicMetadata, UpdateMetadata
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.shell.posix_disk import PosixDisk
from tests.crash.life import CLUSTER_ID, CONTROLLER_EPOCH, NODE_ID, WALL_MS, Life, LifeSettings

SEGMENT = {"segment.index.bytes": "600", "index.interval.bytes": "300", "retention.ms": "-1"}
TOPICS: tuple[tuple[str, dict[str, str]], ...] = (
    ("flushed", {**SEGMENT, "flush.messages": "1"}),
    ("rolled", SEGMENT),
    ("compacted", {**SEGMENT, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}),
)
KEYS = 50
BATCHES_PER_TURN = 8
OPTIONS = {"cleaner_backoff_ms": 50, "recovery_point_checkpoint_interval_ms": 200}


def topic_id(topic: int) -> bytes:
    return bytes([topic + 1]) * 16


def batch_at(topic: int, offset: int) -> bytes:
    """The batch that belongs at `offset` of a topic: its records follow from the offset alone."""
    value = b"%d/%d " % (topic, offset) + b"." * ((offset * 131) % 900)
    return build_batch(
        Record(b"key %d" % ((offset + index) % KEYS), value, WALL_MS + offset + index)
        for index in range(records_at(topic, offset))
    )


def records_at(topic: int, offset: int) -> int:
    return 1 + (offset * 7 + topic) % 4


def open_life(directory: str, round_: int) -> Life:
    unique = count(1)
    settings = LifeSettings(
        [directory],
        {},
        boot_id=f"boot {round_}",
        unique=lambda: f"{round_:016x}{next(unique):016x}",
        broker_epoch=round_,
        now_ms=0,
        options=OPTIONS,
        dedupe_buffer_bytes=40_000,
    )
    return Life(
        PosixDisk(),
        settings,
        written=lambda effect: None,
        turned=lambda: None,
        is_deleted=lambda topic_id: False,
    )


def lead(life: Life, round_: int, chance: Random) -> None:
    topics = [
        TopicMetadata(
            name, topic_id(index), configs, [PartitionMetadata(0, NODE_ID, round_, 0, (NODE_ID,), (NODE_ID,))]
        )
        for index, (name, configs) in enumerate(TOPICS)
    ]
    response = life.command(LeaderAndIsr(True, topics), chance)
    assert not response.partition_errors, response
    update = UpdateMetadata(round_, True, CLUSTER_ID, CONTROLLER_EPOCH, [Broker(NODE_ID, "", 0)], [], topics)
    life.command(update, chance)


def write_for_ever(directory: str, round_: int) -> None:
    life = open_life(directory, round_)
    chance = Random(round_)
    lead(life, round_, chance)

    def answer(topic: int, result: AppendResult) -> None:
        if result.error_code == ErrorCode.NONE:
            partition = life.partition(topic_id(topic), 0)
            assert partition is not None
            print(topic, result.required_offset, partition.log.recovery_point, flush=True)

    print("begun", flush=True)
    while not life.is_halted:
        for topic in range(len(TOPICS)):
            partition = life.partition(topic_id(topic), 0)
            if partition is None:
                continue
            offset = partition.log.next_offset
            for _ in range(chance.randint(1, BATCHES_PER_TURN)):
                records = batch_at(topic, offset)
                life.append(topic_id(topic), 0, round_, records, partial(answer, topic))
                offset += records_at(topic, offset)
        life.settle(chance)
        life.now_ms += 20
        life.tick()
        life.settle(chance)


if __name__ == "__main__":
    write_for_ever(sys.argv[1], int(sys.argv[2]))
