"""ISRs that leaders ask for: who is heard, what is refused, and when it is answered."""

from __future__ import annotations

import pytest

from barnabas.cluster.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    Assignment,
    ControlledShutdownRequest,
    IsrChange,
    NewTopic,
)
from barnabas.ports.etcd import Txn
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.effects import Reject
from tests.sim.etcd_model import Fate
from tests.unit.controller.cluster import (
    KEYS,
    LEASE_MS,
    create,
    error_codes,
)
from tests.unit.controller.replicated import a_cluster, answer, ask, isr_change, shrink, state, touches, with_topic


def test_an_isr_change_is_answered_when_it_is_committed_and_every_replica_is_notified() -> None:
    cluster = with_topic([1, 2, 3])
    cluster.controllers[0].cut_off = True
    request = ask(cluster, 1, isr_change(cluster, 1, 2))
    cluster.settle()
    assert request not in cluster.controllers[0].responses
    cluster.controllers[0].cut_off = False
    cluster.settle()
    (result,) = answer(cluster, request).partitions
    assert (result.leader, result.leader_epoch, result.partition_epoch, result.in_sync_replicas) == (1, 0, 1, [1, 2])
    topic_id = cluster.controllers[0].core.image.topics["events"].topic_id
    assert {each.partitions[topic_id, 0].partition_epoch for each in cluster.logstores.values()} == {1}


def test_a_change_that_is_there_already_succeeds_whatever_its_partition_epoch() -> None:
    cluster = with_topic([1, 2, 3])
    before = isr_change(cluster, 1, 2)
    shrink(cluster, 1, 2)
    count = len(cluster.controllers[0].submitted)
    request = ask(cluster, 1, before)
    assert answer(cluster, request).partitions[0].partition_epoch == 1
    assert len(cluster.controllers[0].submitted) == count


def test_a_repetition_is_not_answered_before_the_first_is_committed() -> None:
    cluster = with_topic([1, 2, 3], [1, 2, 3])
    cluster.controllers[0].cut_off = True
    first = ask(cluster, 1, isr_change(cluster, 1, 2, number=1))
    # Both wait for the Txn in flight, and go into the next one.
    second, third = (ask(cluster, 1, isr_change(cluster, 1, 2)) for _ in range(2))
    cluster.controllers[0].cut_off = False
    controller = cluster.controllers[0]
    while first not in controller.responses:
        controller.step()
    assert second not in controller.responses
    assert third not in controller.responses
    cluster.settle()
    assert [answer(cluster, each).partitions[0].partition_epoch for each in (second, third)] == [1, 1]


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "members", "error"),
    [
        (1, 0, (1, 2), ErrorCode.NOT_CONTROLLER),
        (-1, 0, (1, 2), ErrorCode.FENCED_LEADER_EPOCH),
        (0, 1, (1, 2), ErrorCode.NOT_CONTROLLER),
        (0, -1, (1, 2), ErrorCode.INVALID_UPDATE_VERSION),
        (0, 0, (2, 3), ErrorCode.INVALID_REQUEST),
        (0, 0, (1, 4), ErrorCode.INVALID_REQUEST),
        (0, 0, (1, 1), ErrorCode.INVALID_REQUEST),
        (0, 0, (), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_an_isr_change_is_refused_for(
    leader_epoch: int, partition_epoch: int, members: tuple[int, ...], error: ErrorCode
) -> None:
    cluster = with_topic([1, 2, 3], logstores=4)
    good = isr_change(cluster, *members)
    asked = IsrChange(good.topic_id, 0, leader_epoch, partition_epoch, good.in_sync_replicas)
    request = ask(cluster, 1, asked)
    assert [each.error_code for each in answer(cluster, request).partitions] == [error]
    assert state(cluster).partition_epoch == 0


def test_only_the_leader_is_heard_and_only_of_partitions_that_there_are() -> None:
    cluster = with_topic([1, 2, 3])
    good = isr_change(cluster, 1, 2)
    unknown = IsrChange(b"\x99" * 16, 0, 0, 0, good.in_sync_replicas)
    beyond = IsrChange(good.topic_id, 1, 0, 0, good.in_sync_replicas)
    negative = IsrChange(good.topic_id, -1, 0, 0, good.in_sync_replicas)
    request = ask(cluster, 2, good, unknown, beyond, negative)
    errors = [each.error_code for each in answer(cluster, request).partitions]
    assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER, *[ErrorCode.UNKNOWN_TOPIC_ID] * 3]


def test_another_registration_of_the_leader_is_not_heard() -> None:
    cluster = with_topic([1, 2, 3])
    for broker_id, broker_epoch in [(1, cluster.logstores[1].broker_epoch - 1), (9, -1)]:
        asked = AlterPartitionRequest(broker_id, broker_epoch, [isr_change(cluster, 1, 2)])
        request = cluster.controllers[0].request(asked)
        assert answer(cluster, request) == AlterPartitionResponse(ErrorCode.STALE_BROKER_EPOCH)


def test_a_replica_that_is_gone_or_restarted_or_stopping_is_not_taken_into_an_isr() -> None:
    cluster = with_topic([1, 2, 3, 4], logstores=4)
    shrink(cluster, 1)
    old_life = isr_change(cluster, 1, 2)
    cluster.logstore(2)
    cluster.stop(3)
    cluster.controllers[0].request(ControlledShutdownRequest(4, cluster.logstores[4].broker_epoch))
    cluster.settle()
    for change in (old_life, isr_change(cluster, 1, 3), isr_change(cluster, 1, 4)):
        request = ask(cluster, 1, change)
        assert answer(cluster, request).partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA
    shrink(cluster, 1, 2)


def test_isr_changes_of_several_leaders_go_into_one_txn() -> None:
    cluster = with_topic([1, 2, 3], [2, 3, 1], [3, 1, 2])
    controller = cluster.controllers[0]
    controller.request(create(NewTopic("other", 1, 1)))
    before = len(controller.submitted)
    requests = [
        ask(cluster, 1, isr_change(cluster, 1, 2)),
        ask(cluster, 2, isr_change(cluster, 2, 3, number=1)),
        ask(cluster, 3, isr_change(cluster, 3, 1, number=2)),
    ]
    cluster.settle()
    assert all(answer(cluster, each).partitions[0].error_code == 0 for each in requests)
    chunks = [txn for txn in controller.submitted[before:] if touches(txn, KEYS.partitions)]
    assert len(chunks) == 1


def test_an_isr_change_does_not_wait_for_a_job_of_many_txns_nor_keeps_it_from_going_on() -> None:
    cluster = with_topic([1, 2, 3])
    controller = cluster.controllers[0]
    many = [NewTopic(f"topic-{number}", 1, 1) for number in range(300)]
    creation = controller.request(create(*many))
    request = ask(cluster, 1, isr_change(cluster, 1, 2))
    steps = 0
    while request not in controller.responses:
        assert controller.step()
        steps += 1
    assert creation not in controller.responses
    assert len(controller.core.image.topics) < 100
    # Leaders that never stop asking take turns with it.
    for members in [(1, 2, 3), (1, 2)] * 20:
        if creation in controller.responses:
            break
        ask(cluster, 1, isr_change(cluster, *members))
        for _ in range(6):
            controller.step()
        cluster._step_logstores()
    cluster.settle()
    assert error_codes(controller, creation) == [ErrorCode.NONE] * 300


def test_an_isr_change_of_more_chunks_than_a_txn_takes_is_answered_once_as_a_whole() -> None:
    cluster, controller = a_cluster()
    controller.request(create(*[NewTopic(f"t{number}", -1, -1, [Assignment(0, [1, 2])]) for number in range(150)]))
    cluster.settle()
    before = len(controller.submitted)
    request = ask(cluster, 1, *[isr_change(cluster, 1, topic=f"t{number}") for number in range(150)])
    cluster.settle()
    assert [each.partition_epoch for each in answer(cluster, request).partitions] == [1] * 150
    assert len(controller.submitted) - before == 2


def test_an_isr_change_that_etcd_does_not_take_in_time_has_timed_out() -> None:
    cluster = with_topic([1, 2, 3])
    cluster.fate = lambda txn: Fate.LOST
    request = ask(cluster, 1, isr_change(cluster, 1, 2))
    cluster.advance(5000, step_ms=500)
    assert answer(cluster, request).error_code == ErrorCode.REQUEST_TIMED_OUT
    cluster.fate = lambda txn: Fate.ANSWERED
    cluster.advance(1000)
    assert state(cluster).in_sync_replicas == (1, 2)


def test_an_isr_change_of_a_deposed_controller_is_refused_by_etcd() -> None:
    cluster = with_topic([1, 2, 3])
    first = cluster.controllers[0]
    second = cluster.controller("controller-1")
    cluster.settle()
    first.cut_off = True
    cluster.advance(LEASE_MS - 1000)
    begun = ask(cluster, 1, isr_change(cluster, 1, 2))
    queued = ask(cluster, 1, isr_change(cluster, 1, 3))
    (late,) = first.txns
    cluster.advance(2000)
    assert second.is_active()
    assert not cluster.etcd.txn(late.txn).succeeded
    assert first.responses[begun] == Reject(begun, untouched=False)
    assert first.responses[queued] == Reject(queued, untouched=True)


def test_an_isr_change_that_arrives_late_of_all_is_fenced_by_the_chain_of_writes() -> None:
    """The chunk was changed and changed back meanwhile; only the mod revisions tell."""
    cluster = with_topic([1, 2, 3])
    lost: list[Txn] = []

    def lose(txn: Txn) -> Fate:
        if not lost and touches(txn, KEYS.partitions):
            lost.append(txn)
            return Fate.LOST
        return Fate.ANSWERED

    cluster.fate = lose
    request = ask(cluster, 1, isr_change(cluster, 1, 2))
    cluster.advance(1000)
    assert answer(cluster, request).partitions[0].error_code == ErrorCode.NONE
    shrink(cluster, 1, 2, 3)
    assert not cluster.etcd.txn(lost[0]).succeeded
    cluster.settle()
    assert state(cluster).in_sync_replicas == (1, 2, 3)
