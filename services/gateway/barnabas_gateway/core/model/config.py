"""The configuration of a gateway's core: Kafka's own keys if Kafka has one, plain values here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from barnabas.cluster.config_description import Setting
from barnabas_gateway.core.model.kerberos_names import DEFAULT_RULES, ShortNameRule

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE


class AddressPolicy(Enum):
    """Which addresses a Metadata response gives to broker ids (`advertised.address.policy`)."""

    PER_BROKER_PORT = "per-broker-port"
    """One host; broker n at the bootstrap port + 1 + n."""
    SHARED = "shared"
    """Every id at the bootstrap address itself."""


@dataclass(slots=True, frozen=True)
class OAuthConfig:
    """Which tokens of OAUTHBEARER are valid: Kafka's `sasl.oauthbearer.…`."""

    jwks_url: str
    """Where the issuer's keys are: `https://…` or `file:///…`."""
    issuer: str
    audiences: tuple[str, ...]
    """A token has one of them."""
    scope_claim: str = "scope"
    subject_claim: str = "sub"
    """The claim that is the principal's name."""
    clock_skew_s: int = 30
    refresh_ms: int = 3_600_000
    retry_ms: int = 100
    retry_ms_max: int = 10_000
    """Keys are read again after `refresh_ms`; after a failure between `retry_ms` and this."""


@dataclass(slots=True, frozen=True)
class KerberosConfig:
    """Who a listener is to clients of GSSAPI, and who these are."""

    keytab: str
    """Path of the file with the keys of `principal`."""
    principal: str
    """`kafka/host@REALM`, that of the tickets that clients bring."""
    rules: tuple[ShortNameRule, ...] = DEFAULT_RULES
    """`sasl.kerberos.principal.to.local.rules`."""


@dataclass(slots=True, frozen=True)
class SaslConfig:
    """How the clients of a listener authenticate by SASL."""

    mechanisms: tuple[str, ...]
    """`sasl.enabled.mechanisms`, in order."""
    plain_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Passwords by user name, for PLAIN."""
    reauthentication_ms_by_mechanism: Mapping[str, int] = field(default_factory=dict)
    """`connections.max.reauth.ms`: how long a session lasts; 0 or missing: as long as its connection."""
    oauth: OAuthConfig | None = None
    """Set if OAUTHBEARER is among the mechanisms."""
    kerberos: KerberosConfig | None = None
    """Set if GSSAPI is among the mechanisms."""
    receive_bytes_max: int = 512 * KIBIBYTE
    """`sasl.server.max.receive.size`: the largest token of a client that has not authenticated."""


@dataclass(slots=True, frozen=True)
class Listener:
    """A named listener: the address it is bound to, and the address advertised to clients (`advertised.listeners`)."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    sasl: SaslConfig | None = None
    """None: clients do not authenticate by SASL."""


@dataclass(slots=True, frozen=True)
class AuthorizerConfig:
    is_enabled: bool = False
    """`authorizer.class.name` is set. Otherwise everything is allowed."""
    super_users: frozenset[str] = frozenset()
    """Principals that may do everything."""
    allows_without_acls: bool = False
    """`allow.everyone.if.no.acl.found`: what is allowed with a resource that falls under no ACL."""


@dataclass(slots=True, frozen=True)
class GatewayConfig:
    """One gateway's settings. Sizes are bytes, times are ms, and each limit holds per processor unless it says
    otherwise.
    """

    gateway_id: str
    listeners: tuple[Listener, ...]
    address_policy: AddressPolicy = AddressPolicy.PER_BROKER_PORT
    auto_create_topics: bool = True
    num_partitions: int = -1
    """Partitions and replicas of topics that Metadata creates; -1 leaves it to the controller's default."""
    default_replication_factor: int = -1

    socket_request_bytes_max: int = 100 * MEBIBYTE
    queued_request_bytes_max: int = 128 * MEBIBYTE
    """Request bytes held, complete or not; a connection that would exceed it is not read until less is held."""
    connection_requests_max: int = 512
    """Unanswered requests of one connection at once."""
    connection_queued_bytes_max: int = 256 * KIBIBYTE
    """Complete frames that wait behind a barrier before their connection is paused."""
    connection_unsent_bytes_max: int = MEBIBYTE
    """Responses that the client has not read before its requests are not read any more."""
    connection_idle_ms_max: int = 600_000
    stalled_reader_ms: int = 10_000
    """A client that reads no byte of its responses for so long loses its connection if others wait for memory."""

    stalled_sender_ms: int = 10_000
    """A client whose frame takes longer to arrive loses its connection if others wait for memory."""

    authentication_ms_max: int = 10_000
    """How long a client may take to authenticate, however slowly its bytes arrive."""
    failed_authentication_delay_ms: int = 100
    """`connection.failed.authentication.delay.ms`: before a failure is answered, and the connection closed."""

    fetch_bytes_max: int = 55 * MEBIBYTE
    """`fetch.max.bytes`: the largest response to one Fetch, whatever the client requests."""
    fetch_memory_bytes: int = 256 * MEBIBYTE
    """Bytes of Fetch responses that are in progress or that clients have not read yet."""

    fetch_session_slots: int = 1_000
    """Incremental fetch sessions: this processor's share of `max.incremental.fetch.session.cache.slots`."""
    fetch_session_partitions_max: int = 200_000
    """Partitions in all of these sessions together, about 330 bytes each."""
    fetch_session_eviction_ms: int = 120_000
    """`min.incremental.fetch.session.eviction.ms`: a session unused for longer may be evicted for any other."""
    fetch_wait_ms_max: int = 5_000
    """How long what is parked for a session may serve its polls before all partitions are read again."""

    produce_up_conversion: bool = True
    """Whether Produce v0 to v2, and Fetch v0 to v3, are served, whose messages have to be converted."""
    fetch_down_conversion: bool = True

    request_partitions_max: int = 2_000
    """`max.request.partition.size.limit`: partitions in one DescribeTopicPartitions response."""

    append_wait_ms_min: int = 5_000
    """Minimum time before a produce is given up while its append has not been answered, even with a shorter timeout."""
    route_wait_ms_max: int = 5_000
    """How long an append waits for the leader's stream to come back before NOT_LEADER_OR_FOLLOWER."""
    read_wait_ms_max: int = 30_000
    """How long a logstore may take for a read or an offset query."""
    deadline_grace_ms: int = 200
    """How much later than purgatory the gateway itself ends a wait."""
    state_poll_ms: int = 50
    """Interval between two queries to a leader (or two reads) while no purgatory pod can hold a wait."""
    commit_doubt_ms: int = 2_000
    """How long a produce waits for purgatory's answer before the leader is asked: a pod may miss an update."""
    group_call_ms_max: int = 5_000
    """How long a coordinator may take for a call, as `offsets.commit.timeout.ms` in Kafka; waiting members excepted."""
    group_wait_ms_max: int = 5_000
    """How long a member is parked before its coordinator is asked again, whatever purgatory knows."""
    group_poll_ms: int = 200
    """Interval between two queries to a coordinator while no purgatory pod can hold a member's wait."""
    topic_creation_wait_ms_max: int = 5_000
    """How long Metadata waits for topics that it creates."""

    processors: int = 1
    """`num.network.threads`, as the gateway started: they share the quotas of their clients."""
    quota_windows: int = 11
    """`quota.window.num`, and the length of each: a client may use up at once what its quota gives in all but one."""
    quota_window_ms: int = 1_000
    controller_quota_windows: int = 11
    """`controller.quota.window.num`: the same for mutations, of which all windows may be used up at once."""
    controller_quota_window_ms: int = 1_000

    authorizer: AuthorizerConfig = field(default_factory=AuthorizerConfig)

    delegation_token_secret_key: str = field(default="", repr=False)
    """`delegation.token.secret.key`: what the HMACs of tokens are made by; empty: there are no delegation tokens."""

    audit_topic: str = ""
    """`audit.topic`: where records of the audit go besides the log; empty: nowhere."""

    metrics_enable: bool = True
    """Whether requests are counted and timed."""
    traces_sample_every: int = 0
    """One in so many requests of each API and version is traced; 0: none."""
    request_log_slow_ms: int = -1
    """A timed request that takes this long is logged with its hops; -1: none."""

    settings: Mapping[str, Setting] = field(default_factory=dict, repr=False)
    """By broker key, as the gateway started: for describing brokers, each of which it serves."""

    listeners_by_name: dict[str, Listener] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "listeners_by_name", {listener.name: listener for listener in self.listeners})
