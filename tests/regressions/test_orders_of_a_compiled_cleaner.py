"""With compiled cores the cleaner's process died at every order, so that nothing was ever compacted.

msgspec decodes by annotations. mypyc keeps `list` of `list[SourceSegment]` and `type` of `DiskErrorKind | None`: an
order's segments were dicts, a TypeError at the first of them.
"""

from __future__ import annotations

import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskErrorKind
from barnabas_logstore.core.storage.compaction.orders import (
    CancelOrder,
    CleanedSegment,
    CleanerCommand,
    CleanerReport,
    CleanOrder,
    LastBatch,
    PassEnded,
    PassOutcome,
    PassStatistics,
    SourceSegment,
)
from barnabas_logstore.shell.cleaner_messages import decode_command, decode_report, encode_command, encode_report

ORDER = CleanOrder(
    7,
    "/data0/orders-0",
    TopicConfig(cleanup_policy="compact,delete", min_cleanable_dirty_ratio=0.01, preallocate=True),
    [SourceSegment(0, 4711), SourceSegment(2**40, 1)],
    2**40,
    2**40 + 1,
    1_700_000_000_000,
    [LastBatch(4000, 3, -1), LastBatch(2**62, 32766, 2**40)],
)


@pytest.mark.parametrize("command", [ORDER, CancelOrder(7)], ids=["order", "cancel"])
def test_a_command_arrives_as_it_was_sent(command: CleanerCommand) -> None:
    arrived = decode_command(*encode_command(command))
    assert arrived == command
    assert arrived.__class__ is command.__class__
    if isinstance(arrived, CleanOrder):
        assert [type(each) for each in arrived.segments + arrived.producers] == [SourceSegment] * 2 + [LastBatch] * 2  # type: ignore[operator]
        assert isinstance(arrived.config, TopicConfig)
        assert arrived.config.is_compacted


@pytest.mark.parametrize(
    "report",
    [
        CleanedSegment(7, 0, 99, [0, 12, 2**40]),
        PassEnded(7, PassOutcome.DONE, 12, statistics=PassStatistics(records_read=3, map_is_full=True)),
        PassEnded(7, PassOutcome.DISK_ERROR, reason="the disk failed", disk_error=DiskErrorKind.IO),
        PassEnded(7, PassOutcome.UNCLEANABLE, reason="the batch at offset 0: its CRC is wrong"),
    ],
    ids=["cleaned", "done", "disk error", "uncleanable"],
)
def test_a_report_arrives_as_it_was_sent(report: CleanerReport) -> None:
    arrived = decode_report(*encode_report(report))
    assert arrived == report
    if isinstance(arrived, PassEnded):
        assert isinstance(arrived.outcome, PassOutcome)
        assert arrived.disk_error is None or isinstance(arrived.disk_error, DiskErrorKind)
        assert isinstance(arrived.statistics, PassStatistics)
