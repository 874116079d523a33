"""Opens the payloads of record batches that other clients compressed."""

from __future__ import annotations

import zlib
from typing import Final

from barnabas.wire.primitives import Buffer, MalformedFrame
from barnabas.wire.record_batch import Compression

_GZIP_WINDOW: Final = 31
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16


def decompress(compression: int, payload: Buffer) -> bytes:
    """Raises MalformedFrame for a codec that nobody knows and for what its codec can't read."""
    if compression == Compression.NONE:
        return bytes(payload)
    import cramjam

    try:
        match compression:
            case Compression.GZIP:
                return zlib.decompress(payload, wbits=_GZIP_WINDOW)
            case Compression.SNAPPY:
                return _decompress_snappy(bytes(payload))
            case Compression.LZ4:
                return bytes(cramjam.lz4.decompress(bytes(payload)))
            case Compression.ZSTD:
                return bytes(cramjam.zstd.decompress(bytes(payload)))
    except (zlib.error, cramjam.DecompressionError) as error:
        raise MalformedFrame(f"a batch that its codec {compression} can't read: {error}") from None
    raise MalformedFrame(f"a batch compressed with unknown codec {compression}")


def _decompress_snappy(payload: bytes) -> bytes:
    """Java's clients frame snappy in blocks of their own format, each after its int32 length; librdkafka does not."""
    import cramjam

    if not payload.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(payload))
    blocks = []
    position = _XERIAL_HEADER_BYTES
    while position < len(payload):
        length = int.from_bytes(payload[position : position + 4], "big")
        blocks.append(bytes(cramjam.snappy.decompress_raw(payload[position + 4 : position + 4 + length])))
        position += 4 + length
    return b"".join(blocks)
