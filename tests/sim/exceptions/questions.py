"""What the inquirer asks: everything that gateways serve.

Its requests change little: topics of its own, settings of clients that don't exist, a group without members.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from barnabas.runtime.compression import compress
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.message_set import encode_message
from barnabas.wire.messages import Request
from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_acls import DescribeAclsRequest
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    Compression,
    Record,
    assemble_batch,
    build_batch,
    parse_header,
)
from tests.sim.exceptions.surroundings import LOG_DIRS, RACKS
from tests.sim.process import WALL_START_MS
from tests.unit.gateway.request_rights import ROWS, produce

TOPIC = "t"
"""Of the rows: no other client uses it."""
RETAINED = [
    CreatableTopicConfig(name, value)
    for name, value in (
        ("retention.ms", "1500"),
        ("segment.ms", "300"),
        ("file.delete.delay.ms", "300"),
        ("min.insync.replicas", "1"),
    )
]
"""Of the inquirer's topics: what is in them goes within seconds."""
FLEETING_TOPIC = "fleeting"
GROUP = "inquired"
MANY = 600
"""More than fits into one call."""
TRANSACTION = "transaction.version"
THROTTLED = ("inquirer", "guest-0")
# Groups, transactions and topics that come and go are the other clients', whose every answer is compared with the logs.
OTHERS = (
    ApiKey.PRODUCE,
    ApiKey.JOIN_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_DELETE,
    ApiKey.DELETE_GROUPS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
)


class Question(NamedTuple):
    api_key: ApiKey
    version: int
    request: Request


def questions() -> list[Question]:
    rows = [Question(row.api_key, row.version, row.request) for row in ROWS if row.api_key not in OTHERS]
    rows.append(Question(ApiKey.PRODUCE, 9, produce()))
    quota = EntryData([EntityData("client-id", "inquirer")], [OpData("producer_byte_rate", 1e9, False)])
    timed = [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, timestamp=each)]) for each in (-3, -2, 0)]
    return [
        *rows,
        *[Question(ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(-1, 0, [each])) for each in timed],
        Question(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("inquirer", "1")),
        Question(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest()),
        Question(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(2, None, 1, None, None, 1, 1)),
        Question(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            DescribeConfigsRequest(
                [DescribeConfigsResource(kind, name, None) for kind, name in ((2, TOPIC), (4, "1"), (8, "1"))]
            ),
        ),
        Question(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            IncrementalAlterConfigsRequest(
                [
                    AlterConfigsResource(8, "1", [AlterableConfig("logstore", 0, "DEBUG")]),
                    AlterConfigsResource(4, "1", [AlterableConfig("log.cleaner.backoff.ms", 1, None)]),
                ]
            ),
        ),
        Question(ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest([quota], False)),
        *_of_log_dirs(),
        *_of_throttles(),
        Question(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            0,
            AlterUserScramCredentialsRequest([], [ScramCredentialUpsertion("u", 1, 4096, b"salt", bytes(32))]),
        ),
        Question(
            ApiKey.FETCH,
            12,
            FetchRequest(
                max_wait_ms=100,
                min_bytes=1,
                max_bytes=1 << 20,
                topics=[FetchTopic(TOPIC, partitions=[FetchPartition(0)])],
            ),
        ),
        Question(ApiKey.LIST_GROUPS, 5, ListGroupsRequest([], [])),
        Question(ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest([], [], -1, "a.*")),
        Question(ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest([], [])),
        *_of_groups(),
        *_of_topics(),
        *_of_old_formats(),
        *_of_quotas(),
        Question(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 1_000)),
        Question(ApiKey.UPDATE_FEATURES, 1, UpdateFeaturesRequest(1_000, [FeatureUpdateKey(TRANSACTION, 2)], True)),
        *[Question(ApiKey.WRITE_TXN_MARKERS, version, _MARKERS) for version in (1, 2)],
    ]


def _of_log_dirs() -> list[Question]:
    """Each moves replicas of a logstore to one of its log directories; the paths are those of the whole cluster."""
    topics = [AlterReplicaLogDirTopic(topic, [0]) for topic in (TOPIC, "orders", "payments")]
    return [
        Question(
            ApiKey.ALTER_REPLICA_LOG_DIRS, 2, AlterReplicaLogDirsRequest([AlterReplicaLogDir(f"{node}:{path}", topics)])
        )
        for node in (1, 2, 3)
        for path in LOG_DIRS
    ]


def _of_throttles() -> list[Question]:
    """Rates of replication that are hardly ever exceeded; they are set and removed."""
    return [
        Question(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            IncrementalAlterConfigsRequest(
                [
                    AlterConfigsResource(4, "", [AlterableConfig(f"{kind}.replication.throttled.rate", removes, rate)]),
                    AlterConfigsResource(
                        2, TOPIC, [AlterableConfig(f"{kind}.replication.throttled.replicas", removes, replicas)]
                    ),
                ]
            ),
        )
        for kind in ("leader", "follower")
        for removes, rate, replicas in ((0, "2000", "*"), (1, None, None))
    ]


def _of_groups() -> list[Question]:
    """A group that has no members; long requests are put in parts."""
    topics = [
        OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, 1, -1, None)])
        for topic in (TOPIC, "absent")
    ]
    many = [OffsetCommitRequestTopic(f"absent-{each}", partitions=topics[0].partitions) for each in range(MANY)]
    leaving = [MemberIdentity(f"member-{each}") for each in range(MANY)]
    return [
        Question(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(GROUP, 7, "nobody", topics=topics)),
        Question(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(GROUP, 7, "nobody", topics=[*topics, *many])),
        Question(ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(GROUP, members=leaving)),
        Question(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(["absent", "another"])),
        Question(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([f"absent-{each}" for each in range(MANY)])),
    ]


def _of_topics() -> list[Question]:
    """One that comes and goes, and is placed by hand."""
    placed = CreatableTopic(FLEETING_TOPIC, -1, -1, [CreatableReplicaAssignment(0, [2, 1])])
    return [
        Question(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([placed], 2_000)),
        Question(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)], 2_000)),
        Question(ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest([DeleteTopicState(FLEETING_TOPIC)], timeout_ms=2_000)),
        Question(ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(0, [TopicPartitions(FLEETING_TOPIC, [0])], 2_000)),
        Question(ApiKey.METADATA, 10, MetadataRequest(None, False, True, True)),
    ]


def _of_old_formats() -> list[Question]:
    """Messages as they were before Kafka 0.11, which a gateway converts."""
    produced = [PartitionProduceData(0, encode_message(0, 1, b"k", b"v", timestamp_ms=WALL_START_MS))]
    broken = [PartitionProduceData(0, b"nonsense")]
    fetched = FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(TOPIC, partitions=[FetchPartition(0)])])
    return [
        *[
            Question(ApiKey.PRODUCE, 2, ProduceRequest(None, -1, 2_000, [TopicProduceData(TOPIC, partition_data=data)]))
            for data in (produced, produced, broken)
        ],
        *[
            Question(ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 2_000, [TopicProduceData(TOPIC, partition_data=data)]))
            for data in ([PartitionProduceData(0, _compressed(is_whole=is_whole))] for is_whole in (True, False))
        ],
        *[Question(ApiKey.FETCH, version, fetched) for version in (2, 3)],
        *[Question(ApiKey.FETCH, 12, replace(fetched, rack_id=f"rack-{each}")) for each in range(RACKS)],
    ]


def _compressed(*, is_whole: bool) -> bytes:
    """A batch that its leader opens; if it is not whole, its records are not those that its header counts."""
    batch = build_batch([Record(b"k", b"v", WALL_START_MS)])
    records = batch[HEADER_BYTES:] if is_whole else b"nonsense"
    header = parse_header(batch).with_compression(Compression.GZIP)
    return assemble_batch(header, compress(Compression.GZIP, records, None))


def _of_quotas() -> list[Question]:
    """Those of clients, so small that they wait for a moment; and of all hosts, which nothing exceeds."""
    limits = (
        ("producer_byte_rate", 2_000.0),
        ("consumer_byte_rate", 2_000.0),
        ("request_percentage", 0.01),
        ("controller_mutation_rate", 1.0),
    )
    questions = []
    for is_removed in (False, True):
        of_clients = [
            EntryData([EntityData("client-id", client)], [OpData(key, limit, is_removed) for key, limit in limits])
            for client in THROTTLED
        ]
        of_hosts = EntryData([EntityData("ip", None)], [OpData("connection_creation_rate", 100.0, is_removed)])
        questions.append(Question(ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest([*of_clients, of_hosts])))
    return questions


_MARKERS = WriteTxnMarkersRequest([WritableTxnMarker(999_999, 0, False, [WritableTxnMarkerTopic(TOPIC, [0])], 0)])
