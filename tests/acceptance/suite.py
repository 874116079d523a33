"""What a suite is to `make acceptance`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.acceptance.outcomes import Outcomes


@dataclass(slots=True, frozen=True)
class Broker:
    """The cluster that a suite is run against."""

    bootstrap: str
    sasl_bootstrap: str
    """Of the listener that authenticates by SCRAM-SHA-256."""
    brokers: int

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
