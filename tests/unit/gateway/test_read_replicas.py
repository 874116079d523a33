"""Fetching from followers (KIP-392): where a client's partitions are read, and the answers it gets."""

from __future__ import annotations

from barnabas.channel.messages import Outcome
from barnabas.cluster.messages import PartitionMetadata, TopicMetadata
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from barnabas_gateway.core.backends.read_replicas import AVOIDED_MS, PREFERRED_MS
from barnabas_gateway.core.model.config import AddressPolicy
from tests.unit.gateway.sessions.consumer import Consumer
from tests.unit.gateway.world import TOPIC_ID, Client, World

LEADER, FOLLOWER, STRANGER = 1, 2, 3
SHARED = AddressPolicy.SHARED


def replicated(leader: int = LEADER, leader_epoch: int = 5) -> TopicMetadata:
    replicas = (LEADER, FOLLOWER)
    return TopicMetadata("t", TOPIC_ID, {}, [PartitionMetadata(0, leader, leader_epoch, 0, replicas, replicas)])


def world_of(policy: AddressPolicy = AddressPolicy.PER_BROKER_PORT) -> World:
    return World(replicated(), nodes=(LEADER, FOLLOWER, STRANGER), pods=("p-0",), address_policy=policy)


def fetch(client: Client, *, rack: str = "b", max_wait_ms: int = 500, version: int = 12) -> None:
    asked = [FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=3, partition_max_bytes=1 << 20)])]
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=asked, rack_id=rack)
    client.ask(request, ApiKey.FETCH, version)


def answered_partition(client: Client) -> PartitionData:
    ((partition,),) = [each.partitions for each in client.answers[-1].responses]
    assert isinstance(partition, PartitionData)
    return partition


# --- a port per broker: the client goes there itself -----------------------------------------------------------------


def test_the_leaders_word_on_a_nearer_replica_is_returned_at_once() -> None:
    world = world_of()
    client = world.client()
    fetch(client)
    assert world.logstores[LEADER].reads[0].rack_id == "b"
    world.logstores[LEADER].read_result(b"", leader_id=LEADER, preferred_read_replica=FOLLOWER)
    assert (answered_partition(client).error_code, answered_partition(client).preferred_read_replica) == (0, FOLLOWER)
    assert not world.pod.fetches


def test_it_is_returned_in_a_session_though_nothing_else_is_new() -> None:
    world = world_of()
    consumer = Consumer(world.client())
    consumer.poll({0: 10}, max_wait_ms=0, rack_id="b")
    world.logstores[LEADER].read_result(b"", leader_id=LEADER)
    consumer.session_id, consumer.epoch = consumer.answer.session_id, 1
    consumer.next(rack_id="b")
    world.logstores[LEADER].read_result(b"", leader_id=LEADER, preferred_read_replica=FOLLOWER)
    assert answered_partition(consumer.client).preferred_read_replica == FOLLOWER


def test_a_follower_is_read_at_its_own_port_and_waited_for() -> None:
    world = world_of()
    client = world.client(FOLLOWER)
    fetch(client)
    world.logstores[FOLLOWER].read_result(b"", leader_id=LEADER, fetch_position=70)
    ((park,),) = [world.pod.fetches]
    (condition,) = park.conditions
    assert (condition.leader_id, condition.leader_epoch, condition.from_follower) == (FOLLOWER, 5, True)
    world.pod.complete(park.entry_id, Outcome.SATISFIED)
    world.logstores[FOLLOWER].read_result(b"batch", leader_id=LEADER)
    assert bytes(answered_partition(client).records or b"") == b"batch"


def test_what_a_follower_has_not_got_sends_the_client_back_to_the_leader() -> None:
    world = world_of()
    client = world.client(FOLLOWER)
    fetch(client)
    world.logstores[FOLLOWER].read_result(b"", error_code=ErrorCode.OFFSET_OUT_OF_RANGE, leader_id=LEADER)
    assert answered_partition(client).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_who_says_no_rack_or_is_at_no_replicas_port_is_answered_by_the_leader() -> None:
    world = world_of()
    for node_id, rack, version in ((FOLLOWER, "", 12), (STRANGER, "b", 12), (FOLLOWER, "b", 10)):
        client = world.client(node_id)
        fetch(client, rack=rack, version=version)
        (read,) = world.logstores[LEADER].reads
        assert read.rack_id == (rack if version >= 11 else "")
        world.logstores[LEADER].read_result(b"batch", leader_id=LEADER)
        assert bytes(answered_partition(client).records or b"") == b"batch"


def test_at_the_port_of_a_follower_out_of_reach_the_leader_answers_itself() -> None:
    world = world_of()
    world.logstores[FOLLOWER].down()
    client = world.client(FOLLOWER)
    fetch(client)
    (read,) = world.logstores[LEADER].reads
    assert read.rack_id == "", "or it would name the follower again"


def test_an_elected_follower_is_parked_for_as_the_leader() -> None:
    world = world_of()
    client = world.client(FOLLOWER)
    fetch(client)
    world.logstores[FOLLOWER].read_result(b"", leader_id=FOLLOWER, leader_epoch=6)
    (condition,) = world.pod.fetches[0].conditions
    assert (condition.leader_id, condition.leader_epoch, condition.from_follower) == (FOLLOWER, 6, False)


# --- one address for all: the processor goes there -------------------------------------------------------------------


def test_the_processor_reads_where_the_leader_sends_it_and_remembers_that() -> None:
    world = world_of(SHARED)
    client = world.client()
    fetch(client)
    world.logstores[LEADER].read_result(b"", leader_id=LEADER, preferred_read_replica=FOLLOWER)
    assert client.answers == []
    world.logstores[FOLLOWER].read_result(b"batch", leader_id=LEADER)
    answered = answered_partition(client)
    assert (bytes(answered.records or b""), answered.preferred_read_replica) == (b"batch", -1)
    fetch(client)
    assert not world.logstores[LEADER].reads
    world.logstores[FOLLOWER].read_result(b"more", leader_id=LEADER)
    assert bytes(answered_partition(client).records or b"") == b"more"
    other = world.client()
    fetch(other, rack="c", max_wait_ms=0)
    world.logstores[LEADER].read_result(b"", leader_id=LEADER)
    world.pass_ms(PREFERRED_MS)
    fetch(world.client())
    assert len(world.logstores[LEADER].reads) == 1, "who is near may be another by now"


def test_a_follower_that_can_not_answer_is_left_alone_for_a_while() -> None:
    world = world_of(SHARED)
    client = world.client()
    fetch(client)
    world.logstores[LEADER].read_result(b"", leader_id=LEADER, preferred_read_replica=FOLLOWER)
    world.logstores[FOLLOWER].read_result(b"", error_code=ErrorCode.OFFSET_OUT_OF_RANGE, leader_id=LEADER)
    assert client.answers == [], "the leader may well have that offset"
    assert world.logstores[LEADER].reads[0].rack_id == ""
    world.logstores[LEADER].read_result(b"batch", leader_id=LEADER)
    assert (answered_partition(client).error_code, bytes(answered_partition(client).records or b"")) == (0, b"batch")
    world.pass_ms(AVOIDED_MS)
    fetch(client)
    assert world.logstores[LEADER].reads[0].rack_id == "b"


def test_a_lost_follower_is_made_up_for_by_the_leader() -> None:
    world = world_of(SHARED)
    client = world.client()
    fetch(client)
    world.logstores[LEADER].read_result(b"", leader_id=LEADER, preferred_read_replica=FOLLOWER)
    world.logstores[FOLLOWER].down()
    world.logstores[LEADER].read_result(b"batch", leader_id=LEADER)
    assert bytes(answered_partition(client).records or b"") == b"batch"


def test_the_leaders_own_errors_are_returned() -> None:
    world = world_of(SHARED)
    client = world.client()
    fetch(client)
    world.logstores[LEADER].read_result(b"", error_code=ErrorCode.OFFSET_OUT_OF_RANGE, leader_id=LEADER)
    assert answered_partition(client).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_what_is_gone_is_forgotten() -> None:
    world = world_of(SHARED)
    fetch(world.client())
    world.logstores[LEADER].read_result(b"", leader_id=LEADER, preferred_read_replica=FOLLOWER)
    assert len(world.processor.read_replicas._replicas) == 1
    world.update()
    assert world.processor.read_replicas._replicas == {}
