"""What a suite is to `make acceptance`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.acceptance.outcomes import Outcomes


@dataclass(slots=True, frozen=True)
class Addresses:
    """The brokers of a suite whose code has their ids and ports, which are those of a proxy that it starts itself."""

    first_id: int
    first_port: int
    """Where the broker of that id is advertised, on loopback; the next id has the next port."""

    def port_of(self, broker: int) -> int:
        return self.first_port + broker - self.first_id


@dataclass(slots=True, frozen=True)
class Broker:
    """The cluster that a suite is run against."""

    bootstrap: str
    sasl_bootstrap: str
    """Of the listener that authenticates by SCRAM-SHA-256."""
    brokers: int
    behind_proxy: Mapping[int, int] = field(default_factory=dict)
    """Where each broker listens for the proxy of a suite that has addresses, by the port that it is advertised at."""

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])


@dataclass(slots=True, frozen=True)
class Suite:
    name: str
    title: str
    """With its version, for the page."""
    bring: Callable[[], Path]
    """Return the directory of what was brought or built. Raises UnavailableError."""
    run: Callable[[Path, Broker, Path], Outcomes]
    """With that directory, the cluster, and an empty directory for logs. What it starts has ended when it returns."""
    gateway: Mapping[str, str] = field(default_factory=dict)
    logstore: Mapping[str, str] = field(default_factory=dict)
    """Settings of the broker that the suite asks for, by the service that reads them; Apache Kafka is given both.
    `{id}` in those of a logstore is that of the broker.
    """
    kafka_brokers: int = 1
    """How many brokers of Apache Kafka it is compared with."""
    addresses: Addresses | None = None
    """None where it asks the bootstrap address for its brokers, as other clients do."""

    def ids(self, brokers: int) -> range:
        """Return the ids of so many brokers."""
        first = 0 if self.addresses is None else self.addresses.first_id
        return range(first, first + brokers)
