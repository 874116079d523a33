"""BusyPoll: how an event loop waits for input, asleep or by asking the kernel again and again.

To wake a process whose processor sleeps takes 20 to 50 µs on a virtual machine, and a request that waits for its answer
wakes a processor, a logstore and the processor again: over a third of the time of such a request. So a loop that has
nearly always waited for less than that asks again instead of sleeping, as `net.core.busy_poll` does for sockets and
halt polling for virtual machines. It stops where that is of no use: when input comes later, or another process wants
the core (docs/adr/0038-busy-polling.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns
from typing import Final

_POLLED_NS_MAX: Final = 120_000
"""In one wait, before the loop sleeps after all."""
_SHORT_SLEEP_NS: Final = 240_000
"""A wait asleep that was no longer could have been spent polling: up to 50 µs at either end are for waking up, and as
much for the process that is asked.
"""
_GAVE_WAY_NS: Final = 60_000
"""One question and one offer of the processor to others take 1 to 2 µs, and a client that takes an answer on this
processor and sends its next request 10 to 40. More, and another process or thread has work of its own.
"""
EVENTS_MAX: Final = 1024
"""Of one question; the others come with the next one."""

_CONFIDENT: Final = 8
_CONFIDENCE_MAX: Final = 16
_LOST_BY_LONG_WAIT: Final = 4
"""Polling pays if four waits of five are short, or more."""

_CGROUPS: Final = Path("/sys/fs/cgroup")

Poll = Callable[[float | None, int], list[tuple[int, int]]]
"""As `select.epoll.poll`: seconds and the most events; returns descriptors with what is ready of them."""


class BusyPoll:
    __slots__ = ("_confidence", "_gain", "_give_way", "_read_ns")

    def __init__(
        self,
        *,
        is_allowed: bool,
        give_way: Callable[[], object] = os.sched_yield,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        """`give_way` lets other processes run that wait for this processor; `now_ns` is the monotonic clock."""
        self._gain = 1 if is_allowed else 0
        self._confidence = 0
        """That the next wait is short: it grows with each wait that was, and polling begins at `_CONFIDENT`."""
        self._give_way = give_way
        self._read_ns = now_ns

    def wait(self, poll: Poll, now_ns: int, until_ns: int) -> list[tuple[int, int]]:
        """Return what `poll` reports, by `until_ns` unless that is 0. Times are of the monotonic clock."""
        if self._confidence >= _CONFIDENT:
            events = self._poll_again(poll, now_ns, until_ns)
            return events or poll(seconds_until(until_ns, self._read_ns()), EVENTS_MAX)
        events = poll(seconds_until(until_ns, now_ns), EVENTS_MAX)
        if self._read_ns() - now_ns <= _SHORT_SLEEP_NS:
            self._confidence += self._gain
        else:
            self._confidence = max(0, self._confidence - _LOST_BY_LONG_WAIT)
        return events

    def _poll_again(self, poll: Poll, now_ns: int, until_ns: int) -> list[tuple[int, int]]:
        """Return nothing if nothing came soon, or if another process wanted the processor."""
        gives_up_ns = now_ns + _POLLED_NS_MAX
        if until_ns:
            gives_up_ns = min(gives_up_ns, until_ns)
        while True:
            events = poll(0.0, EVENTS_MAX)
            if events:
                self._confidence = min(_CONFIDENCE_MAX, self._confidence + 1)
                return events
            asked_ns = self._read_ns()
            self._give_way()
            now_ns = self._read_ns()
            if now_ns >= gives_up_ns:
                self._confidence -= _LOST_BY_LONG_WAIT
                return events
            if now_ns - asked_ns > _GAVE_WAY_NS:
                # What comes while others run would be seen when they stop; a process that sleeps is woken.
                self._confidence -= 1
                return events


def seconds_until(until_ns: int, now_ns: int) -> float | None:
    """Return the timeout of a poll that ends at `until_ns`, or by its input alone if that is 0."""
    return max(0, until_ns - now_ns) / 1e9 if until_ns else None


def is_busy_polling_allowed(cgroups: Path = _CGROUPS, own_cgroup: Path = Path("/proc/self/cgroup")) -> bool:
    """Return whether this process has two processors or more, by its affinity and its control groups, and
    `BARNABAS_BUSY_POLL` is not "off". With one, whatever it waits for would wait for it.

    `cgroups`: the hierarchy of version 2; `own_cgroup`: the file that names the group of this process.
    """
    if os.environ.get("BARNABAS_BUSY_POLL", "on").lower() == "off":
        return False
    return min(float(len(os.sched_getaffinity(0))), _processors_of_cgroups(cgroups, own_cgroup)) >= 2


def _processors_of_cgroups(cgroups: Path, own_cgroup: Path) -> float:
    """Return the least `cpu.max` of a process's group and of those around it, in processors; infinity without one."""
    least = float("inf")
    for line in _read(own_cgroup).splitlines():
        if line.startswith("0::"):
            group = Path(line.removeprefix("0::"))
            for directory in (group, *group.parents):
                quota, _, period = _read(cgroups / str(directory).lstrip("/") / "cpu.max").partition(" ")
                if quota.isdecimal():
                    least = min(least, int(quota) / int(period))
    return least


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
