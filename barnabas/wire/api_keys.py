"""Kafka's API keys: the versions that Apache Kafka 4.3 supports, those with a schema here, and which keys are served.

All of Kafka's keys are here, since a request header can only be read if it is known whether its version is flexible.
The 77 that a Kafka 4.3 broker offers to clients have a range of versions. The others are used between brokers and
controllers, and have none.

A key is known, and it may be served:

- Known: `barnabas.wire.messages` has its module, which reads and writes every version of the row.
- Served: `services/gateway/barnabas_gateway/core/handlers` has its handler, and ApiVersions tells it. Until
  then the row says what the key waits for.

To serve a key, write `State.SERVED` into its row and its handler into `HANDLERS`, and run `scripts/protocol`, which
writes `docs/reference/protocol.md` and the key's module. Tests hold all of these to each other.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final

from barnabas.wire.schema import Versions

NEVER: Final = 1 << 15
"""A version that no int16 reaches: for keys that have no flexible version."""


class State(Enum):
    """Whether a key is served, and if not, why."""

    SERVED = "served"
    CONSUMER_GROUPS = "not served yet; it needs the new consumer group protocol (KIP-848)"
    REMOVAL = "not served yet; `barnabas nodes remove` removes a logstore"
    TELEMETRY = "not served yet; it needs a store for the metrics of clients"
    SHARE_GROUPS = "not served yet; it needs share groups and their coordinator (KIP-932)"
    STREAMS_GROUPS = "not served yet; it needs streams groups (KIP-1071)"
    QUORUM = "not served; cluster state is in etcd, and there is no KRaft quorum to look at or to change"
    INTERNAL = "not for clients; only brokers and controllers have it"


class ApiKey(IntEnum):
    """One row per key: number, first flexible version, versions that Kafka 4.3 supports, its state, and the versions
    that have a schema if those are more than Kafka's.

    `version_min` and `version_max` are what Kafka supports, and what a handler has to support. `advertised_min` is the
    first version that ApiVersions lists, `version_min` except for Produce and Fetch: with the old message formats they
    are supported from v0. Kafka 4.3 lists Produce from 0 too, without supporting it (KAFKA-18659: older librdkafka
    stops compressing otherwise).
    """

    flexible_from: int
    version_min: int
    version_max: int
    state: State
    schema_versions: Versions

    def __new__(
        cls,
        number: int,
        flexible_from: int = NEVER,
        offered: str = "none",
        state: State = State.INTERNAL,
        schema: str | None = None,
    ) -> ApiKey:
        member = int.__new__(cls, number)
        member._value_ = number
        member.flexible_from = flexible_from
        member.version_min, member.version_max = Versions.parse(offered)
        member.state = state
        member.schema_versions = Versions.parse(schema or offered)
        return member

    PRODUCE = 0, 9, "3-13", State.SERVED, "0-13"
    FETCH = 1, 12, "4-18", State.SERVED, "0-18"
    LIST_OFFSETS = 2, 6, "1-11", State.SERVED
    METADATA = 3, 9, "0-13", State.SERVED
    LEADER_AND_ISR = 4, 4
    STOP_REPLICA = 5, 2
    UPDATE_METADATA = 6, 6
    CONTROLLED_SHUTDOWN = 7, 3
    OFFSET_COMMIT = 8, 8, "2-10", State.SERVED
    OFFSET_FETCH = 9, 6, "1-10", State.SERVED
    FIND_COORDINATOR = 10, 3, "0-6", State.SERVED
    JOIN_GROUP = 11, 6, "0-9", State.SERVED
    HEARTBEAT = 12, 4, "0-4", State.SERVED
    LEAVE_GROUP = 13, 4, "0-5", State.SERVED
    SYNC_GROUP = 14, 4, "0-5", State.SERVED
    DESCRIBE_GROUPS = 15, 5, "0-6", State.SERVED
    LIST_GROUPS = 16, 3, "0-5", State.SERVED
    SASL_HANDSHAKE = 17, NEVER, "0-1", State.SERVED
    API_VERSIONS = 18, 3, "0-4", State.SERVED
    CREATE_TOPICS = 19, 5, "2-7", State.SERVED
    DELETE_TOPICS = 20, 4, "1-6", State.SERVED
    DELETE_RECORDS = 21, 2, "0-2", State.SERVED
    INIT_PRODUCER_ID = 22, 2, "0-5", State.SERVED, "0-6"
    OFFSET_FOR_LEADER_EPOCH = 23, 4, "2-4", State.SERVED
    ADD_PARTITIONS_TO_TXN = 24, 3, "0-5", State.SERVED
    ADD_OFFSETS_TO_TXN = 25, 3, "0-4", State.SERVED
    END_TXN = 26, 3, "0-5", State.SERVED
    WRITE_TXN_MARKERS = 27, 1, "1-2", State.SERVED
    TXN_OFFSET_COMMIT = 28, 3, "0-5", State.SERVED
    DESCRIBE_ACLS = 29, 2, "1-3", State.SERVED
    CREATE_ACLS = 30, 2, "1-3", State.SERVED
    DELETE_ACLS = 31, 2, "1-3", State.SERVED
    DESCRIBE_CONFIGS = 32, 4, "1-4", State.SERVED
    ALTER_CONFIGS = 33, 2, "0-2", State.SERVED
    ALTER_REPLICA_LOG_DIRS = 34, 2, "1-2", State.SERVED
    DESCRIBE_LOG_DIRS = 35, 2, "1-5", State.SERVED
    SASL_AUTHENTICATE = 36, 2, "0-2", State.SERVED
    CREATE_PARTITIONS = 37, 2, "0-3", State.SERVED
    CREATE_DELEGATION_TOKEN = 38, 2, "1-3", State.SERVED
    RENEW_DELEGATION_TOKEN = 39, 2, "1-2", State.SERVED
    EXPIRE_DELEGATION_TOKEN = 40, 2, "1-2", State.SERVED
    DESCRIBE_DELEGATION_TOKEN = 41, 2, "1-3", State.SERVED
    DELETE_GROUPS = 42, 2, "0-2", State.SERVED
    ELECT_LEADERS = 43, 2, "0-2", State.SERVED
    INCREMENTAL_ALTER_CONFIGS = 44, 1, "0-1", State.SERVED
    ALTER_PARTITION_REASSIGNMENTS = 45, 0, "0-1", State.SERVED
    LIST_PARTITION_REASSIGNMENTS = 46, 0, "0", State.SERVED
    OFFSET_DELETE = 47, NEVER, "0", State.SERVED
    DESCRIBE_CLIENT_QUOTAS = 48, 1, "0-1", State.SERVED
    ALTER_CLIENT_QUOTAS = 49, 1, "0-1", State.SERVED
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, 0, "0", State.SERVED
    ALTER_USER_SCRAM_CREDENTIALS = 51, 0, "0", State.SERVED
    VOTE = 52, 0
    BEGIN_QUORUM_EPOCH = 53, 1
    END_QUORUM_EPOCH = 54, 1
    DESCRIBE_QUORUM = 55, 0, "0-2", State.QUORUM
    ALTER_PARTITION = 56, 0
    UPDATE_FEATURES = 57, 0, "0-2", State.SERVED
    ENVELOPE = 58, 0
    FETCH_SNAPSHOT = 59, 0
    DESCRIBE_CLUSTER = 60, 0, "0-2", State.SERVED
    DESCRIBE_PRODUCERS = 61, 0, "0", State.SERVED
    BROKER_REGISTRATION = 62, 0
    BROKER_HEARTBEAT = 63, 0
    UNREGISTER_BROKER = 64, 0, "0", State.REMOVAL
    DESCRIBE_TRANSACTIONS = 65, 0, "0", State.SERVED
    LIST_TRANSACTIONS = 66, 0, "0-2", State.SERVED
    ALLOCATE_PRODUCER_IDS = 67, 0
    CONSUMER_GROUP_HEARTBEAT = 68, 0, "0-1", State.CONSUMER_GROUPS
    CONSUMER_GROUP_DESCRIBE = 69, 0, "0-1", State.CONSUMER_GROUPS
    CONTROLLER_REGISTRATION = 70, 0
    GET_TELEMETRY_SUBSCRIPTIONS = 71, 0, "0", State.TELEMETRY
    PUSH_TELEMETRY = 72, 0, "0", State.TELEMETRY
    ASSIGN_REPLICAS_TO_DIRS = 73, 0
    LIST_CONFIG_RESOURCES = 74, 0, "0-1", State.SERVED
    DESCRIBE_TOPIC_PARTITIONS = 75, 0, "0", State.SERVED
    SHARE_GROUP_HEARTBEAT = 76, 0, "1", State.SHARE_GROUPS
    SHARE_GROUP_DESCRIBE = 77, 0, "1", State.SHARE_GROUPS
    SHARE_FETCH = 78, 0, "1-2", State.SHARE_GROUPS
    SHARE_ACKNOWLEDGE = 79, 0, "1-2", State.SHARE_GROUPS
    ADD_RAFT_VOTER = 80, 0, "0-1", State.QUORUM
    REMOVE_RAFT_VOTER = 81, 0, "0", State.QUORUM
    UPDATE_RAFT_VOTER = 82, 0
    INITIALIZE_SHARE_GROUP_STATE = 83, 0, "0", State.SHARE_GROUPS
    READ_SHARE_GROUP_STATE = 84, 0, "0", State.SHARE_GROUPS
    WRITE_SHARE_GROUP_STATE = 85, 0, "0-1", State.SHARE_GROUPS
    DELETE_SHARE_GROUP_STATE = 86, 0, "0", State.SHARE_GROUPS
    READ_SHARE_GROUP_STATE_SUMMARY = 87, 0, "0-1", State.SHARE_GROUPS
    STREAMS_GROUP_HEARTBEAT = 88, 0, "0", State.STREAMS_GROUPS
    STREAMS_GROUP_DESCRIBE = 89, 0, "0", State.STREAMS_GROUPS
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, 0, "0-1", State.SHARE_GROUPS
    ALTER_SHARE_GROUP_OFFSETS = 91, 0, "0", State.SHARE_GROUPS
    DELETE_SHARE_GROUP_OFFSETS = 92, 0, "0", State.SHARE_GROUPS

    @property
    def api_name(self) -> str:
        """Return the name that Kafka's own metrics and logs use: `ListOffsets`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def advertised_min(self) -> int:
        """The first version that ApiVersions lists, and that is supported: v0 for the two with the old message formats.

        A gateway may have these switched off; then it lists, and supports, what Kafka 4.3 does.
        """
        return 0 if self in (ApiKey.PRODUCE, ApiKey.FETCH) else self.version_min

    @property
    def is_offered_to_clients(self) -> bool:
        """Whether a Kafka 4.3 broker has it on the listeners for clients."""
        return self.version_max >= self.version_min

    @property
    def is_served(self) -> bool:
        return self.state is State.SERVED

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields (KIP-482)."""
        return version >= self.flexible_from


CLIENT_KEYS: Final = tuple(key for key in ApiKey if key.is_offered_to_clients)
"""What a Kafka 4.3 broker offers to clients, by number."""

SERVED_KEYS: Final = tuple(key for key in ApiKey if key.is_served)
"""By number, as ApiVersions lists them."""
