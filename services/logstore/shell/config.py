"""What a logstore is configured with, by Kafka's keys."""

from __future__ import annotations

from typing import Annotated

import msgspec

from barnabas.cluster.topic_config import TopicConfig
from barnabas.runtime.etcd import EtcdConfig
from barnabas.runtime.logs import LogFormat, LogLevel

Count = Annotated[int, msgspec.Meta(ge=1)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0)]
DAY_MS = 24 * 60 * 60 * 1000


class LogstoreSettings(EtcdConfig, kw_only=True, forbid_unknown_fields=True):
    """Field `a_b` is the key `a.b`. The `log.*` keys are defaults that a topic may override by its own."""

    node_id: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    log_dirs: Annotated[list[str], msgspec.Meta(min_length=1)]
    # Where gateways and purgatory pods open their streams, "host:port"; port 0 takes any.
    listeners: str = "127.0.0.1:9300"
    # Where the controller opens its stream; when empty the next port after that of `listeners`.
    control_listeners: str = ""
    # The address that others are told; the listener itself when empty. Its host goes for the control listener too.
    advertised_listeners: str = ""
    broker_rack: str = ""

    num_io_threads: Annotated[int, msgspec.Meta(ge=1, le=128)] = 8
    queued_max_requests: Count = 500
    queued_max_request_bytes: Annotated[int, msgspec.Meta(ge=1024 * 1024)] = 64 * 1024 * 1024

    log_segment_bytes: Annotated[int, msgspec.Meta(ge=1024 * 1024, le=2**31 - 1)] = 1024 * 1024 * 1024
    log_roll_ms: Count = 7 * DAY_MS
    log_flush_interval_messages: Count = 2**63 - 1
    log_flush_interval_ms: Milliseconds = 2**63 - 1
    log_index_interval_bytes: Annotated[int, msgspec.Meta(ge=0)] = 4096
    log_index_size_max_bytes: Annotated[int, msgspec.Meta(ge=4)] = 10 * 1024 * 1024
    log_segment_delete_delay_ms: Milliseconds = 60_000
    message_max_bytes: Annotated[int, msgspec.Meta(ge=0)] = 1024 * 1024 + 12
    min_insync_replicas: Count = 1

    lease_ttl_ms: Annotated[int, msgspec.Meta(ge=1000)] = 6000
    log_level: LogLevel = "info"
    log_format: LogFormat = "json"

    def __post_init__(self) -> None:
        super().__post_init__()
        host, port = _split("listeners", self.listeners)
        if self.control_listeners:
            _split("control.listeners", self.control_listeners)
        if self.advertised_listeners:
            _split("advertised.listeners", self.advertised_listeners)
        elif host in ("0.0.0.0", "[::]"):
            raise ValueError(f"advertised.listeners is needed: nobody can connect to {host}")
        if any(not path.startswith("/") for path in self.log_dirs):
            raise ValueError(f"log.dirs={','.join(self.log_dirs)}: paths must be absolute")
        if len(set(self.log_dirs)) < len(self.log_dirs):
            raise ValueError(f"log.dirs={','.join(self.log_dirs)}: a path is there twice")
        if not self.control_listeners:
            self.control_listeners = f"{host}:{port + 1 if port else 0}"
        defaults = TopicConfig.from_overrides(self.topic_defaults())
        if isinstance(defaults, str):
            raise ValueError(defaults)

    def topic_defaults(self) -> dict[str, str]:
        """The settings that topics get unless they have their own, by topics' names for them."""
        return {
            "segment.bytes": str(self.log_segment_bytes),
            "segment.ms": str(self.log_roll_ms),
            "flush.messages": str(self.log_flush_interval_messages),
            "flush.ms": str(self.log_flush_interval_ms),
            "index.interval.bytes": str(self.log_index_interval_bytes),
            "segment.index.bytes": str(self.log_index_size_max_bytes),
            "file.delete.delay.ms": str(self.log_segment_delete_delay_ms),
            "max.message.bytes": str(self.message_max_bytes),
            "min.insync.replicas": str(self.min_insync_replicas),
        }

    def data_address(self, bound_port: int) -> str:
        """What gateways and purgatory pods connect to, once the listener is bound."""
        return self.advertised_listeners or f"{self.listeners.rpartition(':')[0]}:{bound_port}"

    def control_address(self, bound_port: int) -> str:
        """What the controller connects to."""
        told = self.advertised_listeners or self.control_listeners
        return f"{told.rpartition(':')[0]}:{bound_port}"


def _split(key: str, address: str) -> tuple[str, int]:
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isdigit():
        raise ValueError(f"{key}={address}: expected host:port")
    return host, int(port)
