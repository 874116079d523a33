"""Codecs, as the cores see them: functions from bytes to bytes, by the number in a batch's attributes.

`barnabas.runtime.compression` is the real thing. The work is the producer's to choose, so whoever opens batches bounds
what may come out, and does it where nobody waits: on a worker, as an effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

Buffer = bytes | bytearray | memoryview

Decompress = Callable[[int, Buffer, int], bytes | None]
"""(codec, data, limit in bytes) → what the data holds; None when it is broken, of an unknown codec, or holds more
than the limit.
"""

Compress = Callable[[int, Buffer, int | None], bytes]
"""(codec, data, level or None for the codec's default) → the data as Kafka's clients read it. The codec is known."""


class Codecs(NamedTuple):
    decompress: Decompress
    compress: Compress


DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
"""What one batch may hold when it has to be opened: more is refused as broken, however small it came."""
