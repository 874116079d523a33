"""Old message formats through a processor: what the leader is sent, what the client gets, what is counted."""

from __future__ import annotations

import math

import pytest

from barnabas.runtime.compression import CODECS, compress
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message_set import encode_message, iterate_messages
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.record_batch import Compression, Record, build_batch, decode_records
from barnabas_gateway.core.backends.up_conversion import UpConverted, up_convert
from tests.unit.gateway.world import BATCH, Client, World, topic

MESSAGES = encode_message(0, 1, b"k", b"v", timestamp_ms=5) + encode_message(1, 1, None, b"w", timestamp_ms=6)
RECORDS = build_batch([Record(b"k", b"v", 5), Record(None, b"w", 6)], base_offset=7)


def test_a_message_set_goes_to_its_leader_as_one_batch() -> None:
    world = World()
    client = world.client()
    client.produce(records=MESSAGES, version=2)
    assert world.logstore.appends == []
    world.convert()
    (append,) = world.logstore.appends
    assert [(record.key, record.value, record.timestamp_ms) for record in decode_records(bytes(append.records))] == [
        (b"k", b"v", 5),
        (None, b"w", 6),
    ]
    world.logstore.append_result(base_offset=40)
    (answer,) = client.answers
    assert answer.responses[0].partition_responses[0].base_offset == 40


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_old_version_of_produce_is_answered(version: int) -> None:
    world = World()
    client = world.client()
    client.produce(records=encode_message(0, 0, b"k", b"v"), version=version)
    world.convert()
    world.logstore.append_result()
    assert client.error_codes() == [[ErrorCode.NONE]]


def test_partitions_that_are_refused_leave_the_others_alone() -> None:
    world = World(topic(leaders=(1, 1, 1)))
    client = world.client()
    data = [PartitionProduceData(0, MESSAGES), PartitionProduceData(1, MESSAGES[:-1] + b"!")]
    data.append(PartitionProduceData(2, BATCH[:16] + b"\x02" + BATCH[17:]))
    client.ask(ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=data)]), ApiKey.PRODUCE, 2)
    world.convert()
    assert [append.partition for append in world.logstore.appends] == [0, 2]
    world.logstore.append_result()
    world.logstore.append_result()
    assert client.error_codes() == [[ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]]


def test_a_batch_of_magic_2_in_an_old_version_needs_no_conversion() -> None:
    world = World()
    world.client().produce(records=RECORDS, version=2)
    assert world.conversions == []
    assert len(world.logstore.appends) == 1


def test_nothing_of_a_connection_passes_what_is_being_converted() -> None:
    world = World()
    client = world.client()
    for value in (b"first", b"second"):
        client.produce(records=encode_message(0, 1, None, value, timestamp_ms=5), version=2)
    assert len(world.conversions) == 1
    world.convert()
    world.convert()
    values = [decode_records(bytes(append.records))[0].value for append in world.logstore.appends]
    assert values == [b"first", b"second"]
    world.logstore.append_result()
    world.logstore.append_result()
    assert client.error_codes() == [[ErrorCode.NONE]] * 2


def test_other_connections_go_on_meanwhile() -> None:
    world = World()
    world.client().produce(records=MESSAGES, version=2)
    world.client().produce(version=11)
    assert len(world.logstore.appends) == 1
    assert len(world.conversions) == 1


def test_with_acks_0_what_can_not_be_converted_closes_the_connection() -> None:
    world = World()
    client = world.client()
    client.produce(records=MESSAGES[:-1] + b"!", version=2, acks=0)
    world.convert()
    assert client.is_closed


@pytest.mark.parametrize("version", [2, 3])
def test_a_client_that_leaves_meanwhile_is_no_trouble(version: int) -> None:
    world = World()
    client = world.client()
    if version == 2:
        client.produce(records=MESSAGES, version=version)
    else:
        client.fetch(version=version, max_wait_ms=0)
        world.logstore.read_result(RECORDS)
    client.close()
    world.convert()
    assert world.logstore.appends == []
    assert client.answers == []
    assert world.processor.fetch_memory.reserved_bytes == 0
    assert world.processor.request_memory.held_bytes == 0


def fetched(client: Client) -> bytes:
    (partition,) = client.answers[-1].responses[0].partitions
    assert partition.error_code == 0
    return bytes(partition.records or b"")


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_an_old_fetch_is_answered_in_the_format_of_its_version(version: int, magic: int) -> None:
    world = World()
    client = world.client()
    client.fetch(offset=7, version=version)
    world.logstore.read_result(RECORDS + build_batch([Record(b"z", None, 9)], base_offset=9))
    assert client.answers == []
    world.convert()
    messages = list(iterate_messages(fetched(client)))
    assert messages[0] == (7, magic, 0, 5 if magic else -1, b"k", b"v")
    assert {message.magic for message in messages} == {magic}
    assert world.processor.fetch_memory.reserved_bytes == 0


def test_an_old_fetch_that_brought_nothing_needs_no_conversion() -> None:
    world = World()
    client = world.client()
    client.fetch(version=3, max_wait_ms=0)
    world.logstore.read_result(b"")
    assert world.conversions == []
    assert fetched(client) == b""


def test_an_old_long_poll_is_answered_once_though_its_deadline_passes_meanwhile() -> None:
    world = World()
    client = world.client()
    client.fetch(version=3, max_wait_ms=100)
    world.logstore.read_result(RECORDS)
    world.pass_ms(60_000)
    world.convert()
    assert len(client.answers) == 1
    assert world.logstore.reads == []


def test_what_can_not_be_converted_is_an_error_of_its_partition() -> None:
    world = World(topic(leaders=(1, 1)))
    client = world.client()
    client.fetch(0, 1, version=3)
    zstd = bytearray(RECORDS)
    zstd[22] |= Compression.ZSTD
    world.logstore.read_result(bytes(zstd), RECORDS)
    world.convert()
    first, second = client.answers[0].responses[0].partitions
    assert (first.error_code, first.high_watermark) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1)
    assert not first.records
    assert second.error_code == 0
    assert second.records


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_can_be_switched_off_and_is_refused_as_in_kafka_4(version: int) -> None:
    world = World(produce_up_conversion=False)
    client = world.client()
    client.produce(records=MESSAGES, version=version)
    assert client.error_codes() == [[ErrorCode.UNSUPPORTED_VERSION]]
    assert not client.is_closed
    client.ask(ApiVersionsRequest("test", "1"), ApiKey.API_VERSIONS, 3)
    reported = {each.api_key: each.min_version for each in client.answers[-1].api_keys}
    assert (reported[ApiKey.PRODUCE], reported[ApiKey.FETCH]) == (0, 0)


def test_fetch_can_be_switched_off_and_is_then_not_served() -> None:
    world = World(fetch_down_conversion=False)
    client = world.client()
    client.ask(ApiVersionsRequest("test", "1"), ApiKey.API_VERSIONS, 3)
    reported = {each.api_key: each.min_version for each in client.answers[-1].api_keys}
    assert (reported[ApiKey.PRODUCE], reported[ApiKey.FETCH]) == (0, 4)
    client.fetch(version=3)
    assert client.is_closed
    other = world.client()
    other.fetch(version=4)
    assert not other.is_closed
    assert len(world.logstore.reads) == 1


def test_conversions_are_counted_as_kafka_counted_them() -> None:
    world = World()
    client = world.client()
    compressed = encode_message(0, 1, None, compress(Compression.GZIP, MESSAGES, None), compression=Compression.GZIP)
    client.produce(records=compressed, version=2)
    world.convert(elapsed_ms=3.0)
    world.logstore.append_result()
    client.produce(records=MESSAGES, version=2)
    world.convert(elapsed_ms=5.0)
    world.logstore.append_result()
    client.fetch(version=1)
    world.logstore.read_result(RECORDS)
    world.convert(elapsed_ms=2.0)
    counts = world.processor.converter
    times = counts.produce.time_ms
    assert (times.count, times.sum) == (2, 8_000)
    memory = counts.produce.memory_bytes
    outcomes = [up_convert(records, CODECS) for records in (compressed, MESSAGES)]
    expected = [outcome.memory_bytes for outcome in outcomes if isinstance(outcome, UpConverted)]
    assert (memory.count, memory.sum) == (2, sum(expected))
    assert expected[0] == expected[1] + len(MESSAGES)
    assert (counts.fetch.time_ms.count, counts.fetch.time_ms.sum) == (1, 2_000)


@pytest.mark.parametrize("elapsed_ms", [1.0, math.nan], ids=["", "its end would fail too"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_fault_of_ours_costs_its_own_connection_and_no_other(version: int, elapsed_ms: float) -> None:
    world = World()
    world.expects_fault = True
    client, other = world.client(), world.client()
    _ask_for_a_conversion(world, client, version)
    (conversion,) = world.conversions
    conversion.fault = "a traceback"
    world.processor.converted(conversion, elapsed_ms, world.now_ms)
    world.turn()
    assert client.is_closed
    assert [each.traceback for each in world.contained] == ["a traceback"]
    assert not other.is_closed
    assert world.logstore.appends == []


@pytest.mark.parametrize("version", [2, 3])
def test_a_fault_of_ours_is_reported_though_its_client_has_gone(version: int) -> None:
    world = World()
    world.expects_fault = True
    client = world.client()
    _ask_for_a_conversion(world, client, version)
    (conversion,) = world.conversions
    conversion.fault = "a traceback"
    client.close()
    world.processor.converted(conversion, 1.0, world.now_ms)
    world.turn()
    assert [each.traceback for each in world.contained] == ["a traceback"]


@pytest.mark.parametrize("version", [2, 3])
def test_a_fault_as_a_conversion_is_counted_costs_its_own_connection_and_no_other(version: int) -> None:
    world = World()
    world.expects_fault = True
    client, other = world.client(), world.client()
    _ask_for_a_conversion(world, client, version)
    world.convert(elapsed_ms=math.nan)
    assert client.is_closed
    assert len(world.contained) == 1
    assert not other.is_closed


def _ask_for_a_conversion(world: World, client: Client, version: int) -> None:
    """Of what is produced by version 2, or fetched by a later one."""
    if version == 2:
        client.produce(records=MESSAGES, version=version)
    else:
        client.fetch(version=version, max_wait_ms=0)
        world.logstore.read_result(RECORDS)
