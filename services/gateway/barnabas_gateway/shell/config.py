"""What a gateway is configured with: Kafka's keys where Kafka has one."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from barnabas.cluster.config_description import Setting
from barnabas.runtime.config import bounds
from barnabas.runtime.etcd import EtcdConfig
from barnabas.runtime.logs import LogFormat, LogLevel
from barnabas.runtime.metrics_listener import check_metrics_listener
from barnabas.runtime.traces import check_trace_endpoint
from barnabas_gateway.core.model.config import AddressPolicy, GatewayConfig, Listener

Count = Annotated[int, msgspec.Meta(ge=1)]
Int32 = Annotated[int, msgspec.Meta(ge=1, le=0x7FFF_FFFF)]
OptionalCount = Annotated[int, msgspec.Meta(ge=-1)]

_UNSET = 0x7FFF_FFFF
_SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_CORE = GatewayConfig(gateway_id="", listeners=())


class GatewayProperties(EtcdConfig, kw_only=True, forbid_unknown_fields=True):
    """Field `a_b` is the key `a.b`; sizes are bytes, times are ms.

    The default of a key that the core acts on is declared in `GatewayConfig`.
    """

    gateway_id: str = "gateway-0"
    # "NAME://host:port", comma separated; the port is the bootstrap port of that listener.
    listeners: list[str] = msgspec.field(default_factory=lambda: ["PLAINTEXT://127.0.0.1:9092"])
    # "NAME:PROTOCOL", comma separated: needed for names that are no protocol. PLAINTEXT is all there is yet.
    listener_security_protocol_map: list[str] = msgspec.field(default_factory=list)
    # What clients are told, per name; the listener itself where it names no address.
    advertised_listeners: list[str] = msgspec.field(default_factory=list)
    advertised_address_policy: Literal["per-broker-port", "shared"] = "per-broker-port"
    # Health, "host:port"; port 0 takes any.
    ops_listeners: str = "127.0.0.1:0"
    # Where the pod is scraped, "host:port"; empty: nowhere, port 0 takes any.
    metrics_listeners: str = ""
    metrics_enable: bool = _CORE.metrics_enable
    # A timed request that takes as long is logged; -1: none.
    request_log_slow_ms: OptionalCount = _CORE.request_log_slow_ms
    # The collector of traces, "host:port" of its gRPC listener, and the part of requests that is traced.
    traces_otlp_endpoint: str = ""
    traces_sample_ratio: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    lease_ttl_ms: Annotated[int, msgspec.Meta(ge=1000)] = 6000
    # Processors, each a process; read again at SIGHUP.
    num_network_threads: Annotated[int, bounds("num.network.threads")] = 3
    socket_request_max_bytes: Int32 = _CORE.socket_request_bytes_max
    socket_listen_backlog_size: Count = 511
    # Request bytes that a processor holds at once.
    queued_max_request_bytes: Count = _CORE.queued_request_bytes_max
    # Answers to fetches that a processor has under way or that clients have not taken.
    queued_max_response_bytes: Count = _CORE.fetch_memory_bytes
    fetch_max_bytes: Annotated[int, msgspec.Meta(ge=1024, le=0x7FFF_FFFF)] = _CORE.fetch_bytes_max
    # Incremental fetch sessions of this gateway, shared out evenly among its processors; 0: none.
    max_incremental_fetch_session_cache_slots: Annotated[int, msgspec.Meta(ge=0, le=0x7FFF_FFFF)] = (
        _CORE.fetch_session_slots
    )
    min_incremental_fetch_session_eviction_ms: Count = _CORE.fetch_session_eviction_ms
    # Old message formats (magic 0 and 1): Kafka 3's key for Fetch v0 to v3, one of our own for Produce v0 to v2.
    log_message_downconversion_enable: bool = _CORE.fetch_down_conversion
    produce_message_upconversion_enable: bool = _CORE.produce_up_conversion
    # Partitions in one answer to DescribeTopicPartitions.
    max_request_partition_size_limit: Int32 = _CORE.request_partitions_max
    connections_max_idle_ms: Count = _CORE.connection_idle_ms_max
    max_connections: Annotated[int, bounds("max.connections")] = _UNSET
    max_connections_per_ip: Annotated[int, bounds("max.connections.per.ip")] = _UNSET
    auto_create_topics_enable: bool = _CORE.auto_create_topics
    # Of topics that Metadata creates; -1 leaves it to the controller.
    num_partitions: OptionalCount = _CORE.num_partitions
    default_replication_factor: OptionalCount = _CORE.default_replication_factor
    # A controller that is silent for so long makes the gateway unready.
    controller_silence_max_ms: Count = 15_000
    log_level: LogLevel = "info"
    log_format: LogFormat = "json"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_metrics_listener(self.metrics_listeners)
        check_trace_endpoint(self.traces_otlp_endpoint)
        if not self.listeners:
            raise ValueError("listeners: at least one is needed")
        bound = [_parse_listener("listeners", text) for text in self.listeners]
        if len({name for name, _, _ in bound}) != len(bound):
            raise ValueError("listeners: a name may be used once only")
        protocols = _parse_protocol_map(self.listener_security_protocol_map)
        for name, _, _ in bound:
            _check_protocol(name, protocols.get(name))
        for name, host, _ in bound:
            if host in ("0.0.0.0", "[::]") and name not in self._advertised():
                raise ValueError(f"advertised.listeners is needed for {name}: clients can't connect to {host}")
        for name in self._advertised():
            if name not in {each for each, _, _ in bound}:
                raise ValueError(f"advertised.listeners names {name}, which is not in listeners")

    def _traces_sample_every(self) -> int:
        is_wanted = self.traces_otlp_endpoint and self.metrics_enable and self.traces_sample_ratio > 0
        return max(1, round(1 / self.traces_sample_ratio)) if is_wanted else 0

    def _advertised(self) -> dict[str, tuple[str, int]]:
        parsed = (_parse_listener("advertised.listeners", text) for text in self.advertised_listeners)
        return {name: (host, port) for name, host, port in parsed}

    def bound_listeners(self) -> list[tuple[str, str, int]]:
        """(name, host, port) of each listener, to be bound."""
        return [_parse_listener("listeners", text) for text in self.listeners]

    def core_config(self, bound_ports: dict[str, int], settings: Mapping[str, Setting] | None = None) -> GatewayConfig:
        """The core's part, once the listeners are bound; `settings` by key, to describe brokers by."""
        advertised = self._advertised()
        listeners = []
        for name, host, _ in self.bound_listeners():
            # As Kafka: a listener without a host is on all addresses, and told by the machine's own name.
            told_host, told_port = advertised.get(name, (host or socket.getfqdn(), bound_ports[name]))
            listeners.append(Listener(name, host, bound_ports[name], told_host.strip("[]"), told_port))
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
            settings=settings or {},
        )


def _parse_protocol_map(texts: list[str]) -> dict[str, str]:
    """By name, the four protocols' own names included; an entry goes before these."""
    protocols = {protocol: protocol for protocol in _SECURITY_PROTOCOLS}
    for text in texts:
        name, _, protocol = text.partition(":")
        if not name or protocol not in _SECURITY_PROTOCOLS:
            allowed = ", ".join(_SECURITY_PROTOCOLS)
            raise ValueError(f"listener.security.protocol.map={text}: expected NAME:PROTOCOL, one of {allowed}")
        protocols[name] = protocol
    return protocols


def _check_protocol(name: str, protocol: str | None) -> None:
    """Clear text where somebody asked for encryption would be worse than no listener."""
    if protocol is None:
        raise ValueError(f"listener.security.protocol.map is needed for {name}: {name}:PLAINTEXT")
    if protocol != "PLAINTEXT":
        raise ValueError(
            f"listeners: {name} has listener protocol {protocol}, which is not available yet: "
            "use PLAINTEXT or a name mapped to PLAINTEXT"
        )


def _parse_listener(key: str, text: str) -> tuple[str, str, int]:
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not name or not colon or not port.isdigit() or int(port) > 0xFFFF:
        raise ValueError(f"{key}={text}: expected NAME://host:port")
    return name, host, int(port)
