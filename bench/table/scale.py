"""How much is measured: what three minutes are enough for, or all of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


@dataclass(slots=True, frozen=True)
class Scale:
    turns: int
    seconds: float
    """Of a sample of produce requests, commits or single requests."""
    stage_warm_up_seconds: float
    """Of single-record requests to Apache Kafka before the first row: its virtual machine compiles meanwhile."""
    warm_ups: int
    """Samples of produce requests that each side takes before the first that counts."""
    warm_up_seconds: float
    """Of single requests, before the first sample of each side."""
    touched_bytes: int
    """Free memory that is touched before a sample that takes new pages."""
    megabytes: int
    """Consumed for each sample."""
    groups: int
    """Of ten members that send heartbeats."""
    heartbeat_seconds: float
    heartbeat_turns: int
    connections: int
    """That each send a request now and then; 0: the row is left out."""
    connection_seconds: float
    topics_of_1000: int
    """For the first write to each partition, of Barnabas alone."""
    compares_partitions: bool
    """Whether starts from data, and first writes to 1,000 partitions, are taken of Apache Kafka too: it takes long."""
    idle_windows: int
    idle_seconds: float
    settle_seconds: float
    """Before what is measured of an idle cluster: a virtual machine compiles, checkpoints are written."""
    restarts: int
    clones: int
    """Of the checkout, each with a `make up`; 0: the row is left out."""
    is_quick: bool

    def with_turns(self, turns: int) -> Scale:
        return replace(self, turns=turns)


QUICK: Final = Scale(
    turns=3,
    seconds=0.5,
    stage_warm_up_seconds=3.0,
    warm_ups=1,
    warm_up_seconds=0.5,
    touched_bytes=1 << 28,
    megabytes=100,
    groups=25,
    heartbeat_seconds=1.5,
    heartbeat_turns=1,
    connections=0,
    connection_seconds=0.0,
    topics_of_1000=1,
    compares_partitions=False,
    idle_windows=2,
    idle_seconds=1.5,
    settle_seconds=1.0,
    restarts=1,
    clones=0,
    is_quick=True,
)

WHOLE: Final = Scale(
    turns=5,
    seconds=2.0,
    stage_warm_up_seconds=10.0,
    warm_ups=2,
    warm_up_seconds=2.0,
    touched_bytes=1 << 30,
    megabytes=300,
    groups=1000,
    heartbeat_seconds=9.0,
    heartbeat_turns=3,
    connections=20_000,
    connection_seconds=20.0,
    topics_of_1000=10,
    compares_partitions=True,
    idle_windows=5,
    idle_seconds=5.0,
    settle_seconds=10.0,
    restarts=3,
    clones=3,
    is_quick=False,
)
