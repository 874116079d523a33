"""Record batches as they are read back: headers, then the records of one payload.

Raises MalformedFrame and nothing else. Where all records decode, the walk that reads timestamps alone agrees.
"""

from __future__ import annotations

import struct
from random import Random

from crc32c import crc32c

from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    Record,
    build_batch,
    crc_is_valid,
    decode_payload,
    decode_records,
    iterate_headers,
    iterate_timestamps,
    parse_header,
)
from tests.fuzz.target import Target

_LENGTH_AT = 8
_CRC_AT = 17
_CHECKED_FROM = 21


def check(data: bytes) -> None:
    try:
        position = -1
        for position, header in iterate_headers(data):
            assert header.size_bytes <= len(data) - position
            crc_is_valid(data, position)
    except MalformedFrame:
        pass
    try:
        decode_records(data)
    except MalformedFrame:
        pass
    if len(data) < HEADER_BYTES:
        return
    header = parse_header(data)
    payload = memoryview(data)[HEADER_BYTES:]
    timestamps: list[tuple[int, int]] = []
    is_whole = True
    try:
        timestamps += iterate_timestamps(header, payload)
    except MalformedFrame:
        is_whole = False
    try:
        records = decode_payload(header, payload)
    except MalformedFrame:
        return
    assert is_whole
    assert [(record.offset, record.timestamp_ms) for record in records] == timestamps


def build(random: Random) -> bytes:
    return b"".join(random_batch(random) for _ in range(random.randint(1, 2)))


def random_batch(random: Random) -> bytes:
    contents = (None, b"", b"k", b"v" * 20, b"v" * 200)
    records = [
        Record(
            random.choice(contents),
            random.choice(contents),
            random.choice((0, 1_700_000_000_000, -1)),
            tuple((random.choice(("", "h", "é")), random.choice(contents)) for _ in range(random.choice((0, 0, 1, 3)))),
        )
        for _ in range(random.randint(1, 4))
    ]
    is_idempotent = random.random() < 0.4
    return build_batch(
        records,
        producer_id=random.choice((1, 2)) if is_idempotent else -1,
        producer_epoch=random.choice((0, 0, 1)) if is_idempotent else -1,
        base_sequence=random.choice((0, 0, len(records), 2**31 - 1)) if is_idempotent else -1,
    )


def repaired(batch: bytes) -> bytes:
    """The length and the checksum of one batch put right; what is too short for a header stays as it is."""
    if len(batch) < HEADER_BYTES:
        return batch
    changed = bytearray(batch)
    struct.pack_into(">i", changed, _LENGTH_AT, len(batch) - 12)
    struct.pack_into(">I", changed, _CRC_AT, crc32c(memoryview(changed)[_CHECKED_FROM:]))
    return bytes(changed)


TARGET = Target("records", check, build, repaired)
