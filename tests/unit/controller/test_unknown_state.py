"""Values in etcd that no one can read: what they stand for is unknown, which is not deleted."""

from __future__ import annotations

import pytest

from barnabas.cluster.keys import DeletionRecord, PartitionChunk, Role, TopicRecord, encode_record
from barnabas.cluster.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    LeaderAndIsr,
    NewTopic,
    UnknownPartitions,
)
from barnabas.ports.etcd import Delete, Get, KeyValue, Put, Snapshot, Txn, WatchBatch, WatchEvent, prefix_end
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.observability.description import describe_problems
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.operator_requests import DrainNode, OperatorResponse, Outcome, RemoveNode
from tests.unit.controller.cluster import (
    BROKER,
    KEYS,
    LEASE_MS,
    Cluster,
    ControllerNode,
    FakeLogstore,
    alter,
    create,
    created,
    delete,
    error_codes,
    grow,
    to_set,
)

GARBAGE = b"not json"


class Scene:
    """Two topics of one partition each, on three logstores; both controllers know them."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.first = self.cluster.controller("controller-0")
        for node_id in (1, 2, 3):
            self.cluster.logstore(node_id)
        self.cluster.settle()
        self.gateway = self.cluster.gateway(self.first)
        self.first.request(create(NewTopic("broken", 1, 3), NewTopic("whole", 1, 3)))
        self.cluster.settle()
        image = self.first.core.image
        self.topic_id = image.topics["broken"].topic_id
        self.chunk_key = KEYS.chunk(self.topic_id, 0)
        self.topic_key = KEYS.topic("broken")

    def value(self, key: str) -> bytes:
        (found,) = self.cluster.etcd.get(Get(key))
        return found.value

    def put(self, key: str, value: bytes) -> None:
        self.cluster.etcd.txn(Txn((), (Put(key, value),)))
        self.cluster.settle()

    def corrupt(self, key: str) -> bytes:
        """Its value of before."""
        before = self.value(key)
        self.put(key, GARBAGE)
        return before

    def fail_over(self) -> ControllerNode:
        """To a controller that has read everything only now."""
        self.first.cut_off = True
        for logstore in self.cluster.logstores.values():
            logstore.connected = False
            logstore.unanswered.clear()
            logstore.requests.clear()
        self.cluster.advance(2 * LEASE_MS)
        second = self.cluster.controller("controller-1")
        self.cluster.advance(2 * LEASE_MS)
        return second


@pytest.fixture
def scene() -> Scene:
    return Scene()


def full_command(logstore: FakeLogstore) -> LeaderAndIsr:
    """The last one."""
    commands = [each.leader_and_isr for each in logstore.requests if each.leader_and_isr is not None]
    return [command for command in commands if command.full][-1]


def topics_of(command: LeaderAndIsr) -> list[str]:
    return [topic.topic for topic in command.topics]


# --- the image ---


@pytest.mark.parametrize(
    "key",
    [
        "topic",
        "chunk",
        KEYS.cluster,
        KEYS.controller_epoch,
        KEYS.election,
        KEYS.registration(Role.LOGSTORE, "2"),
        KEYS.member(Role.LOGSTORE, "2"),
        KEYS.broker_configs(-1),
        KEYS.producer_ids,
        KEYS.operations.drain(3),
    ],
)
def test_what_becomes_unreadable_leaves_what_a_reload_would_find(scene: Scene, key: str) -> None:
    scene.first.request(alter("", to_set("log.retention.ms", "1000"), resource_type=BROKER))
    scene.first.request(AllocateProducerIdsRequest("gateway-0"))
    scene.first.request(DrainNode(3, move_replicas=False, timeout_ms=1000))
    scene.cluster.settle()
    key = {"topic": scene.topic_key, "chunk": scene.chunk_key}.get(key, key)
    everything = Get(KEYS.prefix, prefix_end(KEYS.prefix))
    snapshot = Snapshot(scene.cluster.etcd.revision, tuple(scene.cluster.etcd.get(everything)))
    applied, reloaded = ControllerImage(KEYS), ControllerImage(KEYS)
    applied.load(snapshot)
    assert not applied.unreadable
    (before,) = [each for each in snapshot.key_values if each.key == key]
    revision = snapshot.revision + 1
    corrupt = KeyValue(key, GARBAGE, before.create_revision, revision, before.lease)
    applied.apply(WatchBatch(revision, (WatchEvent(corrupt),)))
    reloaded.load(Snapshot(revision, (*[each for each in snapshot.key_values if each.key != key], corrupt)))
    assert list(applied.unreadable) == [key]
    held = [name for name in vars(reloaded) if name not in ("_held", "keys", "_directories", "replica_counts")]
    assert [name for name in held if getattr(applied, name) != getattr(reloaded, name)] == []


def test_a_topic_whose_only_chunk_is_unreadable_has_unknown_partitions() -> None:
    image = ControllerImage(KEYS)
    topic = TopicRecord("events", bytes(16), 3, 1, {})
    image.load(
        Snapshot(
            5,
            (
                KeyValue(KEYS.topic("events"), encode_record(topic), 1, 1),
                KeyValue(KEYS.chunk(bytes(16), 0), GARBAGE, 1, 1),
            ),
        )
    )
    assert image.partition(bytes(16), 0) is None
    assert list(image.unknown_ranges(topic)) == [range(3)]
    assert [(each.partition, each.leader_epoch) for each in image.topic_metadata(topic).partitions] == [
        (0, -1),
        (1, -1),
        (2, -1),
    ]
    assert image.topic_metadata(topic, 1).partitions == []


def test_a_chunk_that_is_too_short_or_absent_is_unknown_as_well() -> None:
    image = ControllerImage(KEYS)
    topic = TopicRecord("events", bytes(16), 1200, 1, {})
    short = PartitionChunk(bytes(16), 1, ())
    image.load(
        Snapshot(
            5,
            (
                KeyValue(KEYS.topic("events"), encode_record(topic), 1, 1),
                KeyValue(KEYS.chunk(bytes(16), 1), encode_record(short), 1, 1),
            ),
        )
    )
    assert list(image.unknown_ranges(topic)) == [range(500), range(500, 1000), range(1000, 1200)]
    assert image.partition(bytes(16), 700) is None


# --- what members receive ---


def test_a_replica_whose_chunk_is_unreadable_is_no_stray_and_goes_on_when_it_is_mended(scene: Scene) -> None:
    value = scene.corrupt(scene.chunk_key)
    second = scene.fail_over()
    assert second.is_active()
    for logstore in scene.cluster.logstores.values():
        command = full_command(logstore)
        assert topics_of(command) == ["whole"]
        assert command.unknown_partitions == [UnknownPartitions(scene.topic_id, 0, 1)]
    reported = describe_problems(second.core)
    assert any(scene.chunk_key in problem and "is unreadable" in problem for problem in reported)
    assert any(problem.startswith("partition 0 of topic broken cannot be read") for problem in reported)
    scene.put(scene.chunk_key, value)
    for logstore in scene.cluster.logstores.values():
        command = full_command(logstore)
        assert topics_of(command) == ["broken", "whole"]
        assert command.unknown_partitions == []
    assert not any("unreadable" in problem for problem in describe_problems(second.core))


def test_gateways_keep_what_they_know_of_partitions_and_topics_that_are_unknown(scene: Scene) -> None:
    known = scene.first.subscribers[scene.gateway]
    before = known.partition(scene.topic_id, 0)
    assert before is not None
    scene.corrupt(scene.chunk_key)
    second = scene.fail_over()
    subscriber_id = second.subscribe(Role.GATEWAY, "gateway-1")
    second.subscribers[subscriber_id] = known
    scene.corrupt(scene.topic_key)
    scene.cluster.stop(3)
    scene.cluster.advance(2 * LEASE_MS)
    scene.put(KEYS.topic("another"), encode_record(TopicRecord("another", b"a" * 16, 0, 1, {})))
    scene.corrupt(KEYS.topic("another"))
    scene.put(KEYS.topic("another"), encode_record(TopicRecord("another", b"a" * 16, 0, 1, {})))
    assert known.partition(scene.topic_id, 0) == before
    assert "broken" in known.topics_by_name
    fresh = second.subscribers[second.subscribe(Role.GATEWAY, "gateway-2")]
    assert list(fresh.topics_by_name) == ["whole", "another"]


def test_other_topics_go_on(scene: Scene) -> None:
    scene.corrupt(scene.chunk_key)
    second = scene.fail_over()
    scene.cluster.stop(1)
    scene.cluster.advance(LEASE_MS)
    image = second.core.image
    whole = image.partition(image.topics["whole"].topic_id, 0)
    assert whole is not None
    assert whole.leader in (2, 3)
    assert 1 not in whole.in_sync_replicas
    assert scene.value(scene.chunk_key) == GARBAGE


def test_chunks_of_a_topic_whose_record_is_unreadable_are_not_removed(scene: Scene) -> None:
    value = scene.corrupt(scene.topic_key)
    second = scene.fail_over()
    scene.cluster.advance(1000)
    assert scene.value(scene.chunk_key)
    for logstore in scene.cluster.logstores.values():
        command = full_command(logstore)
        assert (topics_of(command), command.unknown_topics) == (["whole"], ["broken"])
    request_id = second.request(create(NewTopic("broken", 1, 1)))
    scene.cluster.settle()
    assert created(second, request_id)[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert scene.value(scene.topic_key) == GARBAGE
    scene.put(scene.topic_key, value)
    assert topics_of(full_command(scene.cluster.logstores[1])) == ["whole", "broken"]


def test_a_key_that_is_deleted_unreadable_leaves_nothing_unknown(scene: Scene) -> None:
    scene.corrupt(scene.topic_key)
    second = scene.fail_over()
    scene.cluster.etcd.txn(Txn((), (Delete(scene.topic_key),)))
    scene.cluster.settle()
    command = full_command(scene.cluster.logstores[1])
    assert (topics_of(command), command.unknown_topics) == (["whole"], [])
    assert second.core.image.unreadable == {}


def test_configs_of_brokers_that_are_unreadable_stay_what_members_know(scene: Scene) -> None:
    scene.first.request(alter("", to_set("min.insync.replicas", "2"), resource_type=BROKER))
    scene.cluster.settle()
    known = scene.first.subscribers[scene.gateway]
    assert known.broker_configs == {-1: {"min.insync.replicas": "2"}}
    scene.corrupt(KEYS.broker_configs(-1))
    scene.cluster.stop(3)
    scene.cluster.settle()
    assert sorted(known.brokers) == [1, 2]
    assert known.broker_configs == {-1: {"min.insync.replicas": "2"}}


# --- what is not decided meanwhile ---


def test_a_logstore_that_may_lack_records_stays_under_suspicion_while_partitions_are_unknown(scene: Scene) -> None:
    """The chunk may have it in an ISR, from which it was not removed."""
    value = scene.corrupt(scene.chunk_key)
    scene.cluster.crash(2)
    scene.cluster.logstore(2, may_lack_records=True)
    scene.cluster.advance(1000)
    member = scene.first.core.image.members[Role.LOGSTORE, "2"]
    epoch = scene.cluster.logstores[2].broker_epoch
    assert member.broker_epoch != epoch
    scene.put(scene.chunk_key, value)
    scene.cluster.advance(1000)
    partition = scene.first.core.image.partition(scene.topic_id, 0)
    assert partition is not None
    assert 2 not in partition.in_sync_replicas
    assert scene.first.core.image.members[Role.LOGSTORE, "2"].broker_epoch == epoch


def test_a_topic_with_partitions_that_are_unknown_does_not_grow(scene: Scene) -> None:
    scene.corrupt(scene.chunk_key)
    request_id = scene.first.request(grow(("broken", 2), ("whole", 2)))
    scene.cluster.settle()
    assert error_codes(scene.first, request_id) == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]


def test_a_deletion_waits_for_a_chunk_that_is_unreadable(scene: Scene) -> None:
    value = scene.corrupt(scene.chunk_key)
    scene.first.request(delete("broken"))
    scene.cluster.advance(1000)
    deletion = encode_record(DeletionRecord("broken", scene.topic_id, 1))
    assert scene.value(KEYS.deletion(scene.topic_id)) == deletion
    scene.put(scene.chunk_key, value)
    scene.cluster.advance(1000)
    assert not scene.cluster.etcd.get(Get(KEYS.deletion(scene.topic_id)))
    assert all(logstore.deleted == {(scene.topic_id, 0)} for logstore in scene.cluster.logstores.values())


def test_no_logstore_is_drained_or_removed_while_partitions_are_unknown(scene: Scene) -> None:
    scene.corrupt(scene.chunk_key)
    drained = scene.first.request(DrainNode(3, move_replicas=True, timeout_ms=1000))
    scene.cluster.stop(2)
    scene.cluster.settle()
    removed = scene.first.request(RemoveNode(2, timeout_ms=1000))
    scene.cluster.settle()
    for request_id in (drained, removed):
        response = scene.first.responses[request_id]
        assert isinstance(response, OperatorResponse)
        assert response.outcome is Outcome.REFUSED
        assert "unreadable" in response.message


def test_no_producer_ids_are_given_from_the_beginning(scene: Scene) -> None:
    scene.first.request(AllocateProducerIdsRequest("gateway-0"))
    scene.cluster.settle()
    scene.corrupt(KEYS.producer_ids)
    request_id = scene.first.request(AllocateProducerIdsRequest("gateway-0"))
    scene.cluster.settle()
    response = scene.first.responses[request_id]
    assert isinstance(response, AllocateProducerIdsResponse)
    assert response.error_code != ErrorCode.NONE
    assert scene.value(KEYS.producer_ids) == GARBAGE


@pytest.mark.parametrize("key", [KEYS.controller_epoch, KEYS.cluster, KEYS.version])
def test_no_leader_is_elected_on_what_cannot_be_continued(scene: Scene, key: str) -> None:
    """An epoch from the beginning, or another cluster id, is refused by every member for good."""
    if scene.cluster.etcd.get(Get(key)):
        value = scene.corrupt(key)
    else:
        value = b""
        scene.put(key, GARBAGE)
    assert not scene.first.is_active()
    second = scene.fail_over()
    assert not second.is_active()
    assert scene.value(key) == GARBAGE
    if value:
        scene.put(key, value)
        scene.cluster.advance(2 * LEASE_MS)
        assert second.is_active()
        assert second.core.candidacy.controller_epoch == 2
