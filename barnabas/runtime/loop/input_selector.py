"""InputSelector: what an event loop asks the kernel, and whom it calls for what the kernel says.

It is the part of the event loop that runs for each request, and compiles with the cores; what asyncio needs around it
is in `barnabas/runtime/loop/event_loop.py`. Descriptors are numbers here. One that asyncio registers may have a reader
and a writer too.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from select import EPOLLIN, EPOLLOUT, epoll
from time import monotonic_ns, thread_time_ns
from typing import Final

from barnabas.runtime.collector import COLLECTOR
from barnabas.runtime.loop.busy_poll import EVENTS_MAX, BusyPoll, seconds_until

_CPU_READ_EVERY_NS: Final = 1_000_000
"""Reading the thread's processor time is a system call: the use of a turn is known to this, no more exactly."""
_COLLECTED_EVERY_NS: Final = 1_000_000
"""No more often than that is the collector asked whether a collection is due."""


class Turns:
    """What the loop of this process has done so far."""

    __slots__ = ("began_ns", "cpu_ns", "cpu_read_ns", "longest_cpu_ns", "longest_ns", "surpassed_ns", "waited_ns")

    def __init__(self) -> None:
        self.waited_ns = 0
        self.began_ns = 0
        """The present turn."""
        self.longest_ns = 0
        """The longest of the turns since `take_longest_ns`."""
        self.cpu_ns = self.cpu_read_ns = 0
        """What the thread had used when it was last read, and when that was: up to a millisecond before this turn."""
        self.longest_cpu_ns = 0
        self.surpassed_ns = 0
        """A turn that took no longer is neither the longest nor that of the most processor time."""

    def read_cpu(self, now_ns: int) -> None:
        self.cpu_ns, self.cpu_read_ns = thread_time_ns(), now_ns

    def ended(self, now_ns: int) -> None:
        """Call it for turns of more than `surpassed_ns`."""
        turn_ns = now_ns - self.began_ns
        if not self.began_ns:
            return
        if turn_ns > self.longest_ns:
            self.longest_ns = turn_ns
        if turn_ns > self.longest_cpu_ns:
            cpu_ns = thread_time_ns()
            if cpu_ns - self.cpu_ns > self.longest_cpu_ns:
                self.longest_cpu_ns = cpu_ns - self.cpu_ns
            self.cpu_ns, self.cpu_read_ns = cpu_ns, now_ns
        self.surpassed_ns = min(self.longest_ns, self.longest_cpu_ns)

    def take_longest_ns(self) -> int:
        longest_ns, self.longest_ns, self.surpassed_ns = self.longest_ns, 0, 0
        return longest_ns

    def take_longest_cpu_ns(self) -> int:
        longest_ns, self.longest_cpu_ns, self.surpassed_ns = self.longest_cpu_ns, 0, 0
        return longest_ns


TURNS: Final = Turns()
"""The turns of the event loop of this process that `new_event_loop` has created."""


class InputSelector:
    __slots__ = (
        "_busy_poll",
        "_collected_ns",
        "_due",
        "_epoll",
        "_failed",
        "_poll",
        "_readers",
        "_writers",
        "keys",
        "must_return",
    )

    def __init__(self, failed: Callable[[BaseException, Callable[[], object]], None], busy_poll: BusyPoll) -> None:
        """`failed` gets what a callback raises, and the callback."""
        self._busy_poll = busy_poll
        self._due: list[Callable[[], object]] = []
        self.must_return = False
        """Since `select` was called asyncio has got something to do: a callback, a timer, or to stop."""
        self.keys: dict[int, selectors.SelectorKey] = {}
        """What asyncio has registered; `watch` tells the kernel of a change."""
        self._collected_ns = 0
        """When the collector was asked last."""
        self._failed = failed
        self._epoll = epoll()
        self._poll: Callable[[float | None, int], list[tuple[int, int]]] = self._epoll.poll
        self._readers: dict[int, Callable[[], object]] = {}
        self._writers: dict[int, Callable[[], object]] = {}

    def run_after_input(self, callback: Callable[[], object]) -> None:
        """Call it when what has arrived by now is handled, before asking for more. On the loop's own thread only."""
        self._due.append(callback)

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None:
        is_watched = self.is_watched(fd)
        self._readers[fd] = callback
        self.watch(fd, is_watched=is_watched)

    def remove_reader(self, fd: int) -> bool:
        if self._readers.pop(fd, None) is None:
            return False
        self.watch(fd, is_watched=True)
        return True

    def add_writer(self, fd: int, callback: Callable[[], object]) -> None:
        is_watched = self.is_watched(fd)
        self._writers[fd] = callback
        self.watch(fd, is_watched=is_watched)

    def remove_writer(self, fd: int) -> bool:
        if self._writers.pop(fd, None) is None:
            return False
        self.watch(fd, is_watched=True)
        return True

    def is_watched(self, fd: int) -> bool:
        return fd in self._readers or fd in self._writers or fd in self.keys

    def watch(self, fd: int, *, is_watched: bool) -> None:
        """Have the kernel report what is wanted of a descriptor by now. `is_watched`: it reports something already."""
        key = self.keys.get(fd)
        events = EPOLLIN if fd in self._readers else 0
        events |= EPOLLOUT if fd in self._writers else 0
        if key is not None:
            events |= EPOLLIN if key.events & selectors.EVENT_READ else 0
            events |= EPOLLOUT if key.events & selectors.EVENT_WRITE else 0
        if not is_watched:
            self._epoll.register(fd, events)
        elif events:
            self._epoll.modify(fd, events)
        else:
            try:
                self._epoll.unregister(fd)
            except OSError:
                # It was closed before.
                pass

    def close(self) -> None:
        self._epoll.close()
        self.keys.clear()
        self._readers.clear()
        self._writers.clear()

    def select(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Call the readers and writers of what is ready and the turns that are due, again and again until asyncio has
        something to do or `timeout` is over; return what is ready of asyncio's own.
        """
        self.must_return = False
        turns, poll, readers, keys = TURNS, self._poll, self._readers, self.keys
        writers = self._writers
        until_ns = 0 if timeout is None else monotonic_ns() + int(timeout * 1e9)
        waits = timeout is None or timeout > 0
        ready: list[tuple[selectors.SelectorKey, int]] = []
        while True:
            has_run = bool(self._due)
            if has_run:
                self._run_due()
            now_ns = monotonic_ns()
            if now_ns - turns.began_ns > turns.surpassed_ns:
                turns.ended(now_ns)
            if has_run or not waits or self.must_return:
                events = poll(0.0, EVENTS_MAX)
                now_ns = monotonic_ns()
            else:
                if now_ns - self._collected_ns > _COLLECTED_EVERY_NS:
                    self._collected_ns = now_ns
                    COLLECTOR.loop_is_idle()
                if writers:
                    # A large answer waits for its reader, a whole piece at a time: by that, waking up is cheap.
                    events = poll(seconds_until(until_ns, now_ns), EVENTS_MAX)
                else:
                    events = self._busy_poll.wait(poll, now_ns, until_ns)
                woken_ns = monotonic_ns()
                turns.waited_ns += woken_ns - now_ns
                now_ns = woken_ns
            turns.began_ns = now_ns
            if now_ns - turns.cpu_read_ns > _CPU_READ_EVERY_NS:
                turns.read_cpu(now_ns)
            if len(events) == 1 and (fd := events[0][0]) in readers and fd not in writers and fd not in keys:
                # Nearly always it is one client, or one peer.
                self._call(readers[fd])
            elif events:
                ready = self._call_ready(events)
            if self._due:
                self._run_due()
            if ready or self.must_return or not waits or (until_ns and monotonic_ns() >= until_ns):
                return ready

    def _call_ready(self, events: list[tuple[int, int]]) -> list[tuple[selectors.SelectorKey, int]]:
        # An error or a hangup is for both, reader and writer.
        ready: list[tuple[selectors.SelectorKey, int]] = []
        readers, writers, keys = self._readers, self._writers, self.keys
        called = [(fd, readers[fd]) for fd, event in events if fd in readers and event != EPOLLOUT]
        written = [(fd, writers[fd]) for fd, event in events if fd in writers and event != EPOLLIN] if writers else []
        if keys:
            for fd, event in events:
                key = keys.get(fd)
                if key is not None:
                    is_readable, is_writable = event & ~EPOLLOUT, event & ~EPOLLIN
                    mask = (selectors.EVENT_READ if is_readable else 0) | (selectors.EVENT_WRITE if is_writable else 0)
                    ready.append((key, mask & key.events))
        for fd, callback in called:
            # One that was called before may have removed this one, or closed its descriptor.
            if readers.get(fd) is callback:
                self._call(callback)
        for fd, callback in written:
            if writers.get(fd) is callback:
                self._call(callback)
        return ready

    def _run_due(self) -> None:
        due, self._due = self._due, []
        for callback in due:
            self._call(callback)

    def _call(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._failed(error, callback)


class TurnScheduler:
    """Requests turns of a host: one for all that arrives before it begins."""

    __slots__ = ("_is_due", "_run", "_run_after_input", "_turn")

    def __init__(self, turn: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._turn = turn
        # Loops of asyncio's own, as a test may have, do it in their next step.
        self._run_after_input: Callable[[Callable[[], object]], object] = getattr(
            loop, "run_after_input", loop.call_soon
        )
        self._is_due = False
        self._run: Callable[[], None] = self.take
        """Bound once, not for each turn."""

    def request(self) -> None:
        """Take a turn after the present input, or, if requested in a turn, another one after that."""
        if not self._is_due:
            self._is_due = True
            self._run_after_input(self._run)

    def take(self) -> None:
        self._is_due = False
        self._turn()
