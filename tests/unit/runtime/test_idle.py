"""Idle percents: the part of the time in which something waited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from barnabas.metrics.process_families import LOOP_LONGEST_TURN
from barnabas.metrics.request_families import PROCESSOR_IDLE
from barnabas.runtime.loop.event_loop import (
    loop_waited_ns,
    new_event_loop,
    take_longest_turn_cpu_ns,
    take_longest_turn_ns,
)
from barnabas.runtime.loop.idle import IdlePart, LongestTurn

SECOND_NS = 1_000_000_000


class Clock:
    now_ns = 0
    waited_ns = 0


def part(idle: IdlePart) -> float:
    (sample,) = idle.samples()
    assert isinstance(sample.value, float)
    return sample.value


def test_it_is_of_the_time_since_it_was_asked_last() -> None:
    clock = Clock()
    idle = IdlePart(PROCESSOR_IDLE, "0", lambda: clock.waited_ns, lambda: clock.now_ns)
    clock.now_ns, clock.waited_ns = 4 * SECOND_NS, 3 * SECOND_NS
    assert part(idle) == 0.75
    clock.now_ns += SECOND_NS
    assert part(idle) == 0.0


def test_asking_twice_in_a_second_returns_the_same() -> None:
    clock = Clock()
    idle = IdlePart(PROCESSOR_IDLE, "0", lambda: clock.waited_ns, lambda: clock.now_ns)
    clock.now_ns, clock.waited_ns = 2 * SECOND_NS, SECOND_NS
    assert part(idle) == 0.5
    clock.now_ns += 1
    assert part(idle) == 0.5


def test_a_loop_counts_what_it_waits_and_not_what_it_works() -> None:
    async def wait() -> int:
        before_ns = loop_waited_ns()
        await asyncio.sleep(0.05)
        return loop_waited_ns() - before_ns

    async def work() -> int:
        before_ns = loop_waited_ns()
        for _ in range(100):
            await asyncio.sleep(0)
        return loop_waited_ns() - before_ns

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(wait()) > 0
        assert runner.run(work()) == 0


def test_a_turn_is_what_a_loop_does_between_two_questions_to_its_selector() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        take_longest_turn_ns()
        time.sleep(0.02)  # noqa: ASYNC251 - that is the turn
        await asyncio.sleep(0)
        return take_longest_turn_ns()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(work()) >= 20_000_000


def test_a_turn_that_waits_is_long_and_uses_no_processor_time() -> None:
    async def take(work: Callable[[], object]) -> tuple[int, int]:
        await asyncio.sleep(0)
        take_longest_turn_ns(), take_longest_turn_cpu_ns()
        work()
        await asyncio.sleep(0)
        return take_longest_turn_ns(), take_longest_turn_cpu_ns()

    def compute() -> None:
        began_ns = time.thread_time_ns()
        while time.thread_time_ns() - began_ns < 20_000_000:
            pass

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        turn_ns, cpu_ns = runner.run(take(lambda: time.sleep(0.02)))
        assert cpu_ns < 20_000_000 <= turn_ns
        turn_ns, cpu_ns = runner.run(take(compute))
        assert turn_ns >= 20_000_000
        assert cpu_ns >= 20_000_000


def test_the_longest_turn_is_of_the_last_one_to_two_minutes_however_often_it_is_asked() -> None:
    clock, turns = Clock(), [70_000_000, 1_000_000, 2_000_000, 0]
    longest = LongestTurn(LOOP_LONGEST_TURN, "data", lambda: turns.pop(0), lambda: clock.now_ns)
    reported = []
    for _ in range(4):
        reported.append([sample.value for sample in longest.samples()])
        clock.now_ns += 60 * SECOND_NS
    assert reported == [[70.0], [70.0], [2.0], [2.0]]
