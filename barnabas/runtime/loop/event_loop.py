"""EventLoop: asyncio's loop with a short way from a readable descriptor to the end of the turn that it causes.

asyncio calls a reader one step after its selector, and what that reader schedules one step later: every step is another
question to the kernel and some microseconds of bookkeeping. Here the callbacks of `add_reader` and `add_writer` are
called by the selector itself (`barnabas/runtime/loop/input_selector.py`), and so are the turns that they request
(`TurnScheduler`), after all of them: what arrived together is handled in one turn, and answered before the loop asks
again. As long as none of that concerns asyncio, the selector asks the kernel again without returning. Timers, tasks and
asyncio's own transports are as in asyncio.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Mapping
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVarTuple

from barnabas.runtime.collector import COLLECTOR
from barnabas.runtime.contained import CALLBACK, CONTAINED, LIBRARY, end_process
from barnabas.runtime.loop.busy_poll import BusyPoll, is_busy_polling_allowed
from barnabas.runtime.loop.input_selector import TURNS, InputSelector

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

_Ts = TypeVarTuple("_Ts")


class EventLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._selecting = InputSelector(self._failed, BusyPoll(is_allowed=is_busy_polling_allowed()))
        super().__init__(_Selector(self._selecting))
        self.run_after_input = self._selecting.run_after_input

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

    def _failed(self, error: BaseException, callback: Callable[[], object]) -> None:
        self.call_exception_handler(
            {"message": f"the callback {callback!r} failed", "exception": error, "handle": None}
        )

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """What a callback has raised ends the process: it has left something half-done, and nothing says what relies on
        that. What a task has raised that nothing awaits is reported; those of Barnabas have an owner
        (`barnabas.runtime.loop.background`). A handler of its own (`set_exception_handler`) decides otherwise.
        """
        error = context.get("exception")
        if error is None:
            super().default_exception_handler(context)
        elif "handle" in context:
            end_process(CALLBACK, error)
        else:
            CONTAINED.contain(LIBRARY, error, {"what": str(context.get("message"))})


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    """Threads of Barnabas have an owner, too: `barnabas.runtime.loop.background.start_thread`."""
    if failed.exc_value is not None and failed.exc_type is not SystemExit:
        CONTAINED.contain(LIBRARY, failed.exc_value, {"what": failed.thread.name if failed.thread else "a thread"})


class _Selector(selectors.BaseSelector):
    """What asyncio registers, and its way to the `InputSelector`."""

    def __init__(self, selecting: InputSelector) -> None:
        self._selecting = selecting

    def register(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = _descriptor(fileobj)
        selecting = self._selecting
        assert fd not in selecting.keys, "a descriptor is registered once"
        is_watched = selecting.is_watched(fd)
        selecting.keys[fd] = key = selectors.SelectorKey(fileobj, fd, events, data)
        selecting.watch(fd, is_watched=is_watched)
        return key

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        fd = _descriptor(fileobj)
        key = self._selecting.keys.pop(fd)
        self._selecting.watch(fd, is_watched=True)
        return key

    def modify(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = _descriptor(fileobj)
        self._selecting.keys[fd] = key = selectors.SelectorKey(fileobj, fd, events, data)
        self._selecting.watch(fd, is_watched=True)
        return key

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self._selecting.keys  # type: ignore[return-value] # all who ask have numbers

    def close(self) -> None:
        self._selecting.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return self._selecting.select(timeout)


def _descriptor(fd: FileDescriptorLike) -> int:
    return fd if isinstance(fd, int) else fd.fileno()


def new_event_loop() -> EventLoop:
    """Return a loop whose waiting is measured, and which collects garbage while idle, for `asyncio.Runner`; one per
    process, once its code is loaded. What threads raise is reported from then on.
    """
    COLLECTOR.begin()
    threading.excepthook = _thread_failed
    return EventLoop()


def loop_waited_ns() -> int:
    return TURNS.waited_ns


def turn_began_ns() -> int:
    """Return when the loop's selector returned last, by the monotonic clock."""
    return TURNS.began_ns


def take_longest_turn_ns() -> int:
    """Return the longest turn since the last call, without the present one."""
    return TURNS.take_longest_ns()


def take_longest_turn_cpu_ns() -> int:
    """Return the most processor time that one turn has used since the last call, without the present turn."""
    return TURNS.take_longest_cpu_ns()
