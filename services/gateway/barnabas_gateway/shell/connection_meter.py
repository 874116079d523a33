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


class ConnectionMeter:
    def __init__(self) -> None:
        self.created: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.pauses = 0

    def samples(self) -> Iterator[Sample]:
        yield Sample(ACCEPTING_PAUSED, (), self.pauses)
        for family, counts in (
            (CONNECTIONS_CREATED, self.created),
            (CONNECTIONS_CLOSED, self.closed),
            (CONNECTIONS_REFUSED, self.refused),
        ):
            for listener, count in counts.items():
                yield Sample(family, (listener,), count)
