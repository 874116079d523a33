"""What a table has against what a batch brings, and where a run begins."""

from __future__ import annotations

import pytest

from barnabas_pipeline.core.bookkeeping import (
    CheckpointState,
    GapError,
    advanced,
    decide_start,
    group_disagreement,
    remainder,
)
from barnabas_pipeline.core.positions import TopicPartition, TopicPositions


def at(**offsets: int) -> dict[str, TopicPositions]:
    """Partitions 0, 1, … of topic t: at(p0=5)."""
    return {"t": TopicPositions("id", {int(name[1:]): offset for name, offset in offsets.items()})}


def test_a_batch_that_the_table_lacks_whole() -> None:
    left = remainder(at(p0=5, p1=0), at(p0=9, p1=3), at(p0=5))
    assert not left.is_empty
    assert left.skip_below == {}


def test_a_batch_that_the_table_has_in_part_or_whole() -> None:
    assert remainder(at(p0=5), at(p0=9), at(p0=7)).skip_below == {TopicPartition("t", 0): 7}
    assert remainder(at(p0=5), at(p0=9), at(p0=9)).is_empty
    assert remainder(at(p0=5), at(p0=5), at(p0=5)).is_empty


def test_a_batch_behind_a_gap() -> None:
    with pytest.raises(GapError, match="t-0: the table lacks offsets from 5, the batch begins at 6; 1 would be lost"):
        remainder(at(p0=6), at(p0=9), at(p0=5))


def test_another_topic_of_the_same_name_has_nothing_in_the_table() -> None:
    table = {"t": TopicPositions("earlier", {0: 100})}
    assert not remainder(at(p0=0), at(p0=9), table).skip_below
    assert advanced(table, at(p0=9)) == at(p0=9)


def test_progress_never_goes_back() -> None:
    assert advanced(at(p0=9, p1=1), at(p0=4, p1=2)) == at(p0=9, p1=2)


@pytest.mark.parametrize(
    ("finished", "begun", "table", "resume", "reason"),
    [
        (at(p0=5), None, at(p0=5), True, ""),
        (at(p0=5), at(p0=9), at(p0=5), True, ""),
        (at(p0=5), at(p0=9), at(p0=9), True, ""),
        (at(p0=5), at(p0=9), at(p0=4), False, "ahead of the table: t-0 at 5, the table lacks offsets from 4"),
        (at(p0=5), at(p0=9), at(p0=10), False, "behind the table: t-0 at 9, the table has offsets up to 10"),
        (at(p0=5), None, {}, False, "ahead of the table: t-0 at 5, of which the table has nothing"),
        (at(p0=5), None, at(p0=5, p1=1), False, "behind the table: t-1 at None"),
        ({}, at(p0=9), {}, True, ""),
    ],
)
def test_where_a_run_begins(finished: dict, begun: dict | None, table: dict, resume: bool, reason: str) -> None:  # type: ignore[type-arg]
    start = decide_start(CheckpointState(finished, begun), table)
    assert (start.resume, start.positions) == (resume, table)
    assert reason in start.reason


def test_without_a_checkpoint_the_table_says_where() -> None:
    assert decide_start(None, at(p0=4)).positions == at(p0=4)


def test_a_group_ahead_of_the_table_is_reported_and_one_behind_is_not() -> None:
    assert group_disagreement({TopicPartition("t", 0): 4}, at(p0=5)) == ""
    assert "the first t-0 (6, the table 5)" in group_disagreement({TopicPartition("t", 0): 6}, at(p0=5))
