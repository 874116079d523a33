"""FindCoordinator, API key 10, versions 0 to 6; flexible from 3.

The broker that coordinates a group, a transaction or a share group.

- Up to v3 one `key` is asked for and the answer stands at the top level; from v4 on `coordinator_keys` asks for many
  and `coordinators` answers (KIP-699).
- v1: key type. v5: TRANSACTION_ABORTABLE (KIP-890). v6: share groups, keyed `group:topic id:partition` (KIP-932).

State: served by `services/gateway/barnabas_gateway/core/handlers/api_10_find_coordinator.py`.

Source: Kafka's FindCoordinatorRequest.json and FindCoordinatorResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from barnabas.wire.schema import Request, Response, wire


class CoordinatorType(IntEnum):
    """`key_type` on the wire."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


@dataclass(slots=True)
class FindCoordinatorRequest(Request):
    key: str = wire("string", "0-3")
    key_type: int = wire("int8", "1+")
    coordinator_keys: list[str] = wire(["string"], "4+")


@dataclass(slots=True)
class Coordinator:
    key: str = wire("string", "4+")
    node_id: int = wire("int32", "4+")
    host: str = wire("string", "4+")
    port: int = wire("int32", "4+")
    error_code: int = wire("int16", "4+")
    error_message: str | None = wire("string", "4+", nullable="4+", default=None)


@dataclass(slots=True)
class FindCoordinatorResponse(Response):
    throttle_time_ms: int = wire("int32", "1+")
    error_code: int = wire("int16", "0-3")
    error_message: str | None = wire("string", "1-3", nullable="1-3", default=None)
    node_id: int = wire("int32", "0-3")
    host: str = wire("string", "0-3")
    port: int = wire("int32", "0-3")
    coordinators: list[Coordinator] = wire([Coordinator], "4+")
