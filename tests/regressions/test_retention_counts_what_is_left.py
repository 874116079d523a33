"""retention.bytes keeps that much of what DeleteRecords has left, not of what was there before.

What DeleteRecords took was counted as excess once more, and records were deleted without a request.
"""

from __future__ import annotations

from dataclasses import replace

from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.test_log_start import WALL_MS, base_offsets, filled


def test_segments_that_go_for_another_reason_are_no_excess() -> None:
    disk = DiskModel()
    log = filled(disk, 10)
    kept_bytes = sum(segment.byte_count for segment in log.segments.overlapping(4, 10))
    log.state.config = replace(log.config, retention_ms=-1, retention_bytes=kept_bytes)
    assert log.delete_records(4, 10) == 4
    log.apply_retention(10, WALL_MS)
    assert base_offsets(log)[0] == 4
