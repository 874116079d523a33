"""A group as its record says it, and back."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import Record
from barnabas_logstore.core.coordinator.groups.group import Group, GroupState, Steps
from barnabas_logstore.core.coordinator.groups.member import Member
from barnabas_logstore.core.coordinator.groups.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    group_record,
)


def store_record(group: Group, wall_ms: int, assignments: Mapping[str, bytes] | None = None) -> Record:
    """The record of a group; `assignments` by member id, or those that its members have."""
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
    return group_record(GroupMetadataKey(group.group_id), value, wall_ms)


def tombstone(group_id: str, wall_ms: int) -> Record:
    """There is no such group any more."""
    return group_record(GroupMetadataKey(group_id), None, wall_ms)


def restored_group(group_id: str, value: GroupMetadataValue, steps: Steps) -> Group:
    """A group as its newest record has it: stable with its members, or empty.

    Raises MalformedFrame for what no coordinator has written: members without a protocol, or one of them twice.
    """
    group = Group(group_id, value.current_state_timestamp, steps)
    group.generation_id = value.generation
    group.protocol_name = value.protocol
    for stored in value.members:
        if value.protocol is None or not value.protocol_type:
            raise MalformedFrame(f"group {group_id!r} has members and no protocol")
        if stored.member_id in group.members or stored.group_instance_id in group.static_members:
            raise MalformedFrame(f"group {group_id!r} has member {stored.member_id!r} twice")
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
    return group
