"""What requests did to other brokers before any authentication, or because zero was not considered.

- CVE-2026-111108: Kafka allocated arrays by the count in a request.
- CVE-2026-111115: some 20 million tagged fields in one request kept Kafka busy and full.
- CVE-2026-67235, CVE-2026-66079: RabbitMQ bounded single sizes and not their sum, and took any number of elements that
  have no bytes.
- CVE-2026-83525: an empty array stopped Kafka's controller.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from barnabas.wire.api_keys import CLIENT_KEYS, SERVED_KEYS, ApiKey
from barnabas.wire.decoding import compile_decoder
from barnabas.wire.encoding import compile_encoder
from barnabas.wire.headers import decode_request_header
from barnabas.wire.messages import MESSAGES, Request
from barnabas.wire.primitives import ELEMENTS_MAX, TAGGED_FIELDS_MAX, MalformedFrame, uvarint
from barnabas.wire.schema import fields_of, wire
from tests.unit.gateway.world import World
from tests.unit.wire.samples import empty, full

PEAK_BYTES_MAX = 1_000_000


def body_of(request: Any, key: ApiKey, version: int) -> bytes:
    return b"".join(compile_encoder(type(request), version, key.is_flexible(version))(request))


@pytest.mark.parametrize("key", CLIENT_KEYS, ids=lambda key: key.name)
def test_cve_2026_111108_no_count_in_any_request_is_believed(key: ApiKey) -> None:
    """Two thousand million elements, claimed at one place after the other, cost next to nothing."""
    request = MESSAGES[key][0]
    for version in {key.schema_versions.first, key.flexible_from, key.schema_versions.last}:
        if version not in key.schema_versions:
            continue
        is_flexible = key.is_flexible(version)
        decode = compile_decoder(request, version, is_flexible)
        body = body_of(full(request, version, count(1)), key, version)
        lie = bytes.fromhex("ffffffff07" if is_flexible else "7fffffff")
        places = range(0, len(body), 1 + len(body) // 200)
        frames = [memoryview(body[:place] + lie + body[place:]) for place in places]
        tracemalloc.start()
        for frame in frames:
            try:
                decode(frame, 0)
            except MalformedFrame:
                continue
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < PEAK_BYTES_MAX, f"v{version}"


def tags(number: int) -> bytes:
    return uvarint(number) + b"".join(uvarint(1000 + tag) + b"\0" for tag in range(number))


def test_cve_2026_111115_the_tagged_fields_of_a_header_are_few() -> None:
    start = bytes.fromhex("0012 0003 00000007 ffff")
    header, position = decode_request_header(memoryview(start + tags(TAGGED_FIELDS_MAX)))
    assert (header.api_key, position) == (ApiKey.API_VERSIONS, len(start + tags(TAGGED_FIELDS_MAX)))
    with pytest.raises(MalformedFrame, match="tagged fields in one struct"):
        decode_request_header(memoryview(start + tags(TAGGED_FIELDS_MAX + 1)))


@pytest.mark.parametrize("key", [key for key in CLIENT_KEYS if key.is_flexible(key.schema_versions.last)])
def test_cve_2026_111115_the_tagged_fields_of_a_request_are_few(key: ApiKey) -> None:
    request, version = MESSAGES[key][0], key.schema_versions.last
    decode = compile_decoder(request, version, True)
    plain = body_of(request(), key, version)
    assert plain[-1] == 0, "no tagged fields"
    assert decode(memoryview(plain[:-1] + tags(TAGGED_FIELDS_MAX)), 0) == request()
    with pytest.raises(MalformedFrame, match="tagged fields in one struct"):
        decode(memoryview(plain[:-1] + tags(TAGGED_FIELDS_MAX + 1)), 0)


@dataclass(slots=True)
class Later:
    """Nothing in version 0."""

    value: int = wire("int32", "1+")


@dataclass(slots=True)
class Inner:
    later: list[Later] = wire([Later])


@dataclass(slots=True)
class Outer:
    inner: list[Inner] = wire([Inner])
    numbers: list[int] = wire(["int8"])


def test_cve_2026_111115_tagged_fields_are_counted_over_all_structs() -> None:
    element = b"\x01" + tags(TAGGED_FIELDS_MAX)
    number = ELEMENTS_MAX // TAGGED_FIELDS_MAX
    frame = uvarint(number + 1) + element * number + b"\x01\x00"
    with pytest.raises(MalformedFrame, match="tagged fields: more than 131072 elements"):
        compile_decoder(Outer, 0, True)(memoryview(frame), 0)


@pytest.mark.parametrize("is_flexible", [False, True])
def test_cve_2026_66079_elements_without_bytes_are_bounded_like_others(is_flexible: bool) -> None:
    decode = compile_decoder(Inner, 0, is_flexible)
    lie = bytes.fromhex("ffffffff07" if is_flexible else "7fffffff")
    with pytest.raises(MalformedFrame, match=r"later: 214748364[67] elements can't be in the 6 bytes"):
        decode(memoryview(lie + bytes(6)), 0)
    many = uvarint(ELEMENTS_MAX + 2) if is_flexible else (ELEMENTS_MAX + 1).to_bytes(4)
    with pytest.raises(MalformedFrame, match="later: more than 131072 elements"):
        decode(memoryview(many + bytes(ELEMENTS_MAX + 1)), 0)


def test_cve_2026_67235_the_sum_over_nested_arrays_is_bounded() -> None:
    """Each array fits into its bytes and under the bound; together they are one too many."""
    inner = [Inner([Later()] * 1023) for _ in range(ELEMENTS_MAX // 1024)]
    encode, decode = compile_encoder(Outer, 0, False), compile_decoder(Outer, 0, False)
    fits = Outer(inner)
    # Elements without bytes are taken for one byte each, which have to be there.
    assert decode(memoryview(b"".join(encode(fits)) + bytes(1023)), 0) == fits
    with pytest.raises(MalformedFrame, match="numbers: more than 131072 elements"):
        decode(memoryview(b"".join(encode(Outer(inner, [1]))) + bytes(1023)), 0)


def with_empty_arrays(request: type[Request], version: int) -> Iterator[Request]:
    """The request with nothing in its arrays; with null where that is allowed; and with elements that are empty."""
    yield request()
    yield empty(request, version)
    yield request(
        **{
            field.name: [field.kind()]
            for field in fields_of(request, version)
            if field.is_array and not isinstance(field.kind, str)
        }
    )


@pytest.mark.parametrize("key", CLIENT_KEYS, ids=lambda key: key.name)
def test_cve_2026_83525_every_request_can_be_empty(key: ApiKey) -> None:
    for version in range(key.schema_versions.first, key.schema_versions.last + 1):
        for request in with_empty_arrays(MESSAGES[key][0], version):
            decode = compile_decoder(type(request), version, key.is_flexible(version))
            assert decode(memoryview(body_of(request, key, version)), 0) == request


@pytest.mark.parametrize("key", SERVED_KEYS, ids=lambda key: key.name)
def test_cve_2026_83525_an_empty_request_leaves_the_gateway_serving(key: ApiKey) -> None:
    """Answered, refused or handed on, but never a fault: the next client is served."""
    for version in range(key.advertised_min, key.version_max + 1):
        for request in with_empty_arrays(MESSAGES[key][0], version):
            world = World()
            world.client().ask(request, key, version)
            assert not world.contained, f"v{version}: {request}"
            other = world.client()
            other.ask(MESSAGES[ApiKey.API_VERSIONS][0](), ApiKey.API_VERSIONS, 0)
            assert len(other.answers) == 1
