"""A client that asks for everything that gateways serve, so that exceptions find the way there.

Its requests change little: a topic of its own, settings of clients that don't exist. What they come to is no matter;
each is answered once, or its connection is lost.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages import MESSAGES, Request, Response
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
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from barnabas.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from tests.sim.clients.client import Client, ClientEnvironment
from tests.sim.nodes.logstore import DIRECTORY
from tests.unit.gateway.request_rights import ROWS, produce

TOPIC = "t"
"""Of the rows: no other client uses it."""
# Groups, transactions and topics that come and go are the other clients', whose every answer is compared with the logs.
_OTHERS = (
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
    rows = [Question(row.api_key, row.version, row.request) for row in ROWS if row.api_key not in _OTHERS]
    rows.append(Question(ApiKey.PRODUCE, 9, produce()))
    quota = EntryData([EntityData("client-id", "inquirer")], [OpData("producer_byte_rate", 1e9, False)])
    moved = AlterReplicaLogDir(DIRECTORY, [AlterReplicaLogDirTopic(TOPIC, [0])])
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
        Question(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, AlterReplicaLogDirsRequest([moved])),
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
    ]


class Inquirer(Client):
    def __init__(self, name: str, environment: ClientEnvironment, interval_us: int) -> None:
        super().__init__(name, environment)
        self._interval_us = interval_us
        self._questions = questions()
        self.is_stopping = False
        self._has_topic = False
        self.answers = 0

    def work(self) -> None:
        if self.is_stopping:
            return
        if not self._has_topic:
            self._has_topic = True
            topic = CreatableTopic(TOPIC, 1, 2)
            self._ask(Question(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([topic], 5_000)))
        else:
            self.meanwhile(self.scheduler.below(2 * self._interval_us) + 1, "inquires", self._inquire)

    def _inquire(self) -> None:
        self._ask(self.scheduler.random.choice(self._questions))

    def _ask(self, question: Question) -> None:
        response_type: type[Response] = MESSAGES[question.api_key][1]

        def answered(response: Response | None) -> None:
            if response is None:
                return
            self.answers += 1
            self.work()

        self.ask(question.api_key, question.request, question.version, response_type, answered)
