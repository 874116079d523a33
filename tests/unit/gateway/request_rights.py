"""What each API key needs, as in Kafka's KafkaApis and ControllerApis.

A row names the rights that its request needs, and those that are as good.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from barnabas.cluster.acls import ANY, Operation, Resource, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.wire.messages.alter_client_quotas import EntityData as QuotaEntityData
from barnabas.wire.messages.alter_client_quotas import EntryData as QuotaEntryData
from barnabas.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_acls import DescribeAclsRequest
from barnabas.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from barnabas.wire.messages.describe_topic_partitions import TopicRequest as PartitionsOf
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from barnabas.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest
from barnabas.wire.messages.list_config_resources import ListConfigResourcesRequest
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.messages.sync_group import SyncGroupRequest
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.wire.messages.update_features import UpdateFeaturesRequest
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.unit.gateway.world import BATCH, TOPIC_ID

TOPIC: Resource = (ResourceType.TOPIC, "t")
GROUP: Resource = (ResourceType.GROUP, "g")
CLUSTER: Resource = (ResourceType.CLUSTER, "kafka-cluster")
TRANSACTION: Resource = (ResourceType.TRANSACTIONAL_ID, "x")
DENIED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
Right = tuple[Operation, Resource]


class Row(NamedTuple):
    api_key: ApiKey
    version: int
    request: Any
    rights: tuple[Right, ...]
    others: tuple[tuple[Right, ...], ...] = ()
    """Rights that are as good as those."""


def produce(transactional_id: str | None = None, acks: int = 1) -> ProduceRequest:
    data = [PartitionProduceData(0, BATCH)]
    return ProduceRequest(transactional_id, acks, 1000, [TopicProduceData("t", partition_data=data)])


def add_partitions() -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic("t", [0])]
    return AddPartitionsToTxnRequest(v3_and_below_transactional_id="x", v3_and_below_topics=topics)


FETCH = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=[FetchTopic("t", partitions=[FetchPartition(0)])])
FETCH_BY_ID = FetchRequest(
    max_wait_ms=0, max_bytes=1 << 20, topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(0)])]
)
COMMIT = OffsetCommitRequest(
    "g", topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1, -1, None)])]
)
COMMITTED = OffsetFetchRequest(
    groups=[OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])])]
)
END_OFFSET = OffsetForLeaderEpochRequest(
    -1, [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, current_leader_epoch=-1, leader_epoch=1)])]
)
OFFSET_DELETION = OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])])
REASSIGNMENT = AlterPartitionReassignmentsRequest(1000, True, [ReassignableTopic("t", [ReassignablePartition(0, [1])])])

READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
ROWS = [
    Row(ApiKey.PRODUCE, 9, produce(), ((WRITE, TOPIC),)),
    Row(ApiKey.PRODUCE, 9, produce("x"), ((WRITE, TRANSACTION), (WRITE, TOPIC))),
    Row(ApiKey.FETCH, 12, FETCH, ((READ, TOPIC),)),
    Row(ApiKey.FETCH, 13, FETCH_BY_ID, ((READ, TOPIC),)),
    Row(
        ApiKey.LIST_OFFSETS,
        7,
        ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])]),
        ((DESCRIBE, TOPIC),),
    ),
    Row(ApiKey.METADATA, 9, MetadataRequest([MetadataRequestTopic(name="t")]), ((DESCRIBE, TOPIC),)),
    Row(ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(TOPIC_ID, None)]), ((DESCRIBE, TOPIC),)),
    Row(
        ApiKey.METADATA,
        9,
        MetadataRequest([MetadataRequestTopic(name="new")], allow_auto_topic_creation=True),
        ((DESCRIBE, (ResourceType.TOPIC, "new")), (CREATE, (ResourceType.TOPIC, "new"))),
        (((DESCRIBE, (ResourceType.TOPIC, "new")), (CREATE, CLUSTER)),),
    ),
    Row(ApiKey.OFFSET_COMMIT, 8, COMMIT, ((READ, GROUP), (READ, TOPIC))),
    Row(ApiKey.OFFSET_FETCH, 8, COMMITTED, ((DESCRIBE, GROUP), (DESCRIBE, TOPIC))),
    Row(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), ((DESCRIBE, GROUP),)),
    Row(
        ApiKey.FIND_COORDINATOR,
        4,
        FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]),
        ((DESCRIBE, TRANSACTION),),
    ),
    Row(
        ApiKey.FIND_COORDINATOR,
        6,
        FindCoordinatorRequest(key_type=2, coordinator_keys=["g:id:0"]),
        ((ACTION, CLUSTER),),
    ),
    Row(ApiKey.JOIN_GROUP, 7, JoinGroupRequest("g", 1000, 1000, "", protocol_type="consumer"), ((READ, GROUP),)),
    Row(ApiKey.HEARTBEAT, 4, HeartbeatRequest("g", 1, "m"), ((READ, GROUP),)),
    Row(ApiKey.LEAVE_GROUP, 2, LeaveGroupRequest("g", "m"), ((READ, GROUP),)),
    Row(ApiKey.SYNC_GROUP, 3, SyncGroupRequest("g", 1, "m"), ((READ, GROUP),)),
    Row(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(["g"]), ((DESCRIBE, GROUP),)),
    Row(
        ApiKey.CREATE_TOPICS,
        7,
        CreateTopicsRequest([CreatableTopic("new", 1, 1)], 1000),
        ((CREATE, (ResourceType.TOPIC, "new")),),
        (((CREATE, CLUSTER),),),
    ),
    Row(
        ApiKey.DELETE_TOPICS,
        6,
        DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1000),
        ((DELETE, TOPIC),),
        (((DELETE, CLUSTER),),),
    ),
    Row(
        ApiKey.DELETE_TOPICS,
        6,
        DeleteTopicsRequest([DeleteTopicState(None, TOPIC_ID)], timeout_ms=1000),
        ((DELETE, TOPIC),),
        (((DELETE, CLUSTER),),),
    ),
    Row(
        ApiKey.DELETE_RECORDS,
        2,
        DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1)])], 1000),
        ((DELETE, TOPIC),),
    ),
    Row(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest("x", 1000), ((WRITE, TRANSACTION),)),
    Row(ApiKey.ADD_PARTITIONS_TO_TXN, 3, add_partitions(), ((WRITE, TRANSACTION), (WRITE, TOPIC))),
    Row(ApiKey.ADD_PARTITIONS_TO_TXN, 5, AddPartitionsToTxnRequest(), ((ACTION, CLUSTER),)),
    Row(ApiKey.ADD_OFFSETS_TO_TXN, 3, AddOffsetsToTxnRequest("x", 1, 0, "g"), ((WRITE, TRANSACTION), (READ, GROUP))),
    Row(
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            topics=[TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 1)])],
        ),
        ((WRITE, TRANSACTION), (READ, GROUP), (READ, TOPIC)),
    ),
    Row(ApiKey.END_TXN, 5, EndTxnRequest("x", 1, 0), ((WRITE, TRANSACTION),)),
    Row(
        ApiKey.WRITE_TXN_MARKERS,
        2,
        WriteTxnMarkersRequest([WritableTxnMarker(1, 0, False, [WritableTxnMarkerTopic("t", [0])], 0)]),
        ((ACTION, CLUSTER),),
        (((ALTER, CLUSTER),),),
    ),
    Row(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(["x"]), ((DESCRIBE, TRANSACTION),)),
    Row(
        ApiKey.INIT_PRODUCER_ID,
        4,
        InitProducerIdRequest(None, 1000),
        ((Operation.IDEMPOTENT_WRITE, CLUSTER),),
        (((WRITE, (ResourceType.TOPIC, "any")),),),
    ),
    Row(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, END_OFFSET, ((DESCRIBE, TOPIC),), (((ACTION, CLUSTER),),)),
    Row(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        DescribeConfigsRequest([DescribeConfigsResource(2, "t", None)]),
        ((Operation.DESCRIBE_CONFIGS, TOPIC),),
    ),
    Row(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        DescribeConfigsRequest([DescribeConfigsResource(4, "1", None)]),
        ((Operation.DESCRIBE_CONFIGS, CLUSTER),),
    ),
    Row(
        ApiKey.ALTER_CONFIGS,
        2,
        AlterConfigsRequest([AlterConfigsResource(2, "t", [])]),
        ((Operation.ALTER_CONFIGS, TOPIC),),
    ),
    Row(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        IncrementalAlterConfigsRequest([IncrementalResource(4, "1", [])]),
        ((Operation.ALTER_CONFIGS, CLUSTER),),
    ),
    Row(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        AlterReplicaLogDirsRequest([AlterReplicaLogDir("/d", [AlterReplicaLogDirTopic("t", [0])])]),
        ((ALTER, CLUSTER),),
    ),
    Row(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(None), ((DESCRIBE, CLUSTER),)),
    Row(
        ApiKey.CREATE_PARTITIONS,
        3,
        CreatePartitionsRequest([CreatePartitionsTopic("t", 3, None)], 1000),
        ((ALTER, TOPIC),),
    ),
    Row(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(["g"]), ((DELETE, GROUP),)),
    Row(ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(0, [TopicPartitions("t", [0])], 1000), ((ALTER, CLUSTER),)),
    Row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, REASSIGNMENT, ((ALTER, CLUSTER),)),
    Row(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        ListPartitionReassignmentsRequest(topics=None),
        ((DESCRIBE, CLUSTER),),
    ),
    Row(ApiKey.OFFSET_DELETE, 0, OFFSET_DELETION, ((DELETE, GROUP), (READ, TOPIC))),
    Row(ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest([TopicRequest("t", [0])]), ((READ, TOPIC),)),
    Row(
        ApiKey.LIST_CONFIG_RESOURCES,
        1,
        ListConfigResourcesRequest([2]),
        ((Operation.DESCRIBE_CONFIGS, CLUSTER),),
    ),
    Row(
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        AlterClientQuotasRequest([QuotaEntryData([QuotaEntityData("user", "absent")], [])], True),
        ((Operation.ALTER_CONFIGS, CLUSTER),),
    ),
    Row(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        AlterUserScramCredentialsRequest([ScramCredentialDeletion("absent", 1)], []),
        ((ALTER, CLUSTER),),
    ),
    Row(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        DescribeUserScramCredentialsRequest([UserName("absent")]),
        ((DESCRIBE, CLUSTER),),
    ),
    Row(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        DescribeClientQuotasRequest([]),
        ((Operation.DESCRIBE_CONFIGS, CLUSTER),),
    ),
    Row(ApiKey.UPDATE_FEATURES, 1, UpdateFeaturesRequest(1000, []), ((ALTER, CLUSTER),)),
    Row(
        ApiKey.DESCRIBE_ACLS,
        3,
        DescribeAclsRequest(ANY, "nothing", ANY, None, None, ANY, ANY),
        ((DESCRIBE, CLUSTER),),
    ),
    Row(ApiKey.CREATE_ACLS, 3, CreateAclsRequest([AclCreation(2, "", 3, "User:a", "*", 3, 3)]), ((ALTER, CLUSTER),)),
    Row(
        ApiKey.DELETE_ACLS,
        3,
        DeleteAclsRequest([DeleteAclsFilter(2, "nothing", 3, None, None, 3, 3)]),
        ((ALTER, CLUSTER),),
    ),
    Row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest([PartitionsOf("t")]), ((DESCRIBE, TOPIC),)),
]
