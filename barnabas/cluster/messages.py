"""Messages between the controller and the members of the cluster, as plain values for the cores.

Each class mirrors the message of the same name in `protos/barnabas_protos/controller/v1/{cluster,membership}.proto` and
`protos/barnabas_protos/logstore/v1/control.proto`, field by field (a test holds it); `barnabas.runtime.protobuf`
converts both ways. The meaning of every field is documented there, once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from barnabas.cluster.acls import Acl, AclFilter
from barnabas.cluster.delegation_tokens import DelegationToken
from barnabas.cluster.features import FinalizedFeatures
from barnabas.cluster.quotas.entities import ClientQuota
from barnabas.cluster.scram import ScramUser, UserScramCredential

NO_LEADER = -1
NO_EPOCH = -1
EPOCH_DURING_DELETE = -2
# The broker id of the configs of all brokers.
ALL_BROKERS = -1
PARTITIONS_PER_REQUEST_MAX = 10_000  # new ones in a CreateTopics or CreatePartitions (MAX_PARTITIONS_PER_BATCH)
EXCESSIVE_PARTITIONS = "Excessively large number of partitions per request."


@dataclass(slots=True, frozen=True)
class Broker:
    node_id: int
    data_address: str
    broker_epoch: int
    rack: str = ""


@dataclass(slots=True, frozen=True)
class Purgatory:
    pod_id: str
    address: str


class PartitionMetadata(msgspec.Struct, frozen=True):
    """Not a dataclass: a topic may have ten thousand of them, and this is created in a quarter of the time."""

    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    leader_recovering: bool = False


@dataclass(slots=True, frozen=True)
class TopicMetadata:
    topic: str
    topic_id: bytes
    configs: dict[str, str]
    partitions: list[PartitionMetadata]
    partial: bool = False


@dataclass(slots=True, frozen=True)
class BrokerConfigs:
    broker_id: int
    configs: dict[str, str]


@dataclass(slots=True, frozen=True)
class UpdateMetadata:
    revision: int
    full: bool
    cluster_id: str
    controller_epoch: int
    brokers: list[Broker]
    purgatories: list[Purgatory]
    topics: list[TopicMetadata]
    deleted_topic_ids: list[bytes] = field(default_factory=list)
    broker_configs: list[BrokerConfigs] = field(default_factory=list)
    unknown_topics: list[str] = field(default_factory=list)
    unknown_broker_configs: list[int] = field(default_factory=list)
    acls: list[Acl] = field(default_factory=list)
    removed_acls: list[Acl] = field(default_factory=list)
    knows_acls: bool = False
    scram_credentials: list[UserScramCredential] = field(default_factory=list)
    removed_scram_credentials: list[ScramUser] = field(default_factory=list)
    client_quotas: list[ClientQuota] = field(default_factory=list)
    gateways: int = 0
    delegation_tokens: list[DelegationToken] = field(default_factory=list)
    removed_delegation_tokens: list[str] = field(default_factory=list)
    finalized_features: FinalizedFeatures | None = None


@dataclass(slots=True, frozen=True)
class UnknownPartitions:
    topic_id: bytes
    first: int
    count: int


@dataclass(slots=True, frozen=True)
class LeaderAndIsr:
    full: bool
    topics: list[TopicMetadata]
    unknown_partitions: list[UnknownPartitions] = field(default_factory=list)
    unknown_topics: list[str] = field(default_factory=list)
    revision: int = 0
    broker_configs: list[BrokerConfigs] = field(default_factory=list)
    unknown_broker_configs: list[int] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class StopReplicaPartition:
    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    delete: bool


@dataclass(slots=True, frozen=True)
class StopReplica:
    partitions: list[StopReplicaPartition]


@dataclass(slots=True, frozen=True)
class ControlRequest:
    """One command of the control channel, with exactly one body; or a heartbeat, with sequence 0 and none."""

    sequence: int
    controller_epoch: int
    broker_epoch: int
    leader_and_isr: LeaderAndIsr | None = None
    stop_replica: StopReplica | None = None
    update_metadata: UpdateMetadata | None = None
    heartbeat: int = 0


@dataclass(slots=True, frozen=True)
class PartitionError:
    topic_id: bytes
    partition: int
    error_code: int


@dataclass(slots=True, frozen=True)
class PartitionReference:
    topic_id: bytes
    partition: int


@dataclass(slots=True, frozen=True)
class ControlResponse:
    sequence: int
    error_code: int
    partition_errors: list[PartitionError] = field(default_factory=list)
    heartbeat: int = 0
    # Of the partitions that a LeaderAndIsr names: those with a full log directory, which can be read, not written.
    without_room: list[PartitionReference] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class Assignment:
    partition: int
    broker_ids: list[int]


@dataclass(slots=True, frozen=True)
class NewTopic:
    topic: str
    partitions: int
    replication_factor: int
    assignments: list[Assignment] = field(default_factory=list)
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class CreateTopicsRequest:
    topics: list[NewTopic]
    timeout_ms: int
    validate_only: bool = False


@dataclass(slots=True, frozen=True)
class CreateTopicResult:
    topic: str
    topic_id: bytes
    error_code: int
    error_message: str = ""
    partitions: int = -1
    replication_factor: int = -1
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class CreateTopicsResponse:
    results: list[CreateTopicResult]
    revision: int


@dataclass(slots=True, frozen=True)
class TopicReference:
    topic: str
    topic_id: bytes


@dataclass(slots=True, frozen=True)
class DeleteTopicsRequest:
    topics: list[TopicReference]
    timeout_ms: int


@dataclass(slots=True, frozen=True)
class DeleteTopicResult:
    topic: str
    topic_id: bytes
    error_code: int
    error_message: str = ""


@dataclass(slots=True, frozen=True)
class DeleteTopicsResponse:
    results: list[DeleteTopicResult]
    revision: int


@dataclass(slots=True, frozen=True)
class ConfigChange:
    name: str
    operation: int
    value: str


@dataclass(slots=True, frozen=True)
class AlterConfigsResource:
    resource_type: int
    resource_name: str
    replace: bool
    changes: list[ConfigChange]


@dataclass(slots=True, frozen=True)
class AlterConfigsRequest:
    resources: list[AlterConfigsResource]
    timeout_ms: int
    validate_only: bool = False


@dataclass(slots=True, frozen=True)
class AlterConfigsResult:
    error_code: int
    error_message: str = ""


@dataclass(slots=True, frozen=True)
class AlterConfigsResponse:
    results: list[AlterConfigsResult]
    revision: int


@dataclass(slots=True, frozen=True)
class NewPartitions:
    topic: str
    count: int
    assignments: list[Assignment] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class CreatePartitionsRequest:
    topics: list[NewPartitions]
    timeout_ms: int
    validate_only: bool = False


@dataclass(slots=True, frozen=True)
class CreatePartitionsResult:
    error_code: int
    error_message: str = ""


@dataclass(slots=True, frozen=True)
class CreatePartitionsResponse:
    results: list[CreatePartitionsResult]
    revision: int


@dataclass(slots=True, frozen=True)
class IsrMember:
    broker_id: int
    broker_epoch: int


@dataclass(slots=True, frozen=True)
class IsrChange:
    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    in_sync_replicas: list[IsrMember]
    recovered: bool = False


@dataclass(slots=True, frozen=True)
class AlterPartitionRequest:
    broker_id: int
    broker_epoch: int
    partitions: list[IsrChange]


@dataclass(slots=True, frozen=True)
class IsrChangeResult:
    error_code: int
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    in_sync_replicas: list[int] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class AlterPartitionResponse:
    error_code: int
    partitions: list[IsrChangeResult] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class TopicPartition:
    topic: str
    partition: int


@dataclass(slots=True, frozen=True)
class ElectLeadersRequest:
    election_type: int
    all: bool
    partitions: list[TopicPartition]
    timeout_ms: int


@dataclass(slots=True, frozen=True)
class ElectionResult:
    topic: str
    partition: int
    error_code: int
    error_message: str = ""


@dataclass(slots=True, frozen=True)
class ElectLeadersResponse:
    results: list[ElectionResult]
    revision: int
    error_code: int = 0


@dataclass(slots=True, frozen=True)
class Reassignment:
    topic: str
    partition: int
    replicas: list[int]


@dataclass(slots=True, frozen=True)
class AlterReassignmentsRequest:
    partitions: list[Reassignment]
    timeout_ms: int
    allow_replication_factor_change: bool = True


@dataclass(slots=True, frozen=True)
class ReassignmentResult:
    error_code: int
    error_message: str = ""


@dataclass(slots=True, frozen=True)
class AlterReassignmentsResponse:
    results: list[ReassignmentResult]
    revision: int


@dataclass(slots=True, frozen=True)
class CreateAclsRequest:
    acls: list[Acl]
    timeout_ms: int


@dataclass(slots=True, frozen=True)
class AclResult:
    error_code: int
    error_message: str = ""


@dataclass(slots=True, frozen=True)
class CreateAclsResponse:
    results: list[AclResult]
    revision: int


@dataclass(slots=True, frozen=True)
class DeleteAclsRequest:
    filters: list[AclFilter]
    timeout_ms: int


@dataclass(slots=True, frozen=True)
class DeletedAcls:
    error_code: int
    error_message: str = ""
    acls: list[Acl] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class DeleteAclsResponse:
    results: list[DeletedAcls]
    revision: int


@dataclass(slots=True, frozen=True)
class ControlledShutdownRequest:
    broker_id: int
    broker_epoch: int


@dataclass(slots=True, frozen=True)
class ControlledShutdownResponse:
    error_code: int
    remaining: int = -1


@dataclass(slots=True, frozen=True)
class AllocateProducerIdsRequest:
    pod_id: str


@dataclass(slots=True, frozen=True)
class AllocateProducerIdsResponse:
    error_code: int
    first_producer_id: int
    length: int
