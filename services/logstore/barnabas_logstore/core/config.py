"""The configuration of a logstore's core: Kafka's own keys if Kafka has one, plain values here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.cluster.config_description import Setting
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.transactions.config import TransactionConfig
from barnabas_logstore.core.replica.replica_selection import ReplicaSelector
from barnabas_logstore.core.replication.replication import ReplicationConfig


@dataclass(slots=True, frozen=True)
class LogstoreConfig:
    """`topic_defaults` are settings under topics' own names for topics that don't override them, `settings` all keys.

    A data step ends after `step_requests_max` requests (each partition of a read counts) or `step_bytes_max` bytes of
    records, whichever comes first: about 1 ms of work, which is how long a control command waits at most. From
    `range_bytes_min` on, records are answered as ranges of files on streams that accept them: below that, a copy costs
    less than the two system calls that a range takes at the gateway.
    """

    node_id: int
    cluster_id: str
    queued_requests_max: int = 500
    queued_request_bytes_max: int = 64 * 1024 * 1024
    step_requests_max: int = 64
    step_bytes_max: int = 1024 * 1024
    range_bytes_min: int = 16 * 1024
    retention_check_interval_ms: int = 5 * 60 * 1000
    producer_id_expiration_ms: int = 24 * 60 * 60 * 1000
    producer_id_expiration_check_interval_ms: int = 10 * 60 * 1000
    recovery_point_checkpoint_interval_ms: int = 60_000
    log_start_checkpoint_interval_ms: int = 60_000
    metered_topics_max: int = 100
    cleaner_is_enabled: bool = True
    cleaner_backoff_ms: int = 15_000
    commit_hold_ms: int = 0
    """How long a leader holds the result of an append with acks=all that is not committed; then purgatory waits."""
    replica_selector: ReplicaSelector = ReplicaSelector.LEADER
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    groups: GroupConfig = field(default_factory=GroupConfig)
    transactions: TransactionConfig = field(default_factory=TransactionConfig)
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Setting] = field(default_factory=dict)
