"""ListGroups, API key 16, versions 0 to 5; flexible from 3.

The groups that the broker asked coordinates: clients ask every broker, and put the answers together.

- v1: throttle time; from v2 on throttled after the answer (KIP-219). v4: filter by state (KIP-518). v5: filter by type,
  `classic` or `consumer` for instance (KIP-848).
- An empty filter asks for all.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_16_list_groups.py`.

Source: Kafka's ListGroupsRequest.json and ListGroupsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class ListGroupsRequest(Request):
    states_filter: list[str] = wire(["string"], "4+")
    types_filter: list[str] = wire(["string"], "5+")


@dataclass(slots=True)
class ListedGroup:
    group_id: str = wire("string")
    protocol_type: str = wire("string")
    group_state: str = wire("string", "4+")
    group_type: str = wire("string", "5+")


@dataclass(slots=True)
class ListGroupsResponse(Response):
    throttle_time_ms: int = wire("int32", "1+")
    error_code: int = wire("int16")
    groups: list[ListedGroup] = wire([ListedGroup])
