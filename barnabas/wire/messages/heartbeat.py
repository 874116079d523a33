"""Heartbeat, API key 12, versions 0 to 4; flexible from 4.

A member of a classic group is alive, and learns of rebalances by REBALANCE_IN_PROGRESS.

- v1: throttle time; from v2 on throttled after the answer (KIP-219). v3: static members (KIP-345).

State: served by `services/gateway/barnabas_gateway/core/handlers/api_12_heartbeat.py`.

Source: Kafka's HeartbeatRequest.json and HeartbeatResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class HeartbeatRequest(Request):
    group_id: str = wire("string")
    generation_id: int = wire("int32")
    member_id: str = wire("string")
    group_instance_id: str | None = wire("string", "3+", nullable="3+", default=None)


@dataclass(slots=True)
class HeartbeatResponse(Response):
    throttle_time_ms: int = wire("int32", "1+")
    error_code: int = wire("int16")
