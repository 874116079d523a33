"""DeleteGroups, API key 42, versions 0 to 2; flexible from 2.

Deletes groups that have no members, with their offsets (KIP-229).

- v1: throttled after the answer (KIP-219).
- A group with members is NON_EMPTY_GROUP, an unknown one GROUP_ID_NOT_FOUND.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_42_delete_groups.py`.

Source: Kafka's DeleteGroupsRequest.json and DeleteGroupsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class DeleteGroupsRequest(Request):
    groups_names: list[str] = wire(["string"])


@dataclass(slots=True)
class DeletableGroupResult:
    group_id: str = wire("string")
    error_code: int = wire("int16")


@dataclass(slots=True)
class DeleteGroupsResponse(Response):
    throttle_time_ms: int = wire("int32")
    results: list[DeletableGroupResult] = wire([DeletableGroupResult])
