"""A story that a service's event loop tells in ten seconds, and the sockets and conditions that it is made of."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from barnabas.runtime.loop.event_loop import EventLoop


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(story(), 10)

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(bounded())


def pair() -> tuple[socket.socket, socket.socket]:
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    return ends


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)
