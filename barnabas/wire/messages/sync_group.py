"""SyncGroup, API key 14, versions 0 to 5; flexible from 4.

The leader of a classic group hands in the assignments, and every member waits here for its own.

- v1: throttle time; from v2 on throttled after the answer (KIP-219). v3: static members (KIP-345). v5: protocol type
  and name, which have to be the group's or INCONSISTENT_GROUP_PROTOCOL is answered (KIP-559).

State: served by `services/gateway/barnabas_gateway/core/handlers/api_14_sync_group.py`.

Source: Kafka's SyncGroupRequest.json and SyncGroupResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class SyncGroupRequestAssignment:
    member_id: str = wire("string")
    assignment: bytes = wire("bytes")


@dataclass(slots=True)
class SyncGroupRequest(Request):
    group_id: str = wire("string")
    generation_id: int = wire("int32")
    member_id: str = wire("string")
    group_instance_id: str | None = wire("string", "3+", nullable="3+", default=None)
    protocol_type: str | None = wire("string", "5+", nullable="5+", default=None)
    protocol_name: str | None = wire("string", "5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = wire([SyncGroupRequestAssignment])
    """From the leader only."""


@dataclass(slots=True)
class SyncGroupResponse(Response):
    throttle_time_ms: int = wire("int32", "1+")
    error_code: int = wire("int16")
    protocol_type: str | None = wire("string", "5+", nullable="5+", default=None)
    protocol_name: str | None = wire("string", "5+", nullable="5+", default=None)
    assignment: bytes = wire("bytes")
