"""Varints of many records at once: the same steps as for one, over columns of positions."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from barnabas.wire.primitives import MalformedFrame

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10


def read_varints(buffer: Any, positions: Any, bytes_max: int = VARINT_BYTES_MAX) -> tuple[Any, Any]:
    """Zigzag varints at `positions` (int64) of `buffer` (uint8): `(values, positions after them)`, both int64.

    Raises MalformedFrame at one of more bytes than `bytes_max`, IndexError past the end of the buffer.
    """
    first = buffer[positions]
    values = (first & 0x7F).astype(np.uint64)
    ends = positions + 1
    longer = np.flatnonzero(first & 0x80)
    shift = 7
    while longer.size:
        if shift == 7 * bytes_max:
            raise MalformedFrame(f"a varint of more than {bytes_max} bytes")
        following = buffer[ends[longer]]
        values[longer] |= (following & 0x7F).astype(np.uint64) << np.uint64(shift)
        ends[longer] += 1
        longer = longer[(following & 0x80) != 0]
        shift += 7
    return (values >> np.uint64(1)).astype(np.int64) ^ -(values & np.uint64(1)).astype(np.int64), ends
