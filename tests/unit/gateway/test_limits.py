"""Deadlines, connection limits, the memory of fetches, names of topics."""

from __future__ import annotations

import pytest

from barnabas.wire.topic_names import is_legal_topic_name
from barnabas_gateway.core.backends.fetch_memory import FetchMemory
from barnabas_gateway.core.connections.admission import Admission, ConnectionQuota
from barnabas_gateway.core.model.deadlines import BUCKET_MS, Deadlines


class Timer:
    def __init__(self, deadlines: Deadlines, again_ms: int = 0) -> None:
        self.deadline_bucket = -1
        self.fired_ms: list[int] = []
        self._deadlines = deadlines
        self._again_ms = again_ms

    def expire(self, now_ms: int) -> None:
        self.fired_ms.append(now_ms)
        if self._again_ms and len(self.fired_ms) < 3:
            self._deadlines.schedule(self, now_ms + self._again_ms)


@pytest.mark.parametrize("deadline_ms", [0, 1, 7, 8, 9, 1000, 1001])
def test_a_deadline_is_never_early_and_a_bucket_late_at_most(deadline_ms: int) -> None:
    deadlines = Deadlines()
    timer = Timer(deadlines)
    deadlines.schedule(timer, deadline_ms)
    due_ms = deadlines.next_deadline_ms()
    assert due_ms is not None
    assert deadline_ms <= due_ms <= deadline_ms + BUCKET_MS
    deadlines.expire(due_ms - 1)
    assert not timer.fired_ms
    deadlines.expire(due_ms)
    assert timer.fired_ms == [due_ms]
    assert deadlines.next_deadline_ms() is None


def test_removed_and_moved_deadlines() -> None:
    deadlines = Deadlines()
    removed, moved = Timer(deadlines), Timer(deadlines)
    deadlines.schedule(removed, 100)
    deadlines.schedule(moved, 100)
    deadlines.unschedule(removed)
    deadlines.unschedule(removed)
    deadlines.schedule(moved, 500)
    deadlines.expire(200)
    assert not removed.fired_ms
    assert not moved.fired_ms
    deadlines.expire(600)
    assert moved.fired_ms == [600]


def test_a_deadline_may_set_itself_again() -> None:
    deadlines = Deadlines()
    timer = Timer(deadlines, again_ms=1)
    deadlines.schedule(timer, 10)
    for now_ms in range(0, 100, BUCKET_MS):
        deadlines.expire(now_ms)
    assert timer.fired_ms == [16, 24, 32]


def test_deadlines_come_in_order() -> None:
    deadlines = Deadlines()
    fired: list[str] = []

    class Named(Timer):
        def __init__(self, name: str) -> None:
            super().__init__(deadlines)
            self.name = name

        def expire(self, now_ms: int) -> None:
            fired.append(self.name)

    for name, deadline_ms in (("late", 300), ("early", 100), ("same a", 200), ("same b", 200)):
        deadlines.schedule(Named(name), deadline_ms)
    deadlines.expire(1000)
    assert fired == ["early", "same a", "same b", "late"]


def test_connections_per_address_and_in_all() -> None:
    quota = ConnectionQuota(connections_max=3, connections_per_ip_max=2)
    assert [quota.admit("a"), quota.admit("a")] == [Admission.ADMITTED] * 2
    assert quota.admit("a") is Admission.TOO_MANY_FROM_ADDRESS
    assert not quota.is_full()
    assert quota.admit("b") is Admission.ADMITTED
    assert quota.is_full()
    quota.release("a")
    assert not quota.is_full()
    assert quota.admit("a") is Admission.ADMITTED


class Holder:
    reserved_bytes = 0


def test_fetch_memory_lets_one_pass_that_is_larger_than_all_of_it() -> None:
    memory = FetchMemory(100)
    first, second, third = Holder(), Holder(), Holder()
    assert memory.try_reserve(first, 500)
    assert not memory.try_reserve(second, 1)
    memory.resize(first, 20)
    assert memory.try_reserve(second, 80)
    assert not memory.try_reserve(third, 1)
    for _ in range(2):
        memory.release(first)
        memory.release(second)
    assert (memory.reserved_bytes, first.reserved_bytes, third.reserved_bytes) == (0, 0, 0)
    memory.unsent_bytes = 101
    assert not memory.try_reserve(third, 1)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "__consumer_offsets", "x" * 249, "..."])
def test_legal_names(name: str) -> None:
    assert is_legal_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\n", "é", "x" * 250])
def test_illegal_names(name: str) -> None:
    assert not is_legal_topic_name(name)
