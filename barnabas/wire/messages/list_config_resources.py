"""ListConfigResources, API key 74, versions 0 to 1; flexible.

The names of resources that have a configuration.

- v0, ListClientMetricsResources in older Kafka, lists client metrics resources alone (KIP-714 and KIP-1000). v1: any
  type of resource (KIP-1142); no types asks for all that may be listed.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_74_list_config_resources.py`.

Source: Kafka's ListConfigResourcesRequest.json and ListConfigResourcesResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class ListConfigResourcesRequest(Request):
    resource_types: list[int] = wire(["int8"], "1+")


@dataclass(slots=True)
class ConfigResource:
    resource_name: str = wire("string")
    resource_type: int = wire("int8", "1+", default=16)


@dataclass(slots=True)
class ListConfigResourcesResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    config_resources: list[ConfigResource] = wire([ConfigResource])
