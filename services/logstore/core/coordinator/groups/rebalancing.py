"""Join, sync, heartbeat and leave of the classic protocol: who belongs to a group, generation by generation.

Every method takes a request and gives its response, or None where the member waits: its answer comes to be found in the
`Member` (`joined`, `synced`), and the group takes a step. What a response depends on in the log is waited for by
`Journal.then`. Errors are Kafka's own; what they mean for a client: UNKNOWN_MEMBER_ID, forget your id and join anew;
ILLEGAL_GENERATION, join again; REBALANCE_IN_PROGRESS, the same; FENCED_INSTANCE_ID, stop: another has your place.

Source: Kafka's GroupMetadataManager (classic groups), KIP-62, KIP-134, KIP-345, KIP-394, KIP-559, KIP-814.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, TypeAlias

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.wire.messages.leave_group import MemberIdentity, MemberResponse
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from services.logstore.core.coordinator.groups.config import GroupConfig
from services.logstore.core.coordinator.groups.deadlines import Deadlines
from services.logstore.core.coordinator.groups.group import Group, GroupState
from services.logstore.core.coordinator.groups.journal import Journal
from services.logstore.core.coordinator.groups.member import Member
from services.logstore.core.coordinator.groups.stored_groups import store_record

_KNOWN_MEMBER_ID_FROM: Final = 4
"""JoinGroup from this version on: a new member is told its id, and joins again with it (KIP-394)."""
_SKIP_ASSIGNMENT_FROM: Final = 9


class Deadline(Enum):
    JOIN = 0
    """Of a group's join phase."""
    SYNC = 1
    """Of a group's sync phase."""
    SESSION = 2
    """Of a member, or of one that was given an id and has not joined."""


DeadlineKey: TypeAlias = tuple[Deadline, str, str]
"""Kind, group id, member id or nothing."""

MakeMemberId: TypeAlias = Callable[[str], str]
"""Client id or group instance id → a member id never given before."""


class Rebalancing:
    """All classic groups of one partition of `__consumer_offsets`."""

    def __init__(
        self,
        config: GroupConfig,
        groups: dict[str, Group],
        journal: Journal,
        deadlines: Deadlines[DeadlineKey],
        make_member_id: MakeMemberId,
    ) -> None:
        self._config = config
        self._groups = groups
        self._journal = journal
        self._deadlines = deadlines
        self._make_member_id = make_member_id
        self._now_ms = 0
        self._wall_ms = 0

    def begin_turn(self, now_ms: int, wall_ms: int) -> None:
        """Everything until the next call happens at this time."""
        self._now_ms = now_ms
        self._wall_ms = wall_ms

    # --- join ---------------------------------------------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, version: int, client_id: str, client_host: str
    ) -> JoinGroupResponse | Member:
        """The response, or the member that waits for it."""
        config = self._config
        if not request.group_id:
            return _refused(request.member_id, ErrorCode.INVALID_GROUP_ID)
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            return _refused(request.member_id, ErrorCode.INVALID_SESSION_TIMEOUT)
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_id:
                return _refused(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            group = self._groups[request.group_id] = Group(request.group_id, self._wall_ms)
        protocols = {protocol.name: bytes(protocol.metadata) for protocol in request.protocols}
        if not self._has_room_for(group, request.member_id):
            self._forget(group, request.member_id)
            return _refused("", ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not group.supports(request.protocol_type, protocols):
            self._drop_if_unused(group)
            return _refused(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        joining = Joining(request, version, client_id, client_host, protocols)
        return self._join_known(group, joining) if request.member_id else self._join_unknown(group, joining)

    def _has_room_for(self, group: Group, member_id: str) -> bool:
        size_max = self._config.max_size
        member = group.members.get(member_id)
        match group.state:
            case GroupState.EMPTY:
                return True
            case GroupState.PREPARING_REBALANCE:
                # Those who wait already are let in; the size itself may be over a limit that has become smaller.
                return (member is not None and member.awaits_join) or group.awaiting_join < size_max
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return member is not None or len(group.members) < size_max

    def _drop_if_unused(self, group: Group) -> None:
        """A group of which nothing is known but its name is not kept."""
        if group.is_simple and not group.generation_id and not group.members:
            del self._groups[group.group_id]

    def _join_unknown(self, group: Group, joining: Joining) -> JoinGroupResponse | Member:
        instance_id = joining.request.group_instance_id
        member_id = self._make_member_id(instance_id or joining.client_id)
        if instance_id is not None:
            if instance_id in group.static_members:
                return self._replace_static(group, joining, instance_id, member_id)
            return self._add_member(group, joining, member_id)
        if joining.version >= _KNOWN_MEMBER_ID_FROM:
            group.pending_joins[member_id] = None
            self._set_session(group, member_id, joining.request.session_timeout_ms)
            return _refused(member_id, ErrorCode.MEMBER_ID_REQUIRED)
        return self._add_member(group, joining, member_id)

    def _join_known(self, group: Group, joining: Joining) -> JoinGroupResponse | Member:
        request = joining.request
        if request.member_id in group.pending_joins:
            if request.group_instance_id is not None:
                return _refused(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            return self._add_member(group, joining, request.member_id)
        error = group.check_member(request.member_id, request.group_instance_id)
        if error:
            return _refused(request.member_id, error)
        member = group.members[request.member_id]
        is_unchanged = member.matches(joining.protocols)
        is_leader = group.leader_id == member.member_id
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                return self._rejoin(group, member, joining)
            case GroupState.COMPLETING_REBALANCE:
                # It may have missed the answer: the present generation is told again.
                return (
                    group.join_response(member.member_id, tells_members=is_leader)
                    if is_unchanged
                    else self._rejoin(group, member, joining)
                )
            case GroupState.STABLE:
                # A leader that joins again has seen something that members do not tell, such as new partitions.
                return (
                    self._rejoin(group, member, joining)
                    if is_leader or not is_unchanged
                    else group.join_response(member.member_id, tells_members=False)
                )
            case GroupState.EMPTY:
                return _refused(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)

    def _rejoin(self, group: Group, member: Member, joining: Joining) -> Member:
        self._update(group, member, joining)
        self._rebalance_or_complete(group)
        return member

    def _update(self, group: Group, member: Member, joining: Joining) -> None:
        group.update(member, joining.protocols)
        member.rebalance_timeout_ms = joining.rebalance_timeout_ms
        member.session_timeout_ms = joining.request.session_timeout_ms
        group.await_join(member)

    def _add_member(self, group: Group, joining: Joining, member_id: str) -> Member:
        member = joining.member(member_id)
        member.is_new = True
        if group.state is GroupState.PREPARING_REBALANCE and group.is_initial_rebalance:
            group.new_member_added = True
        group.add(member, joining.request.protocol_type)
        group.await_join(member)
        # It can't send heartbeats while it waits, and nobody hears when it goes away.
        self._set_session(group, member_id, self._config.new_member_join_timeout_ms)
        self._rebalance_or_complete(group)
        return member

    def _replace_static(
        self, group: Group, joining: Joining, instance_id: str, member_id: str
    ) -> JoinGroupResponse | Member:
        old_leader_id = group.leader_id
        self._deadlines.cancel((Deadline.SESSION, group.group_id, group.static_members[instance_id]))
        member = group.replace_static(instance_id, member_id)
        self._update(group, member, joining)
        self._set_session(group, member_id, member.session_timeout_ms)
        match group.state:
            case GroupState.STABLE:
                if group.protocol_name == group.select_protocol():
                    return self._take_over(group, member, joining, old_leader_id)
                self._rebalance_or_complete(group)
            case GroupState.COMPLETING_REBALANCE:
                # The leader may be assigning to the old member id: whoever has the new one would get nothing.
                self._prepare_rebalance(group)
            case GroupState.PREPARING_REBALANCE:
                self._complete_join_if_all_are_here(group)
            case GroupState.EMPTY:
                raise AssertionError("a group with a static member is not empty")
        return member

    def _take_over(
        self, group: Group, member: Member, joining: Joining, old_leader_id: str | None
    ) -> JoinGroupResponse | Member:
        """A static member comes back to a stable group, and nothing changes but its member id: no rebalance."""
        record = store_record(group, self._wall_ms)
        if self._journal.check() or not self._journal.fits(record):
            self._rebalance_or_complete(group)
            return member
        self._journal.write(record)

        def stored() -> None:
            if group.members.get(member.member_id) is not member or group.state is not GroupState.STABLE:
                return
            is_leader = group.leader_id == member.member_id
            if joining.version >= _SKIP_ASSIGNMENT_FROM:
                response = group.join_response(member.member_id, tells_members=is_leader, skip_assignment=is_leader)
            else:
                # It would assign anew as a leader: it is told that the leader is the one that it was.
                response = group.join_response(member.member_id, tells_members=False)
                response.leader = old_leader_id or ""
            group.complete_join(member, response)

        self._journal.then(stored)
        return member

    # --- the join phase -----------------------------------------------------------------------------------------------

    def _rebalance_or_complete(self, group: Group) -> None:
        if group.can_rebalance:
            self._prepare_rebalance(group)
        else:
            self._complete_join_if_all_are_here(group)

    def _prepare_rebalance(self, group: Group) -> None:
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        self._deadlines.cancel((Deadline.SYNC, group.group_id, ""))
        group.move_to(GroupState.PREPARING_REBALANCE, self._wall_ms)
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
        self._deadlines.set((Deadline.JOIN, group.group_id, ""), self._now_ms + delay_ms)

    def _complete_join_if_all_are_here(self, group: Group) -> None:
        is_preparing = group.state is GroupState.PREPARING_REBALANCE
        if is_preparing and not group.is_initial_rebalance and group.has_all_members_joined:
            self._complete_join(group)

    def join_deadline(self, group_id: str) -> None:
        """The time of a join phase is over, or of a delay before the first one."""
        group = self._groups.get(group_id)
        if group is None or group.state is not GroupState.PREPARING_REBALANCE:
            return
        remaining_ms = group.initial_remaining_ms
        if group.is_initial_rebalance and group.new_member_added and remaining_ms:
            delay_ms = min(self._config.initial_rebalance_delay_ms, remaining_ms)
            group.new_member_added = False
            group.initial_remaining_ms = remaining_ms - delay_ms
            self._set_join_deadline(group, delay_ms)
        else:
            self._complete_join(group)

    def _complete_join(self, group: Group) -> None:
        self._deadlines.cancel((Deadline.JOIN, group.group_id, ""))
        for member in [each for each in group.members.values() if not each.awaits_join and not each.is_static]:
            self._forget(group, member.member_id)
        if group.members and not group.elect_leader_who_joined():
            # Only static members are left, and none of them is here: their sessions decide.
            self._set_join_deadline(group, group.rebalance_timeout_ms)
            return
        group.begin_generation(self._wall_ms)
        if group.state is GroupState.EMPTY:
            group.leader_id = None
            self._store_if_possible(group)
            return
        for member in group.members.values():
            is_leader = group.leader_id == member.member_id
            group.complete_join(member, group.join_response(member.member_id, tells_members=is_leader))
            self._set_session(group, member.member_id, member.session_timeout_ms)
            member.is_new = False
            group.pending_syncs[member.member_id] = None
        deadline_ms = self._now_ms + group.rebalance_timeout_ms
        self._deadlines.set((Deadline.SYNC, group.group_id, ""), deadline_ms)

    def _store_if_possible(self, group: Group) -> None:
        """An empty generation that is not stored is none that anybody could miss: an older one would time out again."""
        if not self._journal.check():
            self._journal.write(store_record(group, self._wall_ms))

    # --- sync ---------------------------------------------------------------------------------------------------------

    def sync(self, request: SyncGroupRequest) -> SyncGroupResponse | Member:
        """The response, or the member that waits for it."""
        group = self._groups.get(request.group_id)
        if not request.group_id:
            return SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        if group is None or group.state is GroupState.EMPTY:
            return SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        error = _check_sync(group, request)
        if error:
            return SyncGroupResponse(error_code=error)
        member = group.members[request.member_id]
        if group.state is GroupState.PREPARING_REBALANCE:
            return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        self._has_synced(group, member)
        if group.state is GroupState.STABLE:
            return group.sync_response(member)
        member.awaits_sync = True
        member.synced = None
        if group.leader_id == member.member_id:
            self._assign(group, request)
        return member

    def _has_synced(self, group: Group, member: Member) -> None:
        group.pending_syncs.pop(member.member_id, None)
        if not group.pending_syncs:
            self._deadlines.cancel((Deadline.SYNC, group.group_id, ""))

    def _assign(self, group: Group, request: SyncGroupRequest) -> None:
        """The leader's word is stored before anybody is told."""
        generation_id = group.generation_id
        given = {each.member_id: bytes(each.assignment) for each in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        record = store_record(group, self._wall_ms, assignments)
        error = self._journal.check()
        if error or not self._journal.fits(record):
            self._fail_syncs(group, told_error(error or ErrorCode.RECORD_LIST_TOO_LARGE))
            self._rebalance_or_complete(group)
            return
        self._journal.write(record)

        def stored() -> None:
            # Meanwhile somebody may have joined or left.
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation_id != generation_id:
                return
            for member in group.members.values():
                member.assignment = assignments.get(member.member_id, b"")
                if group.complete_sync(member, group.sync_response(member)):
                    self._set_session(group, member.member_id, member.session_timeout_ms)
            group.move_to(GroupState.STABLE, self._wall_ms)

        self._journal.then(stored)

    def _fail_syncs(self, group: Group, error: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""
            if group.complete_sync(member, SyncGroupResponse(error_code=error)):
                self._set_session(group, member.member_id, member.session_timeout_ms)

    def sync_deadline(self, group_id: str) -> None:
        """Who has joined and not synced by now is taken for gone."""
        group = self._groups.get(group_id)
        if group is None or group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        if group.pending_syncs:
            for member_id in list(group.pending_syncs):
                self._forget(group, member_id)
            self._prepare_rebalance(group)

    # --- heartbeat, leave, sessions -----------------------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.check_member(request.member_id, request.group_instance_id)
        if error:
            return error
        if request.generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        self.lives(group, group.members[request.member_id])
        is_rebalancing = group.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.NONE

    def lives(self, group: Group, member: Member) -> None:
        """A member has been heard of: its session begins anew."""
        self._set_session(group, member.member_id, member.session_timeout_ms)

    def _set_session(self, group: Group, member_id: str, timeout_ms: int) -> None:
        self._deadlines.set((Deadline.SESSION, group.group_id, member_id), self._now_ms + timeout_ms)

    def leave(self, group_id: str, identities: list[MemberIdentity]) -> list[MemberResponse]:
        """What becomes of each who leaves, or is made to."""
        group = self._groups.get(group_id)
        if group is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            return [MemberResponse(each.member_id, each.group_instance_id, unknown) for each in identities]
        responses = [self._leave(group, identity) for identity in identities]
        if any(response.error_code == ErrorCode.NONE for response in responses):
            self._after_removal(group)
        return responses

    def _leave(self, group: Group, identity: MemberIdentity) -> MemberResponse:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        response = MemberResponse(member_id, instance_id, ErrorCode.NONE)
        if not member_id and instance_id is not None:
            # An operator names a static member without knowing its id.
            member_id = group.static_members.get(instance_id, "")
        if member_id not in group.pending_joins:
            response.error_code = group.check_member(member_id, instance_id)
        if response.error_code == ErrorCode.NONE:
            self._forget(group, member_id)
        return response

    def _forget(self, group: Group, member_id: str) -> None:
        group.remove(member_id)
        self._deadlines.cancel((Deadline.SESSION, group.group_id, member_id))

    def _after_removal(self, group: Group) -> None:
        if group.state is not GroupState.EMPTY:
            self._rebalance_or_complete(group)

    def session_deadline(self, group_id: str, member_id: str) -> None:
        """Nothing has been heard of a member, or of one that was given an id, for its session timeout."""
        group = self._groups.get(group_id)
        if group is None:
            return
        member = group.members.get(member_id)
        if member is None:
            if member_id in group.pending_joins:
                group.remove(member_id)
                self._complete_join_if_all_are_here(group)
                self._drop_if_unused(group)
        elif not member.has_satisfied_heartbeat:
            group.remove(member_id)
            self._after_removal(group)


class Joining:
    """A JoinGroup, and who it comes from."""

    __slots__ = ("client_host", "client_id", "protocols", "rebalance_timeout_ms", "request", "version")

    def __init__(
        self, request: JoinGroupRequest, version: int, client_id: str, client_host: str, protocols: dict[str, bytes]
    ) -> None:
        self.request = request
        self.version = version
        self.client_id = client_id
        self.client_host = client_host
        self.protocols = protocols
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


def _refused(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name="", leader="")


def _check_sync(group: Group, request: SyncGroupRequest) -> ErrorCode:
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type) or (
        request.protocol_name is not None
        and group.protocol_name is not None
        and request.protocol_name != group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def told_error(error: ErrorCode) -> ErrorCode:
    """What a member is told when its group can't be stored."""
    match error:
        case ErrorCode.NOT_ENOUGH_REPLICAS | ErrorCode.UNKNOWN_TOPIC_OR_PARTITION | ErrorCode.REQUEST_TIMED_OUT:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_COORDINATOR
        case ErrorCode.RECORD_LIST_TOO_LARGE | ErrorCode.MESSAGE_TOO_LARGE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case _:
            return error
