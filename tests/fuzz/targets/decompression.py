"""Opening a compressed batch: the first byte names the codec, the rest is its data.

Never more than the limit comes out, whatever the data claims; what is broken gives None.
"""

from __future__ import annotations

import zlib
from random import Random

import cramjam

from barnabas.runtime.compression import decompress
from tests.fuzz.target import Target

_LIMIT_BYTES = 256 * 1024
_XERIAL_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def check(data: bytes) -> None:
    if not data:
        return
    content = decompress(data[0] & 7, memoryview(data)[1:], _LIMIT_BYTES)
    assert content is None or len(content) <= _LIMIT_BYTES


def build(random: Random) -> bytes:
    codec = random.choice((1, 2, 2, 3, 4))
    return bytes([codec]) + _compressed(random, codec, _content(random))


def _content(random: Random) -> bytes:
    """At times a bomb: more than the limit in a few bytes."""
    if random.random() < 0.2:
        return bytes(random.choice((_LIMIT_BYTES - 1, _LIMIT_BYTES, _LIMIT_BYTES + 1, 2 * _LIMIT_BYTES)))
    return random.randbytes(random.randint(0, 60)) * random.randint(1, 20)


def _compressed(random: Random, codec: int, content: bytes) -> bytes:
    match codec:
        case 1:
            compressor = zlib.compressobj(wbits=31)
            return compressor.compress(content) + compressor.flush()
        case 2 if random.random() < 0.5:
            return bytes(cramjam.snappy.compress_raw(content))
        case 2:
            blocks = [bytes(cramjam.snappy.compress_raw(content)) for _ in range(random.randint(0, 3))]
            return _XERIAL_HEADER + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)
        case 3:
            return bytes(cramjam.lz4.compress(content))
        case _:
            return bytes(cramjam.zstd.compress(content))


TARGET = Target("decompression", check, build)
