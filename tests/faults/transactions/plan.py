"""The plan of the process of transactional clients."""

from __future__ import annotations

from typing import Any, Final

import msgspec

TRANSACTION_TIMEOUT_MS: Final = 10_000
"""After so long a coordinator aborts what its producer has left open."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    bootstrap_servers: list[str]
    topic: str
    """Its name is continued by -in, -out and -all."""
    partitions: int
    directory: str
    """For the history, one file per client."""
    seed: int
    by_java: bool = False
    """Whether copiers and writers are Kafka's own client, not librdkafka's."""
    copiers: int = 2
    writers: int = 2
    records_per_second: int = 100
    """Into the input."""
    life_seconds: float = 8.0
    """About how often a transactional producer is left with its transaction open, for a successor to fence."""
    debug: str = ""
    """What transactional producers write into the log of the clients: librdkafka's `debug`."""

    @property
    def clients(self) -> dict[str, Any]:
        """Return what all clients of librdkafka have in common."""
        return self._at(self.bootstrap_servers)

    def clients_at(self, number: int) -> dict[str, Any]:
        """Return the same for a client of one gateway, which has the number.

        Each gateway advertises addresses of its own. librdkafka 2.16 removes a broker whose address is another one in
        the next metadata; an offset commit of a transaction that waits for that broker then waits without end.
        """
        return self._at([self.bootstrap_servers[number % len(self.bootstrap_servers)]])

    def _at(self, servers: list[str]) -> dict[str, Any]:
        return {
            "bootstrap.servers": ",".join(servers),
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "socket.connection.setup.timeout.ms": 3000,
            "socket.timeout.ms": 10_000,
            "broker.address.family": "v4",
            "log_level": 0,
        }

    def topic_of(self, which: str) -> str:
        return f"{self.topic}-{which}"
