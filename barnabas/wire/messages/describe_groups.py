"""DescribeGroups, API key 15, versions 0 to 6; flexible from 5.

Classic groups with their members, each asked of its own coordinator.

- v1: throttle time; from v2 on throttled after the answer (KIP-219). v3: authorized operations (KIP-430). v4: static
  members (KIP-345). v6: GROUP_ID_NOT_FOUND with a message, where up to v5 an unknown group is answered as a Dead one
  without an error (KIP-1043).
- Protocol, metadata and assignments are told while the group is Stable, and are empty otherwise.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_15_describe_groups.py`.

Source: Kafka's DescribeGroupsRequest.json and DescribeGroupsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.messages.metadata import AUTHORIZED_OPERATIONS_UNKNOWN
from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class DescribeGroupsRequest(Request):
    groups: list[str] = wire(["string"])
    include_authorized_operations: bool = wire("bool", "3+")


@dataclass(slots=True)
class DescribedGroupMember:
    member_id: str = wire("string")
    group_instance_id: str | None = wire("string", "4+", nullable="4+", default=None)
    client_id: str = wire("string")
    client_host: str = wire("string")
    member_metadata: bytes = wire("bytes")
    member_assignment: bytes = wire("bytes")


@dataclass(slots=True)
class DescribedGroup:
    error_code: int = wire("int16")
    error_message: str | None = wire("string", "6+", nullable="6+", default=None)
    group_id: str = wire("string")
    group_state: str = wire("string")
    protocol_type: str = wire("string")
    protocol_data: str = wire("string")
    """Name of the protocol that all members agreed on."""
    members: list[DescribedGroupMember] = wire([DescribedGroupMember])
    authorized_operations: int = wire("int32", "3+", default=AUTHORIZED_OPERATIONS_UNKNOWN)


@dataclass(slots=True)
class DescribeGroupsResponse(Response):
    throttle_time_ms: int = wire("int32", "1+")
    groups: list[DescribedGroup] = wire([DescribedGroup])
