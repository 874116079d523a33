"""The check of a word count: what it must find, and what it must not."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.faults.streams.counting import Wrong, check

SENT = Counter({"a": 3, "b": 1})
RIGHT = [("a", 1), ("b", 1), ("a", 2), ("a", 3)]


def test_every_count_once_and_in_order_is_right() -> None:
    assert not check(SENT, RIGHT).any


@pytest.mark.parametrize(
    ("counts", "wrong"),
    [
        ([("a", 1), ("a", 2), ("a", 3)], Wrong(missing=1, doubled=0, out_of_order=0, too_many=0)),
        ([*RIGHT, ("a", 3)], Wrong(missing=0, doubled=1, out_of_order=0, too_many=0)),
        ([*RIGHT, ("a", 4)], Wrong(missing=0, doubled=0, out_of_order=0, too_many=1)),
        ([("b", 1), ("a", 1), ("a", 3)], Wrong(missing=0, doubled=0, out_of_order=1, too_many=0)),
        ([*RIGHT, ("c", 1)], Wrong(missing=0, doubled=0, out_of_order=0, too_many=1)),
        ([], Wrong(missing=4, doubled=0, out_of_order=0, too_many=0)),
    ],
)
def test_each_deviation_is_found(counts: list[tuple[str, int]], wrong: Wrong) -> None:
    assert check(SENT, counts) == wrong
