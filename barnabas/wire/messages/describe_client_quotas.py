"""DescribeClientQuotas, API key 48, versions 0 to 1; flexible from 1.

Client quotas by user, client id and IP (KIP-546, KIP-612).

- v0 and v1 differ only in being flexible.
- `strict` leaves out entities that have components which were not asked for.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_48_describe_client_quotas.py`.

Source: Kafka's DescribeClientQuotasRequest.json and DescribeClientQuotasResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class ComponentData:
    entity_type: str = wire("string")
    """`user`, `client-id` or `ip`."""
    match_type: int = wire("int8")
    """0 the entity `match`, 1 the default entity, 2 any entity with a name of its own."""
    match: str | None = wire("string", nullable="0+")


@dataclass(slots=True)
class DescribeClientQuotasRequest(Request):
    components: list[ComponentData] = wire([ComponentData])
    strict: bool = wire("bool")


@dataclass(slots=True)
class EntityData:
    entity_type: str = wire("string")
    entity_name: str | None = wire("string", nullable="0+")
    """None for the default entity."""


@dataclass(slots=True)
class ValueData:
    key: str = wire("string")
    value: float = wire("float64")


@dataclass(slots=True)
class EntryData:
    entity: list[EntityData] = wire([EntityData])
    values: list[ValueData] = wire([ValueData])


@dataclass(slots=True)
class DescribeClientQuotasResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    entries: list[EntryData] | None = wire([EntryData], nullable="0+")
