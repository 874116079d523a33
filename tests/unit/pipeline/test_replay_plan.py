"""Order, partitions and resumption of a replay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_pipeline.core.errors import WrongOption
from barnabas_pipeline.core.replay import (
    Pace,
    ReplayError,
    ReplayState,
    Resumption,
    SourceRecord,
    in_order,
    murmur2,
    partition_by_key,
    read_state,
    replay_job,
)
from tests.tiers import Cost, examples


def record(partition: int, offset: int, time_ms: int, key: bytes | None = b"k") -> SourceRecord:
    return SourceRecord(partition, offset, time_ms, key, b"v%d" % offset, ())


@pytest.mark.parametrize(
    ("key", "number"),
    # org.apache.kafka.common.utils.UtilsTest.testMurmur2
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, number: int) -> None:
    assert murmur2(key) == number % (1 << 32)


def test_records_without_a_key_stay_together() -> None:
    assert {partition_by_key(record(5, offset, 0, None), 3) for offset in range(9)} == {2}


@examples(Cost.HIGH)
@given(st.lists(st.lists(st.integers(1, 50), max_size=8), min_size=1, max_size=4))
def test_each_partition_keeps_its_order(times: list[list[int]]) -> None:
    partitions = {
        number: [record(number, offset, time_ms) for offset, time_ms in enumerate(each)]
        for number, each in enumerate(times)
    }
    ordered = list(in_order(partitions))
    for number, records in partitions.items():
        assert [each for each in ordered if each.partition == number] == records


def test_between_partitions_the_oldest_is_next() -> None:
    ordered = in_order({0: [record(0, 0, 10), record(0, 1, 30)], 1: [record(1, 0, 20), record(1, 1, 40)]})
    assert [each.timestamp_ms for each in ordered] == [10, 20, 30, 40]


def test_a_run_goes_on_behind_what_the_target_has() -> None:
    records = [record(0, offset, offset) for offset in range(4)]
    resumption = Resumption({0: 2}, {0: records[1]})
    assert [resumption.is_there(0, each) for each in records] == [True, True, False, False]


def test_a_target_that_someone_else_wrote_to_is_refused() -> None:
    resumption = Resumption({0: 1}, {0: record(0, 7, 1)})
    with pytest.raises(ReplayError, match="another program wrote to it, or the source changed"):
        resumption.is_there(0, record(0, 0, 1))


def test_a_source_that_has_fewer_records_than_the_target_is_refused() -> None:
    """The record to hold against the target's last never came: all counted as there, and the rest as replayed."""
    resumption = Resumption({0: 3, 1: 1}, {0: record(0, 2, 2), 1: record(1, 0, 0)})
    assert [resumption.is_there(part, record(part, 0, 0)) for part in (0, 1)] == [True, True]
    with pytest.raises(ReplayError, match=r"partition 0 of the target has 3 records of this replay, .* only 1 for it"):
        resumption.check_all_seen()
    assert resumption.is_there(0, record(0, 1, 1))
    assert resumption.is_there(0, record(0, 2, 2))
    resumption.check_all_seen()


def test_a_source_that_lost_its_first_records_is_refused() -> None:
    state = ReplayState("identity", "id", "source", {}, {0: 5, 1: 7}, {0: 9, 1: 7})
    state.check_source({0: 5})  # the other had none
    state.check_source({0: 4, 1: 9})
    with pytest.raises(ReplayError, match="partition 0 of the source has lost its records 5 to 7 since"):
        state.check_source({0: 8})
    with pytest.raises(ReplayError, match="partition 0 of the source was removed"):
        state.check_source({})


def test_the_pace() -> None:
    pace = Pace(10)
    assert pace.wait_ms(1000) == 0
    pace.sent = 5
    assert pace.wait_ms(1200) == 300
    assert pace.wait_ms(2000) == 0
    assert Pace(0, sent=10**9).wait_ms(0) == 0


def sent_within(pace: Pace, since_ms: int, until_ms: int) -> int:
    """How many records go out, by a clock that only waiting moves."""
    now_ms, before = since_ms, pace.sent
    while (now_ms := now_ms + pace.wait_ms(now_ms)) < until_ms:
        pace.sent += 1
    return pace.sent - before


def test_the_pace_does_not_make_up_for_what_was_passed_over_or_stalled() -> None:
    """A run that went on was ahead by all that was there already, and a stalled one by its stall: thousands at once."""
    pace = Pace(100)
    assert sent_within(pace, 60_000, 61_000) == 100
    assert pace.per_second(61_000) == 100
    assert sent_within(pace, 121_000, 122_000) == 100
    assert sent_within(pace, 122_500, 123_000) == 100  # half a second late: made up for
    assert sent_within(pace, 123_000, 124_000) == 100


def test_the_state_is_read_as_it_was_written() -> None:
    state = ReplayState("identity", "id", "source", {0: 1}, {0: 0, 1: 1}, {0: 2, 1: 3})
    assert read_state(state.document(), "f") == state
    for damaged in ("", "[]", "{}", state.document()[:-2], '{"starts": 3}'):
        with pytest.raises(ReplayError, match="f is not the state of a replay, or is damaged"):
            read_state(damaged, "f")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "target, the topic to write to, is required"),
        ({"target": "t"}, "a table or a source_topic is required"),
        ({"target": "t", "source_topic": "t"}, "into itself"),
        ({"target": "t", "table": "x", "rate": -1}, "at least 0"),
        ({"target": "t", "table": "x", "since_ms": 2, "until_ms": 1}, "since is after until"),
        ({"target": "t", "table": "x", "format": "orc"}, r"Invalid enum value 'orc' - at `\$.format`"),
        ({"target": "t", "tabel": "x"}, "unknown field `tabel`"),
    ],
)
def test_wrong_options_are_reported(values: dict[str, object], reason: str) -> None:
    with pytest.raises(WrongOption, match=reason):
        replay_job(values)
