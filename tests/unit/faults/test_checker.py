"""The checker finds every planted anomaly under its name, and nothing in clean histories."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.faults.checker import Apart, Kind, check
from tests.faults.checker.sends import MalformedHistoryError
from tests.faults.clean_history import clean_history
from tests.faults.history import Guarantee, Operation, Type, in_order
from tests.faults.planted import PLANTS, Plot, ask_a_cut_off_leader
from tests.tiers import Cost, examples

seeds = st.integers(0, 1 << 32)


@given(seed=seeds, steps=st.integers(1, 400), partitions=st.integers(1, 5))
@examples(Cost.HIGH)
def test_a_clean_history_is_clean(seed: int, steps: int, partitions: int) -> None:
    verdict = check(clean_history(seed, steps, partitions))
    assert verdict.is_clean, str(verdict)
    assert not any(verdict.apart.values())


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
@given(seed=seeds, steps=st.integers(50, 300), partitions=st.integers(1, 4))
@examples(Cost.VERY_HIGH)
def test_a_planted_anomaly_is_found_and_named(
    plant: Callable[[Plot], bool], seed: int, steps: int, partitions: int
) -> None:
    plot = Plot(random.Random(seed), clean_history(seed, steps, partitions))
    assume(plant(plot))
    verdict = check(plot.operations)
    assert {kind for kind, count in verdict.counts.items() if count} == PLANTS[plant], str(verdict)
    assert not verdict.is_clean


def test_every_kind_has_a_plant() -> None:
    assert frozenset[Kind]().union(*PLANTS.values()) == set(Kind)


@given(seed=seeds)
@examples(Cost.VERY_HIGH)
def test_a_partition_that_no_reader_read_to_the_end_is_not_clean(seed: int) -> None:
    operations = [each for each in clean_history(seed, 100, 2) if each.f != "final" or each.partition != 1]
    verdict = check(operations)
    assert verdict.incomplete == ["partition 1 was not read to its end"]
    assert not verdict.is_clean


@given(seed=seeds)
@examples(Cost.VERY_HIGH)
def test_a_loss_with_acks_1_is_reported_apart(seed: int) -> None:
    plot = Plot(random.Random(seed), clean_history(seed, 200, 2))
    sent = plot.acknowledged(Guarantee.ACKS_1)
    assume(sent is not None)
    assert sent is not None
    plot.rewrite_polls(lambda _, reads: [read for read in reads if read[1] != sent.value])
    verdict = check(plot.operations)
    assert verdict.is_clean, str(verdict)
    assert verdict.apart[Apart.LOST_ACKS_1] == 1


@given(seed=seeds)
@examples(Cost.VERY_HIGH)
def test_an_old_end_reported_by_a_leader_that_is_cut_off_is_reported_apart(seed: int) -> None:
    plot = Plot(random.Random(seed), clean_history(seed, 200, 2))
    assume(ask_a_cut_off_leader(plot))
    verdict = check(plot.operations)
    assert verdict.is_clean, str(verdict)
    assert verdict.apart[Apart.AT_CUT_OFF_LEADER] == 1


def test_retries_without_idempotence_are_reported_apart() -> None:
    """The first is written again behind the second."""
    proc = "acks-all-0/1"
    verdict = check(
        [
            Operation(proc, Type.OK, "open", 0, value=Guarantee.ACKS_ALL),
            *sent(proc, "a", 1, offset=2),
            *sent(proc, "b", 2, offset=1),
            *read_by("final-0/1", ["a", "b", "a"]),
        ]
    )
    assert verdict.is_clean, str(verdict)
    assert verdict.apart[Apart.DUPLICATED_RETRIES] == 1


def test_an_old_attempt_that_comes_late_is_reported_apart() -> None:
    proc = "acks-all-0/1"
    verdict = check(
        [
            Operation(proc, Type.OK, "open", 0, value=Guarantee.ACKS_ALL),
            *sent(proc, "a", 1, offset=None),
            *sent(proc, "b", 2, offset=0),
            *read_by("final-0/1", ["b", "a"]),
        ]
    )
    assert verdict.is_clean, str(verdict)
    assert verdict.apart[Apart.REORDERED_RETRIES] == 1


def test_two_lives_of_a_producer_owe_each_other_no_order() -> None:
    old, new = "idempotent-0/1", "idempotent-0/2"
    verdict = check(
        [
            Operation(old, Type.OK, "open", 0, value=Guarantee.IDEMPOTENT),
            *sent(old, "a", 1, offset=1),
            Operation(new, Type.OK, "open", 3, value=Guarantee.IDEMPOTENT),
            *sent(new, "b", 4, offset=0),
            *read_by("final-0/1", ["b", "a"]),
        ]
    )
    assert verdict.is_clean, str(verdict)


def test_silences() -> None:
    """In ms: sent at 0, 10 and 50, acknowledged at 1, 11 and 90; the last answer came long after the last question."""
    proc, ms = "idempotent-0/1", 1_000_000
    operations = [Operation(proc, Type.OK, "open", 0, value=Guarantee.IDEMPOTENT)]
    for number, (asked_ms, logged_ms) in enumerate([(0, 1), (10, 11), (50, 90)]):
        value = f"t|{proc}|{number}"
        operations += [
            Operation(proc, Type.INVOKE, "send", asked_ms * ms, value=value, partition=3),
            Operation(proc, Type.OK, "send", logged_ms * ms, value=value, partition=3, offset=number),
        ]
    verdict = check(in_order(operations))
    assert verdict.figures.longest_silence_ms == {3: 79.0}
    assert verdict.silences.longest_ms(3, 12 * ms, 42 * ms) == 30.0
    assert verdict.silences.longest_of_any_ms(0, 20 * ms) == 10.0
    assert verdict.silences.longest_ms(4, 0, 20 * ms) == 20.0, "a partition that is not heard of is silent throughout"


@pytest.mark.parametrize(
    "operations",
    [
        [Operation("p/1", Type.INVOKE, "send", 1, value="a", partition=0)],
        [Operation("p/1", Type.OK, "send", 1, value="a", partition=0, offset=0)],
        [Operation("p/1", Type.OK, "consume", 1)],
        [Operation("p/1", Type.OK, "poll", 1)],
        [Operation("p/1", Type.OK, "assign", 1, partition=0)],
    ],
)
def test_what_no_recorder_writes_is_refused(operations: list[Operation]) -> None:
    with pytest.raises(MalformedHistoryError):
        check(operations)


def test_a_value_is_sent_once_and_ends_once() -> None:
    opened = Operation("p/1", Type.OK, "open", 0, value=Guarantee.IDEMPOTENT)
    invoke, ok = sent("p/1", "a", 1, offset=0)
    with pytest.raises(MalformedHistoryError, match="sent twice"):
        check([opened, invoke, ok, invoke])
    with pytest.raises(MalformedHistoryError, match="ended twice"):
        check([opened, invoke, ok, ok])


def sent(proc: str, value: str, ts: int, offset: int | None) -> list[Operation]:
    return [
        Operation(proc, Type.INVOKE, "send", ts, value=value, partition=0),
        Operation(proc, Type.OK, "send", ts, value=value, partition=0, offset=offset),
    ]


def read_by(proc: str, values: list[str]) -> list[Operation]:
    """The whole of partition 0, by one final reader."""
    return [
        Operation(proc, Type.INVOKE, "final", 100, partition=0),
        Operation(proc, Type.OK, "poll", 101, value=list(enumerate(values)), partition=0),
        Operation(proc, Type.OK, "final", 102, partition=0, offset=len(values)),
    ]
