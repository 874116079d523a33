"""The checker of groups finds every planted anomaly under its name, and nothing in clean histories."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.faults.groups.check import Wrong, check_group
from tests.faults.groups.clean_history import clean_group
from tests.faults.groups.consumer import generation_of
from tests.faults.groups.history import GroupEvent, GroupRecorder, What, read_group
from tests.faults.groups.planted import PLANTS, GroupPlot
from tests.tiers import Cost, examples

seeds = st.integers(0, 1 << 32)


@given(seed=seeds, steps=st.integers(1, 400), partitions=st.integers(1, 5), members=st.integers(1, 4))
@examples(Cost.HIGH)
def test_a_clean_history_is_clean(seed: int, steps: int, partitions: int, members: int) -> None:
    group = clean_group(seed, steps, partitions, members)
    verdict = check_group(group.events, group.log)
    assert verdict.is_clean, str(verdict)
    assert verdict.figures.reads == verdict.figures.records + verdict.figures.again


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
@given(seed=seeds, steps=st.integers(100, 400), partitions=st.integers(1, 4), members=st.integers(2, 4))
@examples(Cost.VERY_HIGH)
def test_a_planted_anomaly_is_found_and_named(
    plant: Callable[[GroupPlot], bool], seed: int, steps: int, partitions: int, members: int
) -> None:
    group = clean_group(seed, steps, partitions, members)
    plot = GroupPlot(random.Random(seed), group.events, group.log)
    assume(plant(plot))
    verdict = check_group(plot.events, plot.log)
    assert {wrong for wrong, count in verdict.counts.items() if count} == PLANTS[plant], str(verdict)
    assert not verdict.is_clean


def test_every_wrong_has_a_plant() -> None:
    assert frozenset[Wrong]().union(*PLANTS.values()) == set(Wrong)


def test_what_is_read_again_beyond_the_last_commit_is_counted_and_allowed() -> None:
    events = [
        GroupEvent("a", What.ASSIGNED, 1, generation=1, partitions=[0]),
        *(GroupEvent("a", What.READ, 2, partition=0, offset=each, value=str(each)) for each in range(3)),
        GroupEvent("a", What.COMMIT, 3, offsets={0: 1}),
        GroupEvent("a", What.COMMITTED, 4, offsets={0: 1}),
        GroupEvent("b", What.ASSIGNED, 5, generation=2, partitions=[0]),
        *(GroupEvent("b", What.READ, 6, partition=0, offset=each, value=str(each)) for each in range(1, 3)),
    ]
    verdict = check_group(events, {0: ["0", "1", "2"]})
    assert verdict.is_clean, str(verdict)
    assert verdict.figures.again == 2


def test_a_generation_that_the_client_did_not_know_is_reported_apart() -> None:
    verdict = check_group([GroupEvent("a", What.ASSIGNED, 1, generation=-1, partitions=[0])], {0: []})
    assert verdict.is_clean
    assert verdict.figures.unknown_generations == 1


def test_events_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "consumer-0-1.jsonl"
    with GroupRecorder(path, "consumer-0/1") as recorder:
        recorder.assigned(3, [1, 0])
        recorder.read(1, 7, "x")
        recorder.commit({1: 8})
        recorder.committed({1: 8})
        recorder.not_committed({0: 2}, "ILLEGAL_GENERATION")
        recorder.revoked([0, 1])
    with path.open("ab") as torn:
        torn.write(b'{"consumer":')
    events = read_group([path])
    assert [event.what for event in events] == [
        What.ASSIGNED,
        What.READ,
        What.COMMIT,
        What.COMMITTED,
        What.NOT_COMMITTED,
        What.REVOKED,
    ]
    assert events[0].partitions == [0, 1]
    assert events[2].offsets == {1: 8}


def test_the_generation_is_in_what_librdkafka_gives_transactional_producers() -> None:
    assert generation_of(b"CGMDv2:\x07\x00\x00\x00group\x00member\x00\x01") == 7
