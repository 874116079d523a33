"""Tasks and threads that no caller awaits. What one of them raises is reported, and decided by its place: it costs the
task alone, the task begins again after a pause, or the process ends. Every task of a service is started here, and every
thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from barnabas.containment import Place, Scope
from barnabas.runtime.contained import CONTAINED, end_process

PAUSE_S_MIN: Final = 0.1
PAUSE_S_MAX: Final = 10.0
CALM_S: Final = 60.0
"""Work that has gone on for so long begins again after the shortest pause."""

T = TypeVar("T")


class BackgroundTasks:
    """The tasks of one place, on one event loop."""

    __slots__ = ("_on_failed", "_place", "_tasks")

    def __init__(self, place: Place, on_failed: Callable[[BaseException], None] | None = None) -> None:
        """`on_failed` gets what a task has raised, after it was reported: it gives up what waits for the task. Where
        the process is to end it ends it, instead of `end_process`.
        """
        self._place = place
        self._on_failed = on_failed
        self._tasks: set[asyncio.Task[Any]] = set()
        CONTAINED.declare(place)

    def __len__(self) -> int:
        """How many have not ended."""
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run it once."""
        task = asyncio.get_running_loop().create_task(work, name=self._place.name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def keep(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Run it, and again after a pause whenever it has raised something, until it is cancelled or returns. That what
        it waits for was cancelled (a call, another task) ends it no more than an exception does.
        """
        assert self._place.scope is not Scope.PROCESS, "what ends the process does not begin again"
        return self.start(self._run_again(work))

    def cancel(self) -> None:
        """Ask all of them to end."""
        for task in list(self._tasks):
            task.cancel()

    async def stop(self) -> None:
        """Cancel all of them, and return when they have ended."""
        self.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _run_again(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        loop, own = asyncio.get_running_loop(), asyncio.current_task()
        assert own is not None, "this is a task"
        pause_s = PAUSE_S_MIN
        while True:
            began_s = loop.time()
            try:
                await work()
                return
            except (Exception, asyncio.CancelledError) as error:
                is_to_end = own.cancelling() > 0
                if is_to_end and isinstance(error, asyncio.CancelledError):
                    raise
                CONTAINED.contain(self._place, error)
                if is_to_end:
                    return
            if loop.time() - began_s >= CALM_S:
                pause_s = PAUSE_S_MIN
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        ends_process = self._place.scope is Scope.PROCESS
        if not isinstance(error, Exception) or (ends_process and self._on_failed is None):
            end_process(self._place, error)
        if not ends_process:
            CONTAINED.contain(self._place, error)
        if self._on_failed is not None:
            self._on_failed(error)


def awaited_task(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task that its caller awaits, and whose exception is the caller's."""
    return asyncio.get_running_loop().create_task(work)


def start_thread(place: Place, work: Callable[[], None], name: str) -> threading.Thread:
    """Run it on a thread that does not keep the process alive."""
    CONTAINED.declare(place)

    def run() -> None:
        try:
            work()
        except BaseException as error:
            if place.scope is Scope.PROCESS or not isinstance(error, Exception):
                end_process(place, error)
            CONTAINED.contain(place, error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
