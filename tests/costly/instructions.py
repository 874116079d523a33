"""How many instructions of the interpreter the code of Barnabas takes: a count, which no other load disturbs.

What is done within one instruction (a copy, a sort) counts as that one.
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


@contextmanager
def counted() -> Iterator[Counted]:
    """Count what runs inside."""
    count = Counted()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            count.instructions += 1
        elif event == "call":
            origin = frame.f_code.co_filename
            if not origin.startswith(_OWN) or origin.startswith(_COMPILERS):
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
