"""StreamMeter: how often the streams of this process were opened and lost, by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from barnabas.metrics.connection_families import (
    LANES_LOST,
    LANES_OPENED,
    LANES_REFUSED,
    STREAM_ATTEMPTS_FAILED,
    STREAMS_LOST,
    STREAMS_OPENED,
)
from barnabas.metrics.family import Sample


class StreamMeter:
    """By gRPC's path of a method, whose last part is the label: Exchange, Park."""

    def __init__(self) -> None:
        self.opened: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.lanes_opened: Counter[str] = Counter()
        self.lanes_refused: Counter[str] = Counter()
        self.lanes_lost: Counter[str] = Counter()

    def samples(self) -> Iterator[Sample]:
        for family, counts in (
            (STREAMS_OPENED, self.opened),
            (STREAMS_LOST, self.lost),
            (STREAM_ATTEMPTS_FAILED, self.failed),
            (LANES_OPENED, self.lanes_opened),
            (LANES_REFUSED, self.lanes_refused),
            (LANES_LOST, self.lanes_lost),
        ):
            for path, count in counts.items():
                yield Sample(family, (path.rpartition("/")[2],), count)


STREAMS: Final = StreamMeter()
"""The meter of this process: links are created and removed with their targets, and the counts stay."""
