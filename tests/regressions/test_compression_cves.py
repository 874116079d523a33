"""CVE-2023-34455, CVE-2023-43642: snappy-java believed the length of a chunk, and allocated it.
CVE-2026-111073: a broker that opens what a client compressed needs a cap on what comes out.
"""

from __future__ import annotations

import struct
import tracemalloc
from functools import cache

import cramjam
import pytest

from barnabas.cluster.topic_config import TopicConfig
from barnabas.runtime.compression import CODECS, compress, decompress
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message_set import encode_message
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.push_telemetry import PushTelemetryRequest
from barnabas.wire.record_batch import Compression, Record, assemble_batch, build_batch, parse_header
from barnabas_gateway.core.backends.up_conversion import Refusal as UpRefusal
from barnabas_gateway.core.backends.up_conversion import up_convert
from barnabas_logstore.core.storage.batches.batch_opening import open_batch
from barnabas_logstore.core.storage.effect_results import Refusal
from tests.unit.gateway.world import World

XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
BLOCK = bytes(cramjam.snappy.compress_raw(b"content"))
LIMIT = 64 << 20


def peak_bytes(codec: Compression, data: bytes, limit: int) -> int:
    tracemalloc.start()
    try:
        assert decompress(codec, memoryview(data), limit) is None
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [0x7FFF_FFFF, len(BLOCK) + 1, 0, -1, -0x8000_0000])
def test_cve_2023_34455_the_length_of_a_chunk_is_held_against_the_bytes_that_are_there(length: int) -> None:
    data = XERIAL + struct.pack(">i", len(BLOCK)) + BLOCK + struct.pack(">i", length) + BLOCK
    assert peak_bytes(Compression.SNAPPY, data, LIMIT) < 1 << 16


@pytest.mark.parametrize("tail", [b"\x00", b"\x7f\xff\xff"])
def test_cve_2023_43642_half_a_length_is_no_chunk(tail: bytes) -> None:
    data = XERIAL + struct.pack(">i", len(BLOCK)) + BLOCK
    assert decompress(Compression.SNAPPY, memoryview(data + tail), LIMIT) == decompress(
        Compression.SNAPPY, memoryview(data), LIMIT
    )


@pytest.mark.parametrize("claimed", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x20"], ids=["4 GiB", "64 MiB"])
def test_cve_2023_43642_a_block_of_a_few_bytes_gets_no_buffer_for_what_it_claims(claimed: bytes) -> None:
    block = claimed + b"\x00x"
    assert peak_bytes(Compression.SNAPPY, block, LIMIT) < 1 << 16
    assert peak_bytes(Compression.SNAPPY, XERIAL + struct.pack(">i", len(block)) + block, LIMIT) < 1 << 16


COMPRESSORS = {
    Compression.GZIP: cramjam.gzip.compress,
    Compression.SNAPPY: cramjam.snappy.compress_raw,
    Compression.LZ4: cramjam.lz4.compress,
    Compression.ZSTD: cramjam.zstd.compress,
}


@cache
def bomb(codec: Compression) -> bytes:
    """256 MiB of zeroes."""
    return bytes(COMPRESSORS[codec](bytes(256 << 20)))


@pytest.mark.parametrize("codec", COMPRESSORS, ids=lambda codec: codec.name)
def test_cve_2026_111073_a_bomb_takes_no_more_memory_than_its_limit_allows(codec: Compression) -> None:
    limit = 1 << 20
    assert peak_bytes(codec, bomb(codec), limit) < 4 * limit


def test_cve_2026_111073_a_bomb_that_a_topic_wants_opened_is_refused() -> None:
    for codec in COMPRESSORS:
        header = parse_header(build_batch([Record(b"k", b"v", 5)])).with_compression(codec)
        config = TopicConfig(cleanup_policy="compact", max_message_bytes=1 << 30)
        # Java's consumers can't read the frame of another compressor: that would be refused for another reason.
        payload = compress(codec, bytes(256 << 20), None) if codec is Compression.LZ4 else bomb(codec)
        outcome = open_batch(memoryview(assemble_batch(header, payload)), "t-0", config, 5, CODECS)
        assert isinstance(outcome, Refusal)
        assert outcome.error is ErrorCode.INVALID_RECORD
        assert outcome.message.startswith("The batch can't be decompressed"), "it is refused before it is all there"


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4], ids=lambda codec: codec.name)
@pytest.mark.parametrize("magic", [0, 1])
def test_cve_2026_111073_a_bomb_in_an_old_format_is_refused(codec: Compression, magic: int) -> None:
    outcome = up_convert(encode_message(0, magic, None, bomb(codec), compression=codec), CODECS)
    assert isinstance(outcome, UpRefusal)
    assert outcome.error is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_cve_2026_111073_metrics_that_a_client_pushes_are_not_opened(codec: Compression) -> None:
    """PushTelemetry needs no right, and its compressed metrics were opened without a bound. Here it is not offered."""
    world = World()
    client, other = world.client(), world.client()
    bomb = compress(codec, bytes(LIMIT), None)
    request = PushTelemetryRequest(bytes(16), 1, False, codec, bomb)
    tracemalloc.start()
    try:
        client.ask(request, ApiKey.PUSH_TELEMETRY, 0)
        assert tracemalloc.get_traced_memory()[1] < LIMIT // 4
    finally:
        tracemalloc.stop()
    assert (client.is_closed, client.answers) == (True, [])
    other.ask(ApiVersionsRequest(), ApiKey.API_VERSIONS, 0)
    (answer,) = other.answers
    assert ApiKey.PUSH_TELEMETRY not in {each.api_key for each in answer.api_keys}
