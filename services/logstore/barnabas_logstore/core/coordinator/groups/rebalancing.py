"""The two phases of a rebalance: all members join, then the leader's assignments are stored and distributed.

Results are put into the `Member` (`joined`, `synced`), and the group takes a step. `Result` waits for
what a response depends on in the log.

Source: Kafka's GroupMetadataManager (classic groups), KIP-62, KIP-134, KIP-345.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.groups.group import Group, GroupState
from barnabas_logstore.core.coordinator.groups.member import Member
from barnabas_logstore.core.coordinator.groups.member_bytes import MemberBytes
from barnabas_logstore.core.coordinator.groups.meter import GroupMeter
from barnabas_logstore.core.coordinator.groups.pending_joins import PendingJoins
from barnabas_logstore.core.coordinator.groups.stored_groups import group_stored
from barnabas_logstore.core.coordinator.runtime.shard import Effect, Result
from barnabas_logstore.core.coordinator.runtime.timers import Clock, Deadline, Timers

_LOOK_AGAIN_MS: Final = 1_000
"""The minimum time until a group of absent members is checked, whatever rebalance timeout the members have."""


class Rebalancing:
    """All classic groups of one partition of `__consumer_offsets`."""

    def __init__(
        self,
        config: GroupConfig,
        result: Result,
        deadlines: Timers,
        clock: Clock,
        meter: GroupMeter,
        pending_joins: PendingJoins,
        member_bytes: MemberBytes,
    ) -> None:
        self.pending_joins = pending_joins
        self.member_bytes = member_bytes
        self._meter = meter
        self._config = config
        self._result = result
        self._deadlines = deadlines
        self._clock = clock

    # --- sessions -----------------------------------------------------------------------------------------------------

    def begin_session(self, group: Group, member: Member) -> None:
        """A member is known from now on, by its join or from the log."""
        self.member_bytes.hold(member)
        member.session = Deadline(partial(self._session_is_over, group, member), self._result)
        self._deadlines.set(member.session, self._clock.now_ms + member.session_timeout_ms)

    def lives(self, member: Member) -> None:
        """A member has been heard from: its session starts over."""
        assert member.session is not None
        self._deadlines.set(member.session, self._clock.now_ms + member.session_timeout_ms)

    def await_first_join(self, member: Member) -> None:
        """It can't send heartbeats before it has its id, and its departure is not noticed."""
        assert member.session is not None
        self._deadlines.set(member.session, self._clock.now_ms + self._config.new_member_join_timeout_ms)

    def end_session(self, member: Member) -> None:
        """It is a member no longer, or this is its coordinator no longer."""
        self._deadlines.end(member.session)
        self.member_bytes.release(member)

    def _session_is_over(self, group: Group, member: Member) -> None:
        if not member.has_satisfied_heartbeat:
            self.forget(group, member)
            self.after_removal(group)

    def forget(self, group: Group, member: Member) -> None:
        """The member is gone; `after_removal` has to follow."""
        self.end_session(member)
        group.remove(member.member_id)

    def forget_pending(self, group: Group, member_id: str) -> None:
        """As `forget`, for an id that was given out and has not joined."""
        join = group.pending_joins.pop(member_id, None)
        if join is not None:
            self._deadlines.end(join)
            self.pending_joins.remove(join)

    def after_removal(self, group: Group) -> None:
        if group.state is not GroupState.EMPTY:
            self.rebalance_or_complete(group)

    def stop(self, group: Group) -> None:
        """Stop all deadlines of a group."""
        for deadline in (group.join_deadline, group.sync_deadline):
            self._deadlines.end(deadline)
        for member_id in list(group.pending_joins):
            self.forget_pending(group, member_id)
        for member in group.members.values():
            self.end_session(member)

    # --- the join phase -----------------------------------------------------------------------------------------------

    def rebalance_or_complete(self, group: Group) -> None:
        """A member has changed: begin a rebalance, or end the join phase of the present one if all have joined."""
        if group.can_rebalance:
            self.prepare(group)
        else:
            self.complete_join_if_all_are_here(group)

    def prepare(self, group: Group) -> None:
        """Make all members join again."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        self._deadlines.cancel(group.sync_deadline)
        group.move_to(GroupState.PREPARING_REBALANCE, self._clock.wall_ms)
        if group.is_initial_rebalance:
            delay_ms = self._config.initial_rebalance_delay_ms
            group.new_member_added = False
            group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._set_join_deadline(group, delay_ms)
        elif group.has_all_members_joined:
            self._complete_join(group)
        else:
            self._set_join_deadline(group, group.rebalance_timeout_ms)

    def _set_join_deadline(self, group: Group, delay_ms: int) -> None:
        if group.join_deadline is None:
            group.join_deadline = Deadline(partial(self._join_phase_is_over, group), self._result)
        self._deadlines.set(group.join_deadline, self._clock.now_ms + delay_ms)

    def complete_join_if_all_are_here(self, group: Group) -> None:
        is_preparing = group.state is GroupState.PREPARING_REBALANCE
        if is_preparing and not group.is_initial_rebalance and group.has_all_members_joined:
            self._complete_join(group)

    def _join_phase_is_over(self, group: Group) -> None:
        """The time of a join phase is over, or of a delay before the first one."""
        assert group.state is GroupState.PREPARING_REBALANCE
        remaining_ms = group.initial_remaining_ms
        if group.is_initial_rebalance and group.new_member_added and remaining_ms:
            delay_ms = min(self._config.initial_rebalance_delay_ms, remaining_ms)
            group.new_member_added = False
            group.initial_remaining_ms = remaining_ms - delay_ms
            self._set_join_deadline(group, delay_ms)
        else:
            self._complete_join(group)

    def _complete_join(self, group: Group) -> None:
        self._deadlines.cancel(group.join_deadline)
        for member in [each for each in group.members.values() if not each.awaits_join and not each.is_static]:
            self.forget(group, member)
        if group.members and not group.elect_leader_who_joined():
            # Only static members are left, and none of them has joined: their sessions decide.
            self._set_join_deadline(group, max(group.rebalance_timeout_ms, _LOOK_AGAIN_MS))
            return
        group.begin_generation(self._clock.wall_ms)
        self._meter.rebalances += 1
        if group.state is GroupState.EMPTY:
            self._store_if_possible(group)
            return
        for member in group.members.values():
            is_leader = group.leader_id == member.member_id
            group.complete_join(member, group.join_response(member.member_id, tells_members=is_leader))
            self.lives(member)
            member.is_new = False
            group.pending_syncs[member.member_id] = None
        if group.sync_deadline is None:
            group.sync_deadline = Deadline(partial(self._sync_phase_is_over, group), self._result)
        self._deadlines.set(group.sync_deadline, self._clock.now_ms + group.rebalance_timeout_ms)

    def _store_if_possible(self, group: Group) -> None:
        """An empty generation that is not stored is not missed: an older one would time out again."""
        if not self._result.check():
            self._result.put_if_fits(group_stored(group, self._clock.wall_ms))

    # --- the sync phase -----------------------------------------------------------------------------------------------

    def sync(self, group: Group | None, request: SyncGroupRequest) -> SyncGroupResponse | Member:
        """Return the refusal, or the member that waits for its assignment, or already has it in its `synced`."""
        if group is None or group.state is GroupState.EMPTY:
            return SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        error = _check_sync(group, request)
        if error:
            return SyncGroupResponse(error_code=error)
        if group.state is GroupState.PREPARING_REBALANCE:
            return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        member = group.members[request.member_id]
        group.pending_syncs.pop(member.member_id, None)
        if not group.pending_syncs:
            self._deadlines.cancel(group.sync_deadline)
        if group.state is GroupState.STABLE:
            member.synced = group.sync_response(member)
            return member
        member.awaits_sync = True
        member.synced = None
        if group.leader_id == member.member_id and group.assigned_generation != group.generation_id:
            self._assign(group, request)
        return member

    def _assign(self, group: Group, request: SyncGroupRequest) -> None:
        """The leader's first assignment is stored before any member gets it; a later one is ignored."""
        generation_id = group.generation_id
        given = {each.member_id: bytes(each.assignment) for each in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        change = group_stored(group, self._clock.wall_ms, assignments)
        error = self._result.check()
        if error or not self._result.put_if_fits(change):
            self._fail_syncs(group, client_error(error or ErrorCode.RECORD_LIST_TOO_LARGE))
            self.rebalance_or_complete(group)
            return
        group.assigned_generation = generation_id
        self._result.then(Effect(partial(self._assigned, group, generation_id, assignments)))

    def _assigned(self, group: Group, generation_id: int, assignments: dict[str, bytes]) -> None:
        """It is stored. A member may have joined or left meanwhile: then it is of no use."""
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation_id != generation_id:
            return
        for member in group.members.values():
            member.assignment = assignments[member.member_id]
            if group.complete_sync(member, group.sync_response(member)):
                self.lives(member)
        group.move_to(GroupState.STABLE, self._clock.wall_ms)

    def _fail_syncs(self, group: Group, error: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""
            if group.complete_sync(member, SyncGroupResponse(error_code=error)):
                self.lives(member)

    def _sync_phase_is_over(self, group: Group) -> None:
        """Members that have joined and not synced by now are removed."""
        assert group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
        if group.pending_syncs:
            for member_id in list(group.pending_syncs):
                self.forget(group, group.members[member_id])
            self.prepare(group)


def _check_sync(group: Group, request: SyncGroupRequest) -> ErrorCode:
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    is_consistent = request.protocol_type in (None, group.protocol_type) and (
        request.protocol_name is None or group.protocol_name in (None, request.protocol_name)
    )
    return ErrorCode.NONE if is_consistent else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def client_error(error: ErrorCode) -> ErrorCode:
    """Return the error for a client if something of its group can't be stored."""
    match error:
        case ErrorCode.NOT_ENOUGH_REPLICAS | ErrorCode.UNKNOWN_TOPIC_OR_PARTITION | ErrorCode.REQUEST_TIMED_OUT:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_COORDINATOR
        case ErrorCode.RECORD_LIST_TOO_LARGE | ErrorCode.MESSAGE_TOO_LARGE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case _:
            return error
