"""Convert a group to its record, and back."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.wire.primitives import MalformedFrame
from barnabas_logstore.core.coordinator.groups.group import Group, GroupState
from barnabas_logstore.core.coordinator.groups.member import Member
from barnabas_logstore.core.coordinator.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    group_record,
)
from barnabas_logstore.core.coordinator.groups.store import GroupForgotten, GroupStored
from barnabas_logstore.core.coordinator.runtime.shard import record_bytes


def group_stored(group: Group, wall_ms: int, assignments: Mapping[str, bytes] | None = None) -> GroupStored:
    """Return the change that stores a group; `assignments` by member id, or those that its members have."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=group.state_wall_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=b"" if group.protocol_name is None else member.protocols[group.protocol_name],
                assignment=member.assignment if assignments is None else assignments[member.member_id],
            )
            for member in group.members.values()
        ],
    )
    record = group_record(GroupMetadataKey(group.group_id), value, wall_ms)
    return GroupStored(group.group_id, value, [record], record_bytes(record))


def group_forgotten(group_id: str, wall_ms: int) -> GroupForgotten:
    """Return the change by which a group does not exist any more."""
    record = group_record(GroupMetadataKey(group_id), None, wall_ms)
    return GroupForgotten(group_id, [record], record_bytes(record))


def check_stored(group_id: str, value: GroupMetadataValue) -> None:
    """Raise MalformedFrame for what no coordinator writes: members without a protocol, or one of them twice."""
    member_ids: set[str] = set()
    instance_ids: set[str] = set()
    for stored in value.members:
        if value.protocol is None or not value.protocol_type:
            raise MalformedFrame(f"group {group_id!r} has members and no protocol")
        if stored.member_id in member_ids or stored.group_instance_id in instance_ids:
            raise MalformedFrame(f"group {group_id!r} has member {stored.member_id!r} twice")
        member_ids.add(stored.member_id)
        if stored.group_instance_id is not None:
            instance_ids.add(stored.group_instance_id)


def restore(group: Group) -> None:
    """Make a group of which only its record is known what it was: stable with its members, or empty."""
    value = group.stored
    assert value is not None
    group.state_wall_ms = value.current_state_timestamp
    group.generation_id = value.generation
    group.protocol_name = value.protocol
    for stored in value.members:
        assert value.protocol is not None
        member = Member(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            stored.session_timeout if stored.rebalance_timeout == -1 else stored.rebalance_timeout,
            stored.session_timeout,
            {value.protocol: bytes(stored.subscription)},
            bytes(stored.assignment),
        )
        group.add(member, value.protocol_type)
    group.protocol_type = value.protocol_type or None
    group.leader_id = value.leader
    if group.members:
        group.state = GroupState.STABLE
    group.note_subscriptions()
