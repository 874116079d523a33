"""Groups: rule 32 and I13, answers, who may commit, who lives, and what a new coordinator knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas.channel.messages import GroupAnswer, GroupState, Outcome
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import BatchHeader, Record
from barnabas_logstore.core.coordinator.groups import calls, leaving
from barnabas_logstore.core.coordinator.groups.group import Group
from barnabas_logstore.core.coordinator.groups.kind import GroupKind
from barnabas_logstore.core.coordinator.groups.offsets import Offsets, check_commit
from barnabas_logstore.core.coordinator.groups.rebalancing import Rebalancing
from barnabas_logstore.core.coordinator.groups.shard import GroupShard
from barnabas_logstore.core.coordinator.groups.store import GroupStore, OffsetsDeleted, drop_offsets
from barnabas_logstore.core.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from barnabas_logstore.core.coordinator.runtime.leadership import LedPartition
from barnabas_logstore.core.coordinator.runtime.led_shard import LedShard
from barnabas_logstore.core.coordinator.runtime.loading import LogLoader
from barnabas_logstore.core.coordinator.runtime.shard import Effect
from barnabas_purgatory.core.group_watches import ParkedGroup
from barnabas_purgatory.core.purgatory import PurgatoryCore
from tests.sim.faults import Fault
from tests.sim.mutants.planting import Mutants, replace_in
from tests.sim.shapes import AtMost

GROUPS = Mutants("groups")

# What three logstores and a group do to each other, with little else going on.
SMALL = AtMost(
    logstores=3, gateways=2, purgatories=1, controllers=2, producers=1, consumers=0, groups=1, transactional=0
)
MEMBERS = [Fault.KILL_CLIENT, Fault.ZOMBIE_MEMBER, Fault.RETRY_STORM, Fault.RESET]
COORDINATORS = [
    Fault.KILL_COORDINATOR,
    Fault.TERMINATE_LOGSTORE,
    Fault.PAUSE_PAST_LEASE,
    Fault.LEASE_ENDS_EARLY,
    Fault.CRASH_WRITTEN,
    Fault.KILL_CLIENT,
]


# --- answers ----------------------------------------------------------------------------------------------------


@GROUPS.breaks("I13", COORDINATORS, at_most=SMALL)
def answers_before_the_log_has_it() -> None:
    def answer(self: LedShard[Any], stream_id: int, reported: GroupAnswer) -> None:
        self.answers.append((stream_id, reported))

    replace_in(LedShard, "answer", answer)


@GROUPS.breaks("I13", COORDINATORS, at_most=SMALL)
def assignments_are_answered_before_the_log_has_them() -> None:
    def then(self: LedShard[Any], effect: Effect) -> None:
        effect.committed()

    replace_in(LedShard, "then", then)


@GROUPS.breaks("I13", MEMBERS, at_most=SMALL)
def sync_answers_the_previous_assignment() -> None:
    original = Rebalancing._assigned

    def assigned(self: Rebalancing, group: Group, generation_id: int, assignments: dict[str, bytes]) -> None:
        before = {each.member_id: each.assignment or assignments[each.member_id] for each in group.members.values()}
        original(self, group, generation_id, before)

    replace_in(Rebalancing, "_assigned", assigned)


# --- who may commit, who lives ---------------------------------------------------------------------------------------


@GROUPS.breaks_for(
    "32",
    "tests/unit/logstore/coordinator/test_offsets.py::TestWhoMayCommit"
    "::test_only_members_of_the_generation_while_it_is_not_empty",
)
def an_old_generation_may_commit() -> None:
    """A member that has not joined the next generation is out of the group before that begins: by its number alone only
    a commit is refused that was sent before its member joined again, and comes after.
    """

    def check(group: Group | None, request: Any, version: int) -> ErrorCode:
        error = check_commit(group, request, version)
        return ErrorCode.NONE if error is ErrorCode.ILLEGAL_GENERATION and group is not None else error

    replace_in(calls, "check_commit", check)


@GROUPS.breaks("32", MEMBERS, at_most=SMALL)
def static_members_are_not_fenced() -> None:
    """Who had the place before commits on as if nothing was."""

    def check(group: Group | None, request: Any, version: int) -> ErrorCode:
        error = check_commit(group, request, version)
        return ErrorCode.NONE if error is ErrorCode.FENCED_INSTANCE_ID else error

    replace_in(calls, "check_commit", check)


@GROUPS.breaks("32", MEMBERS, at_most=SMALL)
def heartbeats_keep_no_member_alive() -> None:
    original = leaving.heartbeat

    def heartbeat(members: Rebalancing, group: Group | None, request: Any) -> ErrorCode:
        member = None if group is None else group.members.get(request.member_id)
        over_ms = -1 if member is None or member.session is None else member.session.at_ms
        error = original(members, group, request)
        if member is not None and member.session is not None and over_ms >= 0:
            members._deadlines.set(member.session, over_ms)
        return error

    replace_in(calls, "heartbeat", heartbeat)


@GROUPS.breaks("32", MEMBERS, at_most=SMALL)
def sessions_never_end() -> None:
    replace_in(Rebalancing, "_session_is_over", lambda self, group, member: None)


@GROUPS.breaks("32", MEMBERS, at_most=SMALL)
def a_generation_keeps_its_number() -> None:
    """What is given to others is given under the number that those have who had it before."""
    original = Group.begin_generation

    def begin_generation(self: Group, wall_ms: int) -> None:
        original(self, wall_ms)
        self.generation_id = max(1, self.generation_id - 1)

    replace_in(Group, "begin_generation", begin_generation)


# --- who comes after -------------------------------------------------------------------------------------------------


@GROUPS.breaks("32", COORDINATORS, at_most=SMALL)
def a_new_coordinator_does_not_load() -> None:
    original = LedShard.load

    def load(self: LedShard[Any]) -> bool:
        assert self.loader is not None
        if isinstance(self.shard, GroupShard):
            self.loader._end_offset = 0
        return original(self)

    replace_in(LedShard, "load", load)


@GROUPS.breaks("32", [Fault.KILL_COORDINATOR, Fault.SLOW_DISK], at_most=SMALL)
def it_answers_while_it_loads() -> None:
    original = CoordinatorRuntime.on_call

    def on_call(self: CoordinatorRuntime[Any], stream_id: int, call: Any) -> None:
        led = self.find(call.partition)
        if led is None or not isinstance(led.shard, GroupShard):
            original(self, stream_id, call)
            return
        loader, led.loader = led.loader, None
        try:
            original(self, stream_id, call)
        finally:
            led.loader = loader

    replace_in(CoordinatorRuntime, "on_call", on_call)


@GROUPS.breaks("32", COORDINATORS, at_most=SMALL)
def it_loads_what_is_committed_and_nothing_after() -> None:
    """A leader's first watermark is behind what the leader before it has acknowledged."""
    original = LogLoader.__init__

    def init(self: LogLoader, decode: Any, store: Any, decompress: Any, end_offset: int) -> None:
        def decode_committed(header: BatchHeader, record: Record) -> Any:
            return decode(header, record) if header.base_offset < end_offset else None

        original(self, decode_committed if isinstance(store, GroupStore) else decode, store, decompress, end_offset)

    replace_in(LogLoader, "__init__", init)
    replace_in(LedPartition, "end_offset", lambda self: self.partition.high_watermark)


@GROUPS.breaks("I13", COORDINATORS, at_most=SMALL)
def an_older_epoch_goes_on() -> None:
    """A coordinator that leads again takes what it knows from before for true, and appends under the new epoch."""

    def holds(self: LedPartition) -> bool:
        return not self.is_unreadable

    def check_append(self: LedPartition, expected_epoch: int) -> ErrorCode:
        return self.partition.check_append(self.partition.leader_epoch, -1)

    replace_in(LedPartition, "holds", property(holds))
    replace_in(LedPartition, "check_append", check_append)


@GROUPS.breaks("I13", [*COORDINATORS, Fault.ISOLATE, Fault.CUT, Fault.DISK_FULL], at_most=SMALL)
def an_append_that_is_refused_is_forgotten() -> None:
    original = LedShard.append

    def append(self: LedShard[Any]) -> bool:
        original(self)
        for _, waiting in [*self._waiting, (0, self._waiting_now)]:
            for each in waiting:
                if not isinstance(each, Effect):
                    self.answers.append(each)
        self._waiting_now = []
        return True

    replace_in(LedShard, "append", append)


@GROUPS.breaks("I13", COORDINATORS, at_most=SMALL)
def tombstones_are_not_written() -> None:
    def drop(self: Offsets, group: Group, topic: str, partitions: Iterable[int]) -> None:
        drop_offsets(group, topic, partitions)

    replace_in(Offsets, "_drop", drop)


@GROUPS.breaks("I13", COORDINATORS, at_most=SMALL)
def tombstones_are_not_read() -> None:
    original = GroupKind.decode

    def decode(self: GroupKind, header: BatchHeader, record: Record) -> Any:
        change = original(self, header, record)
        return None if isinstance(change, OffsetsDeleted) else change

    replace_in(GroupKind, "decode", decode)


# --- waiting ---------------------------------------------------------------------------------------------------------


@GROUPS.breaks_for("8", "tests/unit/purgatory/test_group_waits.py::test_another_epoch_of_the_coordinator_ends_the_wait")
def waits_outlive_their_coordinator() -> None:
    """A pod follows the steps of any coordinator, under whatever epoch. Gateways look at the epoch themselves."""

    def outcome(self: ParkedGroup) -> Outcome | None:
        state: GroupState | None = self.watch.state
        return Outcome.SATISFIED if state is not None and state.step >= self.step else None

    replace_in(ParkedGroup, "outcome", outcome)


@GROUPS.breaks("32", MEMBERS, at_most=SMALL)
def a_rebalance_waits_for_no_member() -> None:
    """Its join phase is over with the first who joins; the others are out."""
    replace_in(Group, "has_all_members_joined", property(lambda self: self.awaiting_join > 0))


@GROUPS.breaks("I16", MEMBERS, at_most=SMALL)
def groups_are_watched_for_ever() -> None:
    replace_in(type(PurgatoryCore(0)._groups), "left", lambda self, key, watch: None)
