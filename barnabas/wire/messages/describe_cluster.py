"""DescribeCluster, API key 60, versions 0 to 2; flexible.

The brokers or controllers of the cluster, and what the asker may do with it (KIP-700).

- v1: endpoint type, with MISMATCHED_ENDPOINT_TYPE and UNSUPPORTED_ENDPOINT_TYPE (KIP-919). v2: fenced brokers
  (KIP-1073).

State: served by `services/gateway/barnabas_gateway/core/handlers/api_60_describe_cluster.py`.

Source: Kafka's DescribeClusterRequest.json and DescribeClusterResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from barnabas.wire.messages.metadata import AUTHORIZED_OPERATIONS_UNKNOWN
from barnabas.wire.schema import Request, Response, wire


class EndpointType(IntEnum):
    """`endpoint_type` on the wire."""

    BROKERS = 1
    CONTROLLERS = 2


@dataclass(slots=True)
class DescribeClusterRequest(Request):
    include_cluster_authorized_operations: bool = wire("bool")
    endpoint_type: int = wire("int8", "1+", default=1)
    include_fenced_brokers: bool = wire("bool", "2+")


@dataclass(slots=True)
class DescribeClusterBroker:
    broker_id: int = wire("int32")
    host: str = wire("string")
    port: int = wire("int32")
    rack: str | None = wire("string", nullable="0+", default=None)
    is_fenced: bool = wire("bool", "2+")


@dataclass(slots=True)
class DescribeClusterResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    endpoint_type: int = wire("int8", "1+", default=1)
    cluster_id: str = wire("string")
    controller_id: int = wire("int32", default=-1)
    brokers: list[DescribeClusterBroker] = wire([DescribeClusterBroker])
    cluster_authorized_operations: int = wire("int32", default=AUTHORIZED_OPERATIONS_UNKNOWN)
