"""The follower's side: what is asked, what an answer does to the log, and what may come between."""

from __future__ import annotations

import pytest

from barnabas.channel.messages import ReplicaData, ReplicateResponse, Welcome
from barnabas.cluster.messages import LeaderAndIsr
from barnabas.ports.disk import DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.replication.fetcher import Fetcher
from barnabas_logstore.core.storage.effects import ReplaceEffect, TruncateEffect, WriteEffect
from tests.sim.disk_model import Fault
from tests.unit.logstore.replication.support import (
    BACKOFF_MS,
    LEADER,
    REPLICAS,
    FollowingHost,
    answer,
    broker_epoch_of,
    fetch_of,
    following_host,
    partition_of,
    stored,
)
from tests.unit.logstore.service.support import Host, topic
from tests.unit.logstore.service.test_containment import raises


def end_and_watermark(host: FollowingHost) -> tuple[int, int]:
    partition = partition_of(host)
    return partition.log.log_end_offset, partition.high_watermark


def follow_to(host: FollowingHost, *epochs: int, offsets_each: int = 2) -> None:
    """Have batches of these epochs in the log, all from the leader."""
    offset = partition_of(host).log.log_end_offset
    for epoch in epochs:
        fetch = fetch_of(host)
        answer(host, fetch, ReplicaData(1, 0, epoch, LEADER, 0, 0, records=stored(offset, epoch, offsets_each)))
        offset += offsets_each
    host.settle()


def lead(host: FollowingHost, leader_epoch: int, *, leader: int = LEADER) -> None:
    """A new epoch; the fetch that is outstanding is answered with nothing."""
    host.lead(topic(leader_epoch, leader_epoch, leader=leader, replicas=REPLICAS, in_sync_replicas=REPLICAS))


def test_a_stream_is_wanted_to_each_leader_and_none_to_others() -> None:
    host = Host()
    host.lead(topic(0, leader=LEADER, replicas=REPLICAS))
    assert host.core._replication._links == [], "the address of the leader is unknown"
    host = following_host()
    (link,) = host.core._replication._links
    assert (link.leader.data_address, link.hello.replica_id, link.hello.broker_epoch) == ("host-2:9300", 1, 40)
    lead(host, 1, leader=1)
    assert host.core._replication._links == []


def test_records_are_written_before_the_next_fetch_tells_of_them() -> None:
    host = following_host()
    fetch = fetch_of(host)
    (position,) = fetch.positions
    assert (position.fetch_offset, position.last_fetched_epoch, position.current_leader_epoch) == (0, -1, 0)
    host.holds_effects = True
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 1, 0, records=stored(0, 0, 2)))
    assert host.turn().replication.requests == [], "what is not written is no vote"
    host.holds_effects = False
    host.run_effects()
    assert end_and_watermark(host) == (2, 1)
    fetch = fetch_of(host)
    (position,) = fetch.positions
    assert (position.fetch_offset, position.last_fetched_epoch) == (2, 0)


def test_a_watermark_is_believed_as_far_as_the_log_goes() -> None:
    host = following_host()
    follow_to(host, 0)
    fetch = fetch_of(host)
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 50, 0))
    assert end_and_watermark(host) == (2, 2)


def test_an_answer_in_pieces_ends_with_the_last() -> None:
    host = following_host()
    fetch = fetch_of(host)
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 0, 0, records=stored(0)), last=False)
    host.settle()
    assert end_and_watermark(host) == (1, 0)
    second = fetch_of(host)
    assert (second.request_id, second.positions[0].fetch_offset) == (2, 1), "it need not wait for the rest"
    answer(host, fetch)
    host.settle()
    assert host.fetch is second


def test_a_log_is_cut_where_the_epochs_part_in_as_many_rounds_as_it_takes() -> None:
    """KIP-279: the leader knows epoch 1 to its offset 6; we know 0 and 2, and nothing of 1."""
    host = following_host()
    lead(host, 2)
    follow_to(host, 0, 0, 2, 2)
    lead(host, 3)
    fetch = fetch_of(host)
    assert (fetch.positions[0].fetch_offset, fetch.positions[0].last_fetched_epoch) == (8, 2)
    answer(host, fetch, ReplicaData(1, diverging_epoch=1, diverging_end_offset=6, high_watermark=0))
    fetch = fetch_of(host)
    assert (fetch.positions[0].fetch_offset, fetch.positions[0].last_fetched_epoch) == (4, 0), "not 6: 2 is not theirs"
    answer(host, fetch, ReplicaData(1, diverging_epoch=0, diverging_end_offset=2, high_watermark=0))
    fetch = fetch_of(host)
    assert fetch.positions[0].fetch_offset == 2
    assert partition_of(host).log.leader_epochs.entries() == [(0, 0)]


def test_a_new_epoch_alone_cuts_nothing() -> None:
    """KIP-101: records above a follower's watermark may be committed."""
    host = following_host()
    follow_to(host, 0, 0)
    assert end_and_watermark(host) == (4, 0)
    lead(host, 1)
    lead(host, 2, leader=3)
    assert end_and_watermark(host) == (4, 0)


def test_offsets_that_go_back_are_written_down_before_the_cut() -> None:
    host = following_host()
    follow_to(host, 0, 0)
    fetch = fetch_of(host)
    host.holds_effects = True
    answer(host, fetch, ReplicaData(1, diverging_epoch=0, diverging_end_offset=2, high_watermark=2))
    host.turn()
    assert {type(effect) for effect in host.held} == {ReplaceEffect}
    for effect in list(host.held):
        assert partition_of(host).log.log_end_offset == 4
        host.run_effect(effect)
    host.turn()
    assert [type(effect) for effect in host.held] == [TruncateEffect]
    host.holds_effects = False
    host.run_effects()
    assert end_and_watermark(host) == (2, 2)


def test_a_cut_that_is_not_begun_ends_with_the_epoch_and_one_that_is_comes_first() -> None:
    host = following_host()
    follow_to(host, 0, 0)
    for is_cutting in (False, True):
        fetch = fetch_of(host)
        host.holds_effects = True
        answer(host, fetch, ReplicaData(1, diverging_epoch=0, diverging_end_offset=2, high_watermark=0))
        host.turn()
        if is_cutting:
            for effect in list(host.held):
                host.run_effect(effect)
            host.turn()
        epoch = partition_of(host).leader_epoch + 1
        state = topic(epoch, epoch, leader=LEADER, replicas=REPLICAS, in_sync_replicas=REPLICAS)
        host.core.on_control(7, host.command(LeaderAndIsr(False, [state])))
        assert bool(host.turn().controls) is not is_cutting
        host.holds_effects = False
        host.run_effects()
        host.settle()
        assert partition_of(host).leader_epoch == epoch
        assert partition_of(host).log.log_end_offset == (2 if is_cutting else 4)


def test_a_log_that_is_all_deleted_at_the_leader_starts_over() -> None:
    host = following_host()
    follow_to(host, 0)
    fetch = fetch_of(host)
    answer(host, fetch, ReplicaData(1, ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=70))
    fetch = fetch_of(host)
    (position,) = fetch.positions
    assert (position.fetch_offset, position.log_start_offset, position.last_fetched_epoch) == (70, 70, -1)
    assert end_and_watermark(host) == (70, 70)


def test_a_log_start_in_the_midst_of_a_batch_is_followed() -> None:
    host = following_host()
    fetch = fetch_of(host)
    answer(host, fetch, ReplicaData(1, ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=7))
    fetch = fetch_of(host)
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 10, 7, records=stored(5, 0, 5)))
    host.settle()
    assert end_and_watermark(host) == (10, 10)
    assert partition_of(host).log.log_start_offset == 7


def test_an_empty_log_begins_where_the_compacted_one_of_the_leader_does() -> None:
    host = following_host()
    first = 3 * 2**31
    answer(host, fetch_of(host), ReplicaData(1, 0, 0, LEADER, first + 1, 0, records=stored(first)))
    host.settle()
    log = partition_of(host).log
    assert (log.log_start_offset, *end_and_watermark(host)) == (first, first + 1, first + 1)
    (position,) = fetch_of(host).positions
    assert position.fetch_offset == first + 1


def test_a_cut_makes_clean_what_is_cut_off_dirty_again() -> None:
    host = following_host()
    follow_to(host, 0, 0, 0)
    log = partition_of(host).log
    log.state.first_dirty_offset = 5
    fetch = fetch_of(host)
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 2, 0, diverging_epoch=0, diverging_end_offset=2))
    host.settle()
    host.core.tick(host.now_ms)
    host.settle()
    assert (log.log_end_offset, log.first_dirty_offset) == (2, 2)
    assert "orders 0 2" in host.disk.read_file("/data0/cleaner-offset-checkpoint").decode()


def test_what_does_not_fit_ends_the_fetching_until_there_is_a_new_epoch() -> None:
    host = following_host()
    follow_to(host, 0)
    fetch = fetch_of(host)
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 0, 0, records=stored(1)))
    (problem,) = [problem for out in [host.turn()] for problem in out.replication.problems]
    assert problem.startswith("orders-0: ")
    host.now_ms += 10 * BACKOFF_MS
    fetch = fetch_of(host)
    assert fetch.positions == []
    lead(host, 1)
    assert [position.fetch_offset for position in fetch_of(host).positions] == [2]


def test_an_error_is_waited_out_unless_the_leader_changes_its_mind() -> None:
    host = following_host()
    fetch = fetch_of(host)
    answer(host, fetch, ReplicaData(1, ErrorCode.UNKNOWN_LEADER_EPOCH))
    fetch = fetch_of(host)
    assert fetch.positions == []
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 0, 0, records=stored(0)))
    fetch = fetch_of(host)
    assert fetch.positions[0].fetch_offset == 1
    answer(host, fetch, ReplicaData(1, ErrorCode.KAFKA_STORAGE_ERROR))
    fetch = fetch_of(host)
    assert (fetch.positions, fetch.wait_ms_max) == ([], 500)
    host.now_ms += BACKOFF_MS
    answer(host, fetch)
    assert [position.fetch_offset for position in fetch_of(host).positions] == [1]


def test_a_full_disk_keeps_a_follower_from_asking_until_there_is_room() -> None:
    host = following_host()
    fetch = fetch_of(host)
    host.disk.faults.append(Fault("write_at", ".log", DiskErrorKind.NO_SPACE, times=1))
    host.disk.faults.append(Fault("write_at", "room-probe", DiskErrorKind.NO_SPACE, times=1))
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 0, 0, records=stored(0)))
    fetch = fetch_of(host)
    assert fetch.positions == []
    answer(host, fetch)
    reported = []
    for _ in range(6):
        host.now_ms += BACKOFF_MS
        host.core.tick(host.now_ms)
        fetch = fetch_of(host)
        reported += [position.fetch_offset for position in fetch.positions]
        answer(host, fetch)
    assert reported == [0]


def test_what_a_former_leader_sent_is_written_before_the_next_is_asked() -> None:
    host = following_host()
    fetch = fetch_of(host)
    host.holds_effects = True
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 1, 0, records=stored(0, 0, 2)))
    host.turn()
    (write,) = [effect for effect in host.held if isinstance(effect, WriteEffect)]
    state = topic(1, 1, leader=3, replicas=REPLICAS, in_sync_replicas=REPLICAS)
    host.core.on_control(7, host.command(LeaderAndIsr(False, [state])))
    host.turn()
    host.fetch = None
    host.core.on_leader_response(3, ReplicateResponse(welcome=Welcome(3, broker_epoch_of(3))))
    assert host.turn().replication.requests == []
    host.run_effect(write)
    ((leader_id, request),) = host.turn().replication.requests
    assert request.fetch is not None
    assert (leader_id, request.fetch.positions[0].fetch_offset) == (3, 2)
    assert partition_of(host).high_watermark == 0, "the word of a former leader is not taken"


def test_a_deleted_partition_gives_its_slot_back() -> None:
    host = following_host()
    fetch = fetch_of(host)
    host.stop_replica()
    host.lead(topic(0, leader=LEADER, name="other", topic_id=bytes(16), replicas=REPLICAS))
    answer(host, fetch, ReplicaData(1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    fetch = fetch_of(host)
    assert (fetch.forgotten, [position.slot for position in fetch.positions]) == ([1], [2])


def test_a_lost_stream_is_a_lost_session() -> None:
    host = following_host()
    fetch_of(host)
    host.core.on_leader_lost(LEADER)
    host.fetch = None
    host.settle()
    assert host.fetch is None
    host.core.on_leader_response(LEADER, ReplicateResponse(welcome=Welcome(LEADER, broker_epoch_of(LEADER))))
    fetch = fetch_of(host)
    assert len(fetch.positions) == 1


def test_a_stopping_logstore_takes_nothing_more() -> None:
    host = following_host()
    fetch = fetch_of(host)
    host.core.stopping.begin()
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 0, 0, records=stored(0)))
    host.settle()
    assert host.fetch is None
    assert host.core.is_idle
    assert end_and_watermark(host) == (0, 0)


def test_a_full_disk_deletes_what_the_leader_has_deleted() -> None:
    host = following_host()
    follow_to(host, 0, 0)
    end_offset, _ = end_and_watermark(host)
    fetch = fetch_of(host)
    host.disk.faults.append(Fault("write_at", "", DiskErrorKind.NO_SPACE, times=1_000))
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, end_offset, 0, records=stored(end_offset)))
    fetch = fetch_of(host)
    answer(host, fetch, ReplicaData(1, 0, 0, LEADER, end_offset, 1))
    (position,) = fetch_of(host).positions
    assert (position.fetch_offset, position.log_start_offset) == (end_offset, 1)
    # It is asked for what it can't take, and learns from the answer all the same.
    answer(host, fetch_of(host), ReplicaData(1, 0, 0, LEADER, end_offset, 2, records=stored(end_offset)))
    (position,) = fetch_of(host).positions
    assert position.log_start_offset == 2
    # Everything that it has is deleted there: what is committed of it goes, as far as that is known here.
    answer(host, fetch_of(host), ReplicaData(1, ErrorCode.OFFSET_OUT_OF_RANGE, 0, LEADER, -1, end_offset + 5))
    host.settle()
    assert partition_of(host).log.log_start_offset == end_offset


def test_the_leader_is_sent_a_log_start_that_retention_has_moved_here() -> None:
    """Seed 6 of runs with exceptions: DeleteRecords waited its whole time for what the follower had long deleted."""
    host = following_host()
    follow_to(host, 0)
    end_offset, _ = end_and_watermark(host)
    answer(host, fetch_of(host), ReplicaData(1, 0, 0, LEADER, end_offset, 0))
    assert fetch_of(host).positions == [], "nothing is new"
    partition = partition_of(host)
    partition.log.move_log_start(end_offset)
    host.core._retention.log_start_moved(partition)
    (position,) = fetch_of(host).positions
    assert (position.fetch_offset, position.log_start_offset) == (end_offset, end_offset)


def test_a_partition_that_could_not_be_followed_goes_offline_and_nothing_else_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 5 of runs with exceptions: it was at no stage of its fetcher, and forgetting it ended the process."""
    host = following_host()
    follow_to(host, 0)
    with monkeypatch.context() as planted:
        planted.setattr(Fetcher, "move", raises)
        response = host.lead(topic(1, 1, leader=3, replicas=REPLICAS, in_sync_replicas=REPLICAS))
    assert [each.error_code for each in response.partition_errors] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert not partition_of(host).online
