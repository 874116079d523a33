"""CreatePartitions: Kafka's rules, a test each; growth over chunks, broken off and taken up."""

from __future__ import annotations

import pytest

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.keys import PartitionChunk, PartitionRecord, Role
from barnabas.cluster.messages import (
    Assignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResult,
    NewPartitions,
    NewTopic,
    UpdateMetadata,
)
from barnabas.ports.etcd import Put, Txn
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.writes import put
from tests.sim.etcd_model import Fate
from tests.unit.controller.cluster import Cluster, ControllerNode, create, delete, error_codes, grow


def a_cluster(partitions: int = 2) -> tuple[Cluster, ControllerNode]:
    """A controller, two logstores and the topic "events"."""
    cluster = Cluster()
    controller = cluster.controller()
    cluster.logstore(1)
    cluster.logstore(2)
    cluster.settle()
    request = controller.request(create(NewTopic("events", partitions, 1)))
    cluster.settle()
    assert error_codes(controller, request) == [ErrorCode.NONE]
    return cluster, controller


def outcome(cluster: Cluster, controller: ControllerNode, request: CreatePartitionsRequest) -> CreatePartitionsResult:
    request_id = controller.request(request)
    cluster.settle()
    response = controller.responses[request_id]
    assert isinstance(response, CreatePartitionsResponse)
    return response.results[-1]


def partitions_of(controller: ControllerNode, topic: str = "events") -> list[PartitionRecord]:
    image = controller.core.image
    return [partition for _, partition in image.partitions(image.topics[topic].topic_id)]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 500), (499, 501), (500, 501), (500, 1000), (3, 1201)])
def test_a_topic_grows_and_its_old_partitions_stay_as_they_are(before: int, after: int) -> None:
    cluster, controller = a_cluster(before)
    old = partitions_of(controller)
    assert outcome(cluster, controller, grow(("events", after))).error_code == ErrorCode.NONE
    now = partitions_of(controller)
    assert len(now) == controller.core.image.topics["events"].partitions == after
    assert now[:before] == old
    topic_id = controller.core.image.topics["events"].topic_id
    for number, partition in enumerate(now):
        reported = cluster.logstores[partition.leader].partitions[topic_id, number]
        assert (reported.leader, reported.leader_epoch) == (partition.leader, partition.leader_epoch)
    assert {partition.leader for partition in now} == {1, 2}


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        (NewPartitions("events", 2), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            NewPartitions("events", 1),
            ErrorCode.INVALID_PARTITIONS,
            "The topic events currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            NewPartitions("events", -5),
            ErrorCode.INVALID_PARTITIONS,
            "The topic events currently has 2 partition(s); -5 would not be an increase.",
        ),
        (NewPartitions("nobody", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (
            NewPartitions("events", 2**31 - 1),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        ),
        (
            NewPartitions("events", 4, [Assignment(0, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            NewPartitions("events", 3, [Assignment(0, [1, 2])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent "
            "with previous partitions, which have 1 replica(s).",
        ),
        (
            NewPartitions("events", 3, [Assignment(0, [7])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
        (
            NewPartitions("events", 3, [Assignment(0, [])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
    ],
)
def test_what_is_wrong_is_refused(asked: NewPartitions, code: ErrorCode, message: str | None) -> None:
    cluster, controller = a_cluster()
    result = outcome(cluster, controller, CreatePartitionsRequest([asked], 1000))
    assert result == CreatePartitionsResult(code, code.message if message is None else message)
    assert len(partitions_of(controller)) == 2


def test_new_partitions_go_where_they_are_assigned() -> None:
    cluster, controller = a_cluster()
    assigned = NewPartitions("events", 5, [Assignment(0, [2]), Assignment(1, [2]), Assignment(2, [1])])
    assert outcome(cluster, controller, CreatePartitionsRequest([assigned], 1000)).error_code == ErrorCode.NONE
    assert [partition.leader for partition in partitions_of(controller)[2:]] == [2, 2, 1]


def test_a_topic_named_twice_is_refused_and_the_others_grow() -> None:
    cluster, controller = a_cluster()
    controller.request(create(NewTopic("other", 1, 1)))
    cluster.settle()
    request_id = controller.request(grow(("events", 3), ("other", 3), ("events", 4)))
    cluster.settle()
    assert error_codes(controller, request_id) == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
    assert (len(partitions_of(controller)), len(partitions_of(controller, "other"))) == (2, 3)


def test_validate_only_writes_nothing() -> None:
    cluster, controller = a_cluster()
    revision = cluster.etcd.revision
    assert outcome(cluster, controller, grow(("events", 9), validate_only=True)).error_code == ErrorCode.NONE
    assert outcome(cluster, controller, grow(("events", 2), validate_only=True)).error_code == 37
    assert cluster.etcd.revision == revision


def test_the_answer_waits_for_the_new_leaders_or_says_that_it_did_in_vain() -> None:
    cluster, controller = a_cluster()
    cluster.logstores[2].answering = False
    request_id = controller.request(grow(("events", 4), timeout_ms=500))
    cluster.settle()
    assert request_id not in controller.responses
    cluster.advance(1000)
    assert error_codes(controller, request_id) == [ErrorCode.REQUEST_TIMED_OUT]
    assert len(partitions_of(controller)) == 4


@pytest.mark.parametrize(("before", "after"), [(2, 4), (499, 501), (500, 501), (3, 1201)])
def test_members_are_sent_the_new_partitions_alone(before: int, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, controller = a_cluster(before)
    subscriber = controller.subscribe(Role.GATEWAY, "gateway-0")
    cluster.settle()
    sent: list[int] = []

    def apply(image: ClusterImage, update: UpdateMetadata) -> bool:
        sent.extend(each.partition for topic in update.topics for each in topic.partitions)
        return apply_as_ever(image, update)

    apply_as_ever = ClusterImage.apply
    monkeypatch.setattr(ClusterImage, "apply", apply)
    assert outcome(cluster, controller, grow(("events", after))).error_code == ErrorCode.NONE
    assert sent == list(range(before, after))
    known = controller.subscribers[subscriber].topics_by_name["events"]
    complete = controller.core.image.topic_metadata(controller.core.image.topics["events"])
    assert known.partitions == complete.partitions


def test_an_election_in_between_is_not_undone() -> None:
    cluster, controller = a_cluster(400)
    leader = partitions_of(controller)[0].leader
    controller.request(grow(("events", 1600)))
    # One Txn has the new chunks; then a leader restarts, and the last one extends what the election has written.
    while len(controller.submitted) < 4:
        assert controller.step()
    cluster.crash(leader)
    cluster.logstore(leader)
    cluster.settle()
    now = partitions_of(controller)
    assert len(now) == 1600
    assert now[0].leader_epoch == 1
    assert all(each.leader_broker_epoch == controller.core.image.logstores[each.leader].epoch for each in now)


def test_growth_that_broke_off_is_reported_to_no_logstore_and_cleared_away_by_the_next_controller() -> None:
    cluster, controller = a_cluster(400)
    topic = controller.core.image.topics["events"]
    left_over = PartitionChunk(topic.topic_id, 1, (PartitionRecord(1, 0, 0, (1,), (1,)),))
    write = put(controller.core.image.keys.chunk(topic.topic_id, 1), left_over)
    assert write.value is not None
    cluster.etcd.txn(Txn((), (Put(write.key, write.value),)))
    cluster.settle()
    assert len(partitions_of(controller)) == 400
    assert controller.core.image.unclaimed_chunks() == [(topic.topic_id, 1)]
    successor = cluster.controller("controller-1")
    controller.cut_off = True
    cluster.advance(10_000)
    assert successor.is_active()
    assert successor.core.image.unclaimed_chunks() == []
    request_id = successor.request(grow(("events", 501)))
    cluster.settle()
    assert error_codes(successor, request_id) == [ErrorCode.NONE]
    assert len(partitions_of(successor)) == 501


def test_a_lost_answer_of_the_last_txn_grows_the_topic_once() -> None:
    cluster, controller = a_cluster()
    fates = iter([Fate.APPLIED_UNANSWERED])
    cluster.fate = lambda txn: next(fates, Fate.ANSWERED)
    request_id = controller.request(grow(("events", 5)))
    cluster.advance(1000)
    assert error_codes(controller, request_id) == [ErrorCode.NONE]
    assert len(partitions_of(controller)) == 5


def test_a_topic_that_grew_is_deleted_whole() -> None:
    cluster, controller = a_cluster(400)
    assert outcome(cluster, controller, grow(("events", 1200))).error_code == ErrorCode.NONE
    request_id = controller.request(delete("events"))
    cluster.advance(1000)
    assert error_codes(controller, request_id) == [ErrorCode.NONE]
    image = controller.core.image
    assert (image.topics, image.chunks, image.deletions) == ({}, {}, {})
    assert all(not logstore.partitions for logstore in cluster.logstores.values())
