"""JoinGroup, API key 11, versions 0 to 9; flexible from 6.

Source: Kafka's JoinGroupRequest.json and JoinGroupResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class JoinGroupRequestProtocol:
    name: str = wire("string")
    metadata: bytes = wire("bytes")


@dataclass(slots=True)
class JoinGroupRequest(Request):
    group_id: str = wire("string")
    session_timeout_ms: int = wire("int32")
    rebalance_timeout_ms: int = wire("int32", "1+", default=-1)
    member_id: str = wire("string")
    group_instance_id: str | None = wire("string", "5+", nullable="5+", default=None)
    protocol_type: str = wire("string")
    protocols: list[JoinGroupRequestProtocol] = wire([JoinGroupRequestProtocol])
    reason: str | None = wire("string", "8+", nullable="8+", default=None)


@dataclass(slots=True)
class JoinGroupResponseMember:
    member_id: str = wire("string")
    group_instance_id: str | None = wire("string", "5+", nullable="5+", default=None)
    metadata: bytes = wire("bytes")


@dataclass(slots=True)
class JoinGroupResponse(Response):
    throttle_time_ms: int = wire("int32", "2+")
    error_code: int = wire("int16")
    generation_id: int = wire("int32", default=-1)
    protocol_type: str | None = wire("string", "7+", nullable="7+", default=None)
    protocol_name: str | None = wire("string", nullable="7+")
    leader: str = wire("string")
    skip_assignment: bool = wire("bool", "9+")
    member_id: str = wire("string")
    members: list[JoinGroupResponseMember] = wire([JoinGroupResponseMember])
