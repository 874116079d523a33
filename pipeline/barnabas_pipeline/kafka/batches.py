"""From the bytes of a fetch to the payloads of its batches: checked, decompressed, without control records and what
was aborted. Per batch, never per record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from barnabas.runtime.compression import decompress
from barnabas.wire.messages.fetch import AbortedTransaction
from barnabas.wire.primitives import Buffer, MalformedFrame
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    RECORD_BYTES_MIN,
    BatchHeader,
    Compression,
    crc_is_valid,
    decode_payload,
    iterate_headers,
)
from barnabas_pipeline.core.errors import CorruptBatch
from barnabas_pipeline.core.positions import TopicPartition

DECOMPRESSED_BYTES_MAX: Final = 512 * 1024 * 1024
"""What one batch may hold. A codec that claims more is taken for broken before it has filled the memory."""

PIECE_BYTES: Final = 4 * 1024 * 1024
PADDING_BYTES: Final = 16

_ABORT_TYPE: Final = b"\0\0"
_CONTROL_TYPE_AT: Final = 2
"""In the key of a control record, behind its version."""


@dataclass(slots=True)
class Payloads:
    """The records of several batches in one buffer: of each batch its header, and where its payload starts and ends.

    Behind the last payload lie PADDING_BYTES of zeros: whoever reads fields of many records at once notices one that
    runs past the end only afterwards.
    """

    buffer: bytes
    headers: list[BatchHeader]
    spans: list[tuple[int, int]]


def whole_batches(partition: TopicPartition, data: Buffer) -> list[tuple[int, BatchHeader]]:
    """`(position, header)` of each whole batch in what was fetched. Raises CorruptBatch."""
    try:
        return list(iterate_headers(data))
    except MalformedFrame as error:
        raise CorruptBatch(f"{partition} can't be read: {error}") from None


class AbortedProducers:
    """Which transactional batches of a partition, met in the order of their offsets, were aborted.

    The answer to a fetch under READ_COMMITTED lists the aborted transactions that touch it; one begins at its first
    offset and ends at the producer's next abort marker (KIP-98).
    """

    def __init__(self, aborted: Iterable[AbortedTransaction] | None) -> None:
        self._coming = sorted(((each.first_offset, each.producer_id) for each in aborted or ()), reverse=True)
        self._open: set[int] = set()

    def covers(self, header: BatchHeader, payload_of_marker: Buffer | None) -> bool:
        """Whether the batch was aborted. Give the payload of control batches: an abort marker ends its transaction."""
        while self._coming and self._coming[-1][0] <= header.last_offset:
            self._open.add(self._coming.pop()[1])
        if payload_of_marker is not None:
            if _is_abort(header, payload_of_marker):
                self._open.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._open


def open_batches(
    partition: TopicPartition,
    data: Buffer,
    batches: Iterable[tuple[int, BatchHeader]],
    aborted: AbortedProducers,
    *,
    check_crcs: bool,
) -> Iterator[Payloads]:
    """What `batches` of `data` hold for a consumer, in pieces of about PIECE_BYTES, none empty. Raises CorruptBatch."""
    view = memoryview(data)
    gathered: list[tuple[BatchHeader, Buffer]] = []
    size = 0
    for position, header in batches:
        if check_crcs and not crc_is_valid(data, position):
            raise CorruptBatch(f"{partition}: the batch at offset {header.base_offset} fails its CRC")
        payload: Buffer = view[position + HEADER_BYTES : position + header.size_bytes]
        if aborted.covers(header, payload if header.is_control else None) or header.is_control:
            continue
        if header.records_count == 0:
            # Compaction keeps such a one for its producer's sequence.
            continue
        if header.compression != Compression.NONE:
            payload = _decompress(partition, header, payload)
        if not 0 < header.records_count * RECORD_BYTES_MIN <= len(payload):
            raise CorruptBatch(
                f"{partition}: the batch at offset {header.base_offset} can't have {header.records_count} records "
                f"in {len(payload)} bytes"
            )
        gathered.append((header, payload))
        size += len(payload)
        if size >= PIECE_BYTES:
            yield _joined(gathered)
            gathered, size = [], 0
    if gathered:
        yield _joined(gathered)


def _joined(gathered: list[tuple[BatchHeader, Buffer]]) -> Payloads:
    spans = []
    start = 0
    for _, payload in gathered:
        spans.append((start, start + len(payload)))
        start += len(payload)
    buffer = b"".join((*(payload for _, payload in gathered), bytes(PADDING_BYTES)))
    return Payloads(buffer, [header for header, _ in gathered], spans)


def _decompress(partition: TopicPartition, header: BatchHeader, payload: Buffer) -> bytes:
    opened = decompress(header.compression, payload, DECOMPRESSED_BYTES_MAX)
    if opened is None:
        raise CorruptBatch(
            f"{partition}: the batch at offset {header.base_offset} can't be decompressed "
            f"(codec {header.compression}), or holds more than {DECOMPRESSED_BYTES_MAX} bytes"
        )
    return opened


def _is_abort(header: BatchHeader, payload: Buffer) -> bool:
    """Of a control batch: its one record has a key of version and type, both int16; type 0 is an abort."""
    try:
        key = decode_payload(header, payload)[0].key
    except (MalformedFrame, IndexError):
        return False
    return key is not None and key[_CONTROL_TYPE_AT : _CONTROL_TYPE_AT + 2] == _ABORT_TYPE
