"""What a controller leaves half done the next one finishes; moves over one another, to the dead, and of what goes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.cluster.messages import AlterReassignmentsRequest, AlterReassignmentsResponse, NewTopic, Reassignment
from barnabas.ports.etcd import Get, Snapshot, prefix_end
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core import chunk_changes
from barnabas_controller.core import controller as controller_room
from tests.unit.controller.cluster import KEYS, LEASE_MS, Cluster, ControllerNode, create, delete, error_codes
from tests.unit.controller.replicated import a_cluster, rejoin, shrink, state, with_topic
from tests.unit.controller.test_elections_and_moves import move


def taken_over(cluster: Cluster) -> ControllerNode:
    """The active controller is cut off for good, and another one is active."""
    cluster.controllers[0].cut_off = True
    successor = cluster.controller(f"controller-{len(cluster.controllers)}")
    cluster.advance(LEASE_MS + 1000)
    assert successor.is_active()
    del cluster.controllers[0]
    return successor


def step_until(controller: ControllerNode, condition: Callable[[], bool]) -> None:
    """One event of etcd at a time."""
    while not condition():
        assert controller.step(), "nothing is under way any more"


def test_a_deletion_that_broke_off_between_its_txns_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_room, "OPERATIONS_MAX", 1)
    cluster, controller = a_cluster(logstores=2)
    controller.request(create(NewTopic("events", 2000, 1)))
    cluster.settle()
    (topic_id,) = controller.core.image.topics_by_id
    cluster.stop(2)
    controller.request(delete("events"))
    cluster.settle()
    assert len(controller.core.image.chunks[topic_id]) == 4
    cluster.logstore(2)
    image = controller.core.image
    while len(image.chunks[topic_id]) > 2:
        if not controller.step():
            cluster._step_logstores()
    assert topic_id in image.deletions
    successor = taken_over(cluster)
    cluster.settle()
    assert (successor.core.image.chunks, successor.core.image.deletions) == ({}, {})


def test_moves_that_broke_off_between_their_txns_go_on_as_far_as_they_were_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunk_changes, "OPERATIONS_MAX", 1)
    cluster, controller = a_cluster()
    controller.request(create(NewTopic("events", 1000, 2)))
    cluster.settle()
    before = [state(cluster, number) for number in range(1000)]
    targets = [next(node for node in (1, 2, 3) if node not in each.replicas) for each in before]
    moves = [
        Reassignment("events", number, [target, each.replicas[0]])
        for number, (target, each) in enumerate(zip(targets, before, strict=True))
    ]
    request = controller.request(AlterReassignmentsRequest(moves, 10_000))
    step_until(controller, lambda: state(cluster, 0).adding_replicas != ())
    assert state(cluster, 999) == before[999]
    assert request not in controller.responses
    taken_over(cluster)
    assert state(cluster, 0).adding_replicas == (targets[0],)
    rejoin(cluster)
    assert [state(cluster, number).replicas for number in (0, 999)] == [
        (targets[0], before[0].replicas[0]),
        before[999].replicas,
    ]


def test_a_move_that_another_controller_began_ends_with_its_last_target() -> None:
    cluster = with_topic([1, 2], logstores=4)
    assert move(cluster, [3, 4]) == (ErrorCode.NONE, "")
    taken_over(cluster)
    shrink(cluster, 1, 2, 3, 4)
    done = state(cluster)
    assert (done.replicas, done.in_sync_replicas, done.adding_replicas) == ((3, 4), (3, 4), ())


def test_a_move_over_a_move_lets_go_of_the_first_targets_at_once() -> None:
    cluster = with_topic([1, 2], logstores=5)
    (topic_id,) = cluster.controllers[0].core.image.topics_by_id
    move(cluster, [3, 4])
    assert move(cluster, [5, 1]) == (ErrorCode.NONE, "")
    moving = state(cluster)
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas) == ((5, 1, 2), (5,), (2,))
    for dropped in (3, 4):
        assert (topic_id, 0) in cluster.logstores[dropped].deleted
    shrink(cluster, 1, 2, 5)
    assert (state(cluster).replicas, state(cluster).removing_replicas) == ((5, 1), ())


def test_a_move_over_a_move_keeps_the_target_that_both_have() -> None:
    cluster = with_topic([1, 2], logstores=4)
    move(cluster, [3, 1])
    move(cluster, [3, 4])
    moving = state(cluster)
    assert (moving.adding_replicas, moving.removing_replicas) == ((3, 4), (1, 2))
    assert state(cluster).leader == 1


def test_a_move_to_a_logstore_that_is_down_waits_for_it_and_can_be_taken_back() -> None:
    cluster = with_topic([1, 2], [2, 1], logstores=3)
    cluster.stop(3)
    cluster.settle()
    for number in range(2):
        assert move(cluster, [3, 1], number) == (ErrorCode.NONE, "")
    assert [state(cluster, number).in_sync_replicas for number in range(2)] == [(1, 2), (1, 2)]
    assert move(cluster, [], number=1) == (ErrorCode.NONE, "")
    # In the order that the move gave them, as in Kafka.
    assert state(cluster, 1).replicas == (1, 2)
    cluster.logstore(3)
    cluster.settle()
    rejoin(cluster)
    assert [state(cluster, number).replicas for number in range(2)] == [(3, 1), (1, 2)]


def test_a_topic_that_is_deleted_while_it_moves_goes_from_old_and_new_replicas() -> None:
    cluster = with_topic([1, 2], logstores=4)
    controller = cluster.controllers[0]
    (topic_id,) = controller.core.image.topics_by_id
    move(cluster, [3, 4])
    request = controller.request(delete("events"))
    cluster.settle()
    assert error_codes(controller, request) == [ErrorCode.NONE]
    assert all((topic_id, 0) in logstore.deleted for logstore in cluster.logstores.values())
    assert (controller.core.image.chunks, controller.core.image.deletions) == ({}, {})
    again = controller.request(AlterReassignmentsRequest([Reassignment("events", 0, [1, 2])], 1000))
    cluster.settle()
    response = controller.responses[again]
    assert isinstance(response, AlterReassignmentsResponse)
    assert [each.error_code for each in response.results] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_controller_that_reads_everything_again_keeps_its_control_streams() -> None:
    """A compaction, or a failover of etcd: logstores have done nothing for which they should lose theirs."""
    cluster = Cluster()
    controller = cluster.controller()
    for node_id in (1, 2):
        cluster.logstore(node_id)
    cluster.settle()
    controller.request(create(NewTopic("events", 1, 2)))
    cluster.settle()
    cluster.logstores[1].answering = False
    cluster.fill_directory(1)
    cluster.settle()
    assert cluster.logstores[1].unanswered
    told_before = {node_id: logstore.requests[-1].sequence for node_id, logstore in cluster.logstores.items()}
    for logstore in cluster.logstores.values():
        logstore.requests.clear()
    everything = tuple(cluster.etcd.get(Get(KEYS.prefix, prefix_end(KEYS.prefix))))
    controller.do(controller.core.on_image(Snapshot(cluster.etcd.revision, everything), cluster.now_ms))
    cluster.logstores[1].answering = True
    cluster.settle()
    assert controller.is_active()
    for node_id, logstore in cluster.logstores.items():
        leadership, metadata = logstore.requests
        assert leadership.sequence == told_before[node_id] + 1, "on the same stream"
        assert leadership.leader_and_isr is not None
        assert leadership.leader_and_isr.full
        assert metadata.update_metadata is not None
        assert metadata.update_metadata.full
    topic_id = controller.core.image.topics["events"].topic_id
    assert controller.core.links.leaders_know(topic_id, controller.core.image.revision)
