"""Watches of purgatory pods: the present first, then the newest of what changed, once per turn."""

from __future__ import annotations

import pytest

from barnabas.channel.messages import PartitionState, WatchedPartition, WatchRequest
from barnabas.cluster.messages import LeaderAndIsr
from barnabas_logstore.core.streams.watches import STATES_PER_TURN
from tests.unit.logstore.service.support import EXCHANGE, TOPIC_ID, WALL_MS, WATCH, Host, batch, states, topic

OTHER_WATCH = WATCH + 10


@pytest.fixture
def host() -> Host:
    host = Host()
    host.greet(EXCHANGE, WATCH, OTHER_WATCH)
    return host


def test_the_present_state_comes_first(host: Host) -> None:
    host.lead(topic(4, 0))
    host.append(leader_epoch=4)
    assert host.watch() == [
        PartitionState(
            TOPIC_ID,
            0,
            leader_epoch=4,
            high_watermark=1,
            last_stable_offset=1,
            log_start_offset=0,
            high_watermark_position=len(batch()),
            leading=True,
            online=True,
            in_sync_replicas_at_minimum=True,
        )
    ]


def test_a_repeated_watch_gets_the_present_state_twice(host: Host) -> None:
    host.lead()
    assert host.watch() == host.watch()


def test_a_partition_that_is_not_here_is_said_to_be_led_by_somebody_else(host: Host) -> None:
    assert host.watch() == [PartitionState(TOPIC_ID, 0, online=True)]


def test_a_watch_that_came_before_the_partition_hears_of_it(host: Host) -> None:
    host.watch()
    host.core.on_control(7, host.command(LeaderAndIsr(True, [topic(4, 0)])))
    (state,) = states(host.turn())
    assert (state.leading, state.leader_epoch) == (True, 4)


def test_a_move_of_the_high_watermark_is_sent_once_per_turn_with_its_newest_value(host: Host) -> None:
    host.lead(topic(partitions=2))
    host.watch()
    host.holds_effects = True
    host.send(host.append_request(), host.append_request(partition=1))
    host.turn()
    host.send(host.append_request(), host.append_request())
    assert states(host.turn()) == []
    host.holds_effects = False
    host.run_effects()
    (state,) = states(host.turn())
    assert (state.partition, state.high_watermark, state.high_watermark_position) == (0, 3, 3 * len(batch()))


def test_only_watchers_are_notified(host: Host) -> None:
    host.lead(topic(partitions=2))
    host.watch(0)
    host.watch(1, stream_id=OTHER_WATCH)
    host.append()
    assert [(stream_id, len(response.states)) for stream_id, response in host.out.watches] == [(WATCH, 1)]
    host.append(partition=1)
    assert [(stream_id, len(response.states)) for stream_id, response in host.out.watches] == [(OTHER_WATCH, 1)]


def test_the_byte_position_grows_with_every_append(host: Host) -> None:
    host.lead()
    host.watch()
    positions = []
    for _ in range(5):
        host.append()
        (state,) = states(host.out)
        positions.append(state.high_watermark_position)
    assert positions == [len(batch()) * (number + 1) for number in range(5)]


def test_an_unwatched_partition_is_not_reported(host: Host) -> None:
    host.lead()
    host.watch()
    host.core.on_watch(WATCH, WatchRequest(unwatches=[WatchedPartition(TOPIC_ID, 0)]))
    host.append()
    assert host.out.watches == []


def test_a_closed_stream_watches_nothing(host: Host) -> None:
    host.lead()
    host.watch()
    host.watch(stream_id=OTHER_WATCH)
    host.core.on_stream_closed(WATCH)
    host.append()
    assert [stream_id for stream_id, _ in host.out.watches] == [OTHER_WATCH]


def test_losing_the_lead_and_being_deleted_are_reported(host: Host) -> None:
    host.lead(topic(1, 0))
    host.watch()
    follower = topic(2, 0, leader=2, replicas=[1, 2], in_sync_replicas=[2])
    host.core.on_control(7, host.command(LeaderAndIsr(False, [follower])))
    (state,) = states(host.turn())
    assert (state.leading, state.online, state.leader_epoch) == (False, True, 2)
    host.stop_replica()
    (state,) = states(host.out)
    assert (state.leading, state.online, state.leader_epoch) == (False, True, -1)


def test_an_isr_below_the_minimum_is_reported(host: Host) -> None:
    configs = {"min.insync.replicas": "2"}
    host.lead(topic(1, 0, replicas=[1, 2], in_sync_replicas=[1, 2], configs=configs))
    (state,) = host.watch()
    assert state.in_sync_replicas_at_minimum
    shrunk = topic(1, 1, replicas=[1, 2], in_sync_replicas=[1], configs=configs)
    host.core.on_control(7, host.command(LeaderAndIsr(False, [shrunk])))
    (state,) = states(host.turn())
    assert (state.leading, state.in_sync_replicas_at_minimum) == (True, False)


def watch_all(host: Host, partitions: int) -> None:
    """One message of a pod that watches so many partitions."""
    watched = [WatchedPartition(TOPIC_ID, each) for each in range(partitions)]
    host.core.on_watch(WATCH, WatchRequest(watches=watched))


def test_states_of_many_watches_are_said_over_several_turns(host: Host) -> None:
    host.lead()
    partitions = 3 * STATES_PER_TURN + 1
    watch_all(host, partitions)
    said = []
    while not said or host.core.has_work:
        said.append([state.partition for state in states(host.turn())])
    assert [len(each) for each in said] == [STATES_PER_TURN] * 3 + [1]
    assert [each for turn in said for each in turn] == list(range(partitions))


def test_a_state_that_waits_for_its_turn_is_as_new_as_that(host: Host) -> None:
    host.lead()
    watch_all(host, STATES_PER_TURN)
    host.core.on_watch(WATCH, WatchRequest(unwatches=[WatchedPartition(TOPIC_ID, 0)]))
    host.core.on_watch(WATCH, WatchRequest(watches=[WatchedPartition(TOPIC_ID, each) for each in (STATES_PER_TURN, 0)]))
    assert 0 not in [state.partition for state in states(host.turn())]
    host.send(host.append_request())
    (state,) = [state for state in states(host.turn()) if state.partition == 0]
    assert state.high_watermark == 1
    assert not host.core.has_work


def test_watches_that_begin_are_answered_however_much_changes(host: Host) -> None:
    partitions = 2 * STATES_PER_TURN
    host.lead(topic(partitions=partitions))
    watch_all(host, partitions)
    while host.core.has_work:
        host.turn()
    # All of them change at once: they lose their leader.
    host.core.on_control(7, host.command(LeaderAndIsr(True, [])))
    host.core.on_watch(OTHER_WATCH, WatchRequest(watches=[WatchedPartition(TOPIC_ID, each) for each in (7, 100_000)]))
    host.core.step(host.now_ms, WALL_MS)
    while (said := host.core.take_outputs()).effects:
        pass
    begun, changed = states(said, OTHER_WATCH), states(said)
    assert [state.partition for state in begun] == [7, 100_000]
    assert len(begun) + len(changed) == STATES_PER_TURN
    assert host.core.has_work
