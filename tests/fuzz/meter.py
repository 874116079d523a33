"""What one input costs, measured without a clock: lines executed, and the most memory in use at once."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from tests.fuzz.target import Target

_ROOT: Final = Path(__file__).parents[2]
# The generated encoders and decoders have names like <decode FetchRequest v12>.
_OURS: Final = (f"{_ROOT / 'barnabas'}/", f"{_ROOT / 'services'}/", "<encode", "<decode")


class TooMuchWork(AssertionError):  # noqa: N818 - it names what was found
    """An input that takes more than its size can justify: a hang, or the way to one."""


class TooMuchMemory(AssertionError):  # noqa: N818 - its name says what is wrong
    """An input that makes us hold more than its size can justify."""


def measured(target: Target, data: bytes) -> None:
    """Check `data`, within the bounds of its target."""
    budget = _LineBudget(target.lines_max + target.lines_per_byte * len(data))
    before = sys.gettrace()
    tracemalloc.start()
    sys.settrace(budget.on_call)
    try:
        target.check(data)
    finally:
        sys.settrace(before)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    if peak_bytes > target.memory_bytes_max:
        raise TooMuchMemory(f"{len(data)} bytes of input, {peak_bytes} bytes of memory")


class _LineBudget:
    def __init__(self, lines_max: int) -> None:
        self.lines_max = lines_max
        self.lines_left = lines_max

    def on_call(self, frame: FrameType, event: str, _argument: Any) -> Any:
        return self.on_line if frame.f_code.co_filename.startswith(_OURS) else None

    def on_line(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.lines_left -= 1
            if self.lines_left < 0:
                raise TooMuchWork(f"more than {self.lines_max} lines, now in {frame.f_code.co_qualname}")
        return self.on_line


def steps_of(target: Target, data: bytes) -> set[tuple[CodeType, int, int]]:
    """Which line of our code followed which, in each function: what an input reaches."""
    steps: set[tuple[CodeType, int, int]] = set()
    last: dict[FrameType, int] = {}

    def on_call(frame: FrameType, event: str, _argument: Any) -> Any:
        return on_line if frame.f_code.co_filename.startswith(_OURS) else None

    def on_line(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            steps.add((frame.f_code, last.get(frame, 0), frame.f_lineno))
            last[frame] = frame.f_lineno
        elif event == "return":
            last.pop(frame, None)
        return on_line

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        target.check(data)
    finally:
        sys.settrace(before)
    return steps
