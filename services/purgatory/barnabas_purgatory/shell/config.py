"""The configuration of a purgatory pod."""

from __future__ import annotations

from typing import Annotated

import msgspec

from barnabas.runtime.configuration.service_config import ServiceConfig
from barnabas.runtime.logs import LogFormat, LogLevel
from barnabas.runtime.metrics.listener import check_metrics_listener
from barnabas.runtime.tracing.traces import check_trace_endpoint

Count = Annotated[int, msgspec.Meta(ge=1)]


class PurgatoryConfig(ServiceConfig, kw_only=True, forbid_unknown_fields=True):
    """Field `a_b` is the key `a.b`; sizes are counts, times are ms."""

    pod_id: str = "purgatory-0"
    # The address on which gateways open their streams, "host:port"; port 0 takes any.
    listeners: str = "127.0.0.1:9600"
    # Health alone, for probes, "host:port"; empty: none.
    health_listeners: str = ""
    # The address advertised to gateways; the listener itself if empty.
    advertised_listeners: str = ""
    lease_ttl_ms: Annotated[int, msgspec.Meta(ge=1000)] = 6000
    # Counted in conditions, about 500 bytes each; parks beyond it are answered as if their time had run out.
    purgatory_entries_max: Count = 2_000_000
    # The address of the metrics endpoint, "host:port"; empty: none, port 0 takes any.
    metrics_listeners: str = ""
    # The collector of traces, "host:port" of its gRPC listener; empty: none.
    traces_otlp_endpoint: str = ""
    log_level: LogLevel = "info"
    log_format: LogFormat = "json"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_metrics_listener(self.metrics_listeners)
        check_trace_endpoint(self.traces_otlp_endpoint)
        host, separator, port = self.listeners.rpartition(":")
        if not separator or not host or not port.isdigit():
            raise ValueError(f"listeners={self.listeners}: expected host:port")
        if host in ("0.0.0.0", "[::]") and not self.advertised_listeners:
            raise ValueError(f"advertised.listeners is needed: gateways cannot connect to {host}")

    def advertised_address(self, bound_port: int) -> str:
        """Return the address that gateways connect to, once the listener is bound."""
        return self.advertised_listeners or f"{self.listeners.rpartition(':')[0]}:{bound_port}"
