"""Fetching from followers (KIP-392): whom a leader names, and what a follower gives."""

from __future__ import annotations

import pytest

from barnabas.channel.messages import Read, ReadPartitionResult, ReadRequest, ReplicaData
from barnabas.cluster.messages import Broker, UpdateMetadata
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.replica.replica_selection import ReplicaSelector
from barnabas_logstore.core.storage.effects import TruncateEffect
from tests.unit.logstore.replication.support import (
    CONFIG,
    LEADER,
    REPLICAS,
    FollowerByHand,
    FollowingHost,
    answer,
    at,
    broker_epoch_of,
    fetch_of,
    following_host,
    partition_of,
    stored,
)
from tests.unit.logstore.service.support import CLUSTER_ID, READ, WATCH, Host, batch, fetch, offsets, states, topic

REQUEST_ID = 77


def read(host: Host, offset: int, rack_id: str = "b", *, current_leader_epoch: int = -1) -> ReadPartitionResult:
    asked = fetch(offset, current_leader_epoch=current_leader_epoch)
    host.core.on_read(READ, ReadRequest(reads=[Read(REQUEST_ID, 1 << 20, 0, [asked], rack_id)]))
    host.settle()
    (result,) = host.read_results.pop(REQUEST_ID).partitions
    return result


# --- the leader ------------------------------------------------------------------------------------------------------


def leading_host(selector: ReplicaSelector = ReplicaSelector.RACK_AWARE, **racks: str) -> Host:
    """Node 1 leads, of the racks `one`, `two` and `three`; four records, which both followers have."""
    host = Host(replication=CONFIG, replica_selector=selector)
    host.greet(1, READ, WATCH)
    host.lead(topic(replicas=REPLICAS, in_sync_replicas=REPLICAS))
    in_racks = {"one": "a", "two": "b", "three": "c"} | racks
    tell_racks(host, dict(zip(REPLICAS, in_racks.values(), strict=True)))
    host.append(batch(4), leader_epoch=0)
    for node_id in (2, 3):
        FollowerByHand(host, node_id).ask(at(4))
    host.settle()
    assert partition_of(host).high_watermark == 4
    return host


def tell_racks(host: Host, racks: dict[int, str]) -> None:
    brokers = [
        Broker(node_id, f"host-{node_id}:9300", broker_epoch_of(node_id), rack) for node_id, rack in racks.items()
    ]
    host.control(UpdateMetadata(host.core._replicas.image.revision + 1, True, CLUSTER_ID, 5, brokers, [], [], []))


def test_a_follower_in_the_clients_rack_is_named_instead_of_records() -> None:
    result = read(leading_host(), 0)
    assert (result.preferred_read_replica, bytes(result.records), result.error_code) == (2, b"", 0)
    assert (result.high_watermark, result.leader_id) == (4, 1)


@pytest.mark.parametrize("rack_id", ["", "a", "elsewhere"])
def test_the_leader_answers_who_is_as_near_to_it_as_to_anybody(rack_id: str) -> None:
    result = read(leading_host(), 0, rack_id)
    assert (result.preferred_read_replica, offsets(result.records)) == (None, [0])


def test_no_replica_is_named_where_leaders_are_to_be_read() -> None:
    assert read(leading_host(ReplicaSelector.LEADER), 0).preferred_read_replica is None


def test_the_leader_goes_before_others_of_its_rack() -> None:
    assert read(leading_host(one="b"), 0).preferred_read_replica is None


def test_who_has_more_of_the_log_is_named_then_the_higher_id() -> None:
    host = leading_host(three="b")
    assert read(host, 0).preferred_read_replica == 3
    host.append(leader_epoch=0)
    FollowerByHand(host, 2).ask(at(5))
    host.settle()
    assert read(host, 0).preferred_read_replica == 2


def test_who_is_out_of_sync_or_dead_or_lacks_the_offset_is_not_named() -> None:
    host = leading_host()
    host.append(leader_epoch=0)
    assert read(host, 4).preferred_read_replica == 2
    assert read(host, 5).preferred_read_replica is None, "it has not got that far"
    FollowerByHand(host, 2).ask(at(4, log_start=2))
    host.settle()
    assert read(host, 1).preferred_read_replica is None, "its log begins after that"
    host.lead(topic(0, 1, replicas=REPLICAS, in_sync_replicas=[1, 3]))
    assert read(host, 4).preferred_read_replica is None
    host.lead(topic(0, 2, replicas=REPLICAS, in_sync_replicas=REPLICAS))
    assert read(host, 4).preferred_read_replica == 2
    tell_racks(host, {1: "a", 3: "c"})
    assert read(host, 4).preferred_read_replica is None


def test_an_epoch_goes_before_a_nearer_replica() -> None:
    assert read(leading_host(), 0, current_leader_epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


# --- the follower ----------------------------------------------------------------------------------------------------


def copied_host(high_watermark: int) -> FollowingHost:
    """It follows node 2, and has four batches of one record."""
    host = following_host()
    host.greet(READ, WATCH)
    for offset in range(4):
        answer(host, fetch_of(host), ReplicaData(1, 0, 0, LEADER, high_watermark, 0, records=stored(offset)))
    host.settle()
    return host


def test_a_follower_gives_what_is_below_its_own_watermark() -> None:
    host = copied_host(2)
    result = read(host, 0)
    assert (offsets(result.records), result.high_watermark, result.last_stable_offset) == ([0, 1], 2, 2)
    assert (result.leader_id, result.leader_epoch) == (LEADER, 0)
    for offset in (2, 3, 4):
        result = read(host, offset)
        assert (result.error_code, bytes(result.records)) == (0, b""), "it is here, or next, and not known as committed"
        assert result.fetch_position == offset * len(stored(0))
    assert read(host, 5).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_only_who_says_where_it_is_reads_from_a_follower() -> None:
    result = read(copied_host(4), 0, "")
    assert (result.error_code, result.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, LEADER)


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.NONE), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_reader_of_another_epoch_is_refused(epoch: int, error: ErrorCode) -> None:
    host = copied_host(4)
    host.lead(topic(1, 1, leader=3, replicas=REPLICAS, in_sync_replicas=REPLICAS))
    assert read(host, 0, current_leader_epoch=epoch).error_code == error


def test_watchers_hear_when_a_followers_watermark_moves() -> None:
    host = copied_host(2)
    (state,) = host.watch()
    assert (state.leading, state.leader_epoch, state.high_watermark) == (False, 0, 2)
    answer(host, fetch_of(host), ReplicaData(1, 0, 0, LEADER, 4, 0))
    moved = [state for out in host.settle() for state in states(out)]
    assert [(state.high_watermark, state.high_watermark_position) for state in moved] == [(4, 4 * len(stored(0)))]


def test_nothing_is_read_of_a_log_that_is_being_cut() -> None:
    host = copied_host(4)
    host.holds_effects = True
    fetched = fetch_of(host)
    answer(host, fetched, ReplicaData(1, 0, 0, LEADER, 2, 0, diverging_epoch=0, diverging_end_offset=2))
    host.turn()
    host.core.on_read(READ, ReadRequest(reads=[Read(REQUEST_ID, 1 << 20, 0, [fetch(0)], "b")]))
    host.turn()
    (result,) = host.read_results.pop(REQUEST_ID).partitions
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    host.holds_effects = False
    host.run_effects()
    host.settle()
    assert offsets(read(host, 0).records) == [0, 1]
    assert not any(isinstance(effect, TruncateEffect) for effect in host.held)


def test_a_replica_that_is_stopped_or_not_here_gives_nothing() -> None:
    host = copied_host(4)
    host.watch()
    host.stop_replica(delete=False)
    assert read(host, 0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    (state,) = host.watch()
    assert state.leader_epoch == -1
