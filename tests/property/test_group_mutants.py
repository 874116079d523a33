"""The machine of test_groups sees what it is there for: a coordinator with one thing wrong does not get past it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from barnabas.channel.messages import GroupAnswer, GroupCollect
from services.logstore.core.coordinator.groups import coordinator as coordinator_module
from services.logstore.core.coordinator.groups.calls import GroupCalls
from services.logstore.core.coordinator.groups.group import Group, Steps
from services.logstore.core.coordinator.groups.group_partition import GroupPartition
from services.logstore.core.coordinator.groups.journal import Deferred, Journal
from services.logstore.core.coordinator.groups.loading import Loader
from services.logstore.core.coordinator.groups.member import Member
from services.logstore.core.coordinator.groups.rebalancing import Rebalancing
from tests.property.test_groups import Groups

Patch = pytest.MonkeyPatch


def answers_before_it_is_committed(patch: Patch) -> None:
    def answer(self: Journal, stream_id: int, answer: GroupAnswer) -> None:
        self._answers.append((stream_id, answer))

    patch.setattr(Journal, "answer", answer)


def assigns_before_it_is_committed(patch: Patch) -> None:
    """To who has handed them in; others are told by `answer`."""

    def defer(self: Journal, deferred: Deferred) -> None:
        deferred.committed()

    def tell(self: GroupCalls, stream_id: int, collect: GroupCollect, response: Any) -> None:
        original(self, stream_id, collect, response)
        for _, waiting in self._journal._waiting:
            self._answers += [each for each in waiting if not isinstance(each, Deferred)]
            waiting.clear()
        self._answers += [each for each in self._journal._waiting_now if not isinstance(each, Deferred)]
        self._journal._waiting_now.clear()

    original = GroupCalls._tell_result
    patch.setattr(Journal, "defer", defer)
    patch.setattr(GroupCalls, "_tell_result", tell)


def tells_what_a_new_leader_has_found_uncommitted(patch: Patch) -> None:
    original = Journal.__init__

    def init(self: Journal, *arguments: Any) -> None:
        original(self, *arguments)
        self._required_offset = 0

    patch.setattr(Journal, "__init__", init)


def takes_every_word_of_the_leader(patch: Patch) -> None:
    original = Rebalancing._assign

    def assign(self: Rebalancing, group: Group, request: Any) -> None:
        original(self, group, request)
        group.assigned_generation = -1

    patch.setattr(Rebalancing, "_assign", assign)


def counts_steps_anew(patch: Patch) -> None:
    original = coordinator_module.GroupPartition

    def partition(*arguments: Any) -> GroupPartition:
        return original(*arguments[:-1], Steps())

    patch.setattr(coordinator_module, "GroupPartition", partition)


def takes_no_step_when_all_have_joined(patch: Patch) -> None:
    original = Group.complete_join

    def complete_join(self: Group, member: Member, response: Any) -> None:
        step = self.step
        original(self, member, response)
        self.step = step

    patch.setattr(Group, "complete_join", complete_join)


def tells_nobody_that_the_log_is_lost(patch: Patch) -> None:
    def lose(self: Journal) -> None:
        self._records = []
        self._waiting.clear()

    patch.setattr(Journal, "lose", lose)


def lets_loaded_members_live_for_ever(patch: Patch) -> None:
    original = GroupPartition._loaded

    def loaded(self: GroupPartition) -> None:
        original(self)
        for group in self.groups:
            for member in group.members.values():
                self._rebalancing._deadlines.cancel(member.session)

    patch.setattr(GroupPartition, "_loaded", loaded)


def keeps_the_sessions_of_who_is_gone(patch: Patch) -> None:
    def forget(self: Rebalancing, group: Group, member: Member) -> None:
        group.remove(member.member_id)

    def over(self: Rebalancing, group: Group, member: Member) -> None:
        self.lives(member)

    patch.setattr(Rebalancing, "forget", forget)
    patch.setattr(Rebalancing, "_session_is_over", over)


def loses_offsets_when_a_group_is_read(patch: Patch) -> None:
    original = Loader._apply_group

    def apply(self: Loader, group_id: str, value: Any) -> None:
        self._groups.remove(group_id)
        original(self, group_id, value)

    patch.setattr(Loader, "_apply_group", apply)


MUTANTS = (
    answers_before_it_is_committed,
    assigns_before_it_is_committed,
    tells_what_a_new_leader_has_found_uncommitted,
    takes_every_word_of_the_leader,
    counts_steps_anew,
    takes_no_step_when_all_have_joined,
    tells_nobody_that_the_log_is_lost,
    lets_loaded_members_live_for_ever,
    keeps_the_sessions_of_who_is_gone,
    loses_offsets_when_a_group_is_read,
)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_is_seen(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    enough = settings(
        max_examples=200, stateful_step_count=50, phases=[Phase.generate], derandomize=True, database=None
    )
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(Groups, settings=enough)
