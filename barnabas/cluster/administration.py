"""Requests of gateways to one logstore for Kafka's administrative APIs, as plain values for the cores.

Each class mirrors the message of the same name in `protos/barnabas_protos/logstore/v1/administration.proto`, field by
field (a test holds it). The meaning of every field is documented there, once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(slots=True, frozen=True)
class EndOffsetQuery:
    topic_id: bytes
    partition: int
    current_leader_epoch: int
    leader_epoch: int


@dataclass(slots=True, frozen=True)
class EndOffsetsRequest:
    partitions: list[EndOffsetQuery]


@dataclass(slots=True, frozen=True)
class LatestOffset:
    offset: int


@dataclass(slots=True, frozen=True)
class EndOffsetAnswer:
    error_code: int
    leader_epoch: int = -1
    end_offset: int = -1
    latest: LatestOffset | None = None


@dataclass(slots=True, frozen=True)
class EndOffsetsResponse:
    partitions: list[EndOffsetAnswer]


@dataclass(slots=True, frozen=True)
class DeleteRecordsPartition:
    topic_id: bytes
    partition: int
    offset: int


@dataclass(slots=True, frozen=True)
class DeleteRecordsRequest:
    timeout_ms: int
    partitions: list[DeleteRecordsPartition]


@dataclass(slots=True, frozen=True)
class DeletedRecords:
    error_code: int
    low_watermark: int = -1


@dataclass(slots=True, frozen=True)
class DeleteRecordsResponse:
    partitions: list[DeletedRecords]


@dataclass(slots=True, frozen=True)
class TopicIdPartition:
    topic_id: bytes
    partition: int


@dataclass(slots=True, frozen=True)
class DescribeProducersRequest:
    partitions: list[TopicIdPartition]


@dataclass(slots=True, frozen=True)
class ActiveProducer:
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int


@dataclass(slots=True, frozen=True)
class PartitionProducers:
    error_code: int
    producers: list[ActiveProducer] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class DescribeProducersResponse:
    partitions: list[PartitionProducers]


@dataclass(slots=True, frozen=True)
class DescribeLogDirsRequest:
    all: bool
    partitions: list[TopicIdPartition]


@dataclass(slots=True, frozen=True)
class LogDirReplica:
    topic: str
    partition: int
    byte_count: int
    offset_lag: int
    is_future: bool


@dataclass(slots=True, frozen=True)
class LogDirDescription:
    error_code: int
    path: str
    total_bytes: int = -1
    usable_bytes: int = -1
    replicas: list[LogDirReplica] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class DescribeLogDirsResponse:
    log_dirs: list[LogDirDescription]


@dataclass(slots=True, frozen=True)
class ReplicaMove:
    topic: str
    partition: int
    path: str


@dataclass(slots=True, frozen=True)
class AlterReplicaLogDirsRequest:
    moves: list[ReplicaMove]


@dataclass(slots=True, frozen=True)
class AlterReplicaLogDirsResponse:
    error_codes: list[int]


@dataclass(slots=True, frozen=True)
class ConfigResource:
    resource_type: int
    resource_name: str
    all_keys: bool
    keys: list[str]


@dataclass(slots=True, frozen=True)
class DescribeConfigsRequest:
    resources: list[ConfigResource]
    include_synonyms: bool
    include_documentation: bool


@dataclass(slots=True, frozen=True)
class ConfigSynonym:
    name: str
    is_null: bool
    value: str
    source: int


@dataclass(slots=True, frozen=True)
class DescribedConfig:
    name: str
    is_null: bool
    value: str
    read_only: bool
    source: int
    is_sensitive: bool
    synonyms: list[ConfigSynonym]
    config_type: int
    documentation: str


@dataclass(slots=True, frozen=True)
class DescribedResource:
    error_code: int
    error_message: str = ""
    configs: list[DescribedConfig] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class DescribeConfigsResponse:
    results: list[DescribedResource]


@dataclass(slots=True, frozen=True)
class LoggerChange:
    name: str
    operation: int
    level: str


@dataclass(slots=True, frozen=True)
class AlterBrokerLoggersRequest:
    node_id: int
    changes: list[LoggerChange]
    validate_only: bool


@dataclass(slots=True, frozen=True)
class AlterBrokerLoggersResponse:
    error_code: int
    error_message: str = ""


AdministrationRequest: TypeAlias = (
    EndOffsetsRequest
    | DeleteRecordsRequest
    | DescribeProducersRequest
    | DescribeLogDirsRequest
    | AlterReplicaLogDirsRequest
    | DescribeConfigsRequest
    | AlterBrokerLoggersRequest
)
AdministrationResponse: TypeAlias = (
    EndOffsetsResponse
    | DeleteRecordsResponse
    | DescribeProducersResponse
    | DescribeLogDirsResponse
    | AlterReplicaLogDirsResponse
    | DescribeConfigsResponse
    | AlterBrokerLoggersResponse
)
