"""Codecs, as the cores see them: functions from bytes to bytes, by their number in a batch's attributes.

`barnabas.runtime.compression` implements them. A producer determines how much work a batch is, so code that opens
batches limits the output, and runs where it delays no other request: on a worker, as an effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

Buffer = bytes | bytearray | memoryview

Decompress = Callable[[int, Buffer, int], bytes | None]
"""(codec, data, limit in bytes) → the decompressed data; None if it is corrupt, of an unknown codec, or exceeds the
limit.
"""

Compress = Callable[[int, Buffer, int | None], bytes]
"""(codec, data, level or None for the codec's default) → the data as Kafka's clients read it. The codec is known."""


class Codecs(NamedTuple):
    decompress: Decompress
    compress: Compress


DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
"""The maximum decompressed size of one batch that has to be opened: more is refused as corrupt, however small it was
compressed.
"""
