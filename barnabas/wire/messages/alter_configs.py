"""AlterConfigs, API key 33, versions 0 to 2; flexible from 2.

Replaces the whole dynamic configuration of a resource: what is not named goes back to its default. Clients have been
told to use IncrementalAlterConfigs instead since Kafka 2.3 (KIP-339).

- v1: throttled after the answer (KIP-219).

State: served by `services/gateway/barnabas_gateway/core/handlers/api_33_alter_configs.py`.

Source: Kafka's AlterConfigsRequest.json and AlterConfigsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class AlterableConfig:
    name: str = wire("string")
    value: str | None = wire("string", nullable="0+")


@dataclass(slots=True)
class AlterConfigsResource:
    resource_type: int = wire("int8")
    """2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""
    resource_name: str = wire("string")
    configs: list[AlterableConfig] = wire([AlterableConfig])


@dataclass(slots=True)
class AlterConfigsRequest(Request):
    resources: list[AlterConfigsResource] = wire([AlterConfigsResource])
    validate_only: bool = wire("bool")


@dataclass(slots=True)
class AlterConfigsResourceResponse:
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    resource_type: int = wire("int8")
    resource_name: str = wire("string")


@dataclass(slots=True)
class AlterConfigsResponse(Response):
    throttle_time_ms: int = wire("int32")
    responses: list[AlterConfigsResourceResponse] = wire([AlterConfigsResourceResponse])
