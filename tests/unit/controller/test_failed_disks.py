"""A log directory fails (KIP-112): its replicas count as gone, though their logstore is there, until they are back."""

from __future__ import annotations

import pytest

from barnabas.cluster.messages import NO_LEADER, ElectLeadersRequest, TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.members.control_links import REPEAT_MS_MIN
from tests.unit.controller.cluster import Cluster, delete
from tests.unit.controller.replicated import answer, ask, isr_change, rejoin, state, with_topic
from tests.unit.controller.test_elections_and_moves import move


def key(cluster: Cluster, number: int = 0) -> tuple[bytes, int]:
    (topic_id,) = cluster.controllers[0].core.image.topics_by_id
    return topic_id, number


def fail(cluster: Cluster, node_id: int, *numbers: int) -> None:
    """A directory of that logstore fails, with these partitions in it."""
    cluster.fail_directory(node_id, *[key(cluster, number) for number in numbers])
    cluster.settle()


def test_others_lead_what_lay_there_and_the_rest_stays() -> None:
    cluster = with_topic([1, 2, 3], [1, 3, 2], [2, 1, 3])
    fail(cluster, 1, 0, 2)
    states = [state(cluster, number) for number in range(3)]
    assert [(each.leader, each.in_sync_replicas) for each in states] == [(2, (2, 3)), (1, (1, 3, 2)), (2, (2, 3))]
    assert [each.leader_epoch for each in states] == [1, 0, 0]
    reported = cluster.logstores[2].partitions[key(cluster)]
    assert (reported.leader, reported.leader_epoch) == (2, 1)


def test_a_stream_that_starts_over_changes_nothing() -> None:
    cluster = with_topic([1, 2, 3])
    fail(cluster, 1, 0)
    before = state(cluster)
    controller, logstore = cluster.controllers[0], cluster.logstores[1]
    controller.core.on_control_disconnected(1, logstore.broker_epoch, cluster.now_ms)
    controller.carry_out()
    cluster.disconnected(controller, 1)
    cluster.settle()
    assert state(cluster) == before


def test_another_controller_learns_of_it_too() -> None:
    cluster = with_topic([1, 2, 3])
    fail(cluster, 1, 0)
    standby = cluster.controller("controller-1")
    cluster.settle()
    cluster.controllers[0].cut_off = True
    cluster.advance(20_000)
    assert standby.is_active()
    cluster.controllers.pop(0)
    assert (state(cluster).leader, state(cluster).in_sync_replicas) == (2, (2, 3))
    request = ask(cluster, 2, isr_change(cluster, 1, 2, 3))
    cluster.settle()
    assert [each.error_code for each in answer(cluster, request).partitions] == [ErrorCode.INELIGIBLE_REPLICA]


def test_it_is_neither_in_sync_nor_preferred_before_it_is_back() -> None:
    cluster = with_topic([1, 2, 3])
    fail(cluster, 1, 0)
    request = ask(cluster, 2, isr_change(cluster, 1, 2, 3))
    cluster.settle()
    assert [each.error_code for each in answer(cluster, request).partitions] == [ErrorCode.INELIGIBLE_REPLICA]
    cluster.logstore(1)
    cluster.settle()
    rejoin(cluster)
    assert state(cluster).in_sync_replicas == (1, 2, 3)
    controller = cluster.controllers[0]
    controller.request(ElectLeadersRequest(0, False, [TopicPartition("events", 0)], 1000))
    cluster.settle()
    assert state(cluster).leader == 1


@pytest.mark.parametrize("unclean", ["false", "true"])
def test_the_last_in_sync_replica_waits_for_its_disk_unless_others_may_lead_unclean(unclean: str) -> None:
    cluster = with_topic([1, 2], unclean_leader_election_enable=unclean)
    request = ask(cluster, 1, isr_change(cluster, 1))
    cluster.settle()
    assert answer(cluster, request).partitions[0].error_code == ErrorCode.NONE
    fail(cluster, 1, 0)
    if unclean == "true":
        assert (state(cluster).leader, state(cluster).in_sync_replicas) == (2, (2,))
        assert state(cluster).leader_recovering
        return
    assert (state(cluster).leader, state(cluster).in_sync_replicas) == (NO_LEADER, (1,))
    cluster.logstore(1)
    cluster.settle()
    assert (state(cluster).leader, state(cluster).in_sync_replicas) == (1, (1,))


def test_a_second_directory_that_fails_is_asked_after_too() -> None:
    cluster = with_topic([1, 2, 3], [1, 3, 2])
    fail(cluster, 1, 0)
    cluster.advance(100)
    fail(cluster, 1, 1)
    assert [state(cluster, number).leader for number in range(2)] == [2, 3]


def test_a_leader_that_has_no_room_for_a_new_partition_leads_it_once_it_has_some() -> None:
    cluster = with_topic([1])
    cluster.logstores[1].without_disk.add(key(cluster))
    fail(cluster, 1, 0)
    assert state(cluster).leader == NO_LEADER
    cluster.logstores[1].without_disk.clear()
    cluster.advance(2 * REPEAT_MS_MIN)
    assert state(cluster).leader == 1


def test_what_goes_is_asked_after_no_more() -> None:
    cluster = with_topic([1, 2, 3], [1, 2, 4], logstores=4)
    fail(cluster, 1, 0, 1)
    controller = cluster.controllers[0]
    move(cluster, [2, 3, 4], number=1)
    ask(cluster, 2, isr_change(cluster, 2, 3, 4, number=1))
    cluster.settle()
    assert controller.core.links.without_disk == {key(cluster): frozenset([1])}
    controller.request(delete("events"))
    cluster.settle()
    assert controller.core.links.without_disk == {}
    reported = len(cluster.logstores[1].requests)
    cluster.advance(10 * REPEAT_MS_MIN)
    assert len(cluster.logstores[1].requests) == reported
