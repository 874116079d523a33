"""Who is in sync: who may join, who has to leave, and what the controller makes of it."""

from __future__ import annotations

import pytest

from barnabas.cluster.administration import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsResponse
from barnabas.cluster.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrChangeResult,
    IsrMember,
)
from barnabas.metrics.replica_families import ISR_EXPANDS, ISR_SHRINKS
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.replica.in_sync_replicas import InSyncReplicas
from barnabas_logstore.core.replication.isr_changes import RETRY_MS, REVERTED_RETRY_MS
from tests.unit.logstore.replication.support import (
    LAG_MS_MAX,
    REPLICAS,
    FollowerByHand,
    at,
    broker_epoch_of,
    leading_host,
    partition_of,
    tell_brokers,
)
from tests.unit.logstore.service.support import BROKER_EPOCH, TOPIC_ID, Host, batch, topic
from tests.unit.logstore.service.test_containment import Fault, after


def asked(host: Host) -> AlterPartitionRequest | None:
    requests = [out.replication.alter_partition for out in host.settle() if out.replication.alter_partition is not None]
    assert len(requests) <= 1
    return requests[0] if requests else None


def pass_time(host: Host, ms: int) -> None:
    host.now_ms += ms
    host.core.tick(host.now_ms)


def committed(partition_epoch: int, *members: int, leader_epoch: int = 0) -> AlterPartitionResponse:
    result = IsrChangeResult(0, 1, leader_epoch, partition_epoch, list(members))
    return AlterPartitionResponse(0, [result])


def refused(error: ErrorCode) -> AlterPartitionResponse:
    return AlterPartitionResponse(0, [IsrChangeResult(error)])


def test_a_follower_that_has_caught_up_joins_and_is_waited_for_at_once() -> None:
    host = leading_host([1, 2])
    second, third = FollowerByHand(host, 2), FollowerByHand(host, 3)
    second.ask(at(0))
    third.ask(at(0))
    request = asked(host)
    assert request is not None
    (change,) = request.partitions
    assert (request.broker_id, request.broker_epoch) == (1, BROKER_EPOCH)
    assert change.in_sync_replicas == [IsrMember(1, BROKER_EPOCH), IsrMember(2, 102), IsrMember(3, 103)]
    host.append(leader_epoch=0)
    host.settle()
    second.ask(at(1))
    assert partition_of(host).high_watermark == 0, "though the committed ISR has the record"
    host.core.on_alter_partition(committed(1, 1, 2, 3))
    assert (partition_of(host).isr.committed, partition_of(host).partition_epoch) == ((1, 2, 3), 1)
    third.answer()
    third.ask(at(1))
    assert partition_of(host).high_watermark == 1


def test_a_change_is_requested_though_its_preparation_ended_unexpectedly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 84 of runs with exceptions: it was pending, requested by nothing, and forbade every other change. An offsets
    topic stayed below its min.insync.replicas, and its groups rebalanced in vain.
    """
    host = leading_host([1, 2])
    third = FollowerByHand(host, 3)
    with monkeypatch.context() as planted:
        planted.setattr(InSyncReplicas, "propose_expansion", after(InSyncReplicas.propose_expansion))
        with pytest.raises(Fault):
            third.ask(at(0))
    request = asked(host)
    assert request is not None
    assert [each.broker_id for each in request.partitions[0].in_sync_replicas] == [1, 2, 3]


def test_who_is_about_to_join_counts_for_records_that_are_committed_and_not_for_what_is_to_be() -> None:
    host = leading_host()
    host.append(leader_epoch=0)
    host.lead(topic(0, 1, replicas=REPLICAS, in_sync_replicas=[1], configs={"min.insync.replicas": "2"}))
    state = host.query_state().state
    assert state is not None
    assert not state.in_sync_replicas_at_minimum
    assert host.append(leader_epoch=0).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    FollowerByHand(host, 3).ask(at(1))
    host.settle()
    state = host.query_state().state
    assert state is not None
    assert state.in_sync_replicas_at_minimum
    assert host.append(leader_epoch=0).error_code == ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_state_that_is_repeated_takes_nothing_back_that_is_asked_for() -> None:
    """The controller may have done it already, and said so on another connection."""
    host = leading_host([1, 2])
    third = FollowerByHand(host, 3)
    third.ask(at(0))
    assert asked(host) is not None
    host.core.on_stream_closed(third.stream_id)
    host.lead(topic(replicas=REPLICAS, in_sync_replicas=[1, 2], configs={"min.insync.replicas": "2"}))
    second = FollowerByHand(host, 2)
    host.append(leader_epoch=0)
    host.settle()
    second.ask(at(1))
    assert partition_of(host).isr.maximal == (1, 2, 3)
    assert partition_of(host).high_watermark == 0, "the third may be in sync by now, and has nothing"


def test_who_has_not_the_begin_of_the_epoch_may_not_join() -> None:
    """KAFKA-7128: the watermark of a new leader may be behind what has been committed."""
    host = leading_host([1, 2])
    host.append(batch(4), leader_epoch=0)
    host.lead(topic(1, 1, replicas=REPLICAS, in_sync_replicas=[1, 2], configs={"min.insync.replicas": "2"}))
    third = FollowerByHand(host, 3)
    third.ask(at(3, epoch=1))
    assert asked(host) is None
    third.ask(at(4, epoch=1))
    assert asked(host) is not None


def test_two_that_catch_up_together_join_one_after_the_other_though_they_say_nothing_more() -> None:
    host = leading_host([1])
    FollowerByHand(host, 2).ask(at(0))
    request = asked(host)
    assert request is not None
    FollowerByHand(host, 3).ask(at(0))
    assert asked(host) is None, "one change is pending"
    host.core.on_alter_partition(committed(1, 1, 2))
    request = asked(host)
    assert request is not None
    assert [member.broker_id for member in request.partitions[0].in_sync_replicas] == [1, 2, 3]
    assert request.partitions[0].partition_epoch == 1


def test_an_old_incarnation_may_not_join() -> None:
    """KIP-903."""
    host = leading_host([1, 2])
    FollowerByHand(host, 3, broker_epoch=7).ask(at(0))
    assert asked(host) is None
    FollowerByHand(host, 3, broker_epoch=broker_epoch_of(3)).ask(at(0))
    assert asked(host) is not None


def test_a_pending_expansion_never_vouches_for_a_later_incarnation() -> None:
    """KIP-903: the third had the record when it was proposed, and lost it with its power before the controller said
    anything. The change that is pending may have been accepted, so it is asked again as it was.
    """
    host = leading_host([1, 2])
    host.append(leader_epoch=0)
    host.settle()
    second, third = FollowerByHand(host, 2), FollowerByHand(host, 3)
    second.ask(at(1))
    third.ask(at(1))
    request = asked(host)
    assert request is not None
    assert request.partitions[0].in_sync_replicas == [IsrMember(1, BROKER_EPOCH), IsrMember(2, 102), IsrMember(3, 103)]
    assert partition_of(host).high_watermark == 1
    host.core.on_stream_closed(third.stream_id)
    tell_brokers(host, *REPLICAS, broker_epochs={3: 203})
    restarted = FollowerByHand(host, 3, broker_epoch=203)
    restarted.ask(at(0))
    host.core.on_alter_partition(None)
    pass_time(host, RETRY_MS)
    repeated = asked(host)
    assert repeated is not None
    assert repeated.partitions == request.partitions
    host.core.on_alter_partition(refused(ErrorCode.INELIGIBLE_REPLICA))
    assert partition_of(host).isr.maximal == (1, 2)
    pass_time(host, REVERTED_RETRY_MS)
    assert asked(host) is None, "it has nothing yet"
    restarted.ask(at(1))
    request = asked(host)
    assert request is not None
    assert request.partitions[0].in_sync_replicas[-1] == IsrMember(3, 203)


def test_a_follower_may_come_before_the_news_of_its_registration() -> None:
    host = leading_host([1, 2])
    tell_brokers(host, 1, 2)
    FollowerByHand(host, 3).ask(at(0))
    assert asked(host) is None
    tell_brokers(host, *REPLICAS)
    assert host.out.replication.alter_partition is not None or asked(host) is not None


def test_who_is_gone_for_too_long_leaves_and_is_waited_for_until_that_is_committed() -> None:
    host = leading_host()
    second = FollowerByHand(host, 2)
    FollowerByHand(host, 3).ask(at(0))
    second.ask(at(0))
    host.append(leader_epoch=0)
    second.answer()
    second.ask(at(1))
    pass_time(host, LAG_MS_MAX // 2)
    assert asked(host) is None
    pass_time(host, LAG_MS_MAX)
    request = asked(host)
    assert request is not None
    assert [member.broker_id for member in request.partitions[0].in_sync_replicas] == [1, 2]
    assert partition_of(host).high_watermark == 0
    host.core.on_alter_partition(committed(1, 1, 2))
    assert partition_of(host).high_watermark == 1


def test_an_idle_partition_keeps_its_followers() -> None:
    host = leading_host()
    followers = [FollowerByHand(host, node_id) for node_id in (2, 3)]
    for follower in followers:
        follower.ask(at(0))
    for _ in range(5):
        pass_time(host, LAG_MS_MAX)
        assert asked(host) is None


def test_who_was_at_the_end_until_just_now_has_the_whole_time_from_then_on() -> None:
    host = leading_host()
    followers = [FollowerByHand(host, node_id) for node_id in (2, 3)]
    for follower in followers:
        follower.fetch(at(0))
    pass_time(host, 3 * LAG_MS_MAX)
    for follower in followers:
        follower.ask()
    host.append(leader_epoch=0)
    pass_time(host, LAG_MS_MAX)
    assert asked(host) is None
    pass_time(host, LAG_MS_MAX)
    assert asked(host) is not None


def test_a_change_is_asked_for_until_it_is_decided() -> None:
    host = leading_host([1, 2])
    third = FollowerByHand(host, 3)
    third.ask(at(0))
    assert asked(host) is not None
    host.core.on_alter_partition(None)
    assert asked(host) is None, "not at once"
    pass_time(host, 100)
    assert asked(host) is not None
    host.core.on_alter_partition(refused(ErrorCode.INVALID_UPDATE_VERSION))
    assert partition_of(host).isr.pending is not None
    pass_time(host, 100)
    assert asked(host) is not None
    host.core.on_alter_partition(refused(ErrorCode.INELIGIBLE_REPLICA))
    assert partition_of(host).isr.pending is None
    pass_time(host, 100)
    assert asked(host) is None
    pass_time(host, 500)
    assert asked(host) is not None, "by now the controller may know of it"


def test_the_controllers_word_comes_by_whichever_way_is_first() -> None:
    host = leading_host([1, 2])
    FollowerByHand(host, 3).ask(at(0))
    assert asked(host) is not None
    host.lead(topic(0, 1, replicas=REPLICAS, in_sync_replicas=REPLICAS, configs={"min.insync.replicas": "2"}))
    host.core.on_alter_partition(committed(1, 1, 2, 3))
    assert partition_of(host).isr.committed == (1, 2, 3)
    host.core.on_alter_partition(None)
    assert asked(host) is None


@pytest.mark.parametrize("command_first", [True, False])
def test_an_isr_that_has_grown_is_counted_once_by_whichever_way_that_comes_first(command_first: bool) -> None:
    """Where the command overtook the answer nothing was counted."""
    host = leading_host([1, 2])
    FollowerByHand(host, 3).ask(at(0))
    assert asked(host) is not None
    command = topic(0, 1, replicas=REPLICAS, in_sync_replicas=REPLICAS, configs={"min.insync.replicas": "2"})
    if command_first:
        host.lead(command)
    host.core.on_alter_partition(committed(1, 1, 2, 3))
    host.lead(command)
    counted = {sample.family: sample.value for sample in host.core.measures.samples()}
    assert (counted[ISR_EXPANDS], counted[ISR_SHRINKS]) == (1, 0)


def test_an_answer_of_an_old_epoch_is_no_answer() -> None:
    host = leading_host([1, 2])
    FollowerByHand(host, 3).ask(at(0))
    assert asked(host) is not None
    host.lead(topic(1, 1, replicas=REPLICAS, in_sync_replicas=[1, 2], configs={"min.insync.replicas": "2"}))
    host.core.on_alter_partition(committed(9, 1, 2, 3))
    assert partition_of(host).isr.committed == (1, 2)


def delete_records(host: Host, offset: int) -> None:
    request = DeleteRecordsRequest(1000, [DeleteRecordsPartition(TOPIC_ID, 0, offset)])
    assert host.core.on_administration(5, request)


def deleted(host: Host) -> tuple[int, int] | None:
    pass_time(host, 1)
    answers = [response for out in host.settle() for _, response in out.administration]
    if not answers:
        return None
    (response,) = answers
    assert isinstance(response, DeleteRecordsResponse)
    return response.partitions[0].error_code, response.partitions[0].low_watermark


def test_records_are_deleted_when_every_live_replica_has_deleted_them() -> None:
    host = leading_host()
    host.append(batch(4), leader_epoch=0)
    followers = [FollowerByHand(host, node_id) for node_id in (2, 3)]
    for follower in followers:
        follower.ask(at(4))
        follower.answer()
    for follower in followers:
        follower.ask()
    delete_records(host, 3)
    said = host.settle()
    reported = [data.log_start_offset for follower in followers for data in follower.answer_in(*said) or []]
    assert reported == [3, 3]
    followers[0].ask(at(4, log_start=3))
    assert deleted(host) is None
    tell_brokers(host, 1, 2)
    assert deleted(host) == (0, 3), "an absent replica need not be waited for"


def test_a_deletion_is_answered_as_soon_as_the_last_replica_has_reported_its_new_start() -> None:
    host = leading_host()
    host.append(batch(4), leader_epoch=0)
    followers = [FollowerByHand(host, node_id) for node_id in (2, 3)]
    for follower in followers:
        follower.ask(at(4))
    host.settle()
    delete_records(host, 3)
    host.settle()
    for follower, answers in zip(followers, (0, 1), strict=True):
        follower.ask(at(4, log_start=3))
        said = host.settle()
        assert len([response for out in said for response in out.administration]) == answers, "and no tick has passed"


def test_a_deletion_ends_with_its_partition() -> None:
    host = leading_host()
    host.append(batch(4), leader_epoch=0)
    FollowerByHand(host, 2).ask(at(4))
    FollowerByHand(host, 3).ask(at(4))
    host.settle()
    delete_records(host, 3)
    host.settle()
    host.stop_replica()
    assert deleted(host) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_who_does_not_follow_a_deletion_in_time_makes_it_time_out() -> None:
    host = leading_host()
    host.append(batch(4), leader_epoch=0)
    for node_id in (2, 3):
        FollowerByHand(host, node_id).ask(at(4))
    host.settle()
    delete_records(host, 3)
    host.settle()
    pass_time(host, 1001)
    assert deleted(host) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert partition_of(host).log.log_start_offset == 3


def test_no_deletion_waits_for_one_that_the_controller_has_turned_away() -> None:
    """Its disk is full, say: it was caught up just now, and can't take what comes."""
    host = leading_host()
    second, third = FollowerByHand(host, 2), FollowerByHand(host, 3)
    second.ask(at(0))
    third.ask(at(0))
    host.append(leader_epoch=0)
    host.settle()
    second.ask(at(1))
    assert partition_of(host).high_watermark == 0, "a member of the ISR is waited for"
    configs = {"min.insync.replicas": "2"}
    host.lead(topic(0, 1, replicas=REPLICAS, in_sync_replicas=[1, 2], configs=configs))
    assert partition_of(host).high_watermark == 1
    host.append(leader_epoch=0)
    host.settle()
    second.ask(at(2))
    assert partition_of(host).high_watermark == 2


def test_one_that_was_refused_and_comes_further_is_waited_for_and_joins() -> None:
    host = leading_host([1, 2])
    second, third = FollowerByHand(host, 2), FollowerByHand(host, 3)
    second.ask(at(0))
    third.ask(at(0))
    assert asked(host) is not None
    host.append(leader_epoch=0)
    host.settle()
    second.ask(at(1))
    assert partition_of(host).high_watermark == 0
    host.core.on_alter_partition(refused(ErrorCode.INELIGIBLE_REPLICA))
    assert partition_of(host).high_watermark == 1
    third.answer()
    third.ask(at(1))
    host.append(leader_epoch=0)
    host.settle()
    second.ask(at(2))
    assert partition_of(host).high_watermark == 1, "it has room again"
    pass_time(host, REVERTED_RETRY_MS)
    request = asked(host)
    assert request is not None
    assert [each.broker_id for each in request.partitions[0].in_sync_replicas] == [1, 2, 3]
