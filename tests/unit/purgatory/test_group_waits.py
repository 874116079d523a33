"""Members of groups that wait for their group's next step."""

from __future__ import annotations

import pytest

from barnabas.channel.messages import (
    Completion,
    GroupState,
    Outcome,
    ParkGroup,
    WatchedGroup,
    WatchRequest,
)
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import PartitionMetadata, TopicMetadata, UpdateMetadata
from barnabas_purgatory.core.purgatory import PurgatoryCore
from tests.unit.purgatory.support import EPOCH, LEADER, STREAM, TOPIC, completions

GROUP = "shoppers"


def joining(
    entry_id: int, step: int = 5, *, coordinator_epoch: int = EPOCH, group_id: str = GROUP, wait_ms: int = 60_000
) -> ParkGroup:
    return ParkGroup(entry_id, wait_ms, TOPIC, 0, LEADER, coordinator_epoch, group_id, step)


def group_state(step: int, *, coordinator_epoch: int = EPOCH, group_id: str = GROUP) -> GroupState:
    return GroupState(TOPIC, 0, group_id, coordinator_epoch, step)


NOT_COORDINATING = group_state(0, coordinator_epoch=-1)


def test_a_member_waits_for_its_groups_step(core: PurgatoryCore) -> None:
    core.park_group(STREAM, joining(1), 0)
    core.group_states(LEADER, [group_state(4)])
    assert completions(core) == []
    core.group_states(LEADER, [group_state(5)])
    assert completions(core) == [Completion(1, Outcome.SATISFIED)]
    core.group_states(LEADER, [group_state(6)])
    core.expire(100_000)
    assert completions(core) == []


def test_all_members_that_wait_for_a_step_go_on_together(core: PurgatoryCore) -> None:
    for entry_id, step in ((1, 5), (2, 6), (3, 4)):
        core.park_group(STREAM, joining(entry_id, step), 0)
    core.group_states(LEADER, [group_state(5)])
    assert completions(core) == [Completion(1, Outcome.SATISFIED), Completion(3, Outcome.SATISFIED)]


def test_another_group_of_the_same_coordinator_says_nothing(core: PurgatoryCore) -> None:
    core.park_group(STREAM, joining(1), 0)
    core.group_states(LEADER, [group_state(9, group_id="others")])
    core.group_states(LEADER + 1, [group_state(9)])
    assert completions(core) == []


@pytest.mark.parametrize("ended", [NOT_COORDINATING, group_state(9, coordinator_epoch=EPOCH + 1)])
def test_another_epoch_of_the_coordinator_ends_the_wait(core: PurgatoryCore, ended: GroupState) -> None:
    core.park_group(STREAM, joining(1), 0)
    core.group_states(LEADER, [ended])
    assert completions(core) == [Completion(1, Outcome.FENCED)]


def test_a_step_under_an_older_epoch_is_waited_through(core: PurgatoryCore) -> None:
    core.park_group(STREAM, joining(1), 0)
    core.group_states(LEADER, [group_state(9, coordinator_epoch=EPOCH - 1)])
    assert completions(core) == []
    core.group_states(LEADER, [group_state(5)])
    assert completions(core) == [Completion(1, Outcome.SATISFIED)]


def test_a_step_that_was_taken_before_the_member_came_is_not_missed(core: PurgatoryCore) -> None:
    core.park_group(STREAM, joining(1, 9), 0)
    core.group_states(LEADER, [group_state(5)])
    core.park_group(STREAM, joining(2, 5), 0)
    assert completions(core) == [Completion(2, Outcome.SATISFIED)]


def test_a_member_waits_for_so_long_and_no_longer(core: PurgatoryCore) -> None:
    core.park_group(STREAM, joining(1, wait_ms=300), 0)
    core.expire(299)
    assert completions(core) == []
    core.expire(300)
    assert completions(core) == [Completion(1, Outcome.EXPIRED)]
    assert (core.entries, core.watched_groups) == (0, 0)


def test_a_group_is_watched_while_somebody_waits_and_no_longer(core: PurgatoryCore) -> None:
    watched = WatchedGroup(TOPIC, 0, GROUP)
    core.park_group(STREAM, joining(1), 0)
    core.park_group(STREAM, joining(2), 0)
    assert core.take_outputs().watch_requests() == [(LEADER, WatchRequest(group_watches=[watched]))]
    core.cancel(STREAM, 1)
    assert core.take_outputs().watch_requests() == []
    core.cancel(STREAM, 2)
    outputs = core.take_outputs()
    assert outputs.watch_requests() == [(LEADER, WatchRequest(group_unwatches=[watched]))]
    assert (outputs.completions, core.entries) == ({}, 0)


def test_a_coordinator_that_comes_back_is_asked_about_the_groups_again(core: PurgatoryCore) -> None:
    core.park_group(STREAM, joining(1), 0)
    core.group_states(LEADER, [group_state(4)])
    core.take_outputs()
    core.logstore_down(LEADER)
    core.park_group(STREAM, joining(2, 3), 0)
    assert completions(core) == []
    core.logstore_up(LEADER)
    assert core.take_outputs().group_watches == {LEADER: [WatchedGroup(TOPIC, 0, GROUP)]}
    core.group_states(LEADER, [group_state(4)])
    assert completions(core) == [Completion(2, Outcome.SATISFIED)]


@pytest.mark.parametrize(("leader_epoch", "is_over"), [(EPOCH, False), (EPOCH + 1, True)])
def test_the_image_ends_waits_at_a_coordinator_that_is_one_no_more(leader_epoch: int, is_over: bool) -> None:
    core = PurgatoryCore(now_ms=0)
    core.park_group(STREAM, joining(1), 0)
    image = ClusterImage()
    partition = PartitionMetadata(0, LEADER + 1, leader_epoch, 9, (LEADER, LEADER + 1), (LEADER + 1,))
    topic = TopicMetadata("__consumer_offsets", TOPIC, {}, [partition])
    image.apply(UpdateMetadata(1, True, "c", 1, [], [], [topic]))
    core.metadata_applied(image)
    assert completions(core) == ([Completion(1, Outcome.FENCED)] if is_over else [])


def test_the_topic_of_groups_that_is_deleted_ends_their_waits(core: PurgatoryCore) -> None:
    image = ClusterImage()
    partition = PartitionMetadata(0, LEADER, EPOCH, 9, (LEADER,), (LEADER,))
    topic = TopicMetadata("__consumer_offsets", TOPIC, {}, [partition])
    image.apply(UpdateMetadata(1, True, "c", 1, [], [], [topic]))
    core.metadata_applied(image)
    core.park_group(STREAM, joining(1), 0)
    image.apply(UpdateMetadata(2, True, "c", 1, [], [], []))
    core.metadata_applied(image)
    assert completions(core) == [Completion(1, Outcome.FENCED)]


def test_a_full_pod_sends_members_back_at_once() -> None:
    core = PurgatoryCore(now_ms=0, entries_max=1)
    core.park_group(STREAM, joining(1), 0)
    core.park_group(STREAM, joining(2), 0)
    assert completions(core) == [Completion(2, Outcome.EXPIRED)]
    core.stream_closed(STREAM)
    assert (core.entries, completions(core), core.watched_groups) == (0, [], 0)
