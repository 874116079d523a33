"""How many instructions of the interpreter, or lines of source, the code of Barnabas takes: a count that no other load
disturbs.

What is done within one instruction (a copy, a sort) counts as that one. A line is about five instructions, and is
counted in half the time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

_ROOT = str(Path(__file__).parents[2])
_OWN = (f"{_ROOT}/services/", f"{_ROOT}/barnabas/", "<decode ", "<encode ")
"""The last two are compiled from schemas."""
_COMPILERS = tuple(f"{_ROOT}/barnabas/wire/{name}.py" for name in ("decoding", "encoding", "source", "schema"))
"""What compiles them, once for each message and version."""


class Counted:
    def __init__(self) -> None:
        self.instructions = 0


class CountedLines:
    def __init__(self) -> None:
        self.lines = 0


@contextmanager
def counted() -> Iterator[Counted]:
    """Count the instructions of what runs inside."""
    count = Counted()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            count.instructions += 1
        elif event == "call":
            if not _is_counted(frame):
                return None
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


@contextmanager
def counted_lines() -> Iterator[CountedLines]:
    """Count the lines of what runs inside, each as often as it runs."""
    count = CountedLines()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            count.lines += 1
        elif event == "call" and not _is_counted(frame):
            return None
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


def _is_counted(frame: FrameType) -> bool:
    origin = frame.f_code.co_filename
    return origin.startswith(_OWN) and not origin.startswith(_COMPILERS)
