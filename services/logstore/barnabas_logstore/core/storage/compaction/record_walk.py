"""The loops over records: what compaction costs is spent here, so they are written out instead of composed.

All take the payload of one batch as `bytes`, decompressed, and records as they lie in it: length, attributes,
timestamp delta, offset delta, key, value, headers (varints between them). Nothing of a record is copied that need not
be. What can't be walked over raises MalformedFrame or IndexError: the bytes are a producer's, whatever their CRC says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from barnabas.wire.primitives import MalformedFrame, continue_uvarint, read_varint, read_varlong, varint
from barnabas_logstore.core.storage.compaction.offset_map import DIGEST_BYTES, KEY_BYTES_MAX

_KEY_SIZE_MAX = 2 * KEY_BYTES_MAX  # zigzag

RecordPlace = tuple[int, int, int]
"""Where a record begins, where it goes on behind its length, where it ends."""


def map_keys(payload: bytes, position: int, offsets: Iterable[int], latest: dict[bytes, int]) -> int:
    """Enter records that have the given `offsets`, one after the other, into `latest`; where the next record begins."""
    for offset in offsets:
        length = payload[position]
        position += 1
        if length >= 0x80:
            byte = payload[position]
            if byte < 0x80:
                length = length & 0x7F | byte << 7
                position += 1
            else:
                length, position = continue_uvarint(payload, position, length)
        end = position + (length >> 1)
        position += 1
        while payload[position] >= 0x80:
            position += 1
        position += 1
        while payload[position] >= 0x80:
            position += 1
        position += 1
        size = payload[position]
        position += 1
        if size >= 0x80:
            size, position = continue_uvarint(payload, position, size)
        # Without a key (a length of -1) it has no place in a compacted log.
        if not size & 1:
            key_end = position + (size >> 1)
            if key_end >= end:
                raise MalformedFrame(f"a key of {size >> 1} bytes in a record that ends before it does")
            key = payload[position:key_end]
            if size > _KEY_SIZE_MAX:
                key = blake2b(key, digest_size=DIGEST_BYTES).digest()
            # A value of length -1 is none: the record is a tombstone.
            latest[key] = offset if payload[key_end] != 1 else ~offset
        if length & 1:
            raise MalformedFrame("a record of negative length")
        position = end
    return position


def offsets_of(payload: bytes, records_count: int, base_offset: int) -> list[int]:
    """The records' own offsets, of a batch that has been compacted before."""
    offsets = []
    position = 0
    for _ in range(records_count):
        length, position = read_varint(payload, position)
        if length < 0:
            raise MalformedFrame("a record of negative length")
        end = position + length
        _, position = read_varlong(payload, position + 1)
        delta, position = read_varint(payload, position)
        offsets.append(base_offset + delta)
        position = end
    return offsets


def places_of(payload: bytes, wanted: Sequence[int]) -> list[RecordPlace]:
    """The records whose numbers in the batch, from 0 and ascending, are `wanted`."""
    places = []
    position = passed = 0
    for number in wanted:
        for _ in range(number - passed):
            length = payload[position]
            position += 1
            if length >= 0x80:
                byte = payload[position]
                if byte < 0x80:
                    length = length & 0x7F | byte << 7
                    position += 1
                else:
                    length, position = continue_uvarint(payload, position, length)
            position += length >> 1
        start = position
        length, position = read_varint(payload, position)
        places.append((start, position, position + length))
        position += length
        passed = number + 1
    return places


def places_by_key(
    payload: bytes,
    offsets: Iterable[int],
    latest: dict[bytes, int],
    last_offset: int,
    *,
    drop_tombstones: bool,
) -> tuple[list[RecordPlace], int, int]:
    """Of records with the given `offsets` those that stay: the latest of their key, as far as `latest` knows, and all
    past `last_offset`.

    Returns their places, how many of them are tombstones, and how many records had no key.
    """
    places = []
    position = tombstones = null_keys = 0
    for offset in offsets:
        start = position
        length = payload[position]
        position += 1
        if length >= 0x80:
            byte = payload[position]
            if byte < 0x80:
                length = length & 0x7F | byte << 7
                position += 1
            else:
                length, position = continue_uvarint(payload, position, length)
        body = position
        end = position + (length >> 1)
        position += 1
        while payload[position] >= 0x80:
            position += 1
        position += 1
        while payload[position] >= 0x80:
            position += 1
        position += 1
        size = payload[position]
        position += 1
        if size >= 0x80:
            size, position = continue_uvarint(payload, position, size)
        key_end = position if size & 1 else position + (size >> 1)
        if key_end >= end or length & 1:
            raise MalformedFrame(f"a key of {size >> 1} bytes in a record that ends before it does")
        is_tombstone = payload[key_end] == 1
        if offset > last_offset:
            places.append((start, body, end))
            tombstones += is_tombstone
        elif size & 1:
            null_keys += 1
        else:
            key = payload[position:key_end]
            if size > _KEY_SIZE_MAX:
                key = blake2b(key, digest_size=DIGEST_BYTES).digest()
            found = latest.get(key)
            if found is None or offset >= (found if found >= 0 else ~found):
                if not is_tombstone:
                    places.append((start, body, end))
                elif not drop_tombstones:
                    places.append((start, body, end))
                    tombstones += 1
        position = end
    return places, tombstones, null_keys


def largest_timestamp_delta(payload: bytes, places: Sequence[RecordPlace]) -> int:
    """Of at least one record."""
    return max([read_varlong(payload, body + 1)[0] for _, body, _ in places])


def with_timestamps_moved(payload: bytes, places: Sequence[RecordPlace], by_ms: int) -> list[bytes]:
    """The records anew, each with `by_ms` added to its timestamp delta. Raises MalformedFrame where that can't be."""
    moved = []
    for _, body, end in places:
        delta, rest = read_varlong(payload, body + 1)
        if not -(2**63) <= delta + by_ms < 2**63:
            raise MalformedFrame(f"the timestamp of a record is {delta} from the first one's")
        encoded = varint(delta + by_ms)
        moved.append(varint(1 + len(encoded) + end - rest) + payload[body : body + 1] + encoded + payload[rest:end])
    return moved


def joined(payload: bytes, places: Sequence[RecordPlace]) -> bytes:
    """The records as they are, one after the other; neighbours are copied together."""
    parts = []
    run_start = run_end = -1
    for start, _, end in places:
        if start == run_end:
            run_end = end
            continue
        if run_end >= 0:
            parts.append(payload[run_start:run_end])
        run_start, run_end = start, end
    parts.append(payload[run_start:run_end])
    return b"".join(parts)
