"""CreateTopics, API key 19, versions 2 to 7; flexible from 5.

Creates topics, each with a result of its own.

- v4: -1 asks for the default number of partitions and replicas (KIP-464). v5: the response tells the topic's
  configuration (KIP-525), null and with a tagged error code where the principal may not see it. v6: may return
  THROTTLING_QUOTA_EXCEEDED (KIP-599). v7: the topic's id.
- A manual assignment wants -1 for both `num_partitions` and `replication_factor`.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_19_create_topics.py`.

Source: Kafka's CreateTopicsRequest.json and CreateTopicsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class CreatableReplicaAssignment:
    partition_index: int = wire("int32")
    broker_ids: list[int] = wire(["int32"])


@dataclass(slots=True)
class CreatableTopicConfig:
    name: str = wire("string")
    value: str | None = wire("string", nullable="0+")


@dataclass(slots=True)
class CreatableTopic:
    name: str = wire("string")
    num_partitions: int = wire("int32")
    replication_factor: int = wire("int16")
    assignments: list[CreatableReplicaAssignment] = wire([CreatableReplicaAssignment])
    configs: list[CreatableTopicConfig] = wire([CreatableTopicConfig])


@dataclass(slots=True)
class CreateTopicsRequest(Request):
    topics: list[CreatableTopic] = wire([CreatableTopic])
    timeout_ms: int = wire("int32", default=60000)
    validate_only: bool = wire("bool", "1+")


@dataclass(slots=True)
class CreatableTopicConfigs:
    name: str = wire("string", "5+")
    value: str | None = wire("string", "5+", nullable="5+")
    read_only: bool = wire("bool", "5+")
    config_source: int = wire("int8", "5+", default=-1)
    is_sensitive: bool = wire("bool", "5+")


@dataclass(slots=True)
class CreatableTopicResult:
    name: str = wire("string")
    topic_id: bytes = wire("uuid", "7+")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", "1+", nullable="0+", default=None)
    topic_config_error_code: int = wire("int16", "5+", tag=0)
    num_partitions: int = wire("int32", "5+", default=-1)
    replication_factor: int = wire("int16", "5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = wire([CreatableTopicConfigs], "5+", nullable="5+")


@dataclass(slots=True)
class CreateTopicsResponse(Response):
    throttle_time_ms: int = wire("int32", "2+")
    topics: list[CreatableTopicResult] = wire([CreatableTopicResult])
