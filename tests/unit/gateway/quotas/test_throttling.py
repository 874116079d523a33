"""What clients over their quotas feel: throttle times at once, and connections that are muted for so long (KIP-219)."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from barnabas.cluster import messages as cluster
from barnabas.cluster.quotas.entities import Entity, client_quota
from barnabas.cluster.quotas.shares import LEASE_MS
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import MESSAGES
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatResponse
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas_gateway.core.connections.responder import _THROTTLE_TIME_FIRST
from barnabas_gateway.core.model.quota_bucket import QuotaBucket
from tests.unit.gateway.world import BATCH, Client, World, topic

ANYBODY: Entity = (("user", None),)
CLIENT: Entity = (("client-id", "client"),)


def limited_world(entity: Entity = ANYBODY, gateways: int = 1, **values: float) -> World:
    world = World()
    world.update(topic(leaders=(1, 1)), client_quotas=[client_quota(entity, values)], gateways=gateways)
    return world


def request_bytes(client: Client, **produce: Any) -> int:
    """The size of a produce's frame, without its length."""
    sent: list[bytes] = []
    real, client.send = client.send, sent.append  # type: ignore[method-assign]
    client.produce(**produce)
    client.send = real  # type: ignore[method-assign]
    return len(sent[0]) - 4


def test_a_produce_over_its_quota_is_answered_at_once_and_mutes_its_connection() -> None:
    world = limited_world(producer_byte_rate=100)
    client, other = world.client(), world.client()
    size = request_bytes(client)
    requests = 1000 // size + 1
    for _ in range(requests):
        client.produce()
        world.logstore.append_result()
    *before, last = client.answers
    assert all(answer.throttle_time_ms == 0 for answer in before)
    throttle_ms = round((requests * size - 1000) / 100 * 1000)
    assert last.throttle_time_ms == throttle_ms > 0
    assert client.is_paused
    client.produce()
    assert world.logstore.appends == [], "what is sent meanwhile waits"
    other.ask(MetadataRequest([], False), ApiKey.METADATA, 9)
    assert len(other.answers) == 1, "other connections do not"
    world.pass_ms(throttle_ms - 20)
    assert world.logstore.appends == []
    world.pass_ms(40)
    assert len(world.logstore.appends) == 1
    world.logstore.append_result()
    assert client.answers[-1].throttle_time_ms == pytest.approx(size / 100 * 1000, rel=0.05)


def test_what_a_client_has_sent_ahead_waits_from_the_first_that_is_too_much() -> None:
    world = limited_world(producer_byte_rate=100)
    client = world.client()
    size = request_bytes(client)
    fitting = 1000 // size + 1
    data = [PartitionProduceData(0, BATCH)]
    request = ProduceRequest(None, 1, 30_000, [TopicProduceData("t", partition_data=data)])
    client.send(b"".join(client.frame(request, ApiKey.PRODUCE, 11) for _ in range(fitting + 20)))
    assert len(world.logstore.appends) == fitting


def test_without_answers_a_produce_is_muted_too() -> None:
    world = limited_world(producer_byte_rate=1)
    client = world.client()
    client.produce(acks=0)
    world.logstore.append_result()
    assert client.answers == []
    assert client.is_paused
    client.produce(acks=0)
    assert world.logstore.appends == []


def test_a_fetch_over_its_quota_gets_no_records_and_reads_none() -> None:
    world = limited_world(consumer_byte_rate=100)
    client = world.client()
    client.fetch()
    assert world.logstore.reads[0].bytes_max == 1000, "no more than the window's worth"
    world.logstore.read_result(bytes(1500))
    (served,) = client.answers
    assert served.throttle_time_ms == 0
    assert len(served.responses[0].partitions[0].records) == 1500
    client.fetch()
    throttled = client.answers[-1]
    assert (throttled.error_code, throttled.responses, throttled.throttle_time_ms) == (0, [], 5000)
    assert world.logstore.reads == []
    assert client.is_paused
    world.pass_ms(5020)
    client.fetch()
    world.logstore.read_result(bytes(10))
    assert client.answers[-1].throttle_time_ms == 0
    assert len(client.answers[-1].responses[0].partitions[0].records) == 10


def test_of_fetches_at_once_those_that_come_too_late_get_nothing() -> None:
    world = limited_world(consumer_byte_rate=100)
    first, second = world.client(), world.client()
    first.fetch()
    second.fetch()
    world.logstore.read_result(bytes(1500))
    world.logstore.read_result(bytes(1500))
    assert first.answers[0].throttle_time_ms == 0
    assert second.answers[0].throttle_time_ms == 5000
    assert second.answers[0].responses == []


def test_a_session_goes_on_where_it_was_throttled() -> None:
    world = limited_world(consumer_byte_rate=100)
    client = world.client()
    session = Session(client)
    session.fetch(epoch=0)
    world.logstore.read_result(bytes(1500))
    session_id = client.answers[-1].session_id
    assert session_id > 0
    session.fetch(session_id, 1)
    assert (client.answers[-1].session_id, client.answers[-1].responses) == (session_id, [])
    assert client.answers[-1].throttle_time_ms == 5000
    world.pass_ms(5020)
    session.fetch(session_id, 2)
    world.logstore.read_result(bytes(10))
    assert client.answers[-1].error_code == 0
    assert len(client.answers[-1].responses[0].partitions[0].records) == 10


class Session:
    def __init__(self, client: Client) -> None:
        self.client = client

    def fetch(self, session_id: int = 0, epoch: int = 0) -> None:
        topics = [FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])] if epoch == 0 else []
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_id=session_id, session_epoch=epoch, topics=topics
        )
        self.client.ask(request, ApiKey.FETCH, 12)


def test_the_loops_time_is_limited_by_a_window_at_most() -> None:
    world = limited_world(request_percentage=0.1)
    ticks = count(0, 20_000)
    world.processor.quotas._read_us = lambda: next(ticks)
    client = world.client()
    client.ask(MetadataRequest([], False), ApiKey.METADATA, 9)
    client.ask(MetadataRequest([], False), ApiKey.METADATA, 9)
    first, second = client.answers
    assert first.throttle_time_ms == 0, "its time is known when it is over"
    assert second.throttle_time_ms == 1000, "10 ms are 2 % of a second, and the quota gives 1 % in ten"
    client.ask(MetadataRequest([], False), ApiKey.METADATA, 9)
    assert len(client.answers) == 2
    world.pass_ms(1020)
    assert len(client.answers) == 3


def mutations(world: World, request: Any, api_key: ApiKey, version: int) -> Client:
    client = world.client()
    client.ask(request, api_key, version)
    return client


@pytest.mark.parametrize("version", [5, 6])
def test_new_topics_over_the_quota_are_refused_from_version_6_on(version: int) -> None:
    world = limited_world(controller_mutation_rate=1)
    asked = CreateTopicsRequest([CreatableTopic("a", 20, 1), CreatableTopic("b", 2, 1)], 1000)
    client = mutations(world, asked, ApiKey.CREATE_TOPICS, version)
    (call,) = world.calls
    assert isinstance(call.request, cluster.CreateTopicsRequest)
    names = [each.topic for each in call.request.topics]
    results = [cluster.CreateTopicResult(name, bytes(16), 0) for name in names]
    world.controller_answers(cluster.CreateTopicsResponse(results, world.revision))
    (answer,) = client.answers
    codes = {each.name: each.error_code for each in answer.topics}
    if version == 6:
        assert names == ["a"]
        assert codes == {"a": 0, "b": ErrorCode.THROTTLING_QUOTA_EXCEEDED}
        assert answer.throttle_time_ms == 9000, "20 of 11"
    else:
        assert names == ["a", "b"]
        assert codes == {"a": 0, "b": 0}
        assert answer.throttle_time_ms == 11_000
    assert client.is_paused


def test_deleted_topics_and_new_partitions_count() -> None:
    world = limited_world(controller_mutation_rate=0.1)
    client = mutations(world, DeleteTopicsRequest([DeleteTopicState("t")], [], 1000), ApiKey.DELETE_TOPICS, 6)
    assert len(world.calls) == 1, "two partitions, of 1.1"
    refused = DeleteTopicsRequest([DeleteTopicState("t")], [], 1000)
    (answer,) = mutations(world, refused, ApiKey.DELETE_TOPICS, 6).answers
    assert [each.error_code for each in answer.responses] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert answer.throttle_time_ms == 9000
    grown = CreatePartitionsRequest([CreatePartitionsTopic("t", 3)], 1000)
    (answer,) = mutations(world, grown, ApiKey.CREATE_PARTITIONS, 3).answers
    assert [each.error_code for each in answer.results] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert client.answers == []


def test_quotas_begin_and_end_for_open_connections() -> None:
    world = World()
    client = world.client()
    client.produce()
    world.logstore.append_result()
    world.update(topic(), client_quotas=[client_quota(CLIENT, {"producer_byte_rate": 1.0})])
    client.produce()
    world.logstore.append_result()
    assert client.answers[-1].throttle_time_ms > 0
    world.update(topic())
    other = world.client()
    other.produce()
    world.logstore.append_result()
    assert other.answers[-1].throttle_time_ms == 0
    assert world.processor.quotas.buckets == {}


def test_what_coordinators_encode_names_the_throttle_time_where_the_protocol_does() -> None:
    for api_key, first in _THROTTLE_TIME_FIRST.items():
        kind = ApiKey(api_key)
        for version in range(first, kind.version_max + 1):
            body = encode_body(decode_empty(kind, version), version)
            patched = (77).to_bytes(4, "big") + bytes(body)[4:]
            decoded: Any = decode_response(kind, version, b"\0\0\0\0" + tag(kind, version) + patched)[1]
            assert decoded.throttle_time_ms == 77, (kind, version)


def decode_empty(api_key: ApiKey, version: int) -> Any:
    return MESSAGES[api_key][1]()


def tag(api_key: ApiKey, version: int) -> bytes:
    return b"\0" if api_key.is_flexible(version) else b""


def test_a_coordinators_answer_is_throttled() -> None:
    world = limited_world(request_percentage=0.001)
    assert encode_body(HeartbeatResponse(), 4)[:4] == bytes(4)
    ticks = count(0, 50_000)
    world.processor.quotas._read_us = lambda: next(ticks)
    client = world.client()
    client.ask(FindCoordinatorRequest("", 0, ["g"]), ApiKey.FIND_COORDINATOR, 4)
    client.ask(MetadataRequest([], False), ApiKey.METADATA, 9)
    assert client.is_paused


# --- the bucket ---


def test_alone_a_client_may_use_a_window_at_once() -> None:
    bucket = QuotaBucket(100, 1, 10_000, 1_000, 0)
    assert bucket.spend(1000, 0) == 0
    assert bucket.spend(10, 0) == 100, "as Kafka: (1010/10 - 100) / 100 * 10 s"
    assert bucket.wait_ms(50) == 50
    assert bucket.wait_ms(100) == 0
    assert bucket.spend(1000, 100_000) == 0


def test_among_others_it_begins_with_an_even_split() -> None:
    bucket = QuotaBucket(600, 6, 10_000, 1_000, 0)
    assert bucket.tokens == 100
    assert bucket.rate(0) == 100
    assert bucket.spend(400, 0) == 1000, "by half the quota, since more may be agreed"
    bucket.lease(600, 0)
    assert bucket.wait_ms(0) == 500
    assert bucket.wait_ms(500) == 0
    assert bucket.capacity(500) == 6000
    assert bucket.rate(LEASE_MS + 1) == 100, "a share that is not confirmed is over"
    bucket.wait_ms(60_000)
    assert bucket.tokens == 100, "what was saved up with it too"


def test_another_quota_holds_at_once() -> None:
    bucket = QuotaBucket(100, 1, 10_000, 1_000, 0)
    bucket.spend(2000, 0)
    bucket.change(1000, 1, 0)
    assert bucket.wait_ms(0) == 1000
    bucket.change(1000, 2, 0)
    assert bucket.rate(0) == 500
