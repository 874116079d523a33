"""The wheel expires what is due, never early, and forgets what was cancelled."""

from barnabas_purgatory.core.timing_wheel import TimerTask, TimingWheel


def test_a_task_expires_at_its_deadline_and_not_one_tick_before() -> None:
    wheel = TimingWheel(now_ms=1_000)
    task = TimerTask(1_005)
    wheel.add(task)
    assert wheel.advance(1_004, 1_000) == []
    assert wheel.advance(1_005, 1_000) == [task]
    assert wheel.advance(2_000, 1_000) == []


def test_a_deadline_that_has_passed_expires_at_the_next_advance() -> None:
    wheel = TimingWheel(now_ms=1_000)
    task = TimerTask(10)
    wheel.add(task)
    assert wheel.next_deadline_ms() == 1_000
    assert wheel.advance(1_000, 1_000) == [task]


def test_far_deadlines_get_overflow_levels_and_come_out_in_order() -> None:
    wheel = TimingWheel(now_ms=250)
    tasks = [TimerTask(deadline_ms) for deadline_ms in (2**45, 30_000, 257, 65_536, 255, 70_000, 2**32 + 250)]
    for task in tasks:
        wheel.add(task)
    expired = wheel.advance(2**46, 1_000)
    assert [task.deadline_ms for task in expired] == [255, 257, 30_000, 65_536, 70_000, 2**32 + 250, 2**45]
    assert len(wheel) == 0


def test_tasks_of_one_millisecond_expire_in_the_order_they_came() -> None:
    wheel = TimingWheel(now_ms=0)
    tasks = [TimerTask(700) for _ in range(5)]
    for task in tasks:
        wheel.add(task)
    assert wheel.advance(700, 1_000) == tasks


def test_a_cancelled_task_never_expires_and_leaves_no_deadline_behind() -> None:
    wheel = TimingWheel(now_ms=0)
    kept, cancelled = TimerTask(40_000), TimerTask(40_000)
    wheel.add(kept)
    wheel.add(cancelled)
    assert wheel.cancel(cancelled)
    assert not wheel.cancel(cancelled)
    assert len(wheel) == 1
    assert wheel.advance(50_000, 1_000) == [kept]
    assert not wheel.cancel(kept)
    assert wheel.next_deadline_ms() is None


def test_a_cancelled_task_may_be_added_again() -> None:
    wheel = TimingWheel(now_ms=0)
    task = TimerTask(300)
    wheel.add(task)
    wheel.cancel(task)
    task.deadline_ms = 900
    wheel.add(task)
    assert wheel.advance(899, 1_000) == []
    assert wheel.advance(900, 1_000) == [task]


def test_following_next_deadline_reaches_every_task_on_time() -> None:
    wheel = TimingWheel(now_ms=0)
    for deadline_ms in (3, 255, 256, 1_000, 66_000):
        wheel.add(TimerTask(deadline_ms))
    seen = []
    turns = 0
    while (next_ms := wheel.next_deadline_ms()) is not None:
        turns += 1
        seen += [(next_ms, task.deadline_ms) for task in wheel.advance(next_ms, 1_000)]
    assert seen == [(3, 3), (255, 255), (256, 256), (1_000, 1_000), (66_000, 66_000)]
    assert turns <= 10
