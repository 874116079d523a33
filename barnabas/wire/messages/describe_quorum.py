"""DescribeQuorum, API key 55, versions 0 to 2; flexible.

Leader, voters and observers of the KRaft quorum (KIP-595).

- v1: when replicas last fetched and caught up (KIP-836). v2: directory ids, error messages, and the addresses of the
  nodes (KIP-853).

State: not served; cluster state is in etcd, and there is no KRaft quorum to look at or to change.

Source: Kafka's DescribeQuorumRequest.json and DescribeQuorumResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class PartitionRequest:
    partition_index: int = wire("int32")


@dataclass(slots=True)
class TopicRequest:
    topic_name: str = wire("string")
    partitions: list[PartitionRequest] = wire([PartitionRequest])


@dataclass(slots=True)
class DescribeQuorumRequest(Request):
    topics: list[TopicRequest] = wire([TopicRequest])


@dataclass(slots=True)
class ReplicaState:
    replica_id: int = wire("int32")
    replica_directory_id: bytes = wire("uuid", "2+")
    log_end_offset: int = wire("int64")
    last_fetch_timestamp: int = wire("int64", "1+", default=-1)
    last_caught_up_timestamp: int = wire("int64", "1+", default=-1)


@dataclass(slots=True)
class PartitionData:
    partition_index: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", "2+", nullable="2+", default=None)
    leader_id: int = wire("int32")
    leader_epoch: int = wire("int32")
    high_watermark: int = wire("int64")
    current_voters: list[ReplicaState] = wire([ReplicaState])
    observers: list[ReplicaState] = wire([ReplicaState])


@dataclass(slots=True)
class TopicData:
    topic_name: str = wire("string")
    partitions: list[PartitionData] = wire([PartitionData])


@dataclass(slots=True)
class Listener:
    name: str = wire("string", "2+")
    host: str = wire("string", "2+")
    port: int = wire("uint16", "2+")


@dataclass(slots=True)
class Node:
    node_id: int = wire("int32", "2+")
    listeners: list[Listener] = wire([Listener], "2+")


@dataclass(slots=True)
class DescribeQuorumResponse(Response):
    error_code: int = wire("int16")
    error_message: str | None = wire("string", "2+", nullable="2+", default=None)
    topics: list[TopicData] = wire([TopicData])
    nodes: list[Node] = wire([Node], "2+")
