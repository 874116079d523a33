from __future__ import annotations

import struct
import tracemalloc
from dataclasses import dataclass

import pytest

from barnabas.wire import codec
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.decoding import compile_decoder
from barnabas.wire.encoding import compile_encoder
from barnabas.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from barnabas.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from barnabas.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from barnabas.wire.primitives import ELEMENTS_MAX, MalformedFrame
from barnabas.wire.schema import wire


def body(encoded: str) -> memoryview:
    return memoryview(bytes.fromhex(encoded))


def test_produced_records_are_slices_of_the_frame() -> None:
    request = ProduceRequest(
        acks=-1, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, b"abc")])]
    )
    frame = memoryview(b"".join(codec.encode_request(request, 9, 1, "c")))[4:]
    decoded = codec.decode_request(ApiKey.PRODUCE, 9, frame, 12)
    assert decoded == request
    assert isinstance(decoded, ProduceRequest)
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame.obj


@pytest.mark.parametrize("version", [4, 12, 18])
def test_fetched_records_are_handed_on_as_they_are(version: int) -> None:
    first, second = memoryview(bytes(5000)), b"second"
    partitions = [
        PartitionData(0, records=first),
        PartitionData(1, records=b""),
        PartitionData(2),
        PartitionData(3, records=second),
    ]
    response = FetchResponse(
        responses=[FetchableTopicResponse(topic="t" if version < 13 else "", partitions=partitions)]
    )
    buffers = codec.encode_response(response, version, 7)
    assert [buffer for buffer in buffers if buffer is first or buffer is second] == [first, second]
    assert all(len(buffer) > 0 for buffer in buffers)
    whole = b"".join(buffers)
    assert struct.unpack_from(">ii", whole) == (len(whole) - 4, 7)
    assert codec.decode_response(ApiKey.FETCH, version, memoryview(whole)[4:]) == (7, response)


def test_encoding_twice_gives_the_same_bytes() -> None:
    response = FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(0, records=b"abc")])]
    )
    assert codec.encode_response(response, 12, 7) == codec.encode_response(response, 12, 7)


def test_the_api_versions_response_never_has_a_flexible_header() -> None:
    response = ApiVersionsResponse(35, [ApiVersion(18, 0, 4)])
    assert b"".join(codec.encode_response(response, 0, 7)).hex() == "0000001000000007002300000001001200000004"
    v3 = b"".join(codec.encode_response(response, 3, 7))
    assert v3[8:10].hex() == "0023"
    assert codec.decode_response(ApiKey.API_VERSIONS, 3, memoryview(v3)[4:]) == (7, response)


def test_produce_before_v3_is_read_and_refused() -> None:
    request = ProduceRequest(
        acks=1, timeout_ms=9, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(3, b"old")])]
    )
    assert (
        codec.decode_request(
            ApiKey.PRODUCE, 0, body("0001 00000009 00000001 0001 74 00000001 00000003 00000003 6f6c64"), 0
        )
        == request
    )
    refusal = ProduceResponse([TopicProduceResponse("t", partition_responses=[PartitionProduceResponse(3, 35, -1)])])
    assert b"".join(codec.encode_response(refusal, 0, 1))[8:].hex() == "0000000100017400000001000000030023" + "ff" * 8


@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        (ApiKey.PRODUCE, 14),
        (ApiKey.PRODUCE, -1),
        (ApiKey.FETCH, 19),
        (ApiKey.LEADER_AND_ISR, 0),
        (4711, 0),
    ],
)
def test_what_has_no_schema_is_an_unsupported_version(api_key: int, version: int) -> None:
    with pytest.raises(codec.UnsupportedVersion):
        codec.decode_request(api_key, version, body("00000000"), 0)
    with pytest.raises(codec.UnsupportedVersion):
        codec.decode_response(api_key, version, body("00000000"))


def test_a_message_can_be_encoded_only_in_its_versions() -> None:
    with pytest.raises(codec.UnsupportedVersion, match="Fetch v19 has no schema"):
        codec.encode_request(FetchRequest(), 19, 1, None)


@pytest.mark.parametrize(
    ("api_key", "version", "encoded", "message"),
    [
        (ApiKey.METADATA, 0, "7fffffff 0001 61 0000", "topics: 2147483647 elements can't be in the 5 bytes"),
        (ApiKey.METADATA, 9, "ffffffff07 02 61 00 00", "topics: 2147483646 elements can't be in the 4 bytes"),
        (ApiKey.METADATA, 9, "ffffffffff", "does not fit into 32 bits"),
        (ApiKey.METADATA, 0, "ffffffff", "topics: null, and must not be"),
        (ApiKey.METADATA, 1, "fffffffe", "topics: a length of -2"),
        (ApiKey.METADATA, 1, "00000001 ffff", "name: null, and must not be"),
        (ApiKey.METADATA, 1, "00000001 7fff", "name: a length of 32767, with 0 bytes left"),
        (ApiKey.METADATA, 1, "00000001 8000", "name: a length of -32768"),
        (ApiKey.METADATA, 9, "02 00 00 00 00 00", "name: null, and must not be"),
        (ApiKey.METADATA, 9, "01 00 00 00 01", "tagged fields: 1 elements can't be in the 0 bytes"),
        (ApiKey.METADATA, 9, "01 00 00 00 02 0100 0100", "tag 1 follows tag 1"),
        (ApiKey.METADATA, 9, "01 00 00 00 01 01ff01", "tag 1: a length of 255, with 0 bytes left"),
        (ApiKey.METADATA, 9, "01 00 00 00 ffffffff0f", "tagged fields: 4294967295 elements can't be in the 0 bytes"),
        (ApiKey.METADATA, 9, "01 00 00 00 8108" + "00" * 2050, "1025 tagged fields in one struct"),
        (ApiKey.PRODUCE, 9, "00 0001 00000000 02 02 74 02 00000000 7f 00", "records: a length of 126, with 1"),
        (ApiKey.PRODUCE, 3, "ffff 0001 00000000 00000001 0001 74 00000001 00000000 fffffffe", "records: a length of"),
        (ApiKey.DELETE_TOPICS, 1, "7fffffff 0000", "topic_names: 2147483647 elements"),
    ],
)  # fmt: skip
def test_malformed_requests_say_what_is_wrong(api_key: ApiKey, version: int, encoded: str, message: str) -> None:
    with pytest.raises(MalformedFrame, match=message) as caught:
        codec.decode_request(api_key, version, body(encoded), 0)
    assert str(caught.value).startswith(f"{api_key.api_name}Request v{version}: ")


def test_a_string_may_not_be_longer_than_an_int16_can_say() -> None:
    longest = MetadataRequest([MetadataRequestTopic(name="x" * 32767)])
    frame = memoryview(b"".join(compile_encoder(MetadataRequest, 9, True)(longest)))
    assert codec.decode_request(ApiKey.METADATA, 9, frame, 0) == longest
    longer = MetadataRequest([MetadataRequestTopic(name="x" * 32768)])
    frame = memoryview(b"".join(compile_encoder(MetadataRequest, 9, True)(longer)))
    with pytest.raises(MalformedFrame, match="name: a length of 32768"):
        codec.decode_request(ApiKey.METADATA, 9, frame, 0)


@pytest.mark.parametrize(
    "api_key", [ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.DELETE_TOPICS, ApiKey.CREATE_TOPICS]
)
def test_a_count_of_two_billion_allocates_nothing(api_key: ApiKey) -> None:
    for version in range(api_key.version_min, api_key.version_max + 1):
        for lie in ("7fffffff", "ffffffff07"):
            for start in range(20):
                frame = memoryview(bytes(start) + bytes.fromhex(lie) + bytes(6))
                tracemalloc.start()
                try:
                    codec.decode_request(api_key, version, frame, 0)
                except MalformedFrame:
                    pass
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                assert peak < 1_000_000


def test_elements_are_counted_over_all_arrays_of_a_request() -> None:
    small = TopicProduceData("t", partition_data=[PartitionProduceData(number) for number in range(15)])
    request = ProduceRequest(topic_data=[small] * (ELEMENTS_MAX // 16))
    encoded = b"".join(compile_encoder(ProduceRequest, 9, True)(request))
    assert codec.decode_request(ApiKey.PRODUCE, 9, memoryview(encoded), 0) == request
    request.topic_data.append(TopicProduceData())
    encoded = b"".join(compile_encoder(ProduceRequest, 9, True)(request))
    with pytest.raises(MalformedFrame, match="partition_data: more than 131072 elements"):
        codec.decode_request(ApiKey.PRODUCE, 9, memoryview(encoded), 0)


def test_metadata_of_a_large_cluster_can_be_read() -> None:
    partition = MetadataResponsePartition(replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3])
    response = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[partition] * 100_000)])
    frame = memoryview(b"".join(codec.encode_response(response, 9, 7)))[4:]
    assert codec.decode_response(ApiKey.METADATA, 9, frame) == (7, response)


def test_unknown_tags_between_and_after_known_ones() -> None:
    plain = compile_encoder(FetchRequest, 15, True)(FetchRequest(cluster_id="c", replica_state=ReplicaState(1, 2)))
    encoded = b"".join(plain)
    cluster_id, replica_state = bytes.fromhex("00 02 0263"), bytes.fromhex("01 0d 00000001 0000000000000002 00")
    tags = b"\x02" + cluster_id + replica_state
    assert encoded.endswith(tags)
    more_tags = b"\x04" + cluster_id + replica_state + bytes.fromhex("05 03 aabbcc") + bytes.fromhex("8001 00")
    more = memoryview(encoded.removesuffix(tags) + more_tags)
    assert codec.decode_request(ApiKey.FETCH, 15, more, 0) == codec.decode_request(
        ApiKey.FETCH, 15, memoryview(encoded), 0
    )


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        ("01 0e 00000001 0000000000000002 00 00", "replica_state: its size differs from its value by -1 bytes"),
        ("01 0c 00000001 0000000000000002 00", "replica_state: its size differs from its value by 1 bytes"),
        ("00 03 026300", "cluster_id: its size differs from its value by -1 bytes"),
    ],
)
def test_a_known_tag_must_have_its_size(tag: str, message: str) -> None:
    encoded = b"".join(compile_encoder(FetchRequest, 15, True)(FetchRequest()))
    assert encoded[-1] == 0
    with pytest.raises(MalformedFrame, match=message):
        codec.decode_request(ApiKey.FETCH, 15, memoryview(encoded[:-1] + b"\x01" + bytes.fromhex(tag)), 0)


def test_a_struct_of_defaults_is_not_written_as_a_tag() -> None:
    absent = PartitionProduceResponse(0)
    default = PartitionProduceResponse(0, current_leader=LeaderIdAndEpoch())
    encode = compile_encoder(PartitionProduceResponse, 10, True)
    assert encode(default) == encode(absent)


def test_arrays_of_two_decoded_messages_are_not_shared() -> None:
    frame = memoryview(b"".join(compile_encoder(DeleteTopicsRequest, 1, False)(DeleteTopicsRequest())))
    one, other = (codec.decode_request(ApiKey.DELETE_TOPICS, 1, frame, 0) for _ in range(2))
    assert isinstance(one, DeleteTopicsRequest)
    assert isinstance(other, DeleteTopicsRequest)
    one.topics.append(None)  # type: ignore[arg-type]
    assert other.topics == []


@dataclass(slots=True)
class Place:
    name: str = wire("string")
    number: int = wire("int16", "0")
    later: int = wire("int32", "1+", default=-1)


@dataclass(slots=True)
class EveryType:
    flag: bool = wire("bool")
    tiny: int = wire("int8")
    small: int = wire("uint16")
    medium: int = wire("uint32")
    real: float = wire("float64")
    blob: bytes = wire("bytes")
    nullable_blob: bytes | None = wire("bytes", nullable="0+", default=None)
    ids: list[bytes] = wire(["uuid"])
    flags: list[bool] = wire(["bool"])
    offsets: list[int] = wire(["int64"])
    maybe_offsets: list[int] | None = wire(["int64"], nullable="0+", default=None)
    before: int = wire("int8")
    place: Place = wire(Place)
    between: int = wire("int8")
    maybe_place: Place | None = wire(Place, nullable="0+")
    after: int = wire("int8")
    later_place: Place = wire(Place, "1+")
    maybe_later_place: Place | None = wire(Place, "1+", nullable="1+")


@pytest.mark.parametrize("is_flexible", [False, True])
@pytest.mark.parametrize(
    "message",
    [
        EveryType(),
        EveryType(
            True, -128, 65535, 2**32 - 1, 0.5, b"blob", b"", [b"1" * 16, b"2" * 16], [True, False], [-1, 2**63 - 1], []
        ),
        EveryType(before=1, place=Place("here", 2), between=3, maybe_place=Place("there", 4), after=5),
    ],
)
def test_types_that_later_messages_need(message: EveryType, is_flexible: bool) -> None:
    encoded = b"".join(compile_encoder(EveryType, 0, is_flexible)(message))
    decode = compile_decoder(EveryType, 0, is_flexible)
    assert decode(memoryview(encoded), 0) == message
    for length in range(len(encoded)):
        with pytest.raises(MalformedFrame):
            decode(memoryview(encoded)[:length], 0)


def test_a_nested_struct_is_created_for_every_message() -> None:
    frame = memoryview(b"".join(compile_encoder(EveryType, 0, False)(EveryType())))
    one, other = (compile_decoder(EveryType, 0, False)(frame, 0) for _ in range(2))
    assert one.place is not other.place
    assert one.later_place is not other.later_place
    assert EveryType().place is not EveryType().place


@pytest.mark.parametrize(
    ("encoded", "cursor"),
    [
        ("01 00000007 ff 00", None),
        ("01 00000007 80 00", None),
        ("01 00000007 01 02 74 00000005 00 00", Cursor("t", 5)),
        ("01 00000007 00 02 74 00000005 00 00", Cursor("t", 5)),
    ],
)
def test_a_byte_below_zero_stands_for_a_null_struct(encoded: str, cursor: Cursor | None) -> None:
    request = codec.decode_request(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body(encoded), 0)
    assert request == DescribeTopicPartitionsRequest([], 7, cursor)


def test_a_nullable_struct_cannot_be_tagged() -> None:
    with pytest.raises(AssertionError, match="absent"):
        wire(Place, nullable="0+", tag=0)
