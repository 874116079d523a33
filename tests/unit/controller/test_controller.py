"""What the active controller does, and when it answers."""

from __future__ import annotations

import pytest

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.keys import Role
from barnabas.cluster.messages import (
    EPOCH_DURING_DELETE,
    NO_LEADER,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    ControlResponse,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    NewTopic,
    PartitionError,
    TopicReference,
)
from barnabas.ports.etcd import Get, Put
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.observability.description import describe_problems
from barnabas_controller.core.state import writes
from barnabas_controller.core.state.effects import Reject
from barnabas_controller.core.state.image import ControllerImage
from tests.sim.etcd_model import Fate
from tests.unit.controller.cluster import (
    KEYS,
    LEASE_MS,
    Cluster,
    ControllerNode,
    create,
    created,
    delete,
    error_codes,
)


def a_cluster(logstores: int = 1) -> tuple[Cluster, ControllerNode]:
    cluster = Cluster()
    controller = cluster.controller()
    for node_id in range(1, logstores + 1):
        cluster.logstore(node_id)
    cluster.settle()
    assert controller.is_active()
    return cluster, controller


def leader_of(controller: ControllerNode, topic: str, partition: int = 0) -> tuple[int, int, int]:
    """(leader, leader epoch, partition epoch)."""
    record = controller.core.image.topics[topic]
    state = dict(controller.core.image.partitions(record.topic_id))[partition]
    return state.leader, state.leader_epoch, state.partition_epoch


def test_the_first_controller_names_the_cluster_and_starts_at_epoch_1() -> None:
    _, controller = a_cluster()
    assert controller.core.image.cluster_id == "cluster"
    assert controller.core.image.controller_epoch == 1
    assert [(change.active, change.controller_epoch) for change in controller.changes] == [(True, 1)]


def test_create_topics_waits_for_the_leaders() -> None:
    cluster, controller = a_cluster()
    cluster.logstores[1].answering = False
    request = controller.request(create(NewTopic("events", 1, 1)))
    cluster.settle()
    assert "events" in controller.core.image.topics
    assert request not in controller.responses
    cluster.logstores[1].answering = True
    cluster.settle()
    assert error_codes(controller, request) == [ErrorCode.NONE]


def test_create_topics_waits_for_every_gateway_that_follows() -> None:
    cluster, controller = a_cluster()
    subscriber = cluster.gateway(controller)
    cluster.purgatory(controller)
    cluster.settle()
    controller.acknowledging = False
    request = controller.request(create(NewTopic("events", 1, 1)))
    cluster.settle()
    assert request not in controller.responses
    revision = controller.subscribers[subscriber].revision
    controller.core.on_acknowledged(subscriber, revision, cluster.now_ms)
    controller.carry_out()
    response = controller.responses[request]
    assert isinstance(response, CreateTopicsResponse)
    assert response.revision == revision


def test_a_gateway_that_leaves_is_waited_for_no_longer() -> None:
    cluster, controller = a_cluster()
    subscriber = cluster.gateway(controller)
    controller.acknowledging = False
    cluster.settle()
    request = controller.request(create(NewTopic("events", 1, 1)))
    cluster.settle()
    del controller.subscribers[subscriber]
    controller.core.on_unsubscribed(subscriber, cluster.now_ms)
    controller.carry_out()
    assert error_codes(controller, request) == [ErrorCode.NONE]


def test_leaders_that_do_not_answer_time_the_creation_out() -> None:
    cluster, controller = a_cluster()
    cluster.logstores[1].answering = False
    request = controller.request(create(NewTopic("events", 1, 1), NewTopic("bad name", 1, 1), timeout_ms=500))
    cluster.advance(499)
    assert request not in controller.responses
    cluster.advance(1)
    assert error_codes(controller, request) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_gateway_that_lags_does_not_time_the_creation_out() -> None:
    cluster, controller = a_cluster()
    cluster.gateway(controller)
    controller.acknowledging = False
    request = controller.request(create(NewTopic("events", 1, 1), timeout_ms=500))
    cluster.advance(500)
    assert error_codes(controller, request) == [ErrorCode.NONE]


def test_a_request_whose_time_is_over_before_its_turn_is_not_carried_out() -> None:
    cluster, controller = a_cluster()
    cluster.fate = lambda txn: Fate.LOST
    first = controller.request(create(NewTopic("first", 1, 1), timeout_ms=100))
    second = controller.request(create(NewTopic("second", 1, 1), timeout_ms=100))
    cluster.advance(100)
    assert error_codes(controller, first) == error_codes(controller, second) == [ErrorCode.REQUEST_TIMED_OUT]
    cluster.fate = lambda txn: Fate.ANSWERED
    cluster.advance(1000)
    # The first had been begun, and it is unknown whether it was done.
    assert sorted(controller.core.image.topics) == ["first"]


def test_validate_only_writes_nothing() -> None:
    cluster, controller = a_cluster()
    before = len(controller.submitted)
    request = controller.request(create(NewTopic("events", 3, 1), validate_only=True))
    assert [(result.error_code, result.partitions) for result in created(controller, request)] == [(0, 3)]
    assert len(controller.submitted) == before
    cluster.settle()
    assert controller.core.image.topics == {}


def test_a_topic_of_many_chunks_commits_with_its_own_record_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "BYTES_MAX", 200_000)
    cluster, controller = a_cluster(logstores=3)
    subscriber = cluster.gateway(controller)
    cluster.settle()
    first = len(controller.submitted)
    request = controller.request(create(NewTopic("large", 10_000, 1)))
    cluster.settle()
    assert error_codes(controller, request) == [ErrorCode.NONE]
    txns = controller.submitted[first:]
    assert len(txns) > 1
    assert [operation.key for operation in txns[-1].success][-1] == KEYS.topic("large")
    assert all(KEYS.topic("large") not in [each.key for each in txn.success] for txn in txns[:-1])
    assert max(sum(len(each.value) for each in txn.success if isinstance(each, Put)) for txn in txns) <= 200_000
    topic = controller.subscribers[subscriber].topics_by_name["large"]
    assert [partition.partition for partition in topic.partitions] == list(range(10_000))


def test_chunks_of_a_creation_that_broke_off_are_removed_by_the_next_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writes, "BYTES_MAX", 200_000)
    cluster, controller = a_cluster()
    controller.request(create(NewTopic("large", 10_000, 1)))
    while not cluster.etcd.get(Get(KEYS.partitions, KEYS.partitions[:-1] + "0")):
        controller.step()
    assert "large" not in controller.core.image.topics
    controller.cut_off = True
    successor = cluster.controller("controller-1")
    cluster.advance(LEASE_MS + 1000)
    assert successor.is_active()
    assert cluster.etcd.get(Get(KEYS.partitions, KEYS.partitions[:-1] + "0")) == ()


def test_a_logstore_whose_lease_ends_loses_its_leaders_and_epochs_move() -> None:
    cluster, controller = a_cluster(logstores=2)
    controller.request(create(NewTopic("events", 2, 1)))
    cluster.settle()
    cluster.crash(1)
    cluster.advance(LEASE_MS - 500)
    assert leader_of(controller, "events", 0) == (1, 0, 0)
    cluster.advance(1000)
    assert leader_of(controller, "events", 0) == (NO_LEADER, 1, 1)
    assert leader_of(controller, "events", 1) == (2, 0, 0)


def test_the_last_known_leader_leads_again_when_it_returns_under_a_new_epoch() -> None:
    cluster, controller = a_cluster()
    controller.request(create(NewTopic("events", 1, 1)))
    cluster.settle()
    cluster.stop(1)
    cluster.settle()
    assert leader_of(controller, "events") == (NO_LEADER, 1, 1)
    logstore = cluster.logstore(1)
    cluster.settle()
    assert leader_of(controller, "events") == (1, 2, 2)
    (partition,) = logstore.partitions.values()
    assert (partition.leader, partition.leader_epoch) == (1, 2)


def test_a_restart_within_the_lease_counts_as_one() -> None:
    cluster, controller = a_cluster()
    controller.request(create(NewTopic("events", 1, 1)))
    cluster.settle()
    cluster.crash(1)
    logstore = cluster.logstore(1)
    cluster.settle()
    leader, leader_epoch, _ = leader_of(controller, "events")
    assert leader == 1
    assert leader_epoch > 0
    # It never heard of the epoch before: that would have let it lead under it again.
    reported = [
        partition.leader_epoch
        for request in logstore.requests
        if request.leader_and_isr is not None
        for topic in request.leader_and_isr.topics
        for partition in topic.partitions
    ]
    assert set(reported) == {leader_epoch}


def test_a_restart_while_no_controller_was_active_counts_as_one() -> None:
    cluster, controller = a_cluster()
    controller.request(create(NewTopic("events", 1, 1)))
    cluster.settle()
    controller.cut_off = True
    cluster.crash(1)
    cluster.logstore(1)
    successor = cluster.controller("controller-1")
    cluster.advance(LEASE_MS + 1000)
    assert leader_of(successor, "events") == (1, 1, 1)


def test_a_peer_that_is_certainly_gone_need_not_wait_for_its_lease() -> None:
    cluster, controller = a_cluster()
    controller.request(create(NewTopic("events", 1, 1)))
    cluster.settle()
    cluster.crash(1)
    controller.core.on_peer_gone(1, cluster.logstores[1].broker_epoch, cluster.now_ms)
    controller.carry_out()
    cluster.settle()
    assert leader_of(controller, "events") == (NO_LEADER, 1, 1)


def test_a_peer_that_never_answered_is_left_to_its_lease() -> None:
    cluster = Cluster()
    controller = cluster.controller()
    logstore = cluster.logstore(1)
    logstore.alive = False
    cluster.settle()
    controller.core.on_peer_gone(1, logstore.broker_epoch, cluster.now_ms)
    controller.carry_out()
    cluster.settle()
    assert 1 in controller.core.image.logstores


def test_a_stream_begins_with_everything_in_order() -> None:
    cluster, controller = a_cluster(logstores=2)
    controller.request(create(NewTopic("kept", 2, 1), NewTopic("deleted", 2, 1)))
    cluster.settle()
    cluster.stop(1)
    controller.request(delete("deleted"))
    cluster.settle()
    logstore = cluster.logstore(1)
    cluster.settle()
    leadership, stop, metadata = logstore.requests[:3]
    assert leadership.leader_and_isr is not None
    assert leadership.leader_and_isr.full
    assert [topic.topic for topic in leadership.leader_and_isr.topics] == ["kept"]
    assert stop.stop_replica is not None
    assert [(each.topic, each.leader_epoch, each.delete) for each in stop.stop_replica.partitions] == [
        ("deleted", EPOCH_DURING_DELETE, True)
    ]
    assert metadata.update_metadata is not None
    assert metadata.update_metadata.full
    assert [request.sequence for request in logstore.requests] == list(range(1, len(logstore.requests) + 1))
    assert {request.broker_epoch for request in logstore.requests} == {logstore.broker_epoch}


def test_a_logstore_is_sent_only_partitions_it_has() -> None:
    cluster, controller = a_cluster(logstores=2)
    controller.request(create(NewTopic("events", 4, 1)))
    cluster.settle()
    for node_id, logstore in cluster.logstores.items():
        assert {partition.leader for partition in logstore.partitions.values()} == {node_id}
        assert len(logstore.partitions) == 2


def test_a_command_left_unanswered_too_long_gets_a_new_stream() -> None:
    cluster, controller = a_cluster()
    cluster.logstores[1].answering = False
    controller.request(create(NewTopic("events", 1, 1), timeout_ms=60_000))
    cluster.settle()
    reported = len(cluster.logstores[1].requests)
    cluster.advance(29_000, step_ms=1000)
    assert len(cluster.logstores[1].requests) == reported
    cluster.advance(2000, step_ms=1000)
    begin = cluster.logstores[1].requests[reported]
    assert begin.sequence == 1
    assert begin.leader_and_isr is not None
    assert begin.leader_and_isr.full


def test_a_partition_that_failed_keeps_the_creation_waiting_and_is_named() -> None:
    cluster, controller = a_cluster()
    cluster.logstores[1].answering = False
    request = controller.request(create(NewTopic("events", 1, 1), timeout_ms=500))
    cluster.settle()
    (topic,) = controller.core.image.topics.values()
    logstore = cluster.logstores[1]
    failed = [PartitionError(topic.topic_id, 0, ErrorCode.KAFKA_STORAGE_ERROR)]
    for command in logstore.unanswered:
        response = ControlResponse(command.sequence, ErrorCode.NONE, failed)
        controller.core.on_control_response(1, logstore.broker_epoch, response, cluster.now_ms)
        controller.carry_out()
    assert request not in controller.responses
    assert "partition events-0 failed on logstore 1: KAFKA_STORAGE_ERROR" in describe_problems(controller.core)
    cluster.advance(500)
    assert error_codes(controller, request) == [ErrorCode.REQUEST_TIMED_OUT]


def test_a_deletion_ends_when_every_replica_is_gone() -> None:
    cluster, controller = a_cluster(logstores=2)
    controller.request(create(NewTopic("events", 2, 1)))
    cluster.settle()
    (topic,) = controller.core.image.topics.values()
    cluster.stop(2)
    request = controller.request(delete("events"))
    cluster.settle()
    assert error_codes(controller, request) == [ErrorCode.NONE]
    assert cluster.logstores[1].deleted == {(topic.topic_id, 0)}
    assert list(controller.core.image.deletions) == [topic.topic_id]
    again = cluster.logstore(2)
    cluster.settle()
    assert again.deleted == {(topic.topic_id, 1)}
    assert controller.core.image.deletions == {}
    assert controller.core.image.chunks == {}


def test_a_name_is_free_again_while_its_replicas_are_being_deleted() -> None:
    cluster, controller = a_cluster()
    cluster.logstores[1].answering = False
    controller.request(create(NewTopic("events", 1, 1)))
    cluster.settle()
    (old,) = controller.core.image.topics.values()
    controller.request(delete("events"))
    controller.request(create(NewTopic("events", 1, 1)))
    cluster.settle()
    assert controller.core.image.topics["events"].topic_id != old.topic_id
    assert list(controller.core.image.deletions) == [old.topic_id]
    kinds = [
        "stop" if request.stop_replica else "lead"
        for request in cluster.logstores[1].requests
        if request.stop_replica or (request.leader_and_isr and not request.leader_and_isr.full)
    ]
    assert kinds == ["lead", "stop", "lead"]


def test_topics_are_deleted_by_id_and_errors_name_what_was_asked() -> None:
    cluster, controller = a_cluster()
    controller.request(create(NewTopic("a", 1, 1), NewTopic("b", 1, 1)))
    cluster.settle()
    by_id = controller.core.image.topics["a"].topic_id
    references = [
        TopicReference("", by_id),
        TopicReference("", bytes(16)),
        TopicReference("c", b""),
        TopicReference("b", b""),
        TopicReference("b", b""),
    ]
    request = controller.request(DeleteTopicsRequest(references, 1000))
    cluster.settle()
    assert error_codes(controller, request) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert list(controller.core.image.topics) == ["b"]


def test_producer_id_blocks_never_overlap_whatever_becomes_of_the_controller() -> None:
    cluster, controller = a_cluster()
    first = controller.request(AllocateProducerIdsRequest("gateway-0"))
    second = controller.request(AllocateProducerIdsRequest("gateway-1"))
    cluster.settle()
    controller.cut_off = True
    successor = cluster.controller("controller-1")
    cluster.advance(LEASE_MS + 1000)
    third = successor.request(AllocateProducerIdsRequest("gateway-0"))
    cluster.settle()
    blocks = [controller.responses[first], controller.responses[second], successor.responses[third]]
    assert blocks == [AllocateProducerIdsResponse(ErrorCode.NONE, start, 1000) for start in (0, 1000, 2000)]


def test_subscribers_get_everything_first_and_changes_after() -> None:
    cluster, controller = a_cluster()
    subscriber = cluster.gateway(controller)
    controller.request(create(NewTopic("events", 3, 1)))
    cluster.settle()
    image: ClusterImage = controller.subscribers[subscriber]
    assert sorted(image.brokers) == [1]
    assert image.topics_by_name["events"].partitions[2].leader == 1
    controller.request(delete("events"))
    cluster.purgatory(controller)
    cluster.settle()
    assert image.topics_by_name == {}
    assert [purgatory.pod_id for purgatory in image.purgatories] == ["purgatory-0"]


def test_a_standby_follows_the_image_and_rejects_requests_untouched() -> None:
    cluster, controller = a_cluster()
    standby = cluster.controller("controller-1")
    cluster.settle()
    assert standby.core.ready
    assert not standby.is_active()
    assert standby.core.image.controller_epoch == controller.core.image.controller_epoch
    request = standby.request(create(NewTopic("events", 1, 1)))
    assert standby.responses[request] == Reject(request, untouched=True)
    standby.subscribe(Role.GATEWAY, "gateway-0")
    assert standby.subscribers == {}


def test_the_image_is_what_a_reload_gives() -> None:
    cluster, controller = a_cluster(logstores=3)
    controller.request(create(NewTopic("a", 700, 1), NewTopic("b", 2, 1)))
    cluster.settle()
    controller.request(delete("b"))
    cluster.stop(2)
    cluster.settle()
    assert_same_as_reloaded(cluster, controller)


def assert_same_as_reloaded(cluster: Cluster, controller: ControllerNode) -> None:
    (snapshot,) = cluster.etcd.watch(KEYS.prefix).take()
    reloaded = ControllerImage(KEYS)
    reloaded.load(snapshot)  # type: ignore[arg-type]
    ignored = {"revision", "keys", "_directories", "replica_counts"}
    kept = {name: value for name, value in vars(controller.core.image).items() if name not in ignored}
    assert kept == {name: value for name, value in vars(reloaded).items() if name not in ignored}
