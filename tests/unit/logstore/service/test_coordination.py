"""Groups as a logstore coordinates them: leadership, loading, what is committed when, and what ends it all."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.channel.messages import CoordinateRequest, Hello, ReplicaPosition, WatchedGroup, WatchRequest
from barnabas.cluster.messages import LeaderAndIsr, StopReplica, StopReplicaPartition, TopicMetadata, UpdateMetadata
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.offset_commit import OffsetCommitResponse
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.coordinator.coordination import CALLS_PER_STEP_MAX
from barnabas_logstore.core.coordinator.runtime.log_reads import READ_BYTES
from barnabas_logstore.core.maintenance.full_disks import PROBE_MS
from barnabas_logstore.core.storage.effects import ReadBatchesEffect, WriteEffect
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.replication.support import REPLICAS, FollowerByHand, tell_brokers
from tests.unit.logstore.service.group_host import (
    CONSUMED,
    COORDINATE,
    GROUP,
    OFFSETS_TOPIC,
    OFFSETS_TOPIC_ID,
    GroupHost,
    commit_request,
    coordinated,
    fetch_request,
    offsets_topic,
)
from tests.unit.logstore.service.support import CLUSTER_ID, NODE_ID, WATCH, append_results, topic

ROOM = 1 << 30


def leading(disk: DiskModel | None = None, **fields: Any) -> GroupHost:
    host = GroupHost(disk)
    host.lead(offsets_topic(**fields))
    return host


def error_of(reported: object) -> int:
    """Of a commit: of the call, or of its one partition."""
    if isinstance(reported, OffsetCommitResponse):
        return reported.topics[0].partitions[0].error_code
    assert isinstance(reported, int)
    return reported


def commit(host: GroupHost, offset: int, **fields: str) -> int:
    request_id = host.call(commit_request(offset, None, **fields))
    host.settle()
    return error_of(host.answer_of(request_id))


# --- from leadership to leadership -----------------------------------------------------------------------------------


def test_a_group_from_its_first_member_to_what_it_has_committed() -> None:
    host = leading()
    joined = host.joined()
    assert host.synced(joined).assignment == b"all of it"
    assert host.heartbeat(joined).error_code == ErrorCode.NONE
    request_id = host.commit(42, joined)
    host.settle()
    assert error_of(host.answer_of(request_id)) == ErrorCode.NONE
    assert host.committed() == 42


def test_what_is_answered_outlives_the_process() -> None:
    host = leading()
    joined = host.joined()
    host.synced(joined)
    host.commit(42, joined)
    host.settle()
    after = leading(host.disk, leader_epoch=1)
    assert after.committed() == 42
    assert after.heartbeat(joined).error_code == ErrorCode.NONE
    assert after.heartbeat(after.joined(group_id="another"), group_id="another").error_code == ErrorCode.NONE


def test_a_log_of_many_pieces_is_read_to_its_end() -> None:
    host = leading()
    groups = READ_BYTES // 10_000
    for number in range(groups):
        for _ in range(4):
            host.commit(number, group_id="g" * 5_000 + str(number))
        host.settle()
    after = leading(host.disk, leader_epoch=1)
    found = [after.committed(group_id="g" * 5_000 + str(number)) for number in range(groups)]
    assert found == list(range(groups))


def test_who_does_not_lead_does_not_coordinate() -> None:
    host = GroupHost()
    assert commit(host, 1) == ErrorCode.NOT_COORDINATOR
    host.lead(offsets_topic(leader=NODE_ID + 1, replicas=[1, 2], in_sync_replicas=[1, 2]))
    assert commit(host, 1) == ErrorCode.NOT_COORDINATOR
    host.lead(offsets_topic(1, 1, replicas=[1, 2], in_sync_replicas=[1]))
    assert commit(host, 1) == ErrorCode.NONE


def test_half_a_log_answers_no_request() -> None:
    host = leading()
    commit(host, 42)
    after = GroupHost(host.disk)
    after.holds_effects = True
    after.core.on_control(7, after.command(LeaderAndIsr(False, [offsets_topic(1)])))
    after.turn()
    request_id = after.commit(43)
    after.turn()
    assert after.answer_of(request_id) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert [type(effect) for effect in after.held].count(ReadBatchesEffect) == 1
    after.holds_effects = False
    after.run_effects()
    assert after.committed() == 42


def test_a_read_that_comes_back_under_a_later_epoch_is_not_believed() -> None:
    host = leading(replicas=[1, 2], in_sync_replicas=[1])
    commit(host, 42)
    after = GroupHost(host.disk)
    after.holds_effects = True
    for leader_epoch in (1, 2):
        state = offsets_topic(leader_epoch, leader_epoch, replicas=[1, 2], in_sync_replicas=[1])
        after.core.on_control(7, after.command(LeaderAndIsr(False, [state])))
        after.turn()
    after.holds_effects = False
    after.run_effects()
    assert after.committed() == 42


def test_a_new_leader_of_a_partition_that_it_led_before_starts_over() -> None:
    host = leading(replicas=[1, 2], in_sync_replicas=[1])
    joined = host.joined()
    host.synced(joined)
    commit(host, 42, group_id="others")
    host.lead(offsets_topic(1, 1, replicas=[1, 2], in_sync_replicas=[1]))
    assert host.committed(group_id="others") == 42
    assert host.heartbeat(joined).error_code == ErrorCode.NONE


def test_a_damaged_log_is_reported_and_its_groups_have_no_coordinator() -> None:
    host = leading()
    for number in range(20):
        commit(host, number)
    after = GroupHost(host.disk)
    path = f"/data0/{OFFSETS_TOPIC}-0/{0:020d}.log"
    after.disk.write_at(after.disk.open(path), 8, [b"\x00\x00\x00\x01"])
    after.core.on_control(7, after.command(LeaderAndIsr(False, [offsets_topic(1)])))
    said = after.settle()
    (problem,) = [problem for out in said for problem in out.coordination_problems]
    assert "CORRUPT_MESSAGE" in problem
    assert commit(after, 1) == ErrorCode.NOT_COORDINATOR


def test_records_that_say_nothing_are_reported_once_and_their_groups_are_coordinated() -> None:
    host = leading()
    commit(host, 1)
    nonsense = host.append_request(build_batch([Record(b"\0\1nonsense", b"\0\3nonsense")]))
    nonsense.topic_id = OFFSETS_TOPIC_ID
    host.send(nonsense)
    commit(host, 2)
    after = GroupHost(host.disk)
    after.core.on_control(7, after.command(LeaderAndIsr(False, [offsets_topic(1)])))
    problems = [problem for out in after.settle() for problem in out.coordination_problems]
    assert problems == [
        f"records of {OFFSETS_TOPIC}-0 that can't be read: 1; the offsets and groups in them are not known"
    ]
    assert after.committed() == 2


# --- commitment ------------------------------------------------------------------------------------------------------


def test_a_commit_is_answered_when_all_in_sync_replicas_have_it() -> None:
    host = leading(replicas=REPLICAS, in_sync_replicas=REPLICAS)
    tell_brokers(host, *REPLICAS)
    followers = [FollowerByHand(host, node_id) for node_id in REPLICAS[1:]]
    request_id = host.commit(42)
    host.settle()
    fetched = host.call(fetch_request(), 8)
    host.settle()
    assert request_id not in host.answers
    assert fetched not in host.answers, "what was returned could be taken back"
    for follower in followers:
        assert request_id not in host.answers
        follower.fetch(ReplicaPosition(1, OFFSETS_TOPIC_ID, 0, 0, 1, 0, 0))
    assert error_of(host.answer_of(request_id)) == ErrorCode.NONE
    assert fetched in host.answers


def test_under_the_minimum_isr_nothing_is_written() -> None:
    host = leading(replicas=REPLICAS, in_sync_replicas=[1], configs={"min.insync.replicas": "2"})
    assert commit(host, 42) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert host.core.partitions[0].log.next_offset == 0


def test_who_waits_for_a_commit_under_a_former_leader_is_refused() -> None:
    host = leading(replicas=REPLICAS, in_sync_replicas=REPLICAS)
    request_id = host.commit(42)
    host.settle()
    host.lead(offsets_topic(1, 1, leader=2, replicas=REPLICAS, in_sync_replicas=REPLICAS))
    assert host.answer_of(request_id) == ErrorCode.NOT_COORDINATOR


def test_a_turns_commits_are_one_write() -> None:
    host = leading()
    host.holds_effects = True
    for number in range(10):
        host.commit(number, group_id=f"group-{number}")
    host.turn()
    (write,) = [effect for effect in host.held if isinstance(effect, WriteEffect)]
    assert write.end_offset == 10
    assert len(write.buffers) == 1


def test_what_is_committed_within_a_turn_is_answered_in_it() -> None:
    host = leading()
    request_id = host.commit(42)
    host.turn()
    assert request_id in host.answers


def test_a_full_disk_takes_back_what_was_not_answered() -> None:
    host = leading(DiskModel(ROOM))
    host.core.tick(0)
    assert commit(host, 41) == ErrorCode.NONE
    host.disk.capacity_bytes = host.disk.used_bytes() + 20
    assert commit(host, 42) == ErrorCode.NOT_COORDINATOR
    assert commit(host, 43) == ErrorCode.NOT_COORDINATOR, "there is no room still"
    assert host.committed() == 41
    host.disk.capacity_bytes = ROOM
    host.later(PROBE_MS)
    assert commit(host, 44) == ErrorCode.NONE
    assert host.committed() == 44


def test_a_directory_that_fails_ends_it() -> None:
    host = leading()
    host.watch_group()
    host.disk.faults.append(Fault("write_at", OFFSETS_TOPIC))
    assert commit(host, 42) == ErrorCode.NOT_COORDINATOR
    assert host.take_states()[-1] == (-1, 0)
    assert commit(host, 42) == ErrorCode.NOT_COORDINATOR


def test_a_topic_of_offsets_that_is_deleted_and_made_again_knows_nothing() -> None:
    host = leading()
    commit(host, 42)
    host.watch_group()
    host.control(StopReplica([StopReplicaPartition(OFFSETS_TOPIC, OFFSETS_TOPIC_ID, 0, -2, True)]))
    assert host.take_states()[-1] == (-1, 0)
    assert commit(host, 43) == ErrorCode.NOT_COORDINATOR
    host.lead(topic(name=OFFSETS_TOPIC, topic_id=b"another id......"))
    assert host.committed() == -1
    assert host.take_states() == [], "a watch is of one topic id"


@pytest.mark.parametrize("full", [True, False])
def test_offsets_of_a_topic_go_with_it(full: bool) -> None:
    host = leading()
    consumed = TopicMetadata(CONSUMED, b"consumed topic..", {}, [])
    kept = TopicMetadata("kept", b"kept topic......", {}, [])
    host.control(UpdateMetadata(1, True, CLUSTER_ID, 5, [], [], [consumed, kept]))
    commit(host, 42)
    commit(host, 42, consumed="kept")
    gone = [] if full else [consumed.topic_id]
    host.control(UpdateMetadata(2, full, CLUSTER_ID, 5, [], [], [kept] if full else [], gone))
    assert (host.committed(), host.committed(consumed="kept")) == (-1, 42)


def test_offsets_of_a_topic_go_with_it_though_another_has_its_name_at_once() -> None:
    host = leading()
    for revision, topic_id in enumerate((b"consumed topic..", b"its successor...")):
        host.control(
            UpdateMetadata(1 + revision, False, CLUSTER_ID, 5, [], [], [TopicMetadata(CONSUMED, topic_id, {}, [])])
        )
        assert host.committed() == -1
        commit(host, 42)


# --- watches ---------------------------------------------------------------------------------------------------------


def test_a_pod_hears_the_present_first_and_then_of_each_step() -> None:
    host = leading(leader_epoch=3)
    host.watch_group()
    ((epoch, before),) = host.take_states()
    assert epoch == 3
    joined = host.joined()
    host.synced(joined)
    reported = host.take_states()
    assert [epoch for epoch, _ in reported] == [3] * len(reported)
    steps = [step for _, step in reported]
    assert steps == sorted(set(steps))
    assert steps[0] > before
    host.heartbeat(joined)
    assert host.take_states() == [], "a heartbeat is no step"


def test_a_group_without_a_coordinator_is_watched() -> None:
    host = GroupHost()
    host.watch_group()
    assert host.take_states() == [(-1, 0)]
    host.lead(offsets_topic(4))
    assert [epoch for epoch, _ in host.take_states()] == [4]


def test_groups_that_have_not_moved_are_not_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands may wait for their members while others send heartbeats."""
    host = leading()
    joined = host.joined(group_id="another")
    for group_id in (GROUP, "a third", "another"):
        host.watch_group(group_id)
    host.take_states()
    looked_at: list[str] = []
    coordination = host.core._coordination
    state_of = coordination.group_watches._state_of

    def looks(watched: WatchedGroup) -> tuple[int, int]:
        looked_at.append(watched.group_id)
        return state_of(watched)

    monkeypatch.setattr(coordination.group_watches, "_state_of", looks)
    host.heartbeat(joined, group_id="another")
    assert looked_at == []
    host.synced(joined, group_id="another")
    assert set(looked_at) == {"another"}
    assert host.take_states() != []


def test_two_that_watch_a_group_are_notified_until_they_go() -> None:
    host = leading()
    host.watch_group()
    host.core.on_watch(WATCH, WatchRequest(group_watches=[WatchedGroup(bytes(16), 0, GROUP)]))
    host.settle()
    assert host.take_states()[-1] == (-1, 0)
    host.core.on_watch(WATCH, WatchRequest(group_unwatches=[WatchedGroup(bytes(16), 0, GROUP)]))
    host.joined()
    assert {epoch for epoch, _ in host.take_states()} == {0}
    host.core.on_watch(WATCH, WatchRequest(group_unwatches=[WatchedGroup(OFFSETS_TOPIC_ID, 0, GROUP)]))
    host.settle()
    assert len(host.core._coordination.group_watches) == 0
    assert not host.core._coordination.group_watches._by_group


def test_a_stream_that_is_closed_watches_nothing() -> None:
    host = leading()
    host.watch_group()
    host.core.on_stream_closed(3)
    host.take_states()
    host.joined()
    assert host.take_states() == []
    assert len(host.core._coordination.group_watches) == 0


# --- streams ---------------------------------------------------------------------------------------------------------


def test_a_stream_begins_with_a_hello_of_this_cluster() -> None:
    host = GroupHost()
    host.core.on_coordinate(14, CoordinateRequest())
    host.core.on_coordinate(24, CoordinateRequest(Hello("another", "gateway")))
    host.core.on_coordinate(34, CoordinateRequest(Hello(CLUSTER_ID, "gateway")))
    host.commit(1)
    host.call(fetch_request(), 8, stream_id=44)
    out = host.turn()
    assert [stream_id for stream_id, _ in out.closes] == [24, 44]
    ((response,),) = [coordinated(out, 34)]
    assert response.welcome is not None
    assert response.credit is not None
    assert response.credit.requests > 0


def test_calls_beyond_the_credit_end_the_stream() -> None:
    host = GroupHost(queued_requests_max=8)
    for number in range(9):
        host.commit(number)
    assert [stream_id for stream_id, _ in host.turn().closes] == [COORDINATE]


def test_credit_comes_back_with_the_answers() -> None:
    host = leading()
    for number in range(30):
        commit(host, number)
    for number in range(8):
        host.commit(number)
    credit = [response.credit for response in coordinated(host.turn()) if response.credit is not None]
    assert sum(each.requests for each in credit) >= 8


def test_heartbeats_do_not_wait_for_appends_nor_these_for_them() -> None:
    host = GroupHost(step_requests_max=4)
    host.lead(offsets_topic(), topic())
    joined = host.joined()
    host.synced(joined)
    for _ in range(8):
        host.send(*[host.append_request()])
    for number in range(CALLS_PER_STEP_MAX - 1):
        host.commit(number)
    host.core.on_coordinate(14, CoordinateRequest(Hello(CLUSTER_ID, "gateway")))
    host.call(commit_request(1, joined), stream_id=14)
    host.call(commit_request(1, joined), stream_id=14)
    out = host.turn()
    assert len(append_results(out)) == 4
    assert [len(response.answers) for response in coordinated(out)] == [CALLS_PER_STEP_MAX - 1]
    assert [len(response.answers) for response in coordinated(out, 14)] == [1]
    out = host.turn()
    assert len(append_results(out)) == 4
    assert [len(response.answers) for response in coordinated(out, 14)] == [1]


def test_what_a_closed_stream_has_begun_is_done_and_the_rest_dropped() -> None:
    host = leading()
    host.core.on_coordinate(14, CoordinateRequest(Hello(CLUSTER_ID, "gateway")))
    host.turn()
    host.holds_effects = True
    host.call(commit_request(42), stream_id=14)
    host.turn()
    host.call(commit_request(43), stream_id=14)
    host.core.on_stream_closed(14)
    host.holds_effects = False
    host.run_effects()
    assert host.committed() == 42


def test_a_turn_in_which_nothing_happens_says_nothing() -> None:
    host = leading()
    host.joined()
    out = host.turn()
    assert not out.coordinations
    assert not out.watches
    assert not host.core.has_work


def test_who_stops_coordinates_no_more() -> None:
    host = leading()
    host.watch_group()
    host.take_states()
    host.core.stopping.begin()
    assert commit(host, 42) == ErrorCode.NOT_COORDINATOR
    assert host.take_states() == [(-1, 0)]
    assert host.core.is_idle


def test_a_member_that_is_not_heard_of_is_gone_when_its_session_ends() -> None:
    host = leading()
    host.core.tick(0)
    joined = host.joined()
    host.synced(joined)
    host.later(9_999)
    assert host.heartbeat(joined).error_code == ErrorCode.NONE
    host.later(10_001)
    assert host.heartbeat(joined).error_code == ErrorCode.UNKNOWN_MEMBER_ID
