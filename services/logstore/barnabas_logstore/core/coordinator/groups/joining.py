"""JoinGroup of the classic protocol: admission of members and their ids.

Errors are Kafka's; their meaning for a client: UNKNOWN_MEMBER_ID, drop your id and join again; FENCED_INSTANCE_ID,
stop: another process has your instance id; MEMBER_ID_REQUIRED, join again with the id in the response.

Source: Kafka's GroupMetadataManager (classic groups), KIP-62, KIP-345, KIP-389, KIP-394, KIP-814.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.groups.group import Group, GroupState
from barnabas_logstore.core.coordinator.groups.member import Member
from barnabas_logstore.core.coordinator.groups.pending_joins import PendingJoin
from barnabas_logstore.core.coordinator.groups.rebalancing import Rebalancing, client_error
from barnabas_logstore.core.coordinator.groups.registry import Groups
from barnabas_logstore.core.coordinator.groups.stored_groups import group_stored
from barnabas_logstore.core.coordinator.runtime.shard import Effect, Result
from barnabas_logstore.core.coordinator.runtime.timers import Clock, Timers

_KNOWN_MEMBER_ID_FROM: Final = 4
"""JoinGroup from this version on: a new member gets its id, and joins again with it (KIP-394)."""
_SKIP_ASSIGNMENT_FROM: Final = 9
_MEMBER_ID_PREFIX_MAX: Final = 1_000
"""Maximum characters of a client's own name in its member id, which is a string of limited length."""

MakeMemberId: TypeAlias = Callable[[str], str]
"""Client id or group instance id → a unique member id."""


class Joining:
    """All classic groups of one partition of `__consumer_offsets`."""

    def __init__(
        self,
        config: GroupConfig,
        groups: Groups,
        rebalancing: Rebalancing,
        result: Result,
        deadlines: Timers,
        clock: Clock,
        make_member_id: MakeMemberId,
    ) -> None:
        self._config = config
        self._groups = groups
        self._rebalancing = rebalancing
        self._result = result
        self._deadlines = deadlines
        self._clock = clock
        self._make_member_id = make_member_id

    def join(
        self, request: JoinGroupRequest, version: int, client_id: str, client_host: str
    ) -> JoinGroupResponse | Member:
        """Return the response, or the member that waits for it, or already has it in its `joined`."""
        config = self._config
        member_id = request.member_id
        if not request.group_id:
            return refused_join(member_id, ErrorCode.INVALID_GROUP_ID)
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            return refused_join(member_id, ErrorCode.INVALID_SESSION_TIMEOUT)
        group = self._groups.get(request.group_id)
        if group is None:
            if member_id:
                return refused_join(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            group = self._groups.get_or_add(request.group_id, self._clock.wall_ms)
        joining = _Join(request, version, client_id, client_host)
        if not (self._has_room_for(group, member_id) and self._has_bytes_for(group, joining)):
            self._turn_away(group, member_id)
            outcome: JoinGroupResponse | Member = refused_join("", ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif not group.supports(request.protocol_type, joining.protocols):
            outcome = refused_join(member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif member_id:
            outcome = self._join_known(group, joining)
        else:
            outcome = self._join_unknown(group, joining)
        self._groups.remove_if_unused(group)
        return outcome

    def _has_room_for(self, group: Group, member_id: str) -> bool:
        size_max = self._config.max_size
        member = group.members.get(member_id)
        match group.state:
            case GroupState.EMPTY:
                return True
            case GroupState.PREPARING_REBALANCE:
                # Members that already wait are admitted; the group itself may exceed a limit that has been lowered.
                return (member is not None and member.awaits_join) or group.awaiting_join < size_max
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return member is not None or len(group.members) < size_max

    def _has_bytes_for(self, group: Group, joining: _Join) -> bool:
        request = joining.request
        known_id = request.member_id or group.static_members.get(request.group_instance_id or "", "")
        return self._rebalancing.member_bytes.has_room(
            joining.client_host, joining.protocols, group.members.get(known_id)
        )

    def _turn_away(self, group: Group, member_id: str) -> None:
        member = group.members.get(member_id)
        self._rebalancing.forget_pending(group, member_id)
        if member is not None:
            self._rebalancing.forget(group, member)
        self._rebalancing.complete_join_if_all_are_here(group)

    # --- new members -------------------------------------------------------------------------------------------------

    def _join_unknown(self, group: Group, joining: _Join) -> JoinGroupResponse | Member:
        instance_id = joining.request.group_instance_id
        if instance_id is not None and instance_id in group.static_members:
            return self._replace_static(group, joining, instance_id)
        member_id = self._new_member_id(joining)
        if instance_id is None and joining.version >= _KNOWN_MEMBER_ID_FROM:
            self._await_join_of(group, joining, member_id)
            return refused_join(member_id, ErrorCode.MEMBER_ID_REQUIRED)
        return self._add_member(group, joining, member_id)

    def _new_member_id(self, joining: _Join) -> str:
        own = joining.request.group_instance_id or joining.client_id
        return self._make_member_id(own[:_MEMBER_ID_PREFIX_MAX])

    def _await_join_of(self, group: Group, joining: _Join, member_id: str) -> None:
        """The client gets this id, and is expected back with it."""
        is_over = partial(self._pending_is_over, group, member_id)
        join = PendingJoin(group.group_id, member_id, joining.client_host, is_over, self._result)
        group.pending_joins[member_id] = join
        self._deadlines.set(join, self._clock.now_ms + joining.request.session_timeout_ms)
        pending = self._rebalancing.pending_joins
        pending.add(join)
        while (excess := pending.find_excess(joining.client_host)) is not None:
            self._deadlines.cancel(excess)
            excess.on_due()

    def _pending_is_over(self, group: Group, member_id: str) -> None:
        """A client was given an id, and has not joined with it within its session timeout."""
        self._rebalancing.forget_pending(group, member_id)
        self._rebalancing.complete_join_if_all_are_here(group)
        self._groups.remove_if_unused(group)

    def _add_member(self, group: Group, joining: _Join, member_id: str) -> Member:
        self._rebalancing.forget_pending(group, member_id)
        member = joining.member(member_id)
        member.is_new = True
        if group.state is GroupState.PREPARING_REBALANCE and group.is_initial_rebalance:
            group.new_member_added = True
        group.add(member, joining.request.protocol_type)
        group.await_join(member)
        self._rebalancing.begin_session(group, member)
        self._rebalancing.await_first_join(member)
        self._rebalancing.rebalance_or_complete(group)
        return member

    # --- known members -----------------------------------------------------------------------------------------------

    def _join_known(self, group: Group, joining: _Join) -> JoinGroupResponse | Member:
        request = joining.request
        if request.member_id in group.pending_joins:
            if request.group_instance_id is not None:
                # Static members never get an id to come back with.
                return refused_join(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            return self._add_member(group, joining, request.member_id)
        error = group.check_member(request.member_id, request.group_instance_id)
        if error:
            return refused_join(request.member_id, error)
        member = group.members[request.member_id]
        is_unchanged = member.matches(joining.protocols)
        is_leader = group.leader_id == member.member_id
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                return self._rejoin(group, member, joining)
            case GroupState.COMPLETING_REBALANCE:
                # It may have missed the answer: the present generation is returned again.
                return (
                    group.join_response(member.member_id, tells_members=is_leader)
                    if is_unchanged
                    else self._rejoin(group, member, joining)
                )
            case GroupState.STABLE:
                # A leader that joins again has seen a change that members don't report, such as new partitions.
                return (
                    self._rejoin(group, member, joining)
                    if is_leader or not is_unchanged
                    else group.join_response(member.member_id, tells_members=False)
                )
            case GroupState.EMPTY:
                raise AssertionError("a group with a member is not empty")

    def _rejoin(self, group: Group, member: Member, joining: _Join) -> Member:
        self._update(group, member, joining)
        self._rebalancing.rebalance_or_complete(group)
        return member

    def _update(self, group: Group, member: Member, joining: _Join) -> None:
        group.update(member, joining.protocols)
        self._rebalancing.member_bytes.hold(member)
        member.rebalance_timeout_ms = joining.rebalance_timeout_ms
        member.session_timeout_ms = joining.request.session_timeout_ms
        group.await_join(member)

    # --- static members that come back --------------------------------------------------------------------------------

    def _replace_static(self, group: Group, joining: _Join, instance_id: str) -> JoinGroupResponse | Member:
        old_leader_id = group.leader_id
        if group.state is GroupState.STABLE:
            error = client_error(self._result.check())
            if error:
                # A new id that can't be stored may be lost: the old one is not fenced for it.
                return refused_join("", error)
        self._rebalancing.end_session(group.members[group.static_members[instance_id]])
        member = group.replace_static(instance_id, self._new_member_id(joining))
        self._update(group, member, joining)
        self._rebalancing.begin_session(group, member)
        match group.state:
            case GroupState.STABLE:
                if group.protocol_name == group.select_protocol():
                    self._take_over(group, member, joining.version, old_leader_id)
                else:
                    self._rebalancing.rebalance_or_complete(group)
            case GroupState.COMPLETING_REBALANCE:
                # The leader may be assigning to the old member id, and the new one would get nothing.
                self._rebalancing.prepare(group)
            case GroupState.PREPARING_REBALANCE:
                self._rebalancing.complete_join_if_all_are_here(group)
            case GroupState.EMPTY:
                raise AssertionError("a group with a static member is not empty")
        return member

    def _take_over(self, group: Group, member: Member, version: int, old_leader_id: str | None) -> None:
        """A static member comes back to a stable group, and only its member id changes: no rebalance."""
        if not self._result.put_if_fits(group_stored(group, self._clock.wall_ms)):
            self._rebalancing.rebalance_or_complete(group)
            return
        self._result.then(Effect(partial(self._taken_over, group, member, version, old_leader_id)))

    def _taken_over(self, group: Group, member: Member, version: int, old_leader_id: str | None) -> None:
        """It is stored. If a rebalance has begun meanwhile, its end answers."""
        if group.members.get(member.member_id) is not member or group.state is not GroupState.STABLE:
            return
        is_leader = group.leader_id == member.member_id
        if version >= _SKIP_ASSIGNMENT_FROM:
            response = group.join_response(member.member_id, tells_members=is_leader, skip_assignment=is_leader)
        else:
            # It would compute a new assignment as a leader: the response names the previous leader.
            response = group.join_response(member.member_id, tells_members=False)
            response.leader = old_leader_id or ""
        group.complete_join(member, response)
        self._rebalancing.lives(member)


class _Join:
    """A JoinGroup and its client."""

    __slots__ = ("client_host", "client_id", "protocols", "rebalance_timeout_ms", "request", "version")

    def __init__(self, request: JoinGroupRequest, version: int, client_id: str, client_host: str) -> None:
        self.request = request
        self.version = version
        self.client_id = client_id
        self.client_host = client_host
        self.protocols = {protocol.name: bytes(protocol.metadata) for protocol in request.protocols}
        # v0 has none.
        self.rebalance_timeout_ms = request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms

    def member(self, member_id: str) -> Member:
        return Member(
            member_id,
            self.request.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.request.session_timeout_ms,
            self.protocols,
        )


def refused_join(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)
