"""The configuration of a gateway, with Kafka's keys if Kafka has one."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from barnabas.cluster.config_description import Setting
from barnabas.cluster.internal_topics import INTERNAL_TOPICS
from barnabas.runtime.configuration.config import bounds
from barnabas.runtime.configuration.service_config import ServiceConfig
from barnabas.runtime.logs import LogFormat, LogLevel
from barnabas.runtime.metrics.listener import check_metrics_listener
from barnabas.runtime.tracing.traces import check_trace_endpoint
from barnabas.wire.topic_names import is_legal_topic_name
from barnabas_gateway.core.model.config import AddressPolicy, AuthorizerConfig, GatewayConfig, Listener, OAuthConfig
from barnabas_gateway.shell.kerberos.kerberos_config import KERBEROS_KEYS
from barnabas_gateway.shell.listener_security import ListenerSecurity, SecurityDefaults, listener_securities
from barnabas_gateway.shell.oauth.oauth_config import OAUTH_KEYS
from barnabas_gateway.shell.tls.tls_config import TLS_KEYS

Count = Annotated[int, msgspec.Meta(ge=1)]
Int32 = Annotated[int, msgspec.Meta(ge=1, le=0x7FFF_FFFF)]
OptionalCount = Annotated[int, msgspec.Meta(ge=-1)]

_UNSET = 0x7FFF_FFFF
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The value of `authorizer.class.name` that switches the authorizer on."""

_CORE = GatewayConfig(gateway_id="", listeners=())
_OAUTH = OAuthConfig("", "", ())


class GatewayProperties(ServiceConfig, kw_only=True, forbid_unknown_fields=True):
    """Field `a_b` is the key `a.b`; sizes are bytes, times are ms.

    The default of a key that the core uses is declared in `GatewayConfig`.
    """

    gateway_id: str = "gateway-0"
    # "NAME://host:port", comma separated; the port is the bootstrap port of that listener.
    listeners: list[str] = msgspec.field(default_factory=lambda: ["PLAINTEXT://127.0.0.1:9092"])
    # "NAME:PROTOCOL", comma separated: needed for names that are not protocols.
    listener_security_protocol_map: list[str] = msgspec.field(default_factory=list)
    # The advertised address per name; the listener's own if a name has none.
    advertised_listeners: list[str] = msgspec.field(default_factory=list)
    advertised_address_policy: Literal["per-broker-port", "shared"] = "per-broker-port"
    # "listener.name.<name in lower case>.<key>": keys of a single listener, or of a mechanism at it.
    listener_name: dict[str, str] = msgspec.field(default_factory=dict, name="listener.name.")
    sasl_enabled_mechanisms: list[str] = msgspec.field(default_factory=list)
    sasl_server_max_receive_size: Int32 = 524_288
    # OAUTHBEARER: where the keys of the issuer are, and what a token has to say; `oauth_config` says what they may be.
    sasl_oauthbearer_jwks_endpoint_url: str = ""
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Count = _OAUTH.refresh_ms
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: Count = _OAUTH.retry_ms
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: Count = _OAUTH.retry_ms_max
    sasl_oauthbearer_expected_issuer: str = ""
    sasl_oauthbearer_expected_audience: list[str] = msgspec.field(default_factory=list)
    sasl_oauthbearer_clock_skew_seconds: Annotated[int, msgspec.Meta(ge=0)] = _OAUTH.clock_skew_s
    sasl_oauthbearer_scope_claim_name: str = _OAUTH.scope_claim
    sasl_oauthbearer_sub_claim_name: str = _OAUTH.subject_claim
    # GSSAPI: the first component of the gateway's principal, and the users that clients' principals are.
    sasl_kerberos_service_name: str = ""
    sasl_kerberos_principal_to_local_rules: list[str] = msgspec.field(default_factory=lambda: ["DEFAULT"])
    # The same on all gateways: what the secrets of delegation tokens are made by. Empty: there are none.
    delegation_token_secret_key: str = ""
    # The topic that records of the audit go to, besides the log; empty: they are in the log alone.
    audit_topic: str = _CORE.audit_topic
    # How long a session lasts until the client has to authenticate again; 0: as long as its connection.
    connections_max_reauth_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    connection_failed_authentication_delay_ms: Annotated[int, msgspec.Meta(ge=0, le=60_000)] = (
        _CORE.failed_authentication_delay_ms
    )
    # TLS of listeners with SSL or SASL_SSL; `TlsConfig` says what they may be.
    ssl_keystore_location: str = ""
    ssl_keystore_type: str = ""
    ssl_keystore_password: str = ""
    ssl_key_password: str = ""
    ssl_keystore_certificate_chain: str = ""
    ssl_keystore_key: str = ""
    ssl_truststore_location: str = ""
    ssl_truststore_type: str = ""
    ssl_truststore_password: str = ""
    ssl_truststore_certificates: str = ""
    ssl_client_auth: str = "none"
    ssl_cipher_suites: list[str] = msgspec.field(default_factory=list)
    ssl_protocol: str = "TLSv1.3"
    ssl_enabled_protocols: list[str] = msgspec.field(default_factory=lambda: ["TLSv1.2", "TLSv1.3"])
    ssl_principal_mapping_rules: str = "DEFAULT"
    # Health, "host:port"; port 0 takes any.
    ops_listeners: str = "127.0.0.1:0"
    # The address of the metrics endpoint, "host:port"; empty: none, port 0 takes any.
    metrics_listeners: str = ""
    metrics_enable: bool = _CORE.metrics_enable
    # A timed request that takes this long is logged; -1: none.
    request_log_slow_ms: OptionalCount = _CORE.request_log_slow_ms
    # The collector of traces, "host:port" of its gRPC listener, and the share of requests that is traced.
    traces_otlp_endpoint: str = ""
    traces_sample_ratio: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    lease_ttl_ms: Annotated[int, msgspec.Meta(ge=1000)] = 6000
    # The number of processors, each a process; read again at SIGHUP.
    num_network_threads: Annotated[int, bounds("num.network.threads")] = 3
    socket_request_max_bytes: Int32 = _CORE.socket_request_bytes_max
    socket_listen_backlog_size: Count = 511
    # Of clients' connections; -1: what the system chooses, up to some megabytes.
    socket_send_buffer_bytes: Annotated[int, msgspec.Meta(ge=-1, le=0x7FFF_FFFF)] = 212_992
    # Request bytes that a processor holds at once.
    queued_max_request_bytes: Count = _CORE.queued_request_bytes_max
    # Fetch responses that a processor has in progress or that clients have not read.
    queued_max_response_bytes: Count = _CORE.fetch_memory_bytes
    fetch_max_bytes: Annotated[int, msgspec.Meta(ge=1024, le=0x7FFF_FFFF)] = _CORE.fetch_bytes_max
    # Incremental fetch sessions of this gateway, shared out evenly among its processors; 0: none.
    max_incremental_fetch_session_cache_slots: Annotated[int, msgspec.Meta(ge=0, le=0x7FFF_FFFF)] = (
        _CORE.fetch_session_slots
    )
    min_incremental_fetch_session_eviction_ms: Count = _CORE.fetch_session_eviction_ms
    # Old message formats (magic 0 and 1): Kafka 3's key for Fetch v0 to v3, a key of Barnabas for Produce v0 to v2.
    log_message_downconversion_enable: bool = _CORE.fetch_down_conversion
    produce_message_upconversion_enable: bool = _CORE.produce_up_conversion
    # Partitions in one DescribeTopicPartitions response.
    max_request_partition_size_limit: Int32 = _CORE.request_partitions_max
    connections_max_idle_ms: Count = _CORE.connection_idle_ms_max
    max_connections: Annotated[int, bounds("max.connections")] = _UNSET
    # The rate at which connections are accepted; listeners may have one of their own.
    max_connection_creation_rate: Annotated[int, bounds("max.connection.creation.rate")] = _UNSET
    max_connections_per_ip: Annotated[int, bounds("max.connections.per.ip")] = _UNSET
    # What clients' quotas are measured over, and mutations of topics.
    quota_window_num: Int32 = _CORE.quota_windows
    quota_window_size_seconds: Int32 = _CORE.quota_window_ms // 1000
    controller_quota_window_num: Int32 = _CORE.controller_quota_windows
    controller_quota_window_size_seconds: Int32 = _CORE.controller_quota_window_ms // 1000
    # Kafka's StandardAuthorizer, or none: everything is allowed.
    authorizer_class_name: str = ""
    # Principals that may do everything, separated by semicolons: "User:admin;User:operator".
    super_users: str = ""
    # Whether what falls under no ACL is allowed.
    allow_everyone_if_no_acl_found: bool = _CORE.authorizer.allows_without_acls
    auto_create_topics_enable: bool = _CORE.auto_create_topics
    # For topics that Metadata creates; -1 leaves it to the controller.
    num_partitions: OptionalCount = _CORE.num_partitions
    default_replication_factor: OptionalCount = _CORE.default_replication_factor
    # A controller that is silent for this long makes the gateway unready.
    controller_silence_max_ms: Count = 15_000
    log_level: LogLevel = "info"
    log_format: LogFormat = "json"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_metrics_listener(self.metrics_listeners)
        check_trace_endpoint(self.traces_otlp_endpoint)
        if self.audit_topic and (not is_legal_topic_name(self.audit_topic) or self.audit_topic in INTERNAL_TOPICS):
            raise ValueError(f"audit.topic={self.audit_topic}: expected the name of a topic that is not Kafka's own")
        if not self.listeners:
            raise ValueError("listeners: at least one is needed")
        bound = [_parse_listener("listeners", text) for text in self.listeners]
        if len({name for name, _, _ in bound}) != len(bound):
            raise ValueError("listeners: a name may be used once only")
        self.security()
        for name, host, _ in bound:
            if host in ("0.0.0.0", "[::]") and name not in self._advertised():
                raise ValueError(f"advertised.listeners is needed for {name}: clients can't connect to {host}")
        self._authorizer()
        for name in self._advertised():
            if name not in {each for each, _, _ in bound}:
                raise ValueError(f"advertised.listeners names {name}, which is not in listeners")

    def _authorizer(self) -> AuthorizerConfig:
        return _parse_authorizer(
            self.authorizer_class_name, self.super_users, allows_without_acls=self.allow_everyone_if_no_acl_found
        )

    def _traces_sample_every(self) -> int:
        is_wanted = self.traces_otlp_endpoint and self.metrics_enable and self.traces_sample_ratio > 0
        return max(1, round(1 / self.traces_sample_ratio)) if is_wanted else 0

    def _advertised(self) -> dict[str, tuple[str, int]]:
        parsed = (_parse_listener("advertised.listeners", text) for text in self.advertised_listeners)
        return {name: (host, port) for name, host, port in parsed}

    def bound_listeners(self) -> list[tuple[str, str, int]]:
        """(name, host, port) of each listener, to be bound."""
        return [_parse_listener("listeners", text) for text in self.listeners]

    def security(self) -> dict[str, ListenerSecurity]:
        """Return how each listener is secured, by name. Raises ValueError."""
        names = [name for name, _, _ in self.bound_listeners()]
        defaults = SecurityDefaults(
            self.sasl_enabled_mechanisms,
            self.sasl_server_max_receive_size,
            self.connections_max_reauth_ms,
            {key: self._text_of(key) for key in OAUTH_KEYS},
            {key: self._text_of(key) for key in KERBEROS_KEYS},
            {key: self._text_of(key) for key in TLS_KEYS},
        )
        return listener_securities(names, self.listener_security_protocol_map, self.listener_name, defaults)

    def _text_of(self, key: str) -> str:
        value = getattr(self, key.replace(".", "_"))
        return ",".join(value) if isinstance(value, list) else str(value)

    def core_config(self, bound_ports: dict[str, int], settings: Mapping[str, Setting] | None = None) -> GatewayConfig:
        """Return the core's part, once the listeners are bound; `settings` by key, to describe brokers by."""
        advertised = self._advertised()
        listeners = []
        security = self.security()
        for name, host, _ in self.bound_listeners():
            # As Kafka: a listener without a host is on all addresses, and advertised by the machine's own name.
            advertised_host, advertised_port = advertised.get(name, (host or socket.getfqdn(), bound_ports[name]))
            host_name, sasl = advertised_host.strip("[]"), security[name].sasl
            listeners.append(Listener(name, host, bound_ports[name], host_name, advertised_port, sasl))
        return GatewayConfig(
            gateway_id=self.gateway_id,
            listeners=tuple(listeners),
            address_policy=AddressPolicy(self.advertised_address_policy),
            auto_create_topics=self.auto_create_topics_enable,
            num_partitions=self.num_partitions,
            default_replication_factor=self.default_replication_factor,
            socket_request_bytes_max=self.socket_request_max_bytes,
            queued_request_bytes_max=self.queued_max_request_bytes,
            connection_idle_ms_max=self.connections_max_idle_ms,
            failed_authentication_delay_ms=self.connection_failed_authentication_delay_ms,
            fetch_bytes_max=self.fetch_max_bytes,
            request_partitions_max=self.max_request_partition_size_limit,
            fetch_session_slots=-(-self.max_incremental_fetch_session_cache_slots // self.num_network_threads),
            fetch_session_eviction_ms=self.min_incremental_fetch_session_eviction_ms,
            produce_up_conversion=self.produce_message_upconversion_enable,
            fetch_down_conversion=self.log_message_downconversion_enable,
            fetch_memory_bytes=self.queued_max_response_bytes,
            metrics_enable=self.metrics_enable,
            traces_sample_every=self._traces_sample_every(),
            request_log_slow_ms=self.request_log_slow_ms,
            processors=self.num_network_threads,
            quota_windows=self.quota_window_num,
            quota_window_ms=self.quota_window_size_seconds * 1000,
            controller_quota_windows=self.controller_quota_window_num,
            controller_quota_window_ms=self.controller_quota_window_size_seconds * 1000,
            authorizer=self._authorizer(),
            delegation_token_secret_key=self.delegation_token_secret_key,
            audit_topic=self.audit_topic,
            settings=settings or {},
        )


def _parse_listener(key: str, text: str) -> tuple[str, str, int]:
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not name or not colon or not port.isdigit() or int(port) > 0xFFFF:
        raise ValueError(f"{key}={text}: expected NAME://host:port")
    return name, host, int(port)


def _parse_authorizer(class_name: str, super_users: str, *, allows_without_acls: bool) -> AuthorizerConfig:
    """Return the configuration. `super_users`: "User:name", separated by semicolons, since names may contain commas.

    Raises ValueError: a class that is not Kafka's StandardAuthorizer, or a super user without a type.
    """
    if class_name not in ("", STANDARD_AUTHORIZER):
        raise ValueError(f"authorizer.class.name={class_name}: expected {STANDARD_AUTHORIZER}, or nothing")
    named = frozenset(user.strip() for user in super_users.split(";") if user.strip())
    for user in named:
        principal_type, _, name = user.partition(":")
        if not principal_type or not name:
            raise ValueError(f"super.users={user}: expected a principal such as User:admin")
    return AuthorizerConfig(bool(class_name), named, allows_without_acls)
