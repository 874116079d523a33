"""ConnectionMeter: clients' connections of a gateway, by listener."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from barnabas.metrics.connection_families import (
    ACCEPTING_PAUSED,
    CONNECTIONS_CLOSED,
    CONNECTIONS_CREATED,
    CONNECTIONS_REFUSED,
)
from barnabas.metrics.family import Sample
from barnabas.metrics.quota_families import CONNECTIONS_THROTTLED


class ConnectionMeter:
    def __init__(self) -> None:
        self.created: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.throttled: Counter[str] = Counter()
        """By what limits their rate: "listener" or "ip"."""
        self.pauses = 0

    def samples(self) -> Iterator[Sample]:
        yield Sample(ACCEPTING_PAUSED, (), self.pauses)
        for family, counts in (
            (CONNECTIONS_CREATED, self.created),
            (CONNECTIONS_CLOSED, self.closed),
            (CONNECTIONS_REFUSED, self.refused),
            (CONNECTIONS_THROTTLED, self.throttled),
        ):
            for label, count in counts.items():
                yield Sample(family, (label,), count)
