"""IncrementalAlterConfigs, API key 44, versions 0 to 1; flexible from 1.

Sets, deletes, appends to or subtracts from single configuration values (KIP-339).

- All changes of one resource succeed or fail together; each resource stands alone.
- Null deletes a value; APPEND and SUBTRACT are for values that are lists.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_44_incremental_alter_configs.py`.

Source: Kafka's IncrementalAlterConfigsRequest.json and IncrementalAlterConfigsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class AlterableConfig:
    name: str = wire("string")
    config_operation: int = wire("int8")
    """0 SET, 1 DELETE, 2 APPEND, 3 SUBTRACT."""
    value: str | None = wire("string", nullable="0+")


@dataclass(slots=True)
class AlterConfigsResource:
    resource_type: int = wire("int8")
    """2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""
    resource_name: str = wire("string")
    configs: list[AlterableConfig] = wire([AlterableConfig])


@dataclass(slots=True)
class IncrementalAlterConfigsRequest(Request):
    resources: list[AlterConfigsResource] = wire([AlterConfigsResource])
    validate_only: bool = wire("bool")


@dataclass(slots=True)
class AlterConfigsResourceResponse:
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    resource_type: int = wire("int8")
    resource_name: str = wire("string")


@dataclass(slots=True)
class IncrementalAlterConfigsResponse(Response):
    throttle_time_ms: int = wire("int32")
    responses: list[AlterConfigsResourceResponse] = wire([AlterConfigsResourceResponse])
