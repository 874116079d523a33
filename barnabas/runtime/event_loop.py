"""EventLoop: asyncio's loop with a short way from a readable descriptor to the end of the turn that it causes.

asyncio calls a reader one step after its selector, and what that reader schedules one step later: every step is another
question to the kernel and some microseconds of bookkeeping. Here the callbacks of `add_reader` and `add_writer` are
called by the selector itself, and so are the turns that they request (`TurnScheduler`), after all of them: what arrived
together is handled in one turn, and answered before the loop asks again. As long as none of that concerns asyncio, the
selector asks the kernel again without returning. Timers, tasks and asyncio's own transports are as in asyncio.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping
from contextvars import Context
from functools import partial
from select import EPOLLIN, EPOLLOUT, epoll
from time import monotonic_ns, thread_time_ns
from typing import TYPE_CHECKING, Any, Final, TypeVarTuple

from barnabas.runtime.collector import COLLECTOR

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

_Ts = TypeVarTuple("_Ts")

_CPU_READ_EVERY_NS: Final = 1_000_000
"""Reading the thread's processor time is a system call: the use of a turn is known to this, no more exactly."""
_EVENTS_MAX: Final = 1024
"""Of one question; the others come with the next one."""
_COLLECTED_EVERY_NS: Final = 1_000_000
"""No more often than that is the collector asked whether a collection is due."""


class _Turns:
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


_TURNS: Final = _Turns()
"""The turns of the event loop of this process that `new_event_loop` has created."""


class EventLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._selecting = _Selector(self._failed)
        super().__init__(self._selecting)

    def add_reader(self, fd: FileDescriptorLike, callback: Callable[[*_Ts], Any], *args: *_Ts) -> None:
        """As in asyncio, but the callback is called by the selector, in no particular context."""
        self._selecting.add_reader(_descriptor(fd), partial(callback, *args) if args else callback)

    def remove_reader(self, fd: FileDescriptorLike) -> bool:
        """Remove a reader of ours, or else one of asyncio's own: `sock_recv` and its like are ended by this, too."""
        return self._selecting.remove_reader(_descriptor(fd)) or super().remove_reader(_descriptor(fd))

    def add_writer(self, fd: FileDescriptorLike, callback: Callable[[*_Ts], Any], *args: *_Ts) -> None:
        """As `add_reader`."""
        self._selecting.add_writer(_descriptor(fd), partial(callback, *args) if args else callback)

    def remove_writer(self, fd: FileDescriptorLike) -> bool:
        """As `remove_reader`."""
        return self._selecting.remove_writer(_descriptor(fd)) or super().remove_writer(_descriptor(fd))

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self._selecting.must_return = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._selecting.must_return = True
        return super().call_at(when, callback, *args, context=context)

    def stop(self) -> None:
        self._selecting.must_return = True
        super().stop()

    def run_after_input(self, callback: Callable[[], object]) -> None:
        """Call it when what has arrived by now is handled, before asking for more. On the loop's own thread only."""
        self._selecting.due.append(callback)

    def _failed(self, error: BaseException, callback: Callable[[], object]) -> None:
        self.call_exception_handler({"message": f"the callback {callback!r} failed", "exception": error})


class TurnScheduler:
    """Requests turns of a host: one for all that arrives before it begins."""

    __slots__ = ("_is_due", "_run_after_input", "_turn")

    def __init__(self, turn: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._turn = turn
        self._run_after_input = loop.run_after_input if isinstance(loop, EventLoop) else loop.call_soon
        self._is_due = False

    def request(self) -> None:
        """Take a turn after the present input, or, if requested in a turn, another one after that."""
        if not self._is_due:
            self._is_due = True
            self._run_after_input(self._run)

    def _run(self) -> None:
        self._is_due = False
        self._turn()


class _Selector(selectors.BaseSelector):
    """Descriptors are numbers here. One that asyncio registers may have a reader and a writer of ours too."""

    def __init__(self, failed: Callable[[BaseException, Callable[[], object]], None]) -> None:
        self.due: list[Callable[[], object]] = []
        self.must_return = False
        """Since `select` was called asyncio has got something to do: a callback, a timer, or to stop."""
        self._collected_ns = 0
        """When the collector was asked last."""
        self._failed = failed
        self._epoll = epoll()
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._readers: dict[int, Callable[[], object]] = {}
        self._writers: dict[int, Callable[[], object]] = {}

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None:
        is_watched = self._is_watched(fd)
        self._readers[fd] = callback
        self._watch(fd, is_watched=is_watched)

    def remove_reader(self, fd: int) -> bool:
        if self._readers.pop(fd, None) is None:
            return False
        self._watch(fd, is_watched=True)
        return True

    def add_writer(self, fd: int, callback: Callable[[], object]) -> None:
        is_watched = self._is_watched(fd)
        self._writers[fd] = callback
        self._watch(fd, is_watched=is_watched)

    def remove_writer(self, fd: int) -> bool:
        if self._writers.pop(fd, None) is None:
            return False
        self._watch(fd, is_watched=True)
        return True

    def register(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = _descriptor(fileobj)
        assert fd not in self._keys, "a descriptor is registered once"
        is_watched = self._is_watched(fd)
        self._keys[fd] = key = selectors.SelectorKey(fileobj, fd, events, data)
        self._watch(fd, is_watched=is_watched)
        return key

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        fd = _descriptor(fileobj)
        key = self._keys.pop(fd)
        self._watch(fd, is_watched=True)
        return key

    def modify(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = _descriptor(fileobj)
        self._keys[fd] = key = selectors.SelectorKey(fileobj, fd, events, data)
        self._watch(fd, is_watched=True)
        return key

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self._keys  # type: ignore[return-value] # all who ask have numbers

    def close(self) -> None:
        self._epoll.close()
        self._keys.clear()
        self._readers.clear()
        self._writers.clear()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Call the readers and writers of what is ready and the turns that are due, again and again until asyncio has
        something to do or `timeout` is over; return what is ready of asyncio's own.
        """
        self.must_return = False
        turns, poll, readers, keys = _TURNS, self._epoll.poll, self._readers, self._keys
        writers = self._writers
        until_ns = 0 if timeout is None else monotonic_ns() + int(timeout * 1e9)
        waits = timeout is None or timeout > 0
        ready: list[tuple[selectors.SelectorKey, int]] = []
        while True:
            has_run = bool(self.due)
            if has_run:
                self._run_due()
            now_ns = monotonic_ns()
            if now_ns - turns.began_ns > turns.surpassed_ns:
                turns.ended(now_ns)
            if has_run or not waits or self.must_return:
                events = poll(0.0, _EVENTS_MAX)
                now_ns = monotonic_ns()
            else:
                if now_ns - self._collected_ns > _COLLECTED_EVERY_NS:
                    self._collected_ns = now_ns
                    COLLECTOR.loop_is_idle()
                events = poll(max(0, until_ns - now_ns) / 1e9 if until_ns else None, _EVENTS_MAX)
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
            if self.due:
                self._run_due()
            if ready or self.must_return or not waits or (until_ns and monotonic_ns() >= until_ns):
                return ready

    def _call_ready(self, events: list[tuple[int, int]]) -> list[tuple[selectors.SelectorKey, int]]:
        # An error or a hangup is for both, reader and writer.
        ready = []
        readers, writers, keys = self._readers, self._writers, self._keys
        called = [(fd, readers[fd]) for fd, event in events if fd in readers and event != EPOLLOUT]
        written = [(fd, writers[fd]) for fd, event in events if fd in writers and event != EPOLLIN] if writers else ()
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
        due, self.due = self.due, []
        for callback in due:
            self._call(callback)

    def _call(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._failed(error, callback)

    def _is_watched(self, fd: int) -> bool:
        return fd in self._readers or fd in self._writers or fd in self._keys

    def _watch(self, fd: int, *, is_watched: bool) -> None:
        """Have the kernel report what is wanted of a descriptor by now."""
        key = self._keys.get(fd)
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


def _descriptor(fd: FileDescriptorLike) -> int:
    return fd if isinstance(fd, int) else fd.fileno()


def new_event_loop() -> EventLoop:
    """Return a loop whose waiting is measured, and which collects garbage while idle, for `asyncio.Runner`; one per
    process, once its code is loaded."""
    COLLECTOR.begin()
    return EventLoop()


def loop_waited_ns() -> int:
    return _TURNS.waited_ns


def turn_began_ns() -> int:
    """Return when the loop's selector returned last, by the monotonic clock."""
    return _TURNS.began_ns


def take_longest_turn_ns() -> int:
    """Return the longest turn since the last call, without the present one."""
    return _TURNS.take_longest_ns()


def take_longest_turn_cpu_ns() -> int:
    """Return the most processor time that one turn has used since the last call, without the present turn."""
    return _TURNS.take_longest_cpu_ns()
