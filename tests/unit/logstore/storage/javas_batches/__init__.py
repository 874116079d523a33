"""Batches in every odd form of a codec, and what Kafka 4.4 makes of them: its broker (LogValidator) and its consumers.

`JavasBatches.java` asks Kafka itself; `test_kafka_still_says_so` compares.
"""

from __future__ import annotations

import gzip
import subprocess
import zlib
from pathlib import Path
from struct import pack
from typing import Final, NamedTuple

import cramjam
import lz4.block
import lz4.frame

from barnabas.wire.lz4_frame import xxh32
from barnabas.wire.record_batch import HEADER_BYTES, Compression, Record, assemble_batch, build_batch, parse_header
from tests.compat.java_programs import SHORT_LIVED
from tests.unit.wire.golden import JARS

PROGRAM: Final = Path(__file__).parent / "JavasBatches.java"
WALL_MS: Final = 1_700_000_000_000

IS_READ: Final = "read"
FAILED: Final = "-1"
"""An exception of the codec: UNKNOWN_SERVER_ERROR of Kafka's broker."""
RECORDS: Final = "87"
"""The records do not match their header: INVALID_RECORD."""

_BATCH: Final = build_batch([Record(b"key%d" % number, b"value" * 20, WALL_MS) for number in range(10)])
_ALL: Final = _BATCH[HEADER_BYTES:]
_HALF: Final = (
    len(build_batch([Record(b"key%d" % number, b"value" * 20, WALL_MS) for number in range(5)])) - HEADER_BYTES
)
_FIRST, _SECOND = _ALL[:_HALF], _ALL[_HALF:]
_MANY: Final = build_batch([Record(None, b"value" * 20, WALL_MS) for _ in range(1000)])[HEADER_BYTES:]


class Case(NamedTuple):
    codec: Compression
    payload: bytes
    kafka: str
    records_count: int = 10

    @property
    def batch(self) -> bytes:
        header = parse_header(_BATCH).with_compression(self.codec)
        header = header._replace(records_count=self.records_count, last_offset_delta=self.records_count - 1)
        return assemble_batch(header, self.payload)


def frame(
    flags: int = 0x60,
    block_size: int = 0x40,
    blocks: tuple[bytes, ...] = (_ALL,),
    *,
    behind: bytes = bytes(4),
    optional: bytes = b"",
    wrong: int = 0,
) -> bytes:
    """An lz4 frame of stored blocks; `optional` are fields of its header, `wrong` is added to that one's checksum."""
    header = bytes((flags, block_size)) + optional
    stored = b"".join(pack("<I", len(block) | 1 << 31) + block for block in blocks)
    return b"\x04\x22\x4d\x18" + header + bytes(((xxh32(header) >> 8 & 0xFF) ^ wrong,)) + stored + behind


def _packed(block: bytes) -> bytes:
    content = lz4.block.compress(block, store_size=False)
    return pack("<I", len(content)) + content


_BLOCK_SUMS: Final = lz4.frame.compress(_ALL, block_linked=False, block_checksum=True)
_SKIPPED: Final = b"\x50\x2a\x4d\x18\4\0\0\0abcd"
_END: Final = bytes(4)

_LZ4: Final = {
    "plain": (frame(), IS_READ),
    "dependent blocks": (frame(0x40), FAILED),
    "version 0": (frame(0x20), FAILED),
    "version 2": (frame(0xA0), FAILED),
    "a reserved flag": (frame(0x62), FAILED),
    "a dictionary": (frame(0x61, optional=b"\0\0\0\1"), FAILED),
    "wrong checksum of the header": (frame(wrong=1), FAILED),
    "size of the content": (frame(0x68, optional=pack("<Q", len(_ALL))), IS_READ),
    "wrong size of the content": (frame(0x68, optional=pack("<Q", 5)), IS_READ),
    "checksum of the content": (lz4.frame.compress(_ALL, block_linked=False, content_checksum=True), IS_READ),
    "wrong checksum of the content": (frame(0x64, behind=_END + b"abcd"), IS_READ),
    "no checksum of the content": (frame(0x64), FAILED),
    "half a checksum of the content": (frame(0x64, behind=_END + b"ab"), FAILED),
    "checksums of blocks": (_BLOCK_SUMS, IS_READ),
    "a wrong checksum of a block": (_BLOCK_SUMS[:-5] + bytes((_BLOCK_SUMS[-5] ^ 1,)) + _BLOCK_SUMS[-4:], FAILED),
    "no end": (frame(behind=b""), FAILED),
    "half an end": (frame(behind=b"\0\0"), FAILED),
    "two frames": (frame(blocks=(_FIRST,)) + frame(blocks=(_SECOND,)), RECORDS),
    "two frames, the first one complete": (frame() + frame(blocks=(_SECOND,)), IS_READ),
    "an empty frame first": (frame(blocks=()) + frame(), RECORDS),
    "an empty frame behind": (frame() + frame(blocks=()), IS_READ),
    "something behind": (frame() + b"something", IS_READ),
    "zeros behind": (frame() + bytes(100), IS_READ),
    "a skippable frame first": (_SKIPPED + frame(), FAILED),
    "a skippable frame behind": (frame() + _SKIPPED, IS_READ),
    "the legacy format": (b"\x02\x21\x4c\x18" + _packed(_ALL), FAILED),
    "blocks of no known size": (frame(block_size=0x30), FAILED),
    "blocks of 4 MiB": (frame(block_size=0x70), IS_READ),
    "a reserved bit of the size": (frame(block_size=0x48), FAILED),
    "the other reserved bit of the size": (frame(block_size=0xC0), FAILED),
    "a stored block above the size": (frame(blocks=(_MANY,)), FAILED, 1000),
    "a stored block within a larger size": (frame(block_size=0x50, blocks=(_MANY,)), IS_READ, 1000),
    "a block that opens to more than the size": (frame(blocks=(), behind=_packed(_MANY) + _END), FAILED, 1000),
    "more blocks than are looked at in place": (
        frame(blocks=tuple(_ALL[at : at + 7] for at in range(0, len(_ALL), 7))),
        IS_READ,
    ),
    "a stored block of nothing": (frame(blocks=(_FIRST, b"", _SECOND)), RECORDS),
    "a compressed block of nothing": (frame(blocks=(), behind=_packed(b"") + _packed(_ALL) + _END), RECORDS),
    "a corrupt block": (frame(blocks=(), behind=pack("<I", 10) + b"\xff" * 10 + _END), FAILED),
    "a block that is cut off": (frame()[:-40], FAILED),
    "a header and no more": (frame()[:7], FAILED),
    "half a header": (frame()[:6], FAILED),
    "nothing": (b"", FAILED),
}

_MEMBER: Final = gzip.compress(_ALL, mtime=0)
_MEMBERS: Final = gzip.compress(_FIRST, mtime=0), gzip.compress(_SECOND, mtime=0)


def _member(flags: int = 0, optional: bytes = b"") -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return _gzip_header(flags) + optional + deflate.compress(_ALL) + deflate.flush() + _MEMBER[-8:]


def _gzip_header(flags: int) -> bytes:
    return b"\x1f\x8b\x08" + bytes((flags,)) + bytes(6)


_GZIP: Final = {
    "plain": (_MEMBER, IS_READ),
    "two members": (_MEMBERS[0] + _MEMBERS[1], IS_READ),
    "zeros behind": (_MEMBER + bytes(50), IS_READ),
    "one zero behind": (_MEMBER + b"\0", IS_READ),
    "something behind": (_MEMBER + b"something that is longer than a header", IS_READ),
    "zeros behind two members": (_MEMBERS[0] + _MEMBERS[1] + bytes(20), IS_READ),
    "zeros between two members": (_MEMBERS[0] + bytes(20) + _MEMBERS[1], RECORDS),
    "half a header behind": (_MEMBER + _MEMBER[:6], IS_READ),
    "the second member cut off": (_MEMBERS[0] + _MEMBERS[1][:-3], FAILED),
    "an empty member behind": (_MEMBER + gzip.compress(b"", mtime=0), IS_READ),
    "an empty member first": (gzip.compress(b"", mtime=0) + _MEMBER, IS_READ),
    "a wrong checksum": (_MEMBER[:-8] + bytes(4) + _MEMBER[-4:], FAILED),
    "a wrong checksum of the second member": (_MEMBERS[0] + _MEMBERS[1][:-8] + bytes(4) + _MEMBERS[1][-4:], FAILED),
    "a wrong length": (_MEMBER[:-4] + b"\0\0\0\1", FAILED),
    "no checksum": (_MEMBER[:-8], FAILED),
    "half a length": (_MEMBER[:-3], FAILED),
    "a name": (_member(8, b"name\0"), IS_READ),
    "a name without an end": (_gzip_header(8) + b"name", FAILED),
    "a comment": (_member(16, b"comment\0"), IS_READ),
    "an extra field": (_member(4, b"\4\0abcd"), IS_READ),
    "the checksum of the header": (_member(2, pack("<H", zlib.crc32(_gzip_header(2)) & 0xFFFF)), IS_READ),
    "a wrong checksum of the header": (_member(2, b"ab"), FAILED),
    "reserved flags": (_member(0xE0), IS_READ),
    "another method": (b"\x1f\x8b\x07" + _member()[3:], FAILED),
    "zlib's format": (zlib.compress(_ALL), FAILED),
    "nothing": (b"", FAILED),
}

_XERIAL: Final = b"\x82SNAPPY\x00\0\0\0\1\0\0\0\1"


def _raw(content: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(content))


def _block(content: bytes) -> bytes:
    return pack(">i", len(_raw(content))) + _raw(content)


def _xerial(version: int, compatible: int) -> bytes:
    return _XERIAL[:8] + pack(">ii", version, compatible)


_SNAPPY: Final = {
    "plain": (_XERIAL + _block(_ALL), IS_READ),
    "one block": (_raw(_ALL), IS_READ),
    "two headers": (_XERIAL + _block(_FIRST) + _XERIAL + _block(_SECOND), IS_READ),
    "two headers in a row": (_XERIAL + _XERIAL + _block(_ALL), IS_READ),
    "a header behind": (_XERIAL + _block(_ALL) + _XERIAL, IS_READ),
    "half a header behind": (_XERIAL + _block(_ALL) + _XERIAL[:10], FAILED),
    "another version": (_xerial(2, 2) + _block(_ALL), IS_READ),
    "version 0": (_xerial(0, 0) + _block(_ALL), IS_READ),
    "another version behind": (_XERIAL + _block(_FIRST) + _xerial(5, 7) + _block(_SECOND), IS_READ),
    "version 0 behind": (_XERIAL + _block(_FIRST) + _xerial(0, 0) + _block(_SECOND), FAILED),
    "nearly a header behind": (_XERIAL + _block(_FIRST) + b"\x82SNAPPX\0\0\0\0\1\0\0\0\1" + _block(_SECOND), IS_READ),
    "a block of no bytes": (_XERIAL + _block(_FIRST) + bytes(4) + _block(_SECOND), FAILED),
    "an empty block": (_XERIAL + _block(_FIRST) + _block(b"") + _block(_SECOND), IS_READ),
    "three bytes behind": (_XERIAL + _block(_ALL) + b"abc", IS_READ),
    "zeros behind": (_XERIAL + _block(_ALL) + bytes(100), FAILED),
    "seven bytes behind": (_XERIAL + _block(_ALL) + b"abcdefg", FAILED),
    "a negative length": (_XERIAL + _block(_ALL) + pack(">i", -1) + b"abcd", FAILED),
    "a block that is cut off": (_XERIAL + _block(_ALL)[:-5], FAILED),
    "something behind one block": (_raw(_ALL) + b"something", FAILED),
    "two blocks without lengths": (_raw(_FIRST) + _raw(_SECOND), FAILED),
    "a header and no more": (_XERIAL, RECORDS),
    "half a header": (_XERIAL[:12], FAILED),
    "the framing format": (bytes(cramjam.snappy.compress(_ALL)), FAILED),
    "nothing": (b"", FAILED),
}

_ZSTD_ALL: Final = bytes(cramjam.zstd.compress(_ALL))
_ZSTD_FRAMES: Final = bytes(cramjam.zstd.compress(_FIRST)), bytes(cramjam.zstd.compress(_SECOND))


_WINDOW: Final = bytes((7 << 3,))
"""A window of 128 KiB, which a block fits into."""


def _zstd(descriptor: int, optional: bytes, behind: bytes = b"") -> bytes:
    return b"\x28\xb5\x2f\xfd" + bytes((descriptor,)) + optional + pack("<I", len(_ALL) << 3 | 1)[:3] + _ALL + behind


_ZSTD: Final = {
    "plain": (_ZSTD_ALL, IS_READ),
    "two frames": (b"".join(_ZSTD_FRAMES), IS_READ),
    "two frames, the first one complete": (_ZSTD_ALL + _ZSTD_FRAMES[1], RECORDS),
    "a skippable frame first": (_SKIPPED + _ZSTD_ALL, IS_READ),
    "a skippable frame between": (_ZSTD_FRAMES[0] + _SKIPPED + _ZSTD_FRAMES[1], IS_READ),
    "a skippable frame behind": (_ZSTD_ALL + _SKIPPED, IS_READ),
    "an empty frame first": (bytes(cramjam.zstd.compress(b"")) + _ZSTD_ALL, IS_READ),
    "something behind": (_ZSTD_ALL + b"something", FAILED),
    "zeros behind": (_ZSTD_ALL + bytes(40), FAILED),
    "cut off": (_ZSTD_ALL[:-4], FAILED),
    "the second frame cut off": (_ZSTD_FRAMES[0] + _ZSTD_FRAMES[1][:-4], RECORDS),
    "a dictionary": (_zstd(1, _WINDOW + b"\5"), FAILED),
    "dictionary 0": (_zstd(1, _WINDOW + b"\0"), IS_READ),
    "a reserved bit": (_zstd(8, _WINDOW), FAILED),
    "the unused bit": (_zstd(16, _WINDOW), IS_READ),
    "a wrong checksum": (_zstd(4, _WINDOW, b"abcd"), FAILED),
    "no checksum": (_zstd(4, _WINDOW), FAILED),
    "a wrong size": (_zstd(32, b"\5"), FAILED),
    "a window of 128 MiB": (_zstd(0, bytes((17 << 3,))), IS_READ),
    "a window of 256 MiB": (_zstd(0, bytes((18 << 3,))), FAILED),
    "nothing": (b"", RECORDS),
}

_COUNTS: Final = {
    "fewer records than there are": (Compression.NONE, _ALL, RECORDS, 9),
    "more records than there are": (Compression.NONE, _ALL, RECORDS, 11),
    "something behind the records": (Compression.NONE, _ALL + bytes(3), RECORDS),
    "fewer records than there are, gzip": (Compression.GZIP, _MEMBER, RECORDS, 9),
    "more records than there are, gzip": (Compression.GZIP, _MEMBER, RECORDS, 11),
}

_BY_CODEC: Final = {
    Compression.LZ4: _LZ4,
    Compression.GZIP: _GZIP,
    Compression.SNAPPY: _SNAPPY,
    Compression.ZSTD: _ZSTD,
}
CASES: Final = {
    f"{codec.name.lower()}: {name}": Case(codec, *fields)  # type: ignore[arg-type]
    for codec, cases in _BY_CODEC.items()
    for name, fields in cases.items()
} | {name: Case(*fields) for name, fields in _COUNTS.items()}  # type: ignore[arg-type]


def kafka_says() -> dict[str, str]:
    """Ask Kafka's own classes about each case."""
    lines = "".join(f"{case.batch.hex()}\n" for case in CASES.values())
    command = ["java", *SHORT_LIVED, "-Xmx256M", "-cp", f"{JARS}/*", str(PROGRAM)]
    asked = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return dict(zip(CASES, asked.stdout.splitlines(), strict=True))
