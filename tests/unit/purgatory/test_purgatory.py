"""Purgatory's rules, one law a test: what completes an entry, with what, and what must not."""

from __future__ import annotations

import pytest

from barnabas.channel.messages import (
    Completion,
    FetchCondition,
    Outcome,
    ParkFetch,
    ParkProduce,
    PartitionState,
    ProduceCondition,
    WatchedPartition,
)
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import PartitionMetadata, TopicMetadata, UpdateMetadata
from barnabas.wire.errors import ErrorCode
from barnabas_purgatory.core.outputs import Outputs
from barnabas_purgatory.core.purgatory import PurgatoryCore
from barnabas_purgatory.core.watches import Measure
from tests.unit.purgatory.support import EPOCH, LEADER, OTHER_TOPIC, STREAM, TOPIC, completions

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


def condition(
    required_offset: int = 10, *, partition: int = 0, leader_epoch: int = EPOCH, topic_id: bytes = TOPIC
) -> ProduceCondition:
    return ProduceCondition(topic_id, partition, LEADER, leader_epoch, required_offset)


def produce(entry_id: int, *conditions: ProduceCondition, wait_ms: int = 1_000) -> ParkProduce:
    return ParkProduce(entry_id, wait_ms, list(conditions))


def polled(
    fetch_position: int = 100,
    *,
    partition: int = 0,
    leader_epoch: int = EPOCH,
    fetch_offset: int = 10,
    isolation_level: int = READ_UNCOMMITTED,
    from_follower: bool = False,
) -> FetchCondition:
    return FetchCondition(
        TOPIC, partition, LEADER, leader_epoch, fetch_offset, fetch_position, isolation_level, from_follower
    )


def fetch(entry_id: int, *conditions: FetchCondition, bytes_wanted: int = 1, wait_ms: int = 500) -> ParkFetch:
    return ParkFetch(entry_id, wait_ms, bytes_wanted, list(conditions))


def state(
    high_watermark: int = 0,
    *,
    partition: int = 0,
    leader_epoch: int = EPOCH,
    topic_id: bytes = TOPIC,
    position: int = 0,
    last_stable_offset: int | None = None,
    log_start_offset: int = 0,
    leading: bool = True,
    online: bool = True,
    at_minimum: bool = True,
    earlier_epochs_led: int = 0,
    stable_position: int = 0,
) -> PartitionState:
    return PartitionState(
        topic_id,
        partition,
        leader_epoch,
        high_watermark,
        high_watermark if last_stable_offset is None else last_stable_offset,
        log_start_offset,
        position,
        leading,
        online,
        at_minimum,
        earlier_epochs_led,
        stable_position,
    )


def image(leader_epoch: int, leader: int = LEADER) -> ClusterImage:
    """What the controller says of partition 0."""
    known = ClusterImage()
    partition = PartitionMetadata(0, leader, leader_epoch, 9, (1, 2), (2,))
    known.apply(UpdateMetadata(1, True, "c", 1, [], [], [TopicMetadata("t", TOPIC, {}, [partition])]))
    return known


def absent(partition: int = 0) -> PartitionState:
    """What a logstore says of a partition that it does not hold."""
    return PartitionState(TOPIC, partition)


# --- produce ---------------------------------------------------------------------------------------------------------


def test_a_high_watermark_of_the_same_topic_and_epoch_satisfies(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.partition_states(LEADER, [state(9)])
    assert completions(core) == []
    core.partition_states(LEADER, [state(10)])
    assert completions(core) == [Completion(1, Outcome.SATISFIED, [ErrorCode.NONE])]
    core.partition_states(LEADER, [state(11)])
    core.expire(10_000)
    assert completions(core) == []


def test_a_leader_that_leads_on_under_another_epoch_completes_what_it_appended(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.partition_states(LEADER, [state(9, leader_epoch=EPOCH + 2, earlier_epochs_led=2)])
    assert completions(core) == []
    core.partition_states(LEADER, [state(10, leader_epoch=EPOCH + 2, earlier_epochs_led=2)])
    assert completions(core) == [Completion(1, Outcome.SATISFIED, [ErrorCode.NONE])]


def test_a_leader_that_did_not_lead_in_between_completes_nothing(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.partition_states(LEADER, [state(50, leader_epoch=EPOCH + 2, earlier_epochs_led=1)])
    assert completions(core) == [Completion(1, Outcome.FENCED, [ErrorCode.NOT_LEADER_OR_FOLLOWER])]


def test_an_image_in_which_the_leader_leads_on_ends_no_produce(core: PurgatoryCore) -> None:
    """The leader itself says whether it has led without a break."""
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.metadata_applied(image(leader_epoch=EPOCH + 1))
    assert completions(core) == []
    core.metadata_applied(image(leader_epoch=EPOCH + 2, leader=LEADER + 1))
    assert completions(core) == [Completion(1, Outcome.FENCED, [ErrorCode.NOT_LEADER_OR_FOLLOWER])]


def test_a_later_leaders_watermark_proves_nothing(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.partition_states(LEADER, [state(1_000, leader_epoch=EPOCH + 1)])
    assert completions(core) == [Completion(1, Outcome.FENCED, [ErrorCode.NOT_LEADER_OR_FOLLOWER])]


def test_a_state_older_than_the_append_is_waited_through(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.partition_states(LEADER, [state(1_000, leader_epoch=EPOCH - 1, leading=False)])
    assert completions(core) == []
    core.partition_states(LEADER, [state(10)])
    assert completions(core) == [Completion(1, Outcome.SATISFIED, [ErrorCode.NONE])]


def test_another_topic_of_the_same_partition_number_says_nothing(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.park_produce(STREAM, produce(2, condition(10, topic_id=OTHER_TOPIC)), 0)
    core.partition_states(LEADER, [state(10, topic_id=OTHER_TOPIC)])
    assert completions(core) == [Completion(2, Outcome.SATISFIED, [ErrorCode.NONE])]


def test_the_same_partition_at_another_logstore_says_nothing(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.partition_states(LEADER + 1, [state(1_000)])
    assert completions(core) == []


@pytest.mark.parametrize("ended", [state(5, leading=False), absent(), state(50, leader_epoch=EPOCH + 3, leading=False)])
def test_losing_the_leader_fails_at_once(core: PurgatoryCore, ended: PartitionState) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.partition_states(LEADER, [ended])
    assert completions(core) == [Completion(1, Outcome.FENCED, [ErrorCode.NOT_LEADER_OR_FOLLOWER])]


def test_a_shrinking_isr_completes_nothing_but_is_judged_at_the_watermark(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.partition_states(LEADER, [state(5, at_minimum=False)])
    assert completions(core) == []
    core.partition_states(LEADER, [state(10, at_minimum=False)])
    assert completions(core) == [Completion(1, Outcome.FENCED, [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])]


def test_an_offline_directory_is_a_storage_error(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.partition_states(LEADER, [state(50, online=False)])
    assert completions(core) == [Completion(1, Outcome.FENCED, [ErrorCode.KAFKA_STORAGE_ERROR])]


def test_every_condition_comes_to_its_own_code_and_the_last_ends_the_entry(core: PurgatoryCore) -> None:
    conditions = [condition(10, partition=partition) for partition in range(4)]
    core.park_produce(STREAM, produce(1, *conditions), 0)
    core.partition_states(LEADER, [state(10), state(99, partition=1, leader_epoch=EPOCH + 1)])
    core.partition_states(LEADER, [state(10, partition=2, online=False)])
    assert completions(core) == []
    core.partition_states(LEADER, [state(12, partition=3)])
    codes = [0, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert completions(core) == [Completion(1, Outcome.FENCED, codes)]


def test_expiry_keeps_the_codes_that_are_known(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10), condition(10, partition=1), wait_ms=100), 50)
    core.partition_states(LEADER, [state(10)])
    core.expire(149)
    assert completions(core) == []
    core.expire(150)
    assert completions(core) == [Completion(1, Outcome.EXPIRED, [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT])]


def test_the_newest_known_state_is_looked_at_when_parking(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(100)), 0)
    core.partition_states(LEADER, [state(50)])
    core.park_produce(STREAM, produce(2, condition(50)), 0)
    core.park_produce(STREAM, produce(3, condition(10, leader_epoch=EPOCH - 1)), 0)
    assert completions(core) == [
        Completion(2, Outcome.SATISFIED, [ErrorCode.NONE]),
        Completion(3, Outcome.FENCED, [ErrorCode.NOT_LEADER_OR_FOLLOWER]),
    ]


def test_an_entry_without_conditions_has_nothing_to_wait_for(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1), 0)
    assert completions(core) == [Completion(1, Outcome.SATISFIED, [])]


def test_two_conditions_on_one_partition_are_both_answered(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10), condition(20)), 0)
    core.partition_states(LEADER, [state(15)])
    assert completions(core) == []
    core.partition_states(LEADER, [state(15, leader_epoch=EPOCH + 1)])
    assert completions(core) == [Completion(1, Outcome.FENCED, [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER])]


# --- fetch -----------------------------------------------------------------------------------------------------------


def test_a_fetch_completes_when_its_partitions_bytes_add_up(core: PurgatoryCore) -> None:
    core.park_fetch(STREAM, fetch(1, polled(100), polled(0, partition=1), bytes_wanted=50), 0)
    core.partition_states(LEADER, [state(20, position=120), state(20, partition=1, position=29)])
    assert completions(core) == []
    core.partition_states(LEADER, [state(21, position=121)])
    assert completions(core) == [Completion(1, Outcome.SATISFIED, [])]


def test_a_watermark_behind_the_fetch_takes_nothing_away(core: PurgatoryCore) -> None:
    core.park_fetch(STREAM, fetch(1, polled(1_000), polled(0, partition=1), bytes_wanted=10), 0)
    core.partition_states(LEADER, [state(5, position=500), state(5, partition=1, position=10)])
    assert completions(core) == [Completion(1, Outcome.SATISFIED, [])]


@pytest.mark.parametrize(
    "ended",
    [
        state(10, position=100, leading=False),
        state(10, position=100, leader_epoch=EPOCH + 1),
        state(10, position=100, online=False),
        state(10, position=100, log_start_offset=11),
        absent(),
    ],
)
def test_a_fetch_is_read_again_when_its_partition_has_changed(core: PurgatoryCore, ended: PartitionState) -> None:
    core.park_fetch(STREAM, fetch(1, polled(100), polled(0, partition=1), bytes_wanted=1_000), 0)
    core.partition_states(LEADER, [state(10, position=100), state(10, partition=1, position=3)])
    assert completions(core) == []
    core.partition_states(LEADER, [ended])
    assert completions(core) == [Completion(1, Outcome.FENCED, [])]


def test_a_log_start_at_the_fetch_offset_is_no_reason_to_read_again(core: PurgatoryCore) -> None:
    core.park_fetch(STREAM, fetch(1, polled(100, fetch_offset=10)), 0)
    core.partition_states(LEADER, [state(10, position=100, log_start_offset=10)])
    assert completions(core) == []


def test_read_committed_waits_for_the_last_stable_offset(core: PurgatoryCore) -> None:
    core.park_fetch(STREAM, fetch(1, polled(100, isolation_level=READ_COMMITTED)), 0)
    core.park_fetch(STREAM, fetch(2, polled(100)), 0)
    core.partition_states(LEADER, [state(20, position=200, last_stable_offset=10)])
    assert completions(core) == [Completion(2, Outcome.SATISFIED, [])]
    core.partition_states(LEADER, [state(20, position=200, last_stable_offset=20)])
    assert completions(core) == [Completion(1, Outcome.SATISFIED, [])]


def test_read_committed_goes_on_while_some_transaction_is_always_open(core: PurgatoryCore) -> None:
    core.park_fetch(STREAM, fetch(1, polled(100, isolation_level=READ_COMMITTED)), 0)
    core.partition_states(LEADER, [state(20, position=200, last_stable_offset=10, stable_position=100)])
    assert completions(core) == []
    core.partition_states(LEADER, [state(30, position=300, last_stable_offset=11, stable_position=110)])
    assert completions(core) == [Completion(1, Outcome.SATISFIED, [])]


@pytest.mark.parametrize("isolation_level", [READ_UNCOMMITTED, READ_COMMITTED])
def test_who_has_read_from_a_follower_waits_for_its_watermark(core: PurgatoryCore, isolation_level: int) -> None:
    read = polled(100, from_follower=True, isolation_level=isolation_level)
    core.park_fetch(STREAM, fetch(1, read, bytes_wanted=20), 0)
    core.partition_states(LEADER, [state(10, position=100, leading=False)])
    assert completions(core) == []
    core.partition_states(LEADER, [state(12, position=119, leading=False)])
    assert completions(core) == []
    core.partition_states(LEADER, [state(13, position=120, leading=False)])
    assert completions(core) == [Completion(1, Outcome.SATISFIED)]


@pytest.mark.parametrize(
    "ended",
    [
        state(10, leader_epoch=EPOCH + 1, leading=False),
        state(leading=False, online=False),
        state(10, log_start_offset=11, leading=False),
        absent(),
    ],
    ids=["a new leader", "offline", "deleted", "not there any more"],
)
def test_a_read_of_a_follower_is_taken_up_again_when_it_has_changed(core: PurgatoryCore, ended: PartitionState) -> None:
    core.partition_states(LEADER, [state(10, position=100, leading=False)])
    core.park_fetch(STREAM, fetch(1, polled(from_follower=True)), 0)
    core.partition_states(LEADER, [ended])
    assert completions(core) == [Completion(1, Outcome.FENCED)]


def test_a_follower_that_is_elected_ends_the_waits_of_the_old_epoch_alone(core: PurgatoryCore) -> None:
    core.park_fetch(STREAM, fetch(1, polled(from_follower=True)), 0)
    core.park_fetch(STREAM, fetch(2, polled(from_follower=True, leader_epoch=EPOCH + 1)), 0)
    core.partition_states(LEADER, [state(10, position=100, leader_epoch=EPOCH + 1)])
    assert completions(core) == [Completion(1, Outcome.FENCED)]


def test_bytes_of_several_partitions_add_up_move_by_move(core: PurgatoryCore) -> None:
    core.park_fetch(STREAM, fetch(1, polled(100), polled(100, partition=1), bytes_wanted=50), 0)
    core.partition_states(LEADER, [state(10, position=120), state(10, position=110, partition=1)])
    core.partition_states(LEADER, [state(10, position=130), state(10, position=110, partition=1)])
    assert completions(core) == [], "40 of 50"
    core.partition_states(LEADER, [state(10, position=119, partition=1)])
    assert completions(core) == [], "49 of 50"
    core.partition_states(LEADER, [state(10, position=131)])
    assert completions(core) == [Completion(1, Outcome.SATISFIED, [])]


def test_bytes_known_before_a_stream_was_lost_count_on(core: PurgatoryCore) -> None:
    """What was readable under an epoch is so until the epoch ends."""
    core.park_fetch(STREAM, fetch(1, polled(100), polled(100, partition=1), bytes_wanted=50), 0)
    core.partition_states(LEADER, [state(10, position=130)])
    core.logstore_down(LEADER)
    core.logstore_up(LEADER)
    core.partition_states(LEADER, [state(10, position=130), state(10, position=119, partition=1)])
    assert completions(core) == []
    core.partition_states(LEADER, [state(10, position=120, partition=1)])
    assert completions(core) == [Completion(1, Outcome.SATISFIED, [])]


def test_a_fetch_that_wants_nothing_does_not_wait(core: PurgatoryCore) -> None:
    core.park_fetch(STREAM, fetch(1, polled(), bytes_wanted=0), 0)
    assert completions(core) == [Completion(1, Outcome.SATISFIED, [])]


def test_a_fetch_expires(core: PurgatoryCore) -> None:
    core.park_fetch(STREAM, fetch(1, polled(), wait_ms=500), 100)
    core.expire(599)
    assert completions(core) == []
    core.expire(600)
    assert completions(core) == [Completion(1, Outcome.EXPIRED, [])]


# --- ends without an answer ------------------------------------------------------------------------------------------


def test_a_cancelled_entry_is_never_answered(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.cancel(STREAM, 1)
    core.cancel(STREAM, 1)
    core.partition_states(LEADER, [state(10)])
    core.expire(10_000)
    assert completions(core) == []
    assert core.entries == 0


def test_a_closed_stream_removes_its_entries_and_no_others(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.park_produce(STREAM + 1, produce(1, condition(10)), 0)
    core.stream_closed(STREAM)
    core.partition_states(LEADER, [state(10)])
    assert core.take_outputs().completions == {STREAM + 1: [Completion(1, Outcome.SATISFIED, [0])]}
    assert core.entries == 0


def test_a_completion_for_a_stream_that_closed_in_the_same_turn_is_dropped(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.partition_states(LEADER, [state(10)])
    core.stream_closed(STREAM)
    assert core.take_outputs().completions == {}


# --- watches ---------------------------------------------------------------------------------------------------------


def test_a_partition_is_watched_once_and_until_its_last_waiter_leaves(core: PurgatoryCore) -> None:
    watched = [WatchedPartition(TOPIC, 0)]
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.park_fetch(STREAM, fetch(2, polled()), 0)
    assert core.take_outputs() == Outputs(watches={LEADER: watched})
    core.park_produce(STREAM, produce(3, condition(11)), 0)
    assert core.take_outputs() == Outputs()
    core.cancel(STREAM, 1)
    core.cancel(STREAM, 2)
    assert core.take_outputs() == Outputs()
    core.cancel(STREAM, 3)
    assert core.take_outputs() == Outputs(unwatches={LEADER: watched})
    assert core.watched_partitions == 0


def test_a_waiter_that_comes_and_goes_within_a_turn_is_not_worth_a_word(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.cancel(STREAM, 1)
    assert core.take_outputs() == Outputs()


def test_one_waiter_relieving_another_within_a_turn_keeps_the_watch(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.take_outputs()
    core.partition_states(LEADER, [state(10)])
    core.park_produce(STREAM, produce(2, condition(11)), 0)
    outputs = core.take_outputs()
    assert outputs.watches == outputs.unwatches == {}
    core.partition_states(LEADER, [state(11)])
    assert completions(core) == [Completion(2, Outcome.SATISFIED, [0])]


def test_entries_outlive_the_stream_to_their_logstore(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.partition_states(LEADER, [state(5)])
    core.take_outputs()
    core.logstore_down(LEADER)
    core.park_produce(STREAM, produce(2, condition(4)), 0)
    assert core.take_outputs() == Outputs(), "what was known before the stream was lost proves nothing now"
    core.logstore_up(LEADER)
    assert core.take_outputs() == Outputs(watches={LEADER: [WatchedPartition(TOPIC, 0)]})
    core.partition_states(LEADER, [state(10)])
    assert [each.entry_id for each in completions(core)] == [2, 1]


def test_deadlines_hold_while_the_logstore_is_out_of_reach() -> None:
    core = PurgatoryCore(now_ms=0)
    core.park_produce(STREAM, produce(1, condition(10), wait_ms=30), 0)
    assert core.take_outputs() == Outputs()
    core.expire(30)
    assert core.take_outputs() == Outputs({STREAM: [Completion(1, Outcome.EXPIRED, [ErrorCode.REQUEST_TIMED_OUT])]})
    core.logstore_up(LEADER)
    assert core.take_outputs() == Outputs()


def test_an_epoch_that_the_controller_has_ended_fails_what_waits_on_a_dead_leader(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.park_produce(STREAM, produce(2, condition(10, leader_epoch=EPOCH + 1)), 0)
    core.park_fetch(STREAM, fetch(3, polled()), 0)
    core.logstore_down(LEADER)
    core.metadata_applied(image(EPOCH + 1, leader=2))
    assert completions(core) == [
        Completion(1, Outcome.FENCED, [ErrorCode.NOT_LEADER_OR_FOLLOWER]),
        Completion(3, Outcome.FENCED, []),
    ]
    assert core.entries == 1


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_a_full_pod_answers_as_if_the_time_had_run_out() -> None:
    core = PurgatoryCore(now_ms=0, entries_max=2)
    core.park_produce(STREAM, produce(1, condition(10), condition(10, partition=1)), 0)
    core.park_produce(STREAM, produce(2, condition(10)), 0)
    core.park_fetch(STREAM, fetch(3, polled()), 0)
    assert completions(core) == [
        Completion(2, Outcome.EXPIRED, [ErrorCode.REQUEST_TIMED_OUT]),
        Completion(3, Outcome.EXPIRED, []),
    ]
    core.cancel(STREAM, 1)
    core.park_fetch(STREAM, fetch(4, polled()), 0)
    assert completions(core) == []


def test_a_repeated_entry_id_is_the_entry_that_has_it(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(1, condition(10)), 0)
    core.park_produce(STREAM, produce(1, condition(99)), 0)
    core.partition_states(LEADER, [state(10)])
    assert completions(core) == [Completion(1, Outcome.SATISFIED, [0])]
    assert core.entries == 0


def test_left_over_items_are_swept(core: PurgatoryCore) -> None:
    core.park_produce(STREAM, produce(0, condition(1_000_000)), 0)
    heap = core._watches.watch(LEADER, (TOPIC, 0)).heap(EPOCH, Measure.HIGH_WATERMARK)
    for entry_id in range(1, 10_000):
        core.park_produce(STREAM, produce(entry_id, condition(entry_id)), 0)
        core.cancel(STREAM, entry_id)
        core.take_outputs()
    assert len(heap._items) <= 64
    assert core.entries == 1
