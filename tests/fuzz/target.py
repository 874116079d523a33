"""What a fuzz target is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


def as_it_is(data: bytes) -> bytes:
    return data


@dataclass(slots=True, frozen=True)
class Target:
    """`check` takes any bytes: it returns, or raises what is then a finding."""

    name: str
    check: Callable[[bytes], None]
    build: Callable[[Random], bytes]
    """A valid input, the same for the same state of the generator: what mutations begin with."""
    repair: Callable[[bytes], bytes] = as_it_is
    """Checksums and lengths put right after a mutation, so that what lies behind them is reached too."""
    lines_max: int = 100_000
    """Lines of our code that the smallest input may execute; `lines_per_byte` more for each of its bytes."""
    lines_per_byte: int = 400
    memory_bytes_max: int = 8 << 20
    """Memory that one input may have in use at once, beyond what was there before."""
    input_bytes_max: int = 4096
