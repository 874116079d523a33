"""The codecs: read what others wrote, be read by others, and never give more than was asked for."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable

import cramjam
import lz4.frame
import pytest
from aiokafka import codec as aiokafka_codec

from barnabas.runtime.compression import CODECS, compress, decompress
from barnabas.wire.record_batch import Compression
from tests.unit.wire.record_oracles import kafka_codec

PLAIN = b"a record, another record, " * 400
LIMIT = 1 << 20


def xerial(data: bytes) -> bytes:
    blocks = b"".join(
        struct.pack(">i", len(block)) + block
        for start in range(0, len(data), 1000)
        for block in [bytes(cramjam.snappy.compress_raw(data[start : start + 1000]))]
    )
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + blocks


OTHERS = [
    pytest.param(Compression.GZIP, gzip.compress, id="gzip"),
    pytest.param(Compression.SNAPPY, cramjam.snappy.compress_raw, id="snappy"),
    pytest.param(Compression.SNAPPY, xerial, id="snappy of Java"),
    pytest.param(Compression.LZ4, cramjam.lz4.compress, id="lz4"),
    pytest.param(Compression.ZSTD, cramjam.zstd.compress, id="zstd"),
]
DECODERS: dict[Compression, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    Compression.GZIP: (kafka_codec.gzip_decode, aiokafka_codec.gzip_decode),
    Compression.SNAPPY: (kafka_codec.snappy_decode, aiokafka_codec.snappy_decode),
    Compression.LZ4: (kafka_codec.lz4_decode, aiokafka_codec.lz4_decode),
    Compression.ZSTD: (kafka_codec.zstd_decode, aiokafka_codec.zstd_decode),
}


@pytest.mark.parametrize(("codec", "encode"), OTHERS)
def test_every_codec_is_opened_up_to_the_limit(codec: int, encode: type[bytes]) -> None:
    data = memoryview(bytes(encode(PLAIN)))
    assert decompress(codec, data, LIMIT) == PLAIN
    assert decompress(codec, data, len(PLAIN)) == PLAIN
    assert decompress(codec, data, len(PLAIN) - 1) is None


@pytest.mark.parametrize(("codec", "encode"), OTHERS)
def test_a_bomb_ends_at_the_limit(codec: int, encode: type[bytes]) -> None:
    data = memoryview(bytes(encode(bytes(16 << 20))))
    assert decompress(codec, data, LIMIT) is None


@pytest.mark.parametrize(("codec", "encode"), OTHERS)
def test_damage_is_no_answer(codec: int, encode: type[bytes]) -> None:
    data = bytes(encode(PLAIN))
    assert decompress(codec, memoryview(data[: len(data) // 2]), LIMIT) is None
    assert decompress(codec, memoryview(b"\xff" * 50), LIMIT) is None
    assert decompress(codec, memoryview(b""), LIMIT) is None


def test_an_unknown_codec_is_no_answer() -> None:
    assert decompress(7, memoryview(PLAIN), LIMIT) is None


def test_gzip_members_are_read_one_after_the_other_within_one_limit() -> None:
    data = gzip.compress(PLAIN) + gzip.compress(PLAIN)
    assert decompress(Compression.GZIP, data, LIMIT) == 2 * PLAIN
    assert decompress(Compression.GZIP, data, 2 * len(PLAIN) - 1) is None
    assert decompress(Compression.GZIP, data + b"\x1f", LIMIT) == 2 * PLAIN


@pytest.mark.parametrize("data", [b"", b"x", PLAIN, PLAIN * 10], ids=len)
@pytest.mark.parametrize("codec", DECODERS, ids=lambda codec: codec.name)
def test_what_is_written_is_read_by_us_and_by_others(codec: Compression, data: bytes) -> None:
    written = compress(codec, memoryview(data), None)
    assert CODECS.decompress(codec, written, max(1, len(data))) == data
    if data or codec is not Compression.SNAPPY:
        assert [bytes(decode(written)) for decode in DECODERS[codec]] == [data, data]


def test_lz4_blocks_are_independent_since_java_refuses_linked_ones() -> None:
    info = lz4.frame.get_frame_info(compress(Compression.LZ4, PLAIN * 20, None))
    assert info["block_linked"] is False


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Compression.GZIP, (1, 9)), (Compression.LZ4, (1, 12)), (Compression.ZSTD, (-50, 19))],
    ids=["gzip", "lz4", "zstd"],
)
def test_a_higher_level_is_smaller(codec: Compression, levels: tuple[int, int]) -> None:
    data = b"".join(struct.pack(">I", number * number) for number in range(20_000))
    fast, small = (compress(codec, data, level) for level in levels)
    assert len(small) < len(fast)
    assert decompress(codec, fast, LIMIT) == decompress(codec, small, LIMIT) == data


def test_uncompressed_is_a_codec_too() -> None:
    assert compress(Compression.NONE, memoryview(PLAIN), None) == PLAIN
