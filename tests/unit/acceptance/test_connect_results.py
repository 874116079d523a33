"""What is wrong with what Kafka Connect has delivered, and which kills prove nothing."""

from __future__ import annotations

import pytest

from tests.acceptance.suites.connect_results import (
    Delivered,
    Kill,
    offsets_after,
    parse_lines,
    problems_of_kills,
    problems_of_numbers,
    problems_of_order,
    problems_of_repetition,
    problems_of_settings,
    problems_of_sink,
)

RIGHT = [Delivered(0, 0, 0), Delivered(1, 0, 1), Delivered(2, 0, 2), Delivered(0, 2, 3), Delivered(1, 2, 4)]
KILLS = [Kill(1300, 1250), Kill(2600, 2500)]


def test_each_number_once_and_in_order_is_right() -> None:
    assert problems_of_numbers(RIGHT, range(5)) == []
    assert problems_of_order(RIGHT, range(5)) == []


def test_a_number_that_is_missing_or_doubled_is_named() -> None:
    assert problems_of_numbers(RIGHT[:4], range(5)) == ["1 records missing: 4"]
    assert problems_of_numbers([*RIGHT, Delivered(1, 3, 1)], range(5)) == ["1 records too many: 1"]


def test_a_number_that_was_to_be_written_twice_must_be_there_twice() -> None:
    again = [*RIGHT, Delivered(0, 3, 3), Delivered(1, 3, 4)]
    expected = [*range(5), 3, 4]
    assert problems_of_numbers(again, expected) == []
    assert problems_of_order(again, expected) == []
    assert problems_of_numbers(RIGHT, expected) == ["2 records missing: 3, 4"]


def test_a_record_before_an_earlier_one_is_out_of_order() -> None:
    swapped = [Delivered(0, 0, 3), Delivered(0, 1, 0), *RIGHT[1:3], RIGHT[4]]
    assert problems_of_numbers(swapped, range(5)) == []
    assert problems_of_order(swapped, range(5)) == ["partition 0: record 0 is 3 instead of 0"]


def test_a_record_of_another_partition_is_out_of_order() -> None:
    assert problems_of_order([*RIGHT[:4], Delivered(2, 2, 4)], range(5)) == [
        "partition 1: 1 records instead of 2",
        "partition 2: 2 records instead of 1",
    ]


def test_kills_that_met_a_transaction_as_records_were_written_are_a_proof() -> None:
    assert problems_of_kills(KILLS, 2, 50, 5000) == []


@pytest.mark.parametrize(
    ("kills", "aborted", "records", "problem"),
    [
        (KILLS[:1], 50, 5000, "1 kills instead of 2"),
        ([], 50, 5000, "0 kills instead of 2"),
        (KILLS, 0, 5000, "no kill met an open transaction that had records"),
        (KILLS, 50, 1300, "all records were written before the first kill"),
    ],
)
def test_other_kills_prove_nothing(kills: list[Kill], aborted: int, records: int, problem: str) -> None:
    assert problems_of_kills(kills, 2, aborted, records) == [problem]


def test_a_sink_may_write_again_but_leave_nothing_out() -> None:
    assert problems_of_sink([*RIGHT, RIGHT[0]], RIGHT) == []
    assert problems_of_sink(RIGHT[1:], RIGHT) == ["1 records not written: 0"]


def test_a_sink_must_not_write_what_was_aborted() -> None:
    assert problems_of_sink([*RIGHT, Delivered(2, 1, 5)], RIGHT) == ["1 records written and not committed: 5"]


def test_a_sink_writes_again_what_it_was_sent_back_to_and_nothing_else() -> None:
    assert problems_of_repetition(RIGHT, [*RIGHT, RIGHT[3]], [RIGHT[3]]) == []
    assert problems_of_repetition(RIGHT, RIGHT, [RIGHT[3]]) == ["1 records not written again: 3"]
    assert problems_of_repetition(RIGHT, [*RIGHT, RIGHT[3], RIGHT[4]], [RIGHT[3]]) == ["1 records written again: 4"]


def test_a_setting_that_is_another_or_missing_is_named() -> None:
    asked = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
    assert problems_of_settings("configs", {**asked, "retention.ms": "1"}, asked) == []
    assert problems_of_settings("configs", {"cleanup.policy": "delete"}, asked) == [
        "configs: cleanup.policy is delete instead of compact",
        "configs: min.insync.replicas is None instead of 2",
    ]


def test_the_sinks_lines_are_read() -> None:
    assert parse_lines("\n0 0 0 end\n2 17 5 end\n") == [Delivered(0, 0, 0), Delivered(2, 17, 5)]


@pytest.mark.parametrize("torn", ["2 17", "2 17 5", "2 17 5 en"])
def test_a_torn_line_is_no_record(torn: str) -> None:
    assert parse_lines(f"0 0 0 end\n{torn}\n1 3 7 end\n{torn}") == [Delivered(0, 0, 0), Delivered(1, 3, 7)]


def test_offsets_are_those_after_the_last_records() -> None:
    assert offsets_after(RIGHT) == {0: 3, 1: 3, 2: 1}
