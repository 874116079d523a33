"""The configuration of a logstore, by Kafka's keys."""

from __future__ import annotations

import os
from typing import Annotated

import msgspec

from barnabas.cluster.broker_config_keys import BROKER_KEYS, ReplicaSelectorClass, default_for_topics, topic_defaults
from barnabas.cluster.topic_config import TopicConfig
from barnabas.cluster.topic_config_keys import MINUTE_MS
from barnabas.runtime.configuration.config import bounds, settings_of
from barnabas.runtime.logs import LogFormat, LogLevel
from barnabas.runtime.metrics.listener import check_metrics_listener
from barnabas.runtime.tracing.traces import check_trace_endpoint
from barnabas_logstore.core.config import LogstoreConfig
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.transactions.config import TransactionConfig
from barnabas_logstore.core.replica.replica_selection import ReplicaSelector
from barnabas_logstore.core.replica.throttles import QuotaWindows
from barnabas_logstore.core.replication.fetcher import FetchLimits
from barnabas_logstore.core.replication.replication import ReplicationConfig
from barnabas_logstore.shell.topic_defaults import TopicDefaultsConfig

Count = Annotated[int, msgspec.Meta(ge=1)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0)]
GROUP_HOLD_MS = 100
"""Most syncs, and joins of a rebalance that all members have noticed, are answered within it, without purgatory."""
COMMIT_HOLD_MS = 10
"""Nearly every append with acks=all is committed within it while its followers are well, without purgatory."""

_CORE = LogstoreConfig(node_id=0, cluster_id="")
_REPLICATION = _CORE.replication
_GROUPS = _CORE.groups
_TRANSACTIONS = _CORE.transactions


class LogstoreSettings(TopicDefaultsConfig, kw_only=True, forbid_unknown_fields=True):
    """Field `a_b` is the key `a.b`. The keys that topics inherit are in `TopicDefaultsConfig`.

    The default of a key that the core uses is declared in `LogstoreConfig`, of any other key here.
    """

    # One is required; if both are set they must be equal, as in Kafka.
    node_id: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = -1
    broker_id: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)] = -1
    # At least one, by either key; log.dirs takes precedence if both are set, as in Kafka.
    log_dirs: list[str] = msgspec.field(default_factory=list)
    log_dir: str = ""
    # The address on which gateways and purgatory pods open their streams, "host:port"; port 0 takes any.
    listeners: str = "127.0.0.1:9300"
    # The address on which the controller opens its stream; if empty, the port after that of `listeners`.
    control_listeners: str = ""
    # Health alone, for probes, "host:port"; empty: none.
    health_listeners: str = ""
    # The advertised address; the listener itself if empty. Its host also applies to the control listener.
    advertised_listeners: str = ""
    broker_rack: str = ""

    num_io_threads: Annotated[int, msgspec.Meta(ge=1, le=128)] = 8
    queued_max_requests: Count = _CORE.queued_requests_max
    queued_max_request_bytes: Annotated[int, msgspec.Meta(ge=1024 * 1024)] = _CORE.queued_request_bytes_max

    num_recovery_threads_per_data_dir: Annotated[int, msgspec.Meta(ge=1, le=128)] = 2

    # A topic's own value may be any number, as in Kafka.
    log_retention_bytes: Annotated[int, msgspec.Meta(ge=-1)] = default_for_topics("log.retention.bytes")
    log_retention_check_interval_ms: Count = _CORE.retention_check_interval_ms
    log_flush_offset_checkpoint_interval_ms: Milliseconds = _CORE.recovery_point_checkpoint_interval_ms
    log_flush_start_offset_checkpoint_interval_ms: Milliseconds = _CORE.log_start_checkpoint_interval_ms

    log_cleaner_enable: bool = _CORE.cleaner_is_enabled
    # There is one cleaner, a separate process; other numbers are accepted without effect.
    log_cleaner_threads: Count = 1
    log_cleaner_backoff_ms: Annotated[int, bounds("log.cleaner.backoff.ms")] = _CORE.cleaner_backoff_ms
    log_cleaner_io_max_bytes_per_second: Annotated[float, msgspec.Meta(gt=0)] = 1.7976931348623157e308
    log_cleaner_io_buffer_size: Annotated[int, msgspec.Meta(ge=1024)] = 512 * 1024
    log_cleaner_dedupe_buffer_size: Annotated[int, msgspec.Meta(ge=1024 * 1024)] = 128 * 1024 * 1024
    log_cleaner_io_buffer_load_factor: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.9

    replica_lag_time_max_ms: Count = _REPLICATION.lag_ms_max
    replica_fetch_max_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = _REPLICATION.limits.partition_bytes_max
    replica_fetch_response_max_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = (
        _REPLICATION.limits.response_bytes_max
    )
    replica_fetch_wait_max_ms: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = _REPLICATION.limits.wait_ms_max
    replica_fetch_backoff_ms: Milliseconds = _REPLICATION.limits.backoff_ms

    # By the names of Kafka's classes, none of which is loaded; unset: consumers read only from leaders.
    replica_selector_class: ReplicaSelectorClass | None = None
    # Rates in bytes per second, all unlimited unless set.
    leader_replication_throttled_rate: Annotated[int, bounds("leader.replication.throttled.rate")] = 2**63 - 1
    follower_replication_throttled_rate: Annotated[int, bounds("follower.replication.throttled.rate")] = 2**63 - 1
    replication_quota_window_num: Count = _REPLICATION.quota_windows.count
    replication_quota_window_size_seconds: Count = _REPLICATION.quota_windows.size_ms // 1000
    replica_alter_log_dirs_io_max_bytes_per_second: Annotated[
        int, bounds("replica.alter.log.dirs.io.max.bytes.per.second")
    ] = 2**63 - 1
    alter_log_dirs_replication_quota_window_num: Count = _REPLICATION.log_dirs_quota_windows.count
    alter_log_dirs_replication_quota_window_size_seconds: Count = _REPLICATION.log_dirs_quota_windows.size_ms // 1000

    producer_id_expiration_ms: Count = _CORE.producer_id_expiration_ms
    producer_id_expiration_check_interval_ms: Count = _CORE.producer_id_expiration_check_interval_ms

    group_initial_rebalance_delay_ms: Milliseconds = _GROUPS.initial_rebalance_delay_ms
    group_min_session_timeout_ms: Milliseconds = _GROUPS.min_session_timeout_ms
    group_max_session_timeout_ms: Milliseconds = _GROUPS.max_session_timeout_ms
    group_max_size: Count = _GROUPS.max_size
    offsets_retention_minutes: Count = _GROUPS.offsets_retention_ms // MINUTE_MS
    offsets_retention_check_interval_ms: Count = _GROUPS.offsets_retention_check_interval_ms
    offset_metadata_max_bytes: Annotated[int, msgspec.Meta(ge=0)] = _GROUPS.offset_metadata_max_bytes

    transactional_id_expiration_ms: Count = _TRANSACTIONS.id_expiration_ms
    transaction_remove_expired_transaction_cleanup_interval_ms: Count = _TRANSACTIONS.remove_expired_interval_ms
    transaction_abort_timed_out_transaction_cleanup_interval_ms: Count = _TRANSACTIONS.abort_timed_out_interval_ms
    transaction_max_timeout_ms: Count = _TRANSACTIONS.max_timeout_ms

    # The address of the metrics endpoint, "host:port"; empty: none, port 0 takes any.
    metrics_listeners: str = ""
    metrics_topics_max: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = _CORE.metered_topics_max

    lease_ttl_ms: Annotated[int, msgspec.Meta(ge=1000)] = 6000
    # The collector of traces, "host:port" of its gRPC listener; empty: none.
    traces_otlp_endpoint: str = ""
    log_level: LogLevel = "info"
    log_format: LogFormat = "json"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.node_id >= 0 and self.broker_id >= 0 and self.node_id != self.broker_id:
            raise ValueError(f"node.id={self.node_id} and broker.id={self.broker_id} differ: set only node.id")
        self.node_id = self.broker_id = self.node_id if self.node_id >= 0 else self.broker_id
        if self.node_id < 0:
            raise ValueError("node.id is not set and has no default")
        check_metrics_listener(self.metrics_listeners)
        check_trace_endpoint(self.traces_otlp_endpoint)
        host, port = _split("listeners", self.listeners)
        if self.control_listeners:
            _split("control.listeners", self.control_listeners)
        if self.advertised_listeners:
            _split("advertised.listeners", self.advertised_listeners)
        elif host in ("0.0.0.0", "[::]"):
            raise ValueError(f"advertised.listeners is needed: no client can connect to {host}")
        self.log_dirs = self.log_dirs or [path.strip() for path in self.log_dir.split(",") if path.strip()]
        if not self.log_dirs:
            raise ValueError("log.dirs is not set and has no default")
        self.log_dirs = [os.path.abspath(path) for path in self.log_dirs]
        if len(set(self.log_dirs)) < len(self.log_dirs):
            raise ValueError(f"log.dirs={','.join(self.log_dirs)}: a path is listed twice")
        if self.replica_fetch_wait_max_ms >= self.replica_lag_time_max_ms:
            raise ValueError(
                f"replica.fetch.wait.max.ms={self.replica_fetch_wait_max_ms}: followers of idle partitions would fall "
                f"out of the ISR, replica.lag.time.max.ms is {self.replica_lag_time_max_ms}"
            )
        if self.group_max_session_timeout_ms < self.group_min_session_timeout_ms:
            raise ValueError(
                f"group.max.session.timeout.ms={self.group_max_session_timeout_ms} is less than "
                f"group.min.session.timeout.ms={self.group_min_session_timeout_ms}"
            )
        if not self.control_listeners:
            self.control_listeners = f"{host}:{port + 1 if port else 0}"
        defaults = TopicConfig.from_overrides(self.topic_defaults())
        if isinstance(defaults, str):
            raise ValueError(defaults)

    def topic_defaults(self) -> dict[str, str]:
        """Return the settings that topics have unless they override them, by topics' names."""
        texts = {key: setting.value for key, setting in settings_of(self, BROKER_KEYS).items()}
        return topic_defaults({key: text for key, text in texts.items() if text is not None})

    def replication(self) -> ReplicationConfig:
        limits = FetchLimits(
            self.replica_fetch_response_max_bytes,
            self.replica_fetch_max_bytes,
            self.replica_fetch_wait_max_ms,
            self.replica_fetch_backoff_ms,
        )
        return ReplicationConfig(
            self.replica_lag_time_max_ms,
            limits,
            QuotaWindows(self.replication_quota_window_num, self.replication_quota_window_size_seconds * 1000),
            QuotaWindows(
                self.alter_log_dirs_replication_quota_window_num,
                self.alter_log_dirs_replication_quota_window_size_seconds * 1000,
            ),
            tells_watermarks_at_once=self.replica_selector() is ReplicaSelector.RACK_AWARE,
        )

    def groups(self) -> GroupConfig:
        return GroupConfig(
            initial_rebalance_delay_ms=self.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=self.group_min_session_timeout_ms,
            max_session_timeout_ms=self.group_max_session_timeout_ms,
            max_size=self.group_max_size,
            hold_ms=GROUP_HOLD_MS,
            offsets_retention_ms=self.offsets_retention_minutes * MINUTE_MS,
            offsets_retention_check_interval_ms=self.offsets_retention_check_interval_ms,
            offset_metadata_max_bytes=self.offset_metadata_max_bytes,
        )

    def transactions(self) -> TransactionConfig:
        return TransactionConfig(
            max_timeout_ms=self.transaction_max_timeout_ms,
            abort_timed_out_interval_ms=self.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            id_expiration_ms=self.transactional_id_expiration_ms,
            remove_expired_interval_ms=self.transaction_remove_expired_transaction_cleanup_interval_ms,
        )

    def replica_selector(self) -> ReplicaSelector:
        return ReplicaSelector(self.replica_selector_class or ReplicaSelector.LEADER.value)

    def data_address(self, bound_port: int) -> str:
        """Return the address that gateways and purgatory pods connect to, once the listener is bound."""
        return self.advertised_listeners or f"{self.listeners.rpartition(':')[0]}:{bound_port}"

    def control_address(self, bound_port: int) -> str:
        """Return the address that the controller connects to."""
        advertised = self.advertised_listeners or self.control_listeners
        return f"{advertised.rpartition(':')[0]}:{bound_port}"


def _split(key: str, address: str) -> tuple[str, int]:
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isdigit():
        raise ValueError(f"{key}={address}: expected host:port")
    return host, int(port)
