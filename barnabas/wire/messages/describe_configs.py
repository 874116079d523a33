"""DescribeConfigs, API key 32, versions 1 to 4; flexible from 4.

The configuration of topics, brokers, groups and client metrics, each value with where it comes from.

- v0 is gone from Kafka 4. v1: synonyms, that is all values from the strongest to the default, and `config_source`
  (KIP-226). v2: throttled after the answer (KIP-219). v3: types and documentation (KIP-569).
- A resource has null for all of its keys; a sensitive value is told as null.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_32_describe_configs.py`.

Source: Kafka's DescribeConfigsRequest.json and DescribeConfigsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class DescribeConfigsResource:
    resource_type: int = wire("int8")
    """2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""
    resource_name: str = wire("string")
    configuration_keys: list[str] | None = wire(["string"], nullable="0+")
    """None asks for all."""


@dataclass(slots=True)
class DescribeConfigsRequest(Request):
    resources: list[DescribeConfigsResource] = wire([DescribeConfigsResource])
    include_synonyms: bool = wire("bool", "1+")
    include_documentation: bool = wire("bool", "3+")


@dataclass(slots=True)
class DescribeConfigsSynonym:
    name: str = wire("string", "1+")
    value: str | None = wire("string", "1+", nullable="0+")
    source: int = wire("int8", "1+")


@dataclass(slots=True)
class DescribeConfigsResourceResult:
    name: str = wire("string")
    value: str | None = wire("string", nullable="0+")
    read_only: bool = wire("bool")
    config_source: int = wire("int8", "1+", default=-1)
    """1 topic, 2 broker, 3 all brokers' default, 4 static file, 5 built-in default, 6 broker logger, 7 client
    metrics, 8 group."""
    is_sensitive: bool = wire("bool")
    synonyms: list[DescribeConfigsSynonym] = wire([DescribeConfigsSynonym], "1+")
    config_type: int = wire("int8", "3+")
    """1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password; 0 not known."""
    documentation: str | None = wire("string", "3+", nullable="0+")


@dataclass(slots=True)
class DescribeConfigsResult:
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    resource_type: int = wire("int8")
    resource_name: str = wire("string")
    configs: list[DescribeConfigsResourceResult] = wire([DescribeConfigsResourceResult])


@dataclass(slots=True)
class DescribeConfigsResponse(Response):
    throttle_time_ms: int = wire("int32")
    results: list[DescribeConfigsResult] = wire([DescribeConfigsResult])
