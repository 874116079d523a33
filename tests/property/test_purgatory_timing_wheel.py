"""The wheel agrees with a sorted list under any mix of adds, cancels and jumps of time."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas_purgatory.core.timing_wheel import TimerTask, TimingWheel
from tests.tiers import Cost, examples

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(-300, 3_000_000)),
        st.tuples(st.just("add"), st.integers(0, 300)),
        st.tuples(st.just("cancel"), st.integers(0, 200)),
        st.tuples(st.just("advance"), st.sampled_from([0, 1, 2, 19, 255, 256, 257, 4_096, 65_536, 1_000_000])),
    ),
    max_size=60,
)


@examples(Cost.LOW)
@given(start_ms=st.integers(0, 2**34), steps=STEPS)
def test_the_wheel_expires_exactly_what_is_due(start_ms: int, steps: list[tuple[str, int]]) -> None:
    wheel = TimingWheel(start_ms)
    waiting: list[TimerTask] = []
    now_ms = start_ms
    for step, value in steps:
        match step:
            case "add":
                task = TimerTask(now_ms + value)
                wheel.add(task)
                waiting.append(task)
            case "cancel" if waiting:
                assert wheel.cancel(waiting.pop(value % len(waiting)))
            case "advance":
                now_ms += value
                next_ms = wheel.next_deadline_ms()
                expired = wheel.advance(now_ms, 1_000)
                due = [task for task in waiting if task.deadline_ms <= now_ms]
                assert set(map(id, expired)) == set(map(id, due))
                assert len(expired) == len(due)
                late = [task.deadline_ms for task in expired if task.deadline_ms > now_ms - value]
                assert late == sorted(late)
                assert next_ms is None or not due or next_ms <= max(now_ms - value, min(t.deadline_ms for t in due))
                waiting = [task for task in waiting if task.deadline_ms > now_ms]
        assert len(wheel) == len(waiting)
        assert (wheel.next_deadline_ms() is None) == (not waiting)
