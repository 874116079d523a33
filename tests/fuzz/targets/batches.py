"""What clients append: batches one after the other into a log on a disk in memory, as they came over the wire.

Each is refused with an error code or taken; nothing is raised. The log that results reads back whole, and a log
recovered from its files alone ends where it ends and knows the same producers.
"""

from __future__ import annotations

from random import Random

from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome
from tests.fuzz.pieces import join_pieces, split_pieces
from tests.fuzz.target import Target
from tests.fuzz.targets.records import random_batch, repaired
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import WALL_MS, new_log, read_all, reopen, settle

_CONFIGS = (
    TopicConfig(),
    TopicConfig(segment_bytes=500, index_interval_bytes=0),
    TopicConfig(message_timestamp_type="LogAppendTime", max_message_bytes=300),
)
_BATCHES_MAX = 12


def check(data: bytes) -> None:
    config = _CONFIGS[data[0] % len(_CONFIGS)] if data else _CONFIGS[0]
    disk = DiskModel()
    log = new_log(disk, config)
    taken: list[tuple[int, int]] = []
    for records in split_pieces(data[1:])[:_BATCHES_MAX]:
        end_before = log.next_offset
        outcome = log.append(memoryview(records), 0, WALL_MS, len(taken))
        if isinstance(outcome, AppendOutcome) and not outcome.is_duplicate:
            assert outcome.base_offset == end_before
            assert outcome.base_offset < outcome.required_offset == log.next_offset
            taken.append((outcome.base_offset, outcome.required_offset - 1))
        else:
            assert outcome is not ErrorCode.NONE
            assert log.next_offset == end_before
    settle(disk, log)
    assert log.log_end_offset == log.next_offset
    assert read_all(disk, log) == taken
    recovered = reopen(disk, config)
    assert recovered.log.log_end_offset == log.log_end_offset
    assert recovered.dropped_bytes == 0
    ours = {entry.producer_id: (entry.producer_epoch, entry.last_sequence) for entry in log.producers.entries()}
    theirs = {
        entry.producer_id: (entry.producer_epoch, entry.last_sequence) for entry in recovered.log.producers.entries()
    }
    assert ours == theirs


def build(random: Random) -> bytes:
    return random.randbytes(1) + join_pieces([random_batch(random) for _ in range(random.randint(1, 5))])


def repair(data: bytes) -> bytes:
    return data[:1] + join_pieces([repaired(piece) for piece in split_pieces(data[1:])])


TARGET = Target("batches", check, build, repair, lines_max=200_000)
