from __future__ import annotations

import pytest

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    request_header_version,
    response_header_version,
)
from barnabas.wire.primitives import MalformedFrame


@pytest.mark.parametrize(
    ("api_key", "api_version", "request_version", "response_version"),
    [
        (ApiKey.PRODUCE, 8, 1, 0),
        (ApiKey.PRODUCE, 9, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.API_VERSIONS, 0x7FFF, 2, 0),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 0, 0, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 1, 1, 0),
        (ApiKey.DESCRIBE_CLUSTER, 0, 2, 1),
        (4711, 99, 1, 0),
    ],
)
def test_header_versions(api_key: int, api_version: int, request_version: int, response_version: int) -> None:
    assert request_header_version(api_key, api_version) == request_version
    assert response_header_version(api_key, api_version) == response_version


@pytest.mark.parametrize(
    ("header", "encoded"),
    [
        (RequestHeader(0, 8, 7, "ab"), "0000 0008 00000007 0002 6162"),
        (RequestHeader(0, 9, 7, "ab"), "0000 0009 00000007 0002 6162 00"),
        (RequestHeader(18, 3, -1, None), "0012 0003 ffffffff ffff 00"),
        (RequestHeader(7, 0, 5, None), "0007 0000 00000005"),
    ],
)
def test_the_client_id_is_never_compact(header: RequestHeader, encoded: str) -> None:
    frame = bytes.fromhex(encoded)
    assert encode_request_header(header.api_key, header.api_version, header.correlation_id, header.client_id) == frame
    assert decode_request_header(memoryview(frame + b"body")) == (header, len(frame))


def test_unknown_tags_of_a_header_are_skipped() -> None:
    frame = memoryview(bytes.fromhex("0000 0009 00000007 0002 6162 02 0001aa 0902bbcc 4242"))
    assert decode_request_header(frame) == (RequestHeader(0, 9, 7, "ab"), 20)
    response = memoryview(bytes.fromhex("00000007 01 0001aa 4242"))
    assert decode_response_header(ApiKey.PRODUCE, 9, response) == (7, 8)


@pytest.mark.parametrize("encoded", ["0000 0009 00000007 0002 6162 01 0001aa", "0012 0003 ffffffff ffff 00"])
def test_a_truncated_request_header_is_malformed(encoded: str) -> None:
    frame = bytes.fromhex(encoded)
    for length in range(len(frame)):
        with pytest.raises(MalformedFrame):
            decode_request_header(memoryview(frame[:length]))


@pytest.mark.parametrize("tags", ["02 0100 0100", "02 0200 0100"])
def test_tags_of_a_header_have_to_ascend(tags: str) -> None:
    with pytest.raises(MalformedFrame, match="tag 1 follows tag"):
        decode_request_header(memoryview(bytes.fromhex("0000 0009 00000007 0002 6162" + tags)))
    with pytest.raises(MalformedFrame, match="tag 1 follows tag"):
        decode_response_header(ApiKey.PRODUCE, 9, memoryview(bytes.fromhex("00000007" + tags)))


def test_a_truncated_response_header_is_malformed() -> None:
    frame = bytes.fromhex("00000007 01 0001aa")
    for length in range(len(frame)):
        with pytest.raises(MalformedFrame):
            decode_response_header(ApiKey.PRODUCE, 9, memoryview(frame[:length]))


@pytest.mark.parametrize(
    "encoded", ["0000 0009 00000007 fffe 00", "0000 0009 00000007 7fff 00", "0000 0009 00000007 0000 ffffffff0f"]
)
def test_a_header_that_lies_about_lengths_is_malformed(encoded: str) -> None:
    with pytest.raises(MalformedFrame):
        decode_request_header(memoryview(bytes.fromhex(encoded)))


@pytest.mark.parametrize(
    ("encoded", "client_id", "position"),
    [
        ("1267 0063 00000007 0002 6162", "ab", 12),
        ("1267 0063 00000007 7fff 6162", None, 8),
        ("1267 0063 00000007", None, 8),
    ],
)
def test_the_header_of_an_unknown_key_can_still_be_named(encoded: str, client_id: str | None, position: int) -> None:
    header, body_position = decode_request_header(memoryview(bytes.fromhex(encoded)))
    assert header == RequestHeader(4711, 99, 7, client_id)
    assert body_position == position
