"""The formats before record batches: the first byte says whether the rest is converted up or down, and from what.

Up: a message set of magic 0 or 1, as Produce v0 to v2 carry. It becomes a batch or a refusal; the batch converted down
again has the same keys and values. Down: record batches, as they lie in a log. They become whole messages or an error.
"""

from __future__ import annotations

from random import Random
from typing import Final

from barnabas.ports.compression import Buffer, Codecs
from barnabas.runtime.compression import compress, decompress
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message_set import encode_message, iterate_messages
from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import HEADER_BYTES, crc_is_valid, iterate_headers, parse_header
from barnabas.wire.records import outline_records
from barnabas_gateway.core.backends.down_conversion import DownConverted, down_convert
from barnabas_gateway.core.backends.up_conversion import UpConverted, up_convert
from tests.fuzz.target import Target
from tests.fuzz.targets.records import random_batch, repaired

_OPENED_BYTES_MAX: Final = 64 * 1024
_LEGACY_CODECS: Final = (0, 0, 1, 2, 3)


def _decompress(codec: int, data: Buffer, limit: int) -> bytes | None:
    return decompress(codec, data, min(limit, _OPENED_BYTES_MAX))


CODECS: Final = Codecs(_decompress, compress)


def check(data: bytes) -> None:
    if not data:
        return
    magic, content = data[0] & 1, data[1:]
    if data[0] & 2:
        _check_down(content, magic)
    else:
        _check_up(content)


def _check_up(message_set: bytes) -> None:
    converted = up_convert(message_set, CODECS)
    if not isinstance(converted, UpConverted):
        assert converted.error is not ErrorCode.NONE
        assert converted.message
        return
    batch = converted.records
    header = parse_header(batch)
    assert header.size_bytes == len(batch)
    assert header.has_contiguous_offsets
    assert crc_is_valid(batch)
    payload: bytes | None = batch[HEADER_BYTES:]
    if header.compression:
        payload = _decompress(header.compression, payload or b"", _OPENED_BYTES_MAX)
    if payload is not None:
        assert len(list(outline_records(payload, header.records_count))) == header.records_count
        _check_down(batch, header.crc & 1)


def _check_down(batches: bytes, magic: int) -> None:
    if not _has_offsets_of_a_log(batches):
        return
    converted = down_convert(batches, magic, 0, CODECS)
    if isinstance(converted, DownConverted):
        whole = sum(12 + int.from_bytes(converted.records[8:12], "big") for _ in converted.records[:1])
        assert whole <= len(converted.records)
        for message in iterate_messages(converted.records):
            assert message.magic == magic


def _has_offsets_of_a_log(batches: bytes) -> bool:
    """Base offsets are the leader's, and no log comes near the end of them."""
    try:
        return all(0 <= header.base_offset < 1 << 62 for _, header in iterate_headers(batches))
    except MalformedFrame:
        return True


def build(random: Random) -> bytes:
    magic = random.randrange(2)
    if random.random() < 0.4:
        return bytes([2 | magic]) + b"".join(_some_batch(random) for _ in range(random.randint(1, 2)))
    messages = b"".join(_message(random, magic, offset) for offset in range(random.randint(1, 4)))
    codec = random.choice(_LEGACY_CODECS)
    if codec:
        messages = encode_message(9, magic, None, compress(codec, messages, None), timestamp_ms=5, compression=codec)
    return bytes([magic]) + messages


def _message(random: Random, magic: int, offset: int) -> bytes:
    contents = (None, b"", b"k", b"v" * 50)
    timestamp_ms = random.choice((-1, 0, 1_700_000_000_000))
    return encode_message(offset, magic, random.choice(contents), random.choice(contents), timestamp_ms=timestamp_ms)


def _some_batch(random: Random) -> bytes:
    batch = random_batch(random)
    codec = random.choice(_LEGACY_CODECS)
    if not codec:
        return batch
    compressed = bytearray(batch[:HEADER_BYTES] + compress(codec, batch[HEADER_BYTES:], None))
    compressed[22] |= codec
    return repaired(bytes(compressed))


TARGET = Target("message_sets", check, build)
