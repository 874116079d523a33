"""What a gateway's core is configured with: Kafka's own keys where Kafka has one, plain values here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from barnabas.cluster.config_description import Setting

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE


class AddressPolicy(Enum):
    """Where the broker ids of a Metadata answer live (`advertised.address.policy`)."""

    PER_BROKER_PORT = "per-broker-port"
    """One host; broker n at the bootstrap port + 1 + n."""
    SHARED = "shared"
    """Every id at the bootstrap address itself."""


@dataclass(slots=True, frozen=True)
class Listener:
    """A named listener: where it is bound, and the address that clients are told (`advertised.listeners`)."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int


@dataclass(slots=True, frozen=True)
class GatewayConfig:
    """One gateway's settings. Sizes are bytes, times are ms, and each limit holds per processor unless it says more."""

    gateway_id: str
    listeners: tuple[Listener, ...]
    address_policy: AddressPolicy = AddressPolicy.PER_BROKER_PORT
    auto_create_topics: bool = True
    num_partitions: int = -1
    """Of topics created by Metadata; -1 leaves it to the controller's default. Likewise the next."""
    default_replication_factor: int = -1

    socket_request_bytes_max: int = 100 * MEBIBYTE
    queued_request_bytes_max: int = 128 * MEBIBYTE
    """Request bytes held, complete or not; a connection that would add to more is not read until it is less."""
    connection_requests_max: int = 512
    """Requests of one connection that are unanswered at once."""
    connection_queued_bytes_max: int = 256 * KIBIBYTE
    """Whole frames that wait behind a barrier before their connection is paused."""
    connection_unsent_bytes_max: int = MEBIBYTE
    """Answers that the client has not taken yet before its requests are no longer read."""
    connection_idle_ms_max: int = 600_000
    stalled_reader_ms: int = 10_000
    """A client that takes no byte of its answers for so long loses its connection when others wait for memory."""

    stalled_sender_ms: int = 10_000
    """A frame that takes longer to arrive costs its client the connection when others wait for memory."""

    fetch_bytes_max: int = 55 * MEBIBYTE
    """`fetch.max.bytes`: the largest answer to one Fetch, whatever the client asks."""
    fetch_memory_bytes: int = 256 * MEBIBYTE
    """Bytes of Fetch answers that are under way or not taken by their clients yet."""

    fetch_session_slots: int = 1_000
    """Incremental fetch sessions: this processor's share of `max.incremental.fetch.session.cache.slots`."""
    fetch_session_partitions_max: int = 200_000
    """Partitions in all of these sessions together, some 330 bytes each."""
    fetch_session_eviction_ms: int = 120_000
    """`min.incremental.fetch.session.eviction.ms`: unused for longer, a session makes room for any other."""
    fetch_wait_ms_max: int = 5_000
    """How long what is parked for a session may serve its polls before everything is read again."""

    produce_up_conversion: bool = True
    """Whether Produce v0 to v2 are served, whose messages have to be converted; likewise Fetch v0 to v3."""
    fetch_down_conversion: bool = True

    request_partitions_max: int = 2_000
    """`max.request.partition.size.limit`: partitions in one answer to DescribeTopicPartitions."""

    append_wait_ms_min: int = 5_000
    """A produce is given up no sooner, even with a shorter timeout, while its append has not been answered."""
    route_wait_ms_max: int = 5_000
    """How long an append waits for the leader's stream to come back before NOT_LEADER_OR_FOLLOWER."""
    read_wait_ms_max: int = 30_000
    """How long a logstore may take over a read or an offset query."""
    deadline_grace_ms: int = 200
    """How much later than purgatory the gateway ends a wait by itself."""
    state_poll_ms: int = 50
    """Between two questions to a leader (or two reads) while no purgatory pod can hold a wait."""
    commit_doubt_ms: int = 2_000
    """How long a produce waits for purgatory's word before the leader itself is asked: a pod may not hear of it."""
    group_call_ms_max: int = 5_000
    """How long a coordinator may take over a call, as `offsets.commit.timeout.ms` in Kafka; waiting members aside."""
    group_wait_ms_max: int = 5_000
    """How long a member is parked before its coordinator is asked again, whatever purgatory has heard."""
    group_poll_ms: int = 200
    """Between two questions to a coordinator while no purgatory pod can hold a member's wait."""
    topic_creation_wait_ms_max: int = 5_000
    """How long Metadata waits for topics that it creates."""

    metrics_enable: bool = True
    """Whether requests are counted and timed."""
    traces_sample_every: int = 0
    """Of each API and version so many requests have one that is traced; 0: none."""
    request_log_slow_ms: int = -1
    """A timed request that takes as long is logged with its hops; -1: none."""

    settings: Mapping[str, Setting] = field(default_factory=dict)
    """By broker key as the gateway started: how it describes brokers, each of which it serves."""

    listeners_by_name: dict[str, Listener] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "listeners_by_name", {listener.name: listener for listener in self.listeners})
