"""ListGroups and DescribeGroups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from barnabas.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from barnabas_logstore.core.coordinator.groups.group import Group, GroupState

_CLASSIC: Final = "classic"
_DEAD: Final = "Dead"
_NAMED_CHARACTERS_MAX: Final = 249
"""Maximum characters of a name in a message, which is a string of limited length."""
_MISSING_IS_REPORTED_FROM: Final = 6
"""DescribeGroups from this version on returns GROUP_ID_NOT_FOUND for a group that does not exist (KIP-1043)."""


def list_groups(request: ListGroupsRequest, groups: Iterable[Group]) -> Iterator[ListedGroup | None]:
    """Yield each group, or None for one that does not match. Filters ignore case; an empty one matches all."""
    states = {state.lower().strip() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    if types and _CLASSIC not in types:
        return
    for group in groups:
        matches = not states or group.state.value.lower() in states
        yield (ListedGroup(group.group_id, group.protocol_type or "", group.state.value, _CLASSIC) if matches else None)


def describe_group(group_id: str, group: Group | None, version: int) -> DescribedGroup:
    """A group that does not exist is dead. The metadata of members is returned only for a stable group."""
    if group is None:
        if version < _MISSING_IS_REPORTED_FROM:
            return DescribedGroup(ErrorCode.NONE, None, group_id, _DEAD, "", "")
        missing = ErrorCode.GROUP_ID_NOT_FOUND
        message = f"Group {group_id[:_NAMED_CHARACTERS_MAX]} not found."
        return DescribedGroup(missing, message, group_id, _DEAD, "", "")
    is_stable = group.state is GroupState.STABLE
    protocol = group.protocol_name if is_stable and group.protocol_name is not None else ""
    members = [
        DescribedGroupMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.protocols.get(protocol, b"") if is_stable else b"",
            member.assignment,
        )
        for member in group.members.values()
    ]
    return DescribedGroup(
        ErrorCode.NONE, None, group_id, group.state.value, group.protocol_type or "", protocol, members
    )
