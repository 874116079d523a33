"""Open and close batches for a pass: check CRC, codec and counts, and bound the output.

A batch that can't be opened makes its log uncleanable, because its content is unknown.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.compression import DECOMPRESSED_BYTES_MAX, Codecs
from barnabas.wire.markers import control_type_of
from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    RECORD_BYTES_MIN,
    BatchHeader,
    Compression,
    crc_is_valid,
    decode_payload,
)
from barnabas_logstore.core.storage.compaction.offset_map import OffsetMap
from barnabas_logstore.core.storage.compaction.orders import UncleanableLog
from barnabas_logstore.core.storage.compaction.record_walk import map_keys, offsets_of, places_of

# Kafka's default is level 9, which means lz4-java's fast compressor there; for an lz4 frame it is a slow one.
_LZ4_DEFAULT_LEVEL: Final = 9
_LZ4_FAST_LEVEL: Final = 1


class BatchReader:
    def __init__(self, codecs: Codecs, config: TopicConfig) -> None:
        self._codecs = codecs
        lz4_level = config.compression_lz4_level
        self._levels = {
            Compression.GZIP: config.compression_gzip_level,
            Compression.LZ4: _LZ4_FAST_LEVEL if lz4_level == _LZ4_DEFAULT_LEVEL else lz4_level,
            Compression.ZSTD: config.compression_zstd_level,
        }

    def payload_of(self, data: bytes, index: int, header: BatchHeader) -> bytes:
        """Return the records of the batch at `index` of `data`, uncompressed. Raises UncleanableLog."""
        if not crc_is_valid(data, index):
            raise uncleanable(header, "its CRC is wrong")
        payload: bytes | None = data[index + HEADER_BYTES : index + header.size_bytes]
        assert payload is not None
        if header.compression != Compression.NONE:
            payload = self._codecs.decompress(header.compression, payload, DECOMPRESSED_BYTES_MAX)
            if payload is None:
                raise uncleanable(
                    header, f"codec {header.compression} can't open it within {DECOMPRESSED_BYTES_MAX} bytes"
                )
        if not 0 <= header.records_count * RECORD_BYTES_MIN <= len(payload):
            raise uncleanable(header, f"{header.records_count} records can't be in {len(payload)} bytes")
        return payload

    def compressed(self, header: BatchHeader, payload: bytes) -> bytes:
        """Compress `payload` with the codec of its batch."""
        if header.compression == Compression.NONE:
            return payload
        codec = Compression(header.compression)
        return self._codecs.compress(codec, payload, self._levels.get(codec))

    def control_type_of(self, data: bytes, index: int, header: BatchHeader) -> int:
        """Return what a control batch marks; see `markers.control_type_of`. Raises UncleanableLog."""
        payload = self.payload_of(data, index, header)
        try:
            records = decode_payload(header, payload)
        except MalformedFrame as error:
            raise uncleanable(header, str(error)) from None
        return control_type_of(records[0].key) if records else -1

    def offsets_of(self, header: BatchHeader, payload: bytes) -> range | list[int]:
        """Return the offset of each record. Clients' batches have one record per offset: there the order determines
        it.
        """
        if header.has_contiguous_offsets:
            return range(header.base_offset, header.next_offset)
        try:
            return offsets_of(payload, header.records_count, header.base_offset)
        except (MalformedFrame, IndexError) as error:
            raise uncleanable(header, f"a record is broken, {error}") from None

    def map_batch(self, data: bytes, index: int, header: BatchHeader, offset_map: OffsetMap) -> None:
        """Add the keys of a batch from the map's start on, as far as there is space.

        `offset_map.last_offset` is how far it went. Raises UncleanableLog.
        """
        payload = self.payload_of(data, index, header)
        offsets = self.offsets_of(header, payload)
        mapped = bisect_left(offsets, offset_map.start_offset)
        position = 0
        try:
            if mapped:
                # A pass may end inside a batch, when the map is full.
                position = places_of(payload, [mapped - 1])[0][2]
            # A record takes at most one entry: so many fit without another check.
            while mapped < len(offsets) and (room := offset_map.room) > 0:
                some = offsets[mapped : mapped + room]
                position = map_keys(payload, position, some, offset_map.latest)
                mapped += len(some)
                offset_map.last_offset = some[-1]
        except (MalformedFrame, IndexError) as error:
            raise uncleanable(header, f"a record is broken, {error}") from None
        if mapped == len(offsets):
            if position != len(payload):
                raise uncleanable(header, f"its records end {len(payload) - position} bytes before it does")
            offset_map.last_offset = header.last_offset


def uncleanable(header: BatchHeader, reason: str) -> UncleanableLog:
    return UncleanableLog(f"the batch at offset {header.base_offset}: {reason}")
