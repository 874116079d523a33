"""Where a disk has damaged the lengths of batches in a cold segment, a fetch says CORRUPT_MESSAGE.

It found nothing, with no error, and its consumer waited there for ever; or it went on silently in the next segment.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import iterate_headers
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import DIRECTORY, append, batch, close, new_log, read, reopen

SEGMENT = f"{DIRECTORY}/00000000000000000000.log"
BATCH_BYTES = len(batch())


def closed() -> tuple[DiskModel, TopicConfig]:
    """A log of seven batches, three a segment, after a clean shutdown."""
    disk, config = DiskModel(), TopicConfig(segment_bytes=3 * BATCH_BYTES)
    log = new_log(disk, config)
    for _ in range(7):
        append(log, batch())
    close(disk, log)
    return disk, config


def found(disk: DiskModel, config: TopicConfig, offset: int) -> list[int] | ErrorCode:
    """Base offsets of what a consumer gets."""
    data = read(disk, reopen(disk, config, recovery_point=7, shut_down_cleanly=True).log, offset)
    return data if isinstance(data, ErrorCode) else [header.base_offset for _, header in iterate_headers(data)]


@pytest.mark.parametrize(
    ("offset", "position", "content"),
    [
        (0, 8, bytes(4)),
        (1, BATCH_BYTES + 8, bytes(4)),
        (1, BATCH_BYTES + 8, b"\x7f\xff\xff\xff"),
        (1, BATCH_BYTES, bytes(2 * BATCH_BYTES)),
        (2, BATCH_BYTES, bytes(2 * BATCH_BYTES)),
        (2, 8, b"\x7f\xff\xff\xff"),
    ],
)
def test_it_is_reported_to_who_reads_there_and_the_rest_is_served(offset: int, position: int, content: bytes) -> None:
    disk, config = closed()
    disk.write_at(disk.open(SEGMENT), position, (content,))
    assert found(disk, config, offset) is ErrorCode.CORRUPT_MESSAGE
    assert found(disk, config, 3) == [3, 4, 5]


@pytest.mark.parametrize("cut_bytes", [1, BATCH_BYTES - 70, BATCH_BYTES - 30])
def test_a_cold_segment_that_was_cut_within_a_batch(cut_bytes: int) -> None:
    disk, config = closed()
    disk.truncate(disk.open(SEGMENT), 3 * BATCH_BYTES - cut_bytes)
    assert found(disk, config, 0) == [0, 1]
    assert found(disk, config, 2) is ErrorCode.CORRUPT_MESSAGE
    assert found(disk, config, 3) == [3, 4, 5]
