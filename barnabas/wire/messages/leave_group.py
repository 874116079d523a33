"""LeaveGroup, API key 13, versions 0 to 5; flexible from 4.

Members leave their group, at once rather than by session timeout.

- v1: throttle time; from v2 on throttled after the answer (KIP-219). v3: several members, by member id or by group
  instance id, with an error each (KIP-345). v5: the reason of leaving (KIP-800).

State: served by `services/gateway/barnabas_gateway/core/handlers/api_13_leave_group.py`.

Source: Kafka's LeaveGroupRequest.json and LeaveGroupResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class MemberIdentity:
    member_id: str = wire("string", "3+")
    group_instance_id: str | None = wire("string", "3+", nullable="3+", default=None)
    reason: str | None = wire("string", "5+", nullable="5+", default=None)


@dataclass(slots=True)
class LeaveGroupRequest(Request):
    group_id: str = wire("string")
    member_id: str = wire("string", "0-2")
    members: list[MemberIdentity] = wire([MemberIdentity], "3+")


@dataclass(slots=True)
class MemberResponse:
    member_id: str = wire("string", "3+")
    group_instance_id: str | None = wire("string", "3+", nullable="3+")
    error_code: int = wire("int16", "3+")


@dataclass(slots=True)
class LeaveGroupResponse(Response):
    throttle_time_ms: int = wire("int32", "1+")
    error_code: int = wire("int16")
    """Of the group, and up to v2 of the member."""
    members: list[MemberResponse] = wire([MemberResponse], "3+")
