"""DescribeGroups, API key 15, versions 0 to 6; flexible from 5.

Source: Kafka's DescribeGroupsRequest.json and DescribeGroupsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    members: list[DescribedGroupMember] = wire([DescribedGroupMember])
    authorized_operations: int = wire("int32", "3+", default=-2147483648)


@dataclass(slots=True)
class DescribeGroupsResponse(Response):
    throttle_time_ms: int = wire("int32", "1+")
    groups: list[DescribedGroup] = wire([DescribedGroup])
