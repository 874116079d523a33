"""A log directory becomes full: others lead what lies there and do without it, until there is room."""

from __future__ import annotations

from barnabas.cluster.messages import ElectLeadersRequest, TopicPartition
from barnabas.wire.errors import ErrorCode
from tests.unit.controller.cluster import Cluster, delete, grow
from tests.unit.controller.replicated import answer, ask, isr_change, rejoin, shrink, state, with_topic
from tests.unit.controller.test_elections_and_moves import move
from tests.unit.controller.test_failed_disks import key


def fill(cluster: Cluster, node_id: int, *numbers: int) -> None:
    """The directory of that logstore is full, with these partitions in it; none: it has room again."""
    cluster.fill_directory(node_id, *[key(cluster, number) for number in numbers])
    cluster.settle()


def led(cluster: Cluster, number: int = 0) -> tuple[int, tuple[int, ...]]:
    record = state(cluster, number)
    return record.leader, record.in_sync_replicas


def refusal(cluster: Cluster, leader: int, *members: int) -> int:
    request = ask(cluster, leader, isr_change(cluster, *members))
    cluster.settle()
    return answer(cluster, request).partitions[0].error_code


def test_others_lead_what_lies_there_and_what_lies_elsewhere_stays() -> None:
    cluster = with_topic([1, 2, 3], [1, 3, 2], [2, 1, 3])
    fill(cluster, 1, 0, 2)
    assert [led(cluster, number) for number in range(3)] == [(2, (2, 3)), (1, (1, 3, 2)), (2, (2, 3))]
    assert [state(cluster, number).leader_epoch for number in range(3)] == [1, 0, 0]
    reported = cluster.logstores[1].partitions[key(cluster)]
    assert (reported.leader, reported.leader_epoch) == (2, 1)


def test_without_anybody_with_room_the_leader_stays_and_one_that_gets_some_takes_over() -> None:
    cluster = with_topic([1, 2])
    fill(cluster, 2, 0)
    fill(cluster, 1, 0)
    assert led(cluster) == (1, (1,))
    fill(cluster, 2)
    assert refusal(cluster, 1, 1, 2) == ErrorCode.NONE
    assert led(cluster) == (2, (2,))


def test_a_single_replica_is_led_on() -> None:
    cluster = with_topic([1])
    before = state(cluster)
    fill(cluster, 1, 0)
    assert state(cluster) is before


def test_it_is_neither_in_sync_nor_preferred_before_it_has_room() -> None:
    cluster = with_topic([1, 2, 3])
    fill(cluster, 1, 0)
    assert refusal(cluster, 2, 1, 2, 3) == ErrorCode.INELIGIBLE_REPLICA
    shrink(cluster, 2)
    assert led(cluster) == (2, (2,)), "others come and go as ever"
    fill(cluster, 1)
    rejoin(cluster)
    assert led(cluster) == (2, (1, 2, 3))
    cluster.controllers[0].request(ElectLeadersRequest(0, False, [TopicPartition("events", 0)], 1000))
    cluster.settle()
    assert led(cluster)[0] == 1


def test_full_again_before_the_registration_has_said_that_there_was_room() -> None:
    cluster = with_topic([1, 2, 3])
    fill(cluster, 1, 0)
    cluster.logstores[1].without_room.clear()
    controller, logstore = cluster.controllers[0], cluster.logstores[1]
    controller.core.on_control_disconnected(1, logstore.broker_epoch, cluster.now_ms)
    controller.carry_out()
    cluster.disconnected(controller, 1)
    cluster.settle()
    assert refusal(cluster, 2, 1, 2, 3) == ErrorCode.NONE
    fill(cluster, 1, 0)
    assert led(cluster) == (2, (2, 3))


def test_a_new_partition_on_a_full_disk_is_led_by_others() -> None:
    cluster = with_topic([1, 2, 3])
    fill(cluster, 1, 1, 2, 3)
    cluster.controllers[0].request(grow(("events", 4)))
    cluster.settle()
    states = [led(cluster, number) for number in range(1, 4)]
    assert all(leader != 1 and 1 not in members and len(members) == 2 for leader, members in states)


def test_another_controller_learns_of_it_too() -> None:
    cluster = with_topic([1, 2, 3])
    fill(cluster, 1, 0)
    standby = cluster.controller("controller-1")
    cluster.settle()
    cluster.controllers[0].cut_off = True
    cluster.advance(20_000)
    assert standby.is_active()
    cluster.controllers.pop(0)
    assert led(cluster) == (2, (2, 3))
    assert refusal(cluster, 2, 1, 2, 3) == ErrorCode.INELIGIBLE_REPLICA


def test_what_goes_is_forgotten() -> None:
    cluster = with_topic([1, 2, 3], [1, 2, 4], logstores=4)
    fill(cluster, 1, 0, 1)
    controller = cluster.controllers[0]
    move(cluster, [2, 3, 4], number=1)
    ask(cluster, 2, isr_change(cluster, 2, 3, 4, number=1))
    cluster.settle()
    assert controller.core.links.without_room == {key(cluster): frozenset([1])}
    controller.request(delete("events"))
    cluster.settle()
    assert controller.core.links.without_room == {}
