"""Produce: appended once, in order, answered truthfully whatever becomes of the stream, the leader or purgatory."""

from __future__ import annotations

import pytest

from barnabas.channel.messages import Credit, RecordError
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.gateway.world import BATCH, TOPIC_ID, World, topic

NONE = ErrorCode.NONE


def test_one_record_goes_to_the_leader_and_back() -> None:
    world = World()
    client = world.client()
    client.produce(0)
    append = world.logstore.appends[0]
    assert (append.topic_id, append.partition, append.leader_epoch, append.acks) == (TOPIC_ID, 0, 5, 1)
    world.logstore.append_result(base_offset=42)
    response = client.answers[0].responses[0].partition_responses[0]
    assert (response.error_code, response.base_offset, response.log_append_time_ms) == (0, 42, -1)


def test_a_turn_sends_one_message_with_all_it_has() -> None:
    world = World(topic(leaders=(1, 1)))
    client = world.client()
    before = world.logstore.messages
    client.send(
        b"".join(
            client.frame(
                ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=[data])]), ApiKey.PRODUCE, 9
            )
            for data in (PartitionProduceData(0, bytes(61)), PartitionProduceData(1, bytes(61)))
        )
    )
    assert world.logstore.messages == before + 1
    assert [append.partition for append in world.logstore.appends] == [0, 1]


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused(acks: int) -> None:
    world = World()
    client = world.client()
    client.produce(0, acks=acks)
    assert client.error_codes() == [[ErrorCode.INVALID_REQUIRED_ACKS]]
    assert not world.logstore.appends


def test_unknown_topics_partitions_and_ids() -> None:
    world = World()
    client = world.client()
    client.produce(0, name="other")
    client.produce(9)
    unknown_id = [TopicProduceData(topic_id=bytes(range(16)), partition_data=[PartitionProduceData(0, bytes(61))])]
    client.ask(ProduceRequest(None, 1, 1000, unknown_id), ApiKey.PRODUCE, 13)
    assert client.error_codes() == [
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.UNKNOWN_TOPIC_ID],
    ]


def test_kafkas_own_topics_are_written_only_by_their_coordinators() -> None:
    world = World(topic("__consumer_offsets"))
    client = world.client()
    client.produce(0, name="__consumer_offsets")
    assert client.error_codes() == [[ErrorCode.INVALID_TOPIC_EXCEPTION]]
    assert not world.logstore.appends


@pytest.mark.parametrize("records", [None, b""])
def test_a_partition_without_records_is_refused(records: bytes | None) -> None:
    world = World()
    client = world.client()
    client.produce(0, records=records)
    assert client.error_codes() == [[ErrorCode.INVALID_RECORD]]


def test_zstd_needs_version_7() -> None:
    world = World()
    client = world.client()
    zstd = bytearray(BATCH)
    zstd[22] = 4
    client.produce(0, records=bytes(zstd), version=6)
    assert client.error_codes() == [[ErrorCode.UNSUPPORTED_COMPRESSION_TYPE]]
    client.produce(0, records=bytes(zstd), version=7)
    assert len(world.logstore.appends) == 1


def test_a_partition_named_twice_is_appended_once_as_named_last() -> None:
    world = World()
    client = world.client()
    twice = [PartitionProduceData(0, b"a" * 61), PartitionProduceData(0, b"b" * 61)]
    client.ask(ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=twice)]), ApiKey.PRODUCE, 9)
    assert [bytes(append.records) for append in world.logstore.appends] == [b"b" * 61]
    world.logstore.append_result()
    assert client.error_codes() == [[NONE]]


def test_a_topic_named_twice_is_answered_once() -> None:
    world = World(topic(leaders=(1, 1)))
    client = world.client()
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(index, bytes(61))]) for index in (0, 1, 0)]
    client.ask(ProduceRequest(None, 1, 1000, topics), ApiKey.PRODUCE, 9)
    assert len(world.logstore.appends) == 2
    world.logstore.append_result(error_code=ErrorCode.MESSAGE_TOO_LARGE)
    world.logstore.append_result()
    response = client.answers[0].responses
    assert len(response) == 1
    assert [(each.index, each.error_code) for each in response[0].partition_responses] == [
        (0, ErrorCode.MESSAGE_TOO_LARGE),
        (1, NONE),
    ]


def test_partitions_split_over_their_leaders() -> None:
    world = World(topic(leaders=(1, 2)), nodes=(1, 2))
    client = world.client()
    client.produce(0, 1)
    assert [append.partition for append in world.logstores[1].appends] == [0]
    assert [append.partition for append in world.logstores[2].appends] == [1]
    world.logstores[2].append_result(base_offset=2)
    assert not client.answers
    world.logstores[1].append_result(base_offset=1)
    assert [each.base_offset for each in client.answers[0].responses[0].partition_responses] == [1, 2]


# --- acks=0 ---


def test_acks_0_has_no_answer_and_keeps_its_place() -> None:
    world = World()
    client = world.client()
    client.produce(0, acks=0)
    client.produce(0, acks=1)
    world.logstore.append_result()
    assert not client.answers
    world.logstore.append_result()
    assert client.correlation_ids == [2]


def test_acks_0_that_fails_closes_the_connection() -> None:
    world = World()
    client, other = world.client(), world.client()
    client.produce(0, acks=0)
    world.logstore.append_result(error_code=ErrorCode.CORRUPT_MESSAGE)
    assert client.is_closed
    assert not other.is_closed
    assert world.logs[-1].fields["correlation_id"] == 1


def test_acks_0_to_an_unknown_topic_closes_the_connection() -> None:
    world = World()
    client = world.client()
    client.produce(0, acks=0, name="other")
    assert client.is_closed


# --- leaders and streams ---


def test_a_lost_stream_says_maybe_written() -> None:
    world = World()
    client = world.client()
    client.produce(0)
    world.logstore.down()
    assert client.error_codes() == [[ErrorCode.REQUEST_TIMED_OUT]]


def test_a_lost_stream_is_never_sent_again() -> None:
    world = World()
    client = world.client()
    client.produce(0)
    world.logstore.down()
    world.logstore.up()
    assert not world.logstore.appends


def test_what_was_not_sent_waits_for_the_stream_to_come_back() -> None:
    world = World()
    client = world.client()
    world.logstore.down()
    client.produce(0)
    assert client.is_paused
    assert not client.answers
    world.pass_ms(1000)
    world.logstore.up()
    assert len(world.logstore.appends) == 1
    assert not client.is_paused
    world.logstore.append_result()
    assert client.error_codes() == [[NONE]]


def test_what_was_not_sent_ends_as_not_written() -> None:
    world = World()
    client = world.client()
    world.logstore.down()
    client.produce(0)
    world.pass_ms(world.processor.config.route_wait_ms_max + 100)
    assert client.error_codes() == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]]
    assert not client.is_paused
    world.logstore.up()
    assert not world.logstore.appends


def test_a_leaderless_partition_is_refused_at_once() -> None:
    world = World(topic(leaders=(-1,)))
    client = world.client()
    client.produce(0)
    assert client.error_codes() == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]]


def test_a_waiting_append_follows_the_leader() -> None:
    world = World(nodes=(1, 2))
    client = world.client()
    world.logstore.down()
    client.produce(0)
    world.update(topic(leaders=(2,), epoch=6))
    assert [append.leader_epoch for append in world.logstores[2].appends] == [6]


def test_after_a_change_of_leader_the_next_append_waits_for_the_last_answer() -> None:
    world = World(topic(leaders=(1, 2)), nodes=(1, 2))
    client, other = world.client(), world.client()
    client.produce(0)
    world.update(topic(leaders=(2, 2), epoch=6))
    client.produce(0)
    other.produce(0)
    assert len(world.logstores[2].appends) == 1, "only the other connection's"
    world.logstores[1].append_result(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch=6, leader_id=2)
    assert len(world.logstores[2].appends) == 2


def test_a_logstore_that_knows_better_is_believed_before_the_answer() -> None:
    world = World(nodes=(1, 2))
    client = world.client()
    client.produce(0, version=11)
    world.logstore.append_result(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch=6, leader_id=2)
    response = client.answers[0]
    leader = response.responses[0].partition_responses[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (2, 6)
    assert [(each.node_id, each.host, each.port) for each in response.node_endpoints] == [(2, "kafka.example", 9095)]
    client.produce(0)
    assert [append.leader_epoch for append in world.logstores[2].appends] == [6]


def test_a_client_that_is_gone_takes_what_was_not_sent_along() -> None:
    world = World()
    client = world.client()
    world.logstore.down()
    client.produce(0)
    client.close()
    world.logstore.up()
    assert not world.logstore.appends


def test_a_silent_logstore_ends_as_maybe_written() -> None:
    world = World()
    client = world.client()
    client.produce(0, timeout_ms=10_000)
    world.pass_ms(9_900)
    assert not client.answers
    world.pass_ms(200)
    assert client.error_codes() == [[ErrorCode.REQUEST_TIMED_OUT]]
    world.logstore.append_result()
    assert len(client.answers) == 1


# --- credit ---


def test_without_credit_only_that_connection_waits() -> None:
    world = World(topic(leaders=(1, 2)), nodes=(1, 2))
    world.logstores[1].down()
    world.logstores[1].up(Credit(0, 0))
    slow, fast = world.client(), world.client()
    slow.produce(0)
    assert slow.is_paused
    fast.produce(1)
    assert not fast.is_paused
    assert len(world.logstores[2].appends) == 1
    assert not world.logstores[1].appends


def test_credit_lets_the_line_move_in_order() -> None:
    world = World()
    world.logstore.down()
    world.logstore.up(Credit(0, 0))
    clients = [world.client() for _ in range(3)]
    for client in clients:
        client.produce(0)
    world.logstore.grant(2, 1 << 21)
    assert len(world.logstore.appends) == 2
    assert [client.is_paused for client in clients] == [False, False, True]
    world.logstore.grant(1, 0)
    assert len(world.logstore.appends) == 3


def test_a_newcomer_does_not_overtake_the_line() -> None:
    world = World(topic(leaders=(1, 1)))
    world.logstore.down()
    world.logstore.up(Credit(100, 0))
    first, second = world.client(), world.client()
    first.produce(0, records=bytes(2000))
    second.produce(1, records=bytes(61))
    world.logstore.grant(0, 1 << 21)
    assert [append.partition for append in world.logstore.appends] == [0, 1]


def test_unsent_appends_of_a_dead_stream_wait_for_the_next() -> None:
    world = World()
    world.logstore.down()
    world.logstore.up(Credit(0, 0))
    client = world.client()
    client.produce(0)
    world.logstore.down()
    assert not client.answers
    world.logstore.up()
    assert len(world.logstore.appends) == 1


def test_no_credit_until_the_deadline_is_a_timeout() -> None:
    world = World()
    world.logstore.down()
    world.logstore.up(Credit(0, 0))
    client = world.client()
    client.produce(0, timeout_ms=8_000)
    world.pass_ms(8_100)
    assert client.error_codes() == [[ErrorCode.REQUEST_TIMED_OUT]]
    assert not client.is_paused
    world.logstore.grant(10, 1 << 21)
    assert not world.logstore.appends


def test_the_records_that_a_leader_names_are_named_to_the_client() -> None:
    world = World()
    client = world.client()
    client.produce()
    errors = [RecordError(0, "no key"), RecordError(7, "no key either")]
    world.logstore.append_result(
        error_code=ErrorCode.INVALID_RECORD, error_message="One or more records", record_errors=errors
    )
    (response,) = client.answers[0].responses[0].partition_responses
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_RECORD, "One or more records")
    assert [(each.batch_index, each.batch_index_error_message) for each in response.record_errors] == [
        (0, "no key"),
        (7, "no key either"),
    ]
