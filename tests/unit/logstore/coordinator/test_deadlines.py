"""Deadlines come when they are due, wherever they have been moved meanwhile, and cost no memory when they are gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.containment import Place
from barnabas_logstore.core.coordinator.runtime.timers import Deadline, Timers
from barnabas_logstore.core.replica.containment import COORDINATOR_STATE

move = st.tuples(st.integers(0, 4), st.none() | st.integers(0, 60))


@given(st.lists(st.tuples(st.lists(move, max_size=4), st.integers(0, 20)), max_size=20))
def test_each_comes_once_in_the_step_that_it_is_due_in(steps: list[tuple[list[tuple[int, int | None]], int]]) -> None:
    deadlines = Timers()
    come: list[int] = []
    each = [Deadline(lambda number=number: come.append(number)) for number in range(5)]  # type: ignore[misc]
    expected: dict[int, int] = {}
    now_ms = 0
    for moves, passes_ms in steps:
        for number, in_ms in moves:
            if in_ms is None:
                deadlines.cancel(each[number])
                expected.pop(number, None)
            else:
                deadlines.set(each[number], now_ms + in_ms)
                expected[number] = now_ms + in_ms
        assert len(deadlines) == len(expected)
        now_ms += passes_ms
        deadlines.act(now_ms)
        due = {number for number, at_ms in expected.items() if at_ms <= now_ms}
        assert sorted(come) == sorted(due)
        come.clear()
        expected = {number: at_ms for number, at_ms in expected.items() if number not in due}
        next_ms = deadlines.next_ms()
        assert not expected or (next_ms is not None and next_ms <= min(expected.values()))


def test_what_is_cancelled_does_not_pile_up() -> None:
    deadlines = Timers()
    kept = Deadline(lambda: None)
    deadlines.set(kept, 1_000_000)
    for number in range(10_000):
        gone = Deadline(lambda: None)
        deadlines.set(gone, 2_000_000 + number)
        deadlines.set(gone, 1_500_000)
        deadlines.cancel(gone)
    assert len(deadlines._heap) < 200
    assert deadlines.next_ms() is not None
    deadlines.act(1_000_000)
    assert len(deadlines) == 0


def test_what_happens_may_set_and_cancel_others() -> None:
    deadlines = Timers()
    come: list[str] = []
    third = Deadline(lambda: come.append("third"))
    second = Deadline(lambda: come.append("second"))

    def first() -> None:
        come.append("first")
        deadlines.cancel(second)
        deadlines.set(third, 5)

    deadlines.set(Deadline(first), 1)
    deadlines.set(second, 2)
    deadlines.act(10)
    assert come == ["first", "third"]


class OwnerInDoubt:
    def __init__(self) -> None:
        self.doubts: list[Exception] = []

    def state_in_doubt(self, place: Place, error: Exception) -> None:
        assert place is COORDINATOR_STATE
        self.doubts.append(error)


def test_an_action_that_ends_its_own_deadline_and_fails_leaves_its_owner_in_doubt() -> None:
    """It had no owner any more when its exception came, which ended the process."""
    deadlines, owner, come = Timers(), OwnerInDoubt(), list[str]()

    def end_and_fail() -> None:
        deadlines.end(first)
        raise LookupError("planted")

    first = Deadline(end_and_fail, owner)
    deadlines.set(first, 10)
    deadlines.set(Deadline(lambda: come.append("second")), 10)
    deadlines.act(10)
    assert [str(each) for each in owner.doubts] == ["planted"]
    assert come == ["second"]
