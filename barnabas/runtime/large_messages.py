"""Messages that are too large for one turn of an event loop: they are packed and read over several.

Other work of the loop has its turns in between, however many such messages there are: each turn works on one. A caller
that needs the order of messages waits for the previous one, as a stream does (`barnabas.runtime.streams`).
"""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from barnabas.wire.primitives import Steps

T = TypeVar("T")

LARGE_BYTES: Final = 16 << 10
"""Size of a message that is read in steps: about a thousand partitions of three replicas each."""
LARGE_ELEMENTS: Final = 1_000
"""Elements of a message that is packed in steps."""
_STEPS_PER_TURN: Final = 500
"""Steps per turn, at 3 µs each."""


_lines: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = WeakKeyDictionary()
"""What the messages of a loop wait for, one behind the other."""


async def over_turns(steps: Steps[T]) -> T:
    """Run all steps, some in each turn of the event loop that is for them; return their result."""
    loop = asyncio.get_running_loop()
    line = _lines.get(loop)
    if line is None:
        line = _lines[loop] = asyncio.Lock()
    try:
        while True:
            async with line:
                left = _STEPS_PER_TURN
                while left > 0:
                    left -= next(steps)
                # The next one is woken in the turn after this.
                await asyncio.sleep(0)
    except StopIteration as end:
        result: T = end.value
        return result
