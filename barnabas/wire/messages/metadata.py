"""Metadata, API key 3, versions 0 to 13; flexible from 9.

Brokers, topics, partitions and their leaders; may create a topic that is asked for.

- Which topics: in v0 an empty array asks for all; from v1 on null asks for all and an empty array for none.
- v1: rack, controller, internal topics. v2: cluster id. v3: throttle time. v4: auto-creation may be declined. v5:
  offline replicas. v7: leader epochs. v8: authorized operations. v10: topic ids, which a request may use from v12 on.
  v11: the cluster's authorized operations moved to DescribeCluster (KIP-700). v13: a top-level error code (KIP-1102).

State: served by `services/gateway/barnabas_gateway/core/handlers/api_03_metadata.py`.

Source: Kafka's MetadataRequest.json and MetadataResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from barnabas.wire.schema import Request, Response, wire

AUTHORIZED_OPERATIONS_UNKNOWN: Final = -0x80000000
"""Authorized operations that were not asked for."""


@dataclass(slots=True)
class MetadataRequestTopic:
    topic_id: bytes = wire("uuid", "10+")
    name: str | None = wire("string", nullable="10+", default="")
    """None when the topic is named by its id."""


@dataclass(slots=True)
class MetadataRequest(Request):
    topics: list[MetadataRequestTopic] | None = wire([MetadataRequestTopic], nullable="1+")
    allow_auto_topic_creation: bool = wire("bool", "4+", default=True)
    include_cluster_authorized_operations: bool = wire("bool", "8-10")
    include_topic_authorized_operations: bool = wire("bool", "8+")


@dataclass(slots=True)
class MetadataResponseBroker:
    node_id: int = wire("int32")
    host: str = wire("string")
    port: int = wire("int32")
    rack: str | None = wire("string", "1+", nullable="1+", default=None)


@dataclass(slots=True)
class MetadataResponsePartition:
    error_code: int = wire("int16")
    partition_index: int = wire("int32")
    leader_id: int = wire("int32")
    leader_epoch: int = wire("int32", "7+", default=-1)
    replica_nodes: list[int] = wire(["int32"])
    isr_nodes: list[int] = wire(["int32"])
    offline_replicas: list[int] = wire(["int32"], "5+")


@dataclass(slots=True)
class MetadataResponseTopic:
    error_code: int = wire("int16")
    name: str | None = wire("string", nullable="12+", default="")
    """None for a topic id that is not known."""
    topic_id: bytes = wire("uuid", "10+")
    is_internal: bool = wire("bool", "1+")
    partitions: list[MetadataResponsePartition] = wire([MetadataResponsePartition])
    topic_authorized_operations: int = wire("int32", "8+", default=AUTHORIZED_OPERATIONS_UNKNOWN)


@dataclass(slots=True)
class MetadataResponse(Response):
    throttle_time_ms: int = wire("int32", "3+")
    brokers: list[MetadataResponseBroker] = wire([MetadataResponseBroker])
    cluster_id: str | None = wire("string", "2+", nullable="2+", default=None)
    controller_id: int = wire("int32", "1+", default=-1)
    topics: list[MetadataResponseTopic] = wire([MetadataResponseTopic])
    cluster_authorized_operations: int = wire("int32", "8-10", default=AUTHORIZED_OPERATIONS_UNKNOWN)
    error_code: int = wire("int16", "13+")
