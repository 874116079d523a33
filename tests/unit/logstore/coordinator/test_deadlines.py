"""Deadlines come when they are due, wherever they have been moved meanwhile, and cost no memory when they are gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas_logstore.core.coordinator.runtime.timers import Deadline, Timers

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
