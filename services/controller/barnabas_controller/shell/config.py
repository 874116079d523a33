"""The controller's configuration."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from barnabas.cluster.broker_config_keys import default_for_topics
from barnabas.runtime.configuration.config import bounds
from barnabas.runtime.metrics.listener import check_metrics_listener
from barnabas.runtime.tracing.traces import check_trace_endpoint
from barnabas_controller.core.state.settings import ElectionSettings
from barnabas_controller.core.topics.internal_topics import OffsetsTopic, TransactionStateTopic
from barnabas_controller.core.topics.token_changes import TokenSettings
from barnabas_controller.core.topics.topic_creation import TopicDefaults
from barnabas_controller.shell.operators.config import OperatorsConfig

_OFFSETS = OffsetsTopic()
_TRANSACTIONS = TransactionStateTopic()
_ELECTIONS = ElectionSettings()
_TOKENS = TokenSettings()


class ControllerConfig(OperatorsConfig, kw_only=True, forbid_unknown_fields=True):
    """Named after Kafka's keys: `controller_id` is `controller.id`.

    The default of a key that topics inherit is declared in `TOPIC_KEYS`, of one that the core uses in the core.
    """

    controller_id: str = "controller-0"
    # Membership, for the other services, and health: "host:port".
    listeners: str = "0.0.0.0:9091"
    # Health alone, for probes, "host:port"; empty: none.
    health_listeners: str = ""
    # The address advertised to the other services; empty: the listener.
    advertised_listeners: str = ""
    # etcd's leases have a granularity of seconds.
    lease_ttl_ms: Annotated[int, msgspec.Meta(ge=2000, le=600_000)] = 6000
    default_replication_factor: Annotated[int, msgspec.Meta(ge=1)] = 1
    num_partitions: Annotated[int, msgspec.Meta(ge=1)] = 1
    # For __consumer_offsets, created when the first group appears; with fewer logstores it has as many replicas as
    # there are.
    offsets_topic_num_partitions: Annotated[int, msgspec.Meta(ge=1)] = _OFFSETS.partitions
    offsets_topic_replication_factor: Annotated[int, msgspec.Meta(ge=1, le=2**15 - 1)] = _OFFSETS.replication_factor
    offsets_topic_segment_bytes: Annotated[int, msgspec.Meta(ge=1024 * 1024, le=2**31 - 1)] = _OFFSETS.segment_bytes
    # For __transaction_state, created when the first transactional id appears; replicas as above.
    transaction_state_log_num_partitions: Annotated[int, msgspec.Meta(ge=1)] = _TRANSACTIONS.partitions
    transaction_state_log_replication_factor: Annotated[int, msgspec.Meta(ge=1, le=2**15 - 1)] = (
        _TRANSACTIONS.replication_factor
    )
    transaction_state_log_segment_bytes: Annotated[int, msgspec.Meta(ge=1024 * 1024, le=2**31 - 1)] = (
        _TRANSACTIONS.segment_bytes
    )
    transaction_state_log_min_isr: Annotated[int, msgspec.Meta(ge=1)] = _TRANSACTIONS.min_insync_replicas
    # For topics without their own; the same as the logstores' (a lower one costs candidates, a higher one is unsafe).
    min_insync_replicas: Annotated[int, bounds("min.insync.replicas")] = default_for_topics("min.insync.replicas")
    unclean_leader_election_enable: bool = default_for_topics("unclean.leader.election.enable")
    auto_leader_rebalance_enable: bool = _ELECTIONS.auto_leader_rebalance_enable
    leader_imbalance_check_interval_seconds: Annotated[int, msgspec.Meta(ge=1)] = (
        _ELECTIONS.leader_imbalance_check_interval_ms // 1000
    )
    leader_imbalance_per_broker_percentage: Annotated[int, msgspec.Meta(ge=0, le=100)] = (
        _ELECTIONS.leader_imbalance_per_broker_percentage
    )
    # Delegation tokens, which gateways with `delegation.token.secret.key` offer: how long one may live at most, how
    # long until it has to be renewed, and how often those that have expired are removed.
    delegation_token_max_lifetime_ms: Annotated[int, msgspec.Meta(ge=1)] = _TOKENS.max_lifetime_ms
    delegation_token_expiry_time_ms: Annotated[int, msgspec.Meta(ge=1)] = _TOKENS.expiry_time_ms
    delegation_token_expiry_check_interval_ms: Annotated[int, msgspec.Meta(ge=1)] = _TOKENS.expiry_check_interval_ms
    # The address of the metrics endpoint, "host:port"; empty: none, port 0 takes any.
    metrics_listeners: str = ""
    # The collector of traces, "host:port" of its gRPC listener; empty: none.
    traces_otlp_endpoint: str = ""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "console"] = "json"

    def __post_init__(self) -> None:
        super().__post_init__()
        port = self.listeners.rpartition(":")[2]
        if port != "0" and port == self.operations_listeners.rpartition(":")[2]:
            raise ValueError(f"listeners and operations.listeners are both at port {port}: each needs one of its own")
        check_metrics_listener(self.metrics_listeners)
        check_trace_endpoint(self.traces_otlp_endpoint)

    def topic_defaults(self) -> TopicDefaults:
        offsets = OffsetsTopic(
            self.offsets_topic_num_partitions, self.offsets_topic_replication_factor, self.offsets_topic_segment_bytes
        )
        transactions = TransactionStateTopic(
            self.transaction_state_log_num_partitions,
            self.transaction_state_log_replication_factor,
            self.transaction_state_log_segment_bytes,
            self.transaction_state_log_min_isr,
        )
        return TopicDefaults(self.num_partitions, self.default_replication_factor, offsets, transactions)

    def election_settings(self) -> ElectionSettings:
        return ElectionSettings(
            self.min_insync_replicas,
            self.unclean_leader_election_enable,
            self.auto_leader_rebalance_enable,
            self.leader_imbalance_check_interval_seconds * 1000,
            self.leader_imbalance_per_broker_percentage,
        )

    def token_settings(self) -> TokenSettings:
        return TokenSettings(
            self.delegation_token_max_lifetime_ms,
            self.delegation_token_expiry_time_ms,
            self.delegation_token_expiry_check_interval_ms,
        )

    @property
    def advertised_address(self) -> str:
        return self.advertised_listeners or self.listeners
