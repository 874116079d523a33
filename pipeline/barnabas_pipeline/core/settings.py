"""How to connect to a cluster: what a task needs besides its range. Picklable."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

PRODUCER_LOG_LEVEL: Final = "2"
"""librdkafka's log level, as in syslog: only critical messages are printed."""


class Isolation(IntEnum):
    """`isolation_level` on the wire."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """`bootstrap` are (host, port). A request may take `request_timeout_ms`, and one call of the client, with all its
    retries, `api_timeout_ms`."""

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "barnabas-pipeline"
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    fetch_bytes_max: int = 2 * 1024 * 1024
    fetch_wait_ms_max: int = 500
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    check_crcs: bool = True
    security: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Properties of Kafka's clients for TLS and SASL (`SECURITY_PROPERTIES`), and their values."""

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)
