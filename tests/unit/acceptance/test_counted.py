"""What is wrong with the results of a stream processor that counts."""

from __future__ import annotations

from tests.acceptance.suites.counted import Counted, problems_of_records, problems_of_state

RIGHT = [Counted("a", 0, 1), Counted("b", 1, 1), Counted("a", 2, 2)]


def test_each_record_once_and_counts_without_a_gap_are_right() -> None:
    assert problems_of_records(RIGHT, 3) == []
    assert problems_of_state(RIGHT) == []


def test_a_record_that_was_not_counted_is_named() -> None:
    assert problems_of_records(RIGHT[:2], 3) == ["1 records not counted: 2"]


def test_a_record_that_was_counted_twice_is_named() -> None:
    assert problems_of_records([*RIGHT, Counted("a", 2, 3)], 3) == ["1 records counted more than once: 2"]


def test_a_record_that_was_not_written_is_named() -> None:
    assert problems_of_records([*RIGHT, Counted("a", 7, 3)], 3) == ["1 records never written: 7"]


def test_of_many_records_the_first_are_named() -> None:
    assert problems_of_records([], 9) == ["9 records not counted: 0, 1, 2, 3, 4, …"]


def test_a_count_from_before_the_kill_is_seen() -> None:
    assert problems_of_state([*RIGHT, Counted("a", 3, 2)]) == ["a: the count of its result 3 is 2"]


def test_a_count_that_begins_again_is_seen() -> None:
    assert problems_of_state([*RIGHT, Counted("b", 3, 1)]) == ["b: the count of its result 2 is 1"]


def test_a_count_of_an_aborted_transaction_is_seen() -> None:
    assert problems_of_state([Counted("a", 0, 1), Counted("a", 1, 3)]) == ["a: the count of its result 2 is 3"]


def test_no_result_is_no_proof() -> None:
    assert problems_of_state([]) == ["no key has a count"]
