"""BusyPoll: when a loop polls instead of sleeping, when it stops, and where it may."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.runtime.loop.busy_poll import BusyPoll, is_busy_polling_allowed

US = 1_000
EVENT = [(7, 1)]


class Kernel:
    """A clock, and the input that comes at moments of it."""

    def __init__(self, *, gives_way_us: int = 1, is_allowed: bool = True) -> None:
        self.now_ns = 1
        self.input_ns = 0
        self.questions = 0
        self.slept = 0
        self._gives_way_us = gives_way_us
        self.busy_poll = BusyPoll(is_allowed=is_allowed, give_way=self.give_way, now_ns=lambda: self.now_ns)

    def poll(self, timeout: float | None, _events_max: int) -> list[tuple[int, int]]:
        self.questions += 1
        if timeout == 0.0:
            self.now_ns += US // 2
            return EVENT if self.now_ns >= self.input_ns else []
        self.slept += 1
        until_ns = self.input_ns if timeout is None else min(self.input_ns, self.now_ns + int(timeout * 1e9))
        self.now_ns = max(self.now_ns, until_ns)
        return EVENT if self.now_ns >= self.input_ns else []

    def give_way(self) -> None:
        self.now_ns += self._gives_way_us * US

    def wait(self, input_after_us: int, until_after_us: int | None = None) -> bool:
        """Wait for input that comes so much later; return whether the loop slept."""
        self.input_ns = self.now_ns + input_after_us * US
        until_ns = 0 if until_after_us is None else self.now_ns + until_after_us * US
        slept = self.slept
        events = self.busy_poll.wait(self.poll, self.now_ns, until_ns)
        assert (events == EVENT) == (until_after_us is None or input_after_us <= until_after_us)
        return self.slept > slept


def test_a_loop_whose_waits_are_short_polls() -> None:
    kernel = Kernel()
    assert [kernel.wait(30) for _ in range(10)] == [True] * 8 + [False] * 2
    kernel.questions = 0
    assert not kernel.wait(30)
    assert 10 < kernel.questions <= 60


def test_a_loop_whose_waits_are_long_sleeps_and_asks_once() -> None:
    kernel = Kernel()
    assert all(kernel.wait(500) for _ in range(100))
    assert kernel.questions == 100


@pytest.mark.parametrize("long_us", [150, 5_000])
def test_polling_ends_where_input_comes_later_than_it_is_polled_for(long_us: int) -> None:
    kernel = Kernel()
    for _ in range(50):
        kernel.wait(30)
    began_ns = kernel.now_ns
    kernel.questions = 0
    slept = [kernel.wait(long_us) for _ in range(6)]
    assert slept == [True] * 6
    assert kernel.now_ns - began_ns < 6 * long_us * US + 20 * US, "no wait is longer by polling"
    polled = kernel.questions - 6
    assert polled <= 3 * 80, "three waits in vain, at most"


def test_one_long_wait_among_short_ones_does_not_end_polling() -> None:
    kernel = Kernel()
    for _ in range(50):
        kernel.wait(30)
    for _ in range(20):
        assert kernel.wait(3_000)
        assert not any(kernel.wait(30) for _ in range(8))


def test_a_process_that_others_keep_from_its_processor_sleeps() -> None:
    """Polling, it would see its input when the others stop; sleeping, it is woken."""
    kernel = Kernel(gives_way_us=1_000)
    for _ in range(8):
        kernel.wait(30)
    kernel.questions = 0
    slept = [kernel.wait(2_000) for _ in range(20)]
    assert slept == [True] * 20
    assert kernel.questions <= 22


def test_a_client_that_has_its_turn_on_the_same_processor_does_not_end_polling() -> None:
    """It takes an answer and sends the next request, which is what the loop waits for."""
    kernel = Kernel(gives_way_us=40)
    for _ in range(8):
        kernel.wait(60)
    assert not any(kernel.wait(60) for _ in range(50))


def test_the_next_timer_ends_a_wait_that_polls() -> None:
    kernel = Kernel()
    for _ in range(20):
        kernel.wait(30)
    began_ns = kernel.now_ns
    kernel.wait(60, until_after_us=10)
    assert kernel.now_ns - began_ns <= 12 * US


def test_where_it_is_not_allowed_each_wait_asks_once() -> None:
    kernel = Kernel(is_allowed=False)
    assert all(kernel.wait(30) for _ in range(100))
    assert kernel.questions == 100


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hierarchy in which this process, with four processors, is in /pods/one."""
    monkeypatch.delenv("BARNABAS_BUSY_POLL", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    (tmp_path / "own").write_text("4:memory:/else\n0::/pods/one\n")
    (tmp_path / "fs/pods/one").mkdir(parents=True)
    return tmp_path


def _is_allowed(cgroups: Path) -> bool:
    return is_busy_polling_allowed(cgroups / "fs", cgroups / "own")


def test_it_is_allowed_with_two_processors_that_nothing_limits(cgroups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _is_allowed(cgroups)
    (cgroups / "fs/pods/one/cpu.max").write_text("max 100000\n")
    assert _is_allowed(cgroups)
    (cgroups / "own").unlink()
    assert _is_allowed(cgroups)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert not _is_allowed(cgroups)


@pytest.mark.parametrize("group", ["fs", "fs/pods", "fs/pods/one"])
def test_it_is_not_allowed_to_a_group_with_less_than_two_processors(cgroups: Path, group: str) -> None:
    limit = cgroups / group / "cpu.max"
    limit.write_text("200000 100000\n")
    assert _is_allowed(cgroups)
    limit.write_text("150000 100000\n")
    assert not _is_allowed(cgroups)


def test_the_environment_switches_it_off(cgroups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_BUSY_POLL", "off")
    assert not _is_allowed(cgroups)
    monkeypatch.setenv("BARNABAS_BUSY_POLL", "on")
    assert _is_allowed(cgroups)
