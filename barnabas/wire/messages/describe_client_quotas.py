"""DescribeClientQuotas, API key 48, versions 0 to 1; flexible from 1.

Source: Kafka's DescribeClientQuotasRequest.json and DescribeClientQuotasResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class ComponentData:
    entity_type: str = wire("string")
    match_type: int = wire("int8")
    match: str | None = wire("string", nullable="0+")


@dataclass(slots=True)
class DescribeClientQuotasRequest(Request):
    components: list[ComponentData] = wire([ComponentData])
    strict: bool = wire("bool")


@dataclass(slots=True)
class EntityData:
    entity_type: str = wire("string")
    entity_name: str | None = wire("string", nullable="0+")


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
