"""Heartbeat and LeaveGroup: members that live on, and members that go.

Source: Kafka's GroupMetadataManager (classic groups), KIP-345.
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.leave_group import MemberIdentity, MemberResponse
from barnabas_logstore.core.coordinator.groups.group import Group, GroupState
from barnabas_logstore.core.coordinator.groups.rebalancing import Rebalancing


def heartbeat(rebalancing: Rebalancing, group: Group | None, request: HeartbeatRequest) -> ErrorCode:
    """ILLEGAL_GENERATION and REBALANCE_IN_PROGRESS: join again."""
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    member = group.members.get(request.member_id)
    if member is None or member.group_instance_id != request.group_instance_id:
        error = group.check_member(request.member_id, request.group_instance_id)
        if error:
            return error
        member = group.members[request.member_id]
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    rebalancing.lives(member)
    is_rebalancing = group.state is GroupState.PREPARING_REBALANCE
    return ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.NONE


def leave(rebalancing: Rebalancing, group: Group | None, identities: list[MemberIdentity]) -> list[MemberResponse]:
    """What becomes of each who leaves, or is made to."""
    if group is None:
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        return [MemberResponse(each.member_id, each.group_instance_id, unknown) for each in identities]
    responses = [
        MemberResponse(each.member_id, each.group_instance_id, _leave(rebalancing, group, each)) for each in identities
    ]
    if any(response.error_code == ErrorCode.NONE for response in responses):
        rebalancing.after_removal(group)
    return responses


def _leave(rebalancing: Rebalancing, group: Group, identity: MemberIdentity) -> ErrorCode:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if not member_id and instance_id is not None:
        # An operator names a static member without knowing its id.
        member_id = group.static_members.get(instance_id, "")
    if member_id in group.pending_joins:
        rebalancing.forget_pending(group, member_id)
        return ErrorCode.NONE
    error = group.check_member(member_id, instance_id)
    if not error:
        rebalancing.forget(group, group.members[member_id])
    return error
