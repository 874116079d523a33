"""Laws of the message codec that hold for every message, in every version, with any value."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.wire import codec
from barnabas.wire.api_keys import CLIENT_KEYS, ApiKey
from barnabas.wire.decoding import compile_decoder
from barnabas.wire.headers import decode_request_header, decode_response_header
from barnabas.wire.messages import MESSAGES
from barnabas.wire.primitives import MalformedFrame, uvarint
from barnabas.wire.schema import fields_of
from tests.tiers import Cost, examples
from tests.unit.wire.strategies import ALL_VERSIONS, message_of, messages

MANY = examples(Cost.LOW)


def is_request(message: object, key: ApiKey) -> bool:
    return isinstance(message, MESSAGES[key][0])


def frame_of(message: Any, key: ApiKey, version: int) -> memoryview:
    """The frame without its size, after a look at that size."""
    if is_request(message, key):
        buffers = codec.encode_request(message, version, 77, "a client")
    else:
        buffers = codec.encode_response(message, version, 77)
    whole = b"".join(buffers)
    assert struct.unpack_from(">i", whole)[0] == len(whole) - 4
    return memoryview(whole)[4:]


def decode(frame: memoryview, message: type[Any], key: ApiKey, version: int) -> Any:
    if message is MESSAGES[key][0]:
        header, position = decode_request_header(frame)
        assert (header.api_key, header.api_version, header.correlation_id) == (key, version, 77)
        return codec.decode_request(key, version, frame, position)
    correlation_id, response = codec.decode_response(key, version, frame)
    assert correlation_id == 77
    return response


@pytest.mark.parametrize("key", CLIENT_KEYS, ids=lambda key: key.name)
@settings(examples(Cost.EXTREME), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_encoded_is_decoded(key: ApiKey, data: st.DataObject) -> None:
    for version in range(key.schema_versions.first, key.schema_versions.last + 1):
        for message_type in MESSAGES[key]:
            message = data.draw(message_of(message_type, version))
            assert decode(frame_of(message, key, version), message_type, key, version) == message


@examples(Cost.HIGH)
@given(messages(), st.data())
def test_a_truncated_frame_is_malformed_and_nothing_else(case: tuple[Any, ApiKey, int], data: st.DataObject) -> None:
    message, key, version = case
    frame = frame_of(message, key, version)
    every_length = st.integers(0, len(frame) - 1)
    lengths = range(len(frame)) if len(frame) < 300 else data.draw(st.lists(every_length, min_size=50, max_size=50))
    for length in lengths:
        with pytest.raises(MalformedFrame):
            decode(frame[:length], type(message), key, version)


@MANY
@given(st.sampled_from(ALL_VERSIONS), st.binary(max_size=80))
def test_random_bytes_decode_or_are_malformed(case: tuple[type[Any], ApiKey, int], noise: bytes) -> None:
    message, key, version = case
    frame = memoryview(noise)
    decoder = compile_decoder(message, version, key.is_flexible(version))
    try:
        decoder(frame, 0)
    except MalformedFrame:
        return


@MANY
@given(messages(), st.data())
def test_a_changed_byte_decodes_or_is_malformed(case: tuple[Any, ApiKey, int], data: st.DataObject) -> None:
    message, key, version = case
    frame = bytearray(frame_of(message, key, version))
    _, start = (
        decode_request_header(memoryview(frame))
        if is_request(message, key)
        else decode_response_header(key, version, memoryview(frame))
    )
    if start == len(frame):
        return
    for _ in range(5):
        position = data.draw(st.integers(start, len(frame) - 1))
        frame[position] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        try:
            decode(memoryview(frame), type(message), key, version)
        except MalformedFrame:
            continue


FLEXIBLE = [case for case in ALL_VERSIONS if case[1].is_flexible(case[2])]


@MANY
@given(st.data(), st.dictionaries(st.integers(100, 2**32 - 1), st.binary(max_size=200), max_size=4))
def test_unknown_tags_are_ignored(data: st.DataObject, unknown: dict[int, bytes]) -> None:
    message, key, version = data.draw(st.sampled_from(FLEXIBLE))
    value = data.draw(message_of(message, version))
    for field in fields_of(message, version):
        if field.tag is not None:
            setattr(value, field.name, getattr(message(), field.name))
    frame = bytes(frame_of(value, key, version))
    assert frame[-1] == 0, "the count of the outermost struct's tags comes last"
    tagged = frame[:-1] + uvarint(len(unknown))
    for tag in sorted(unknown):
        tagged += uvarint(tag) + uvarint(len(unknown[tag])) + unknown[tag]
    assert decode(memoryview(tagged), message, key, version) == value


@given(messages())
def test_bytes_after_the_last_field_are_ignored(case: tuple[Any, ApiKey, int]) -> None:
    message, key, version = case
    frame = memoryview(bytes(frame_of(message, key, version)) + b"more")
    assert decode(frame, type(message), key, version) == message
