"""JoinGroup, API key 11, versions 0 to 9; flexible from 6.

Joins a group of the classic protocol, and waits until all of its members have.

- v1: `rebalance_timeout_ms`; before, the session timeout stands for it. v2: throttle time; from v3 on throttled after
  the answer (KIP-219). v4: a new member is first answered MEMBER_ID_REQUIRED with its id, and joins again with that
  (KIP-394). v5: static members (KIP-345). v7: the protocol type, and a null protocol name where there is none
  (KIP-559). v8: the reason of joining (KIP-800). v9: `skip_assignment` for a leader that rejoins and need not assign
  anew (KIP-814).
- The leader alone gets all members with their metadata.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_11_join_group.py`.

Source: Kafka's JoinGroupRequest.json and JoinGroupResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class JoinGroupRequestProtocol:
    name: str = wire("string")
    metadata: bytes = wire("bytes")
    """For members of type `consumer` their subscription, in a format of the clients' own."""


@dataclass(slots=True)
class JoinGroupRequest(Request):
    group_id: str = wire("string")
    session_timeout_ms: int = wire("int32")
    rebalance_timeout_ms: int = wire("int32", "1+", default=-1)
    member_id: str = wire("string")
    """Empty when joining for the first time."""
    group_instance_id: str | None = wire("string", "5+", nullable="5+", default=None)
    protocol_type: str = wire("string")
    """`consumer`, or `connect` for instance."""
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
