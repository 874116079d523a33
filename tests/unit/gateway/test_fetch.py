"""Fetch: long polls, edges, several logstores, memory, and what a dead purgatory leaves behind."""

from __future__ import annotations

import pytest

from barnabas.channel.messages import ABORTED_TRANSACTION, Credit, Outcome
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from barnabas_gateway.core.backends.fetch_memory import READ_BYTES_MIN
from tests.unit.gateway.world import TOPIC_ID, Client, World, topic


def partitions(client: Client, answer: int = -1) -> list[PartitionData]:
    return [partition for each in client.answers[answer].responses for partition in each.partitions]


def records(client: Client, answer: int = -1) -> list[bytes]:
    return [bytes(partition.records or b"") for partition in partitions(client, answer)]


def test_records_come_back() -> None:
    world = World()
    client = world.client()
    client.fetch(0, offset=3)
    read = world.logstore.reads[0]
    assert (read.partitions[0].topic_id, read.partitions[0].fetch_offset) == (TOPIC_ID, 3)
    world.logstore.read_result(b"batch")
    partition = partitions(client)[0]
    assert (partition.error_code, partition.high_watermark, bytes(partition.records or b"")) == (0, 10, b"batch")
    assert partition.preferred_read_replica == -1
    assert partition.aborted_transactions is None
    assert client.answers[0].session_id == 0


def test_aborted_transactions_are_named_to_who_reads_committed_records() -> None:
    world = World()
    client = world.client()
    asked = [FetchTopic("t", TOPIC_ID, [FetchPartition(0, partition_max_bytes=100)])]
    client.ask(FetchRequest(max_wait_ms=10, min_bytes=1, isolation_level=1, topics=asked), ApiKey.FETCH, 12)
    packed = ABORTED_TRANSACTION.pack(7, 3) + ABORTED_TRANSACTION.pack(8, 5)
    world.logstore.read_result(b"batch", last_stable_offset=9, aborted_transactions=packed)
    partition = partitions(client)[0]
    assert partition.last_stable_offset == 9
    assert partition.aborted_transactions == [AbortedTransaction(7, 3), AbortedTransaction(8, 5)]


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version(version: int) -> None:
    world = World()
    client = world.client()
    asked = [FetchTopic("t", TOPIC_ID, [FetchPartition(0, partition_max_bytes=100)])]
    client.ask(FetchRequest(max_wait_ms=10, min_bytes=1, topics=asked), ApiKey.FETCH, version)
    world.logstore.read_result(b"batch")
    assert records(client) == [b"batch"]


# --- edges ---


def test_zero_topics_are_answered_at_once() -> None:
    world = World()
    client = world.client()
    client.ask(FetchRequest(max_wait_ms=500, min_bytes=1), ApiKey.FETCH, 12)
    assert client.answers[0].responses == []


@pytest.mark.parametrize(("max_wait_ms", "min_bytes"), [(0, 1), (-1, 1), (500, 0), (500, -1)])
def test_no_wait_without_time_or_wanted_bytes(max_wait_ms: int, min_bytes: int) -> None:
    world = World(pods=("p-0",))
    client = world.client()
    client.fetch(0, max_wait_ms=max_wait_ms, min_bytes=min_bytes)
    world.logstore.read_result(b"")
    assert records(client) == [b""]
    assert not world.pod.fetches


def test_the_same_partition_twice_is_fetched_once_as_named_last() -> None:
    world = World()
    client = world.client()
    twice = [FetchPartition(0, fetch_offset=offset, partition_max_bytes=100) for offset in (1, 2)]
    client.ask(FetchRequest(max_wait_ms=0, topics=[FetchTopic("t", partitions=twice)]), ApiKey.FETCH, 12)
    assert [partition.fetch_offset for partition in world.logstore.reads[0].partitions] == [2]
    world.logstore.read_result(b"x")
    assert records(client) == [b"x"]


def test_replicas_are_refused() -> None:
    world = World()
    client = world.client()
    topics = [FetchTopic("t", TOPIC_ID, [FetchPartition(0)])]
    client.ask(FetchRequest(replica_id=1, topics=topics), ApiKey.FETCH, 12)
    client.ask(FetchRequest(replica_state=ReplicaState(1, 1), topics=topics), ApiKey.FETCH, 15)
    assert [partitions(client, answer)[0].error_code for answer in (0, 1)] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ]
    assert not world.logstore.reads


@pytest.mark.parametrize(
    ("session_id", "session_epoch", "error"),
    [
        (0, 0, ErrorCode.NONE),
        (0, -1, ErrorCode.NONE),
        (77, -1, ErrorCode.NONE),
        (77, 0, ErrorCode.NONE),
        (77, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ],
)
def test_no_fetch_session_is_ever_known(session_id: int, session_epoch: int, error: ErrorCode) -> None:
    world = World()
    client = world.client()
    client.ask(FetchRequest(session_id=session_id, session_epoch=session_epoch), ApiKey.FETCH, 12)
    assert (client.answers[0].error_code, client.answers[0].session_id) == (error, 0)


def test_unknown_topics_partitions_and_ids() -> None:
    world = World()
    client = world.client()
    for named, version in ((FetchTopic("other"), 12), (FetchTopic("t"), 12), (FetchTopic(topic_id=bytes(16)), 13)):
        named.partitions = [FetchPartition(7)]
        client.ask(FetchRequest(max_wait_ms=0, topics=[named]), ApiKey.FETCH, version)
    assert [partitions(client, answer)[0].error_code for answer in range(3)] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]


def test_an_unknown_topic_does_not_end_a_long_poll() -> None:
    world = World(pods=("p-0",))
    client = world.client()
    asked = [FetchTopic(name, partitions=[FetchPartition(0, partition_max_bytes=100)]) for name in ("other", "t")]
    client.ask(FetchRequest(max_wait_ms=500, min_bytes=1, topics=asked), ApiKey.FETCH, 12)
    world.logstore.read_result(b"")
    assert not client.answers
    assert world.pod.fetches


def test_the_clients_epoch_goes_to_the_leader_and_its_error_names_the_leader() -> None:
    world = World(nodes=(1, 2))
    client = world.client()
    asked = [FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(0, 4, partition_max_bytes=100)])]
    client.ask(FetchRequest(max_wait_ms=500, min_bytes=1, topics=asked), ApiKey.FETCH, 16)
    assert world.logstore.reads[0].partitions[0].current_leader_epoch == 4
    world.logstore.read_result(b"", error_code=ErrorCode.FENCED_LEADER_EPOCH, leader_epoch=6, leader_id=2)
    partition = partitions(client)[0]
    assert partition.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert partition.current_leader is not None
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 6)
    assert [each.node_id for each in client.answers[0].node_endpoints] == [2]


def test_a_missing_stream_is_an_error_at_once() -> None:
    world = World()
    client = world.client()
    world.logstore.down()
    client.fetch(0)
    assert partitions(client)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_lost_stream_is_an_error() -> None:
    world = World()
    client = world.client()
    client.fetch(0)
    world.logstore.down()
    assert partitions(client)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_silent_logstore_is_a_timeout() -> None:
    world = World()
    client = world.client()
    client.fetch(0)
    world.pass_ms(world.processor.config.read_wait_ms_max + 100)
    assert partitions(client)[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert world.logstore.cancels == [world.logstore.reads[0].request_id]
    assert world.processor.fetch_memory.reserved_bytes == 0


# --- several logstores ---


def test_several_logstores_are_read_at_once() -> None:
    world = World(topic(leaders=(1, 2, 1)), nodes=(1, 2))
    client = world.client()
    client.fetch(0, 1, 2)
    assert [each.partition for each in world.logstores[1].reads[0].partitions] == [0, 2]
    world.logstores[2].read_result(b"two")
    assert not client.answers
    world.logstores[1].read_result(b"one", b"three")
    assert records(client) == [b"one", b"two", b"three"]


def test_max_bytes_is_spent_in_request_order_with_at_least_one_batch() -> None:
    world = World(topic(leaders=(1, 2, 1)), nodes=(1, 2))
    client = world.client()
    client.fetch(0, 1, 2, max_bytes=10)
    world.logstores[1].read_result(b"", b"short")
    world.logstores[2].read_result(b"larger than all of max_bytes")
    assert records(client) == [b"", b"larger than all of max_bytes", b""]


# --- long polls ---


def test_too_little_is_parked_and_read_again() -> None:
    world = World(pods=("p-0",))
    client = world.client()
    client.fetch(0, offset=10, min_bytes=100, max_wait_ms=500)
    world.logstore.read_result(b"few", fetch_position=900)
    entry = world.pod.fetches[0]
    condition = entry.conditions[0]
    assert (entry.wait_ms, entry.bytes_wanted) == (500, 100)
    assert (condition.leader_id, condition.leader_epoch, condition.fetch_offset, condition.fetch_position) == (
        1,
        5,
        10,
        900,
    )
    assert world.processor.fetch_memory.reserved_bytes == 0
    world.pod.complete(entry.entry_id, Outcome.SATISFIED)
    world.logstore.read_result(b"many")
    assert records(client) == [b"many"]


def test_a_poll_that_brought_nothing_needs_no_second_read() -> None:
    world = World(pods=("p-0",))
    client = world.client()
    client.fetch(0)
    world.logstore.read_result(b"")
    world.pod.complete(world.pod.fetches[0].entry_id, Outcome.EXPIRED)
    assert records(client) == [b""]
    assert not world.logstore.reads


def test_a_poll_that_brought_too_little_answers_that_little() -> None:
    world = World(pods=("p-0",))
    client = world.client()
    client.fetch(0, min_bytes=100)
    world.logstore.read_result(b"few")
    world.pod.complete(world.pod.fetches[0].entry_id, Outcome.EXPIRED)
    world.logstore.read_result(b"few")
    assert records(client) == [b"few"]


def test_a_fenced_poll_reads_again_and_tells_the_error() -> None:
    world = World(pods=("p-0",))
    client = world.client()
    client.fetch(0)
    world.logstore.read_result(b"")
    world.pod.complete(world.pod.fetches[0].entry_id, Outcome.FENCED)
    world.logstore.read_result(b"", error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert partitions(client)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_silent_purgatory_ends_with_the_wait() -> None:
    world = World(pods=("p-0",))
    client = world.client()
    client.fetch(0, max_wait_ms=500)
    world.logstore.read_result(b"")
    world.pass_ms(1000)
    assert world.pod.cancels == [world.pod.fetches[0].entry_id]
    world.logstore.read_result(b"late")
    assert records(client) == [b"late"]


def test_a_dead_pods_poll_is_read_and_parked_again() -> None:
    world = World(pods=("p-0", "p-1"))
    client = world.client()
    client.fetch(0)
    world.logstore.read_result(b"")
    world.pods["p-1"].down()
    world.logstore.read_result(b"")
    entry = world.pods["p-0"].fetches[0]
    world.pods["p-0"].complete(entry.entry_id, Outcome.SATISFIED)
    world.logstore.read_result(b"new")
    assert records(client) == [b"new"]


def test_without_any_pod_a_poll_reads_now_and_then() -> None:
    world = World()
    client = world.client()
    client.fetch(0, max_wait_ms=500)
    world.logstore.read_result(b"")
    world.pass_ms(100)
    world.logstore.read_result(b"new")
    assert records(client) == [b"new"]


def test_without_any_pod_a_poll_ends_with_its_wait() -> None:
    world = World()
    client = world.client()
    client.fetch(0, max_wait_ms=200)
    for _ in range(50):
        if world.logstore.reads:
            world.logstore.read_result(b"")
        world.pass_ms(10)
    assert records(client) == [b""]


def test_a_client_that_is_gone_cancels_its_read_and_its_poll() -> None:
    world = World(pods=("p-0",))
    reading, polling = world.client(), world.client()
    polling.fetch(0)
    world.logstore.read_result(b"")
    reading.fetch(0)
    read = world.logstore.reads[0]
    reading.close()
    polling.close()
    assert world.logstore.cancels == [read.request_id]
    assert world.pod.cancels == [world.pod.fetches[0].entry_id]
    assert world.processor.fetch_memory.reserved_bytes == 0
    world.logstore.read_result(b"nobody wants it")
    assert world.processor.fetch_memory.reserved_bytes == 0


# --- memory and credit ---


def test_a_fetch_reserves_its_largest_reply_before_it_is_sent() -> None:
    world = World(fetch_memory_bytes=1000)
    first, second = world.client(), world.client()
    first.fetch(0, max_bytes=800)
    second.fetch(0, max_bytes=800)
    assert len(world.logstore.reads) == 1
    assert world.processor.fetch_memory.reserved_bytes == READ_BYTES_MIN
    world.logstore.read_result(b"x")
    assert len(world.logstore.reads) == 1, "the second one's"
    world.logstore.read_result(b"y")
    assert records(second) == [b"y"]
    assert world.processor.fetch_memory.reserved_bytes == 0


def test_answers_that_are_not_taken_hold_memory_until_their_client_is_closed() -> None:
    world = World(fetch_memory_bytes=1000)
    reader, never_reads = world.client(), world.client()
    never_reads.fetch(0)
    world.logstore.read_result(bytes(1500))
    never_reads.leave_unread(1500)
    reader.fetch(0)
    assert not world.logstore.reads
    world.pass_ms(world.processor.config.stalled_reader_ms * 2)
    assert never_reads.is_closed
    assert "does not read responses" in world.logs[-1].event
    world.logstore.read_result(b"x")
    assert records(reader) == [b"x"]


def test_an_answer_that_waits_for_its_turn_holds_its_memory() -> None:
    world = World()
    client = world.client()
    client.fetch(0)
    client.fetch(0)
    first = world.logstore.reads.pop(0)
    world.logstore.read_result(b"second")
    assert not client.answers
    held = len(b"second") + READ_BYTES_MIN
    assert world.processor.fetch_memory.reserved_bytes == held
    world.logstore.reads.append(first)
    world.logstore.read_result(b"first")
    assert [records(client, answer) for answer in (0, 1)] == [[b"first"], [b"second"]]
    assert world.processor.fetch_memory.reserved_bytes == 0


def test_reads_wait_for_credit_in_line() -> None:
    world = World()
    world.logstore.down()
    world.logstore.up(Credit(0, 0))
    client = world.client()
    client.fetch(0, offset=1)
    client.fetch(0, offset=2)
    assert not world.logstore.reads
    world.logstore.down()
    assert [partitions(client, answer)[0].error_code for answer in (0, 1)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert world.processor.fetch_memory.reserved_bytes == 0
