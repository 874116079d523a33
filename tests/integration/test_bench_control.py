"""bench-control in small: what it says was measured was."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from bench.control.designs import Design
from bench.control.measure import Offered, measure

pytestmark = [pytest.mark.integration, pytest.mark.deep]

CHANGES = 10


def test_one_queue_is_measured_without_and_with_a_backlog(tmp_path: Path) -> None:
    backlogs = [Offered(0), Offered(100)]
    points = measure(tmp_path / "cluster", [Design.ONE_QUEUE], backlogs, CHANGES, 1, 1000, print)
    assert [point.backlog for point in points] == backlogs
    for point in points:
        away = sum(change.away for change in point.changes)
        assert away >= CHANGES
        assert len(point.acknowledged) == 2 * away
        for change in point.changes:
            assert 0 <= change.arrived <= change.applied <= change.acknowledged
    empty, full = points
    # The measurement's own parked producers may be seen waiting on a slow machine: no backlog, but not zero either.
    waiting_without, waiting_behind = (
        median(change.requests_waiting for change in point.changes) for point in (empty, full)
    )
    assert waiting_without < waiting_behind
    assert empty.appends_per_second == [0]
    assert full.appends_per_second[0] > 0
