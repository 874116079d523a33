"""AlterClientQuotas, API key 49, versions 0 to 1; flexible from 1.

Sets and removes client quotas (KIP-546, KIP-612).

- v0 and v1 differ only in being flexible.
- A null entity name is the default entity of its type; each entry has a result of its own.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_49_alter_client_quotas.py`.

Source: Kafka's AlterClientQuotasRequest.json and AlterClientQuotasResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class EntityData:
    entity_type: str = wire("string")
    entity_name: str | None = wire("string", nullable="0+")
    """None for the default entity."""


@dataclass(slots=True)
class OpData:
    key: str = wire("string")
    value: float = wire("float64")
    remove: bool = wire("bool")


@dataclass(slots=True)
class EntryData:
    entity: list[EntityData] = wire([EntityData])
    ops: list[OpData] = wire([OpData])


@dataclass(slots=True)
class AlterClientQuotasRequest(Request):
    entries: list[EntryData] = wire([EntryData])
    validate_only: bool = wire("bool")


@dataclass(slots=True)
class EntryResult:
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    entity: list[EntityData] = wire([EntityData])


@dataclass(slots=True)
class AlterClientQuotasResponse(Response):
    throttle_time_ms: int = wire("int32")
    entries: list[EntryResult] = wire([EntryResult])
