"""Kafka's API keys, and which of their versions Barnabas serves.

Numbers and flexible versions are those of Apache Kafka 4.3 (`org.apache.kafka.common.protocol.ApiKeys`). All of its
keys are here, since a request header can only be read when it is known whether its version is flexible; a key is
served only when it has a version range, and then `barnabas.wire.messages` has its module.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

NEVER: Final = 1 << 15
"""A version that no int16 reaches: for keys that have no flexible version."""


class ApiKey(IntEnum):
    """One row a key: number, first flexible version, then, for served keys, first and last version served.

    `advertised_min` is the first version that ApiVersions tells, `version_min` unless the row says otherwise. Produce
    is advertised from 0 as in Kafka (KAFKA-18659: older librdkafka stops compressing otherwise); its v0 to v2 are
    decoded and encoded too, so that they can be answered with UNSUPPORTED_VERSION.
    """

    flexible_from: int
    version_min: int
    version_max: int
    advertised_min: int

    def __new__(
        cls,
        number: int,
        flexible_from: int = NEVER,
        version_min: int = 0,
        version_max: int = -1,
        advertised_min: int | None = None,
    ) -> ApiKey:
        member = int.__new__(cls, number)
        member._value_ = number
        member.flexible_from = flexible_from
        member.version_min = version_min
        member.version_max = version_max
        member.advertised_min = version_min if advertised_min is None else advertised_min
        return member

    PRODUCE = 0, 9, 3, 13, 0
    FETCH = 1, 12, 4, 18
    LIST_OFFSETS = 2, 6, 1, 11
    METADATA = 3, 9, 0, 13
    LEADER_AND_ISR = 4, 4
    STOP_REPLICA = 5, 2
    UPDATE_METADATA = 6, 6
    CONTROLLED_SHUTDOWN = 7, 3
    OFFSET_COMMIT = 8, 8
    OFFSET_FETCH = 9, 6
    FIND_COORDINATOR = 10, 3, 0, 6
    JOIN_GROUP = 11, 6
    HEARTBEAT = 12, 4
    LEAVE_GROUP = 13, 4
    SYNC_GROUP = 14, 4
    DESCRIBE_GROUPS = 15, 5
    LIST_GROUPS = 16, 3
    SASL_HANDSHAKE = 17, NEVER
    API_VERSIONS = 18, 3, 0, 4
    CREATE_TOPICS = 19, 5, 2, 7
    DELETE_TOPICS = 20, 4, 1, 6
    DELETE_RECORDS = 21, 2
    INIT_PRODUCER_ID = 22, 2, 0, 5
    OFFSET_FOR_LEADER_EPOCH = 23, 4
    ADD_PARTITIONS_TO_TXN = 24, 3
    ADD_OFFSETS_TO_TXN = 25, 3
    END_TXN = 26, 3
    WRITE_TXN_MARKERS = 27, 1
    TXN_OFFSET_COMMIT = 28, 3
    DESCRIBE_ACLS = 29, 2
    CREATE_ACLS = 30, 2
    DELETE_ACLS = 31, 2
    DESCRIBE_CONFIGS = 32, 4
    ALTER_CONFIGS = 33, 2
    ALTER_REPLICA_LOG_DIRS = 34, 2
    DESCRIBE_LOG_DIRS = 35, 2
    SASL_AUTHENTICATE = 36, 2
    CREATE_PARTITIONS = 37, 2
    CREATE_DELEGATION_TOKEN = 38, 2
    RENEW_DELEGATION_TOKEN = 39, 2
    EXPIRE_DELEGATION_TOKEN = 40, 2
    DESCRIBE_DELEGATION_TOKEN = 41, 2
    DELETE_GROUPS = 42, 2
    ELECT_LEADERS = 43, 2
    INCREMENTAL_ALTER_CONFIGS = 44, 1
    ALTER_PARTITION_REASSIGNMENTS = 45, 0
    LIST_PARTITION_REASSIGNMENTS = 46, 0
    OFFSET_DELETE = 47, NEVER
    DESCRIBE_CLIENT_QUOTAS = 48, 1
    ALTER_CLIENT_QUOTAS = 49, 1
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, 0
    ALTER_USER_SCRAM_CREDENTIALS = 51, 0
    VOTE = 52, 0
    BEGIN_QUORUM_EPOCH = 53, 1
    END_QUORUM_EPOCH = 54, 1
    DESCRIBE_QUORUM = 55, 0
    ALTER_PARTITION = 56, 2
    UPDATE_FEATURES = 57, 0
    ENVELOPE = 58, 0
    FETCH_SNAPSHOT = 59, 0
    DESCRIBE_CLUSTER = 60, 0, 0, 2
    DESCRIBE_PRODUCERS = 61, 0
    BROKER_REGISTRATION = 62, 0
    BROKER_HEARTBEAT = 63, 0
    UNREGISTER_BROKER = 64, 0
    DESCRIBE_TRANSACTIONS = 65, 0
    LIST_TRANSACTIONS = 66, 0
    ALLOCATE_PRODUCER_IDS = 67, 0
    CONSUMER_GROUP_HEARTBEAT = 68, 0
    CONSUMER_GROUP_DESCRIBE = 69, 0
    CONTROLLER_REGISTRATION = 70, 0
    GET_TELEMETRY_SUBSCRIPTIONS = 71, 0
    PUSH_TELEMETRY = 72, 0
    ASSIGN_REPLICAS_TO_DIRS = 73, 0
    LIST_CONFIG_RESOURCES = 74, 0
    DESCRIBE_TOPIC_PARTITIONS = 75, 0
    SHARE_GROUP_HEARTBEAT = 76, 1
    SHARE_GROUP_DESCRIBE = 77, 1
    SHARE_FETCH = 78, 1
    SHARE_ACKNOWLEDGE = 79, 1
    ADD_RAFT_VOTER = 80, 0
    REMOVE_RAFT_VOTER = 81, 0
    UPDATE_RAFT_VOTER = 82, 0
    INITIALIZE_SHARE_GROUP_STATE = 83, 0
    READ_SHARE_GROUP_STATE = 84, 0
    WRITE_SHARE_GROUP_STATE = 85, 0
    DELETE_SHARE_GROUP_STATE = 86, 0
    READ_SHARE_GROUP_STATE_SUMMARY = 87, 0
    STREAMS_GROUP_HEARTBEAT = 88, 0
    STREAMS_GROUP_DESCRIBE = 89, 0
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, 0
    ALTER_SHARE_GROUP_OFFSETS = 91, 0
    DELETE_SHARE_GROUP_OFFSETS = 92, 0

    @property
    def api_name(self) -> str:
        """The name that Kafka's own metrics and logs use: `ListOffsets`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_served(self) -> bool:
        return self.version_max >= self.version_min

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields (KIP-482)."""
        return version >= self.flexible_from


SERVED_KEYS: Final = tuple(key for key in ApiKey if key.is_served)
"""In the order of their numbers, as ApiVersions lists them."""
