"""The machine of test_groups sees what it is there for: a coordinator with one thing wrong does not get past it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis.stateful import run_state_machine_as_test

from barnabas.channel.messages import GroupAnswer, GroupCollect
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.sync_group import SyncGroupResponse
from barnabas_logstore.core.coordinator.groups import calls, kind
from barnabas_logstore.core.coordinator.groups.calls import GroupCalls
from barnabas_logstore.core.coordinator.groups.group import Group, Steps
from barnabas_logstore.core.coordinator.groups.member import Member
from barnabas_logstore.core.coordinator.groups.offsets import check_commit
from barnabas_logstore.core.coordinator.groups.rebalancing import Rebalancing
from barnabas_logstore.core.coordinator.groups.registry import Groups as CoordinatedGroups
from barnabas_logstore.core.coordinator.groups.shard import GroupShard
from barnabas_logstore.core.coordinator.groups.store import GroupStore, GroupStored
from barnabas_logstore.core.coordinator.runtime.led_shard import LedShard
from barnabas_logstore.core.coordinator.runtime.shard import NOT_WRITTEN, Effect
from tests.property.test_groups import CONSUMERS, Groups
from tests.tiers import MUTANT_EXAMPLES

Patch = pytest.MonkeyPatch


def answers_before_it_is_committed(patch: Patch) -> None:
    def answer(self: LedShard[Any], stream_id: int, answer: GroupAnswer) -> None:
        self.answers.append((stream_id, answer))

    patch.setattr(LedShard, "answer", answer)


def assigns_before_it_is_committed(patch: Patch) -> None:
    def then(self: LedShard[Any], effect: Effect) -> None:
        effect.committed()

    patch.setattr(LedShard, "then", then)


def tells_what_a_new_leader_has_found_uncommitted(patch: Patch) -> None:
    original = LedShard.__init__

    def init(self: LedShard[Any], *arguments: Any) -> None:
        original(self, *arguments)
        self._required_offset = 0

    patch.setattr(LedShard, "__init__", init)


def takes_every_word_of_the_leader(patch: Patch) -> None:
    original = Rebalancing._assign

    def assign(self: Rebalancing, group: Group, request: Any) -> None:
        original(self, group, request)
        group.assigned_generation = -1

    patch.setattr(Rebalancing, "_assign", assign)


def counts_steps_from_zero(patch: Patch) -> None:
    patch.setattr(kind, "Groups", lambda steps: CoordinatedGroups(Steps()))


def takes_no_step_when_all_have_joined(patch: Patch) -> None:
    original = Group.complete_join

    def complete_join(self: Group, member: Member, response: Any) -> None:
        step = self.step
        original(self, member, response)
        self.step = step

    patch.setattr(Group, "complete_join", complete_join)


def is_silent_about_a_lost_log(patch: Patch) -> None:
    def lose(self: LedShard[Any]) -> None:
        self._records = []
        self._waiting.clear()

    patch.setattr(LedShard, "_lose_waiting", lose)


def lets_loaded_members_live_for_ever(patch: Patch) -> None:
    original = GroupShard.loaded

    def loaded(self: GroupShard) -> None:
        original(self)
        for group in self.groups:
            for member in group.members.values():
                self._rebalancing._deadlines.cancel(member.session)

    patch.setattr(GroupShard, "loaded", loaded)


def keeps_the_sessions_of_who_is_gone(patch: Patch) -> None:
    def forget(self: Rebalancing, group: Group, member: Member) -> None:
        group.remove(member.member_id)

    def over(self: Rebalancing, group: Group, member: Member) -> None:
        self.lives(member)

    patch.setattr(Rebalancing, "forget", forget)
    patch.setattr(Rebalancing, "_session_is_over", over)


def loses_offsets_when_a_group_is_read(patch: Patch) -> None:
    original = GroupStore.replay

    def replay(self: GroupStore, change: Any, offset: int) -> None:
        if isinstance(change, GroupStored) and offset != NOT_WRITTEN:
            self.groups.remove(change.group_id)
        original(self, change, offset)

    patch.setattr(GroupStore, "replay", replay)


def tells_a_share_as_it_was_when_it_was_asked_for(patch: Patch) -> None:
    original = GroupCalls.collect

    def collect(self: GroupCalls, stream_id: int, collect: GroupCollect) -> None:
        group = self._groups.get(collect.group_id)
        member = None if group is None else group.members.get(collect.member_id)
        waits = member is not None and (member.awaits_join or member.awaits_sync)
        response = None if waits else self._result_of(collect)
        if isinstance(response, SyncGroupResponse) and collect.coordinator_epoch == self._leader_epoch:
            body = encode_body(response, collect.api_version)
            self._result.answer(stream_id, GroupAnswer(collect.request_id, body=body))
        else:
            original(self, stream_id, collect)

    patch.setattr(GroupCalls, "collect", collect)


def lets_anybody_commit(patch: Patch) -> None:
    patch.setattr(calls, "check_commit", lambda *asked: ErrorCode.NONE)


def lets_members_of_older_generations_commit(patch: Patch) -> None:
    def check(group: Group | None, request: OffsetCommitRequest, version: int) -> ErrorCode:
        error = check_commit(group, request, version)
        return ErrorCode.NONE if error == ErrorCode.ILLEGAL_GENERATION else error

    patch.setattr(calls, "check_commit", check)


def gives_every_generation_one_number(patch: Patch) -> None:
    original = Group.begin_generation

    def begin(self: Group, wall_ms: int) -> None:
        original(self, wall_ms)
        self.generation_id = 1

    patch.setattr(Group, "begin_generation", begin)


def waits_for_ever_for_who_does_not_sync(patch: Patch) -> None:
    original = Rebalancing._complete_join

    def complete(self: Rebalancing, group: Group) -> None:
        original(self, group)
        self._deadlines.cancel(group.sync_deadline)

    patch.setattr(Rebalancing, "_complete_join", complete)


def goes_on_without_who_has_left(patch: Patch) -> None:
    patch.setattr(Rebalancing, "after_removal", lambda self, group: None)


# --- steps that only luck would find ---------------------------------------------------------------------------------

# Numbers are those of `CONSUMERS`: 0 and 1 are dynamic, 3 is static. Each acts as often as it takes: to collect what it
# waited for, to look at it, to sync, and to look at its share.


def a_new_leader_has_offsets_that_were_not_committed(groups: Groups) -> None:
    groups.some_join(EVERYBODY, 0, commits_at_once=False)
    groups.commit(0, 0)
    groups.leader_changes(with_tail=True, has_time=True)


def the_leader_assigns_twice(groups: Groups) -> None:
    groups.some_join(EVERYBODY, 2, commits_at_once=True)
    groups.log_commits(commits_at_once=False)
    groups.act([0, 0, 0])
    groups.sync_again(0)
    groups.act([1, 1, 1])
    groups.log_commits(commits_at_once=True)


def a_member_is_dropped_while_it_waits_for_the_log(groups: Groups) -> None:
    groups.some_join(EVERYBODY, 2, commits_at_once=True)
    groups.act([0, 0, 0, 0, 1, 1])
    groups.log_commits(commits_at_once=False)
    groups.commit(0, 0)
    groups.act([1])
    groups.one_is_slow(1, truncate_fully=True)
    groups.log_commits(commits_at_once=True)


def a_static_member_misses_a_generation(groups: Groups) -> None:
    groups.some_join([0, 3, 1, 2, 4, 5], 2, commits_at_once=True)
    groups.act([0, 0, 0, 3, 3, 3, 0, 3])
    groups.one_is_slow(3, truncate_fully=True)
    absent = groups.consumers[3]
    groups.commit([each for each in groups.consumers if each.is_stable].index(absent), 0)


EVERYBODY = list(range(len(CONSUMERS)))
BY_LUCK = (
    answers_before_it_is_committed,
    assigns_before_it_is_committed,
    counts_steps_from_zero,
    takes_no_step_when_all_have_joined,
    is_silent_about_a_lost_log,
    lets_loaded_members_live_for_ever,
    keeps_the_sessions_of_who_is_gone,
    loses_offsets_when_a_group_is_read,
    gives_every_generation_one_number,
    waits_for_ever_for_who_does_not_sync,
    goes_on_without_who_has_left,
)
BY_HAND = (
    (tells_what_a_new_leader_has_found_uncommitted, a_new_leader_has_offsets_that_were_not_committed),
    (takes_every_word_of_the_leader, the_leader_assigns_twice),
    (tells_a_share_as_it_was_when_it_was_asked_for, a_member_is_dropped_while_it_waits_for_the_log),
    (lets_anybody_commit, a_static_member_misses_a_generation),
    (lets_members_of_older_generations_commit, a_static_member_misses_a_generation),
)


@pytest.mark.parametrize("mutant", BY_LUCK)
def test_is_seen(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(Groups, settings=MUTANT_EXAMPLES)


@pytest.mark.parametrize(("mutant", "steps"), BY_HAND)
def test_is_seen_by_hand(mutant: Callable[[Patch], None], steps: Callable[[Groups], None], monkeypatch: Patch) -> None:
    sound = Groups()
    steps(sound)
    sound.teardown()
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        steps(Groups())
