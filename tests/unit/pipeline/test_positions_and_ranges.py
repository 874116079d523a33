from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_pipeline.core.positions import (
    MalformedPositions,
    TopicPartition,
    TopicPositions,
    each_offset,
    from_dict,
    to_dict,
)
from barnabas_pipeline.core.ranges import OffsetRange, ranges_between, split_ranges

names = st.sampled_from(["a", "b", "orders"])
positions = st.dictionaries(
    names,
    st.builds(
        TopicPositions,
        st.sampled_from(["", "JmEXb4Q3S0yLrxLOBtXlYw"]),
        st.dictionaries(st.integers(0, 20), st.integers(0, 2**63 - 1)),
    ),
)


@given(positions)
def test_positions_survive_a_checkpoint(before: dict[str, TopicPositions]) -> None:
    assert from_dict(json.loads(json.dumps(to_dict(before)))) == before


@pytest.mark.parametrize(
    "document", [{"orders": {"0": 42}}, {"orders": 1}, {"orders": {"id": "", "offsets": {"x": 1}}}, []]
)
def test_a_dict_of_another_source_is_reported_in_one_sentence(document: dict[str, object]) -> None:
    with pytest.raises(MalformedPositions, match="checkpoint another source's"):
        from_dict(document)


def test_offsets_come_sorted() -> None:
    here = {"b": TopicPositions("", {1: 5}), "a": TopicPositions("", {10: 1, 2: 0})}
    assert list(each_offset(here)) == [
        (TopicPartition("a", 2), 0),
        (TopicPartition("a", 10), 1),
        (TopicPartition("b", 1), 5),
    ]


def test_between_positions_lie_ranges_of_what_has_grown() -> None:
    start = {"a": TopicPositions("x", {0: 5, 1: 7})}
    end = {"a": TopicPositions("x", {0: 9, 1: 8}), "b": TopicPositions("y", {})}
    assert ranges_between(start, end) == [OffsetRange("a", "x", 0, 5, 9), OffsetRange("a", "x", 1, 7, 8)]


def test_what_is_new_is_not_read_in_the_batch_that_it_appears_in() -> None:
    start = {"a": TopicPositions("x", {0: 5}), "b": TopicPositions("old", {0: 5})}
    end = {
        "a": TopicPositions("x", {0: 5, 1: 300}),
        "b": TopicPositions("new", {0: 9}),
        "c": TopicPositions("z", {0: 7}),
    }
    assert ranges_between(start, end) == []
    assert ranges_between(end, end | {"c": TopicPositions("z", {0: 9})}) == [OffsetRange("c", "z", 0, 7, 9)]


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=6), st.integers(1, 40))
def test_pieces_cover_their_range_and_nothing_else(sizes: list[int], parts_min: int) -> None:
    whole = [OffsetRange("t", "", partition, 100, 100 + size) for partition, size in enumerate(sizes)]
    pieces = split_ranges(whole, parts_min)
    assert len(pieces) == max(len(whole), min(parts_min, sum(sizes)))
    for each in whole:
        mine = [piece for piece in pieces if piece.partition == each.partition]
        assert (mine[0].start, mine[-1].end) == (each.start, each.end)
        assert all(left.end == right.start for left, right in itertools.pairwise(mine))
        assert max(piece.size for piece in mine) - min(piece.size for piece in mine) <= 1
        assert all(piece.size > 0 for piece in mine)


def test_the_largest_range_gets_the_most_pieces() -> None:
    pieces = split_ranges([OffsetRange("t", "", 0, 0, 900), OffsetRange("t", "", 1, 0, 100)], 5)
    assert [piece.partition for piece in pieces] == [0, 0, 0, 0, 1]
