"""Meter: a pod's counts, in plain numbers by kind of entry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from barnabas.channel.messages import Outcome
from barnabas.containment import Place, Scope
from barnabas.metrics.family import Sample
from barnabas.metrics.purgatory_families import (
    COMPLETED,
    DELAYED_OPERATIONS,
    DROPPED,
    PARKED,
    PURGATORY_SIZE,
    REFUSED,
)
from barnabas_purgatory.core.group_watches import ParkedGroup
from barnabas_purgatory.core.waiting import ParkedFetch, ParkedProduce

Parked = ParkedProduce | ParkedFetch | ParkedGroup

KIND_NAMES: Final[dict[type[Parked], str]] = {ParkedProduce: "Produce", ParkedFetch: "Fetch", ParkedGroup: "Group"}
"""Kafka distinguishes Rebalance and Heartbeat; a pod knows only that a member waits for its group."""

MESSAGE: Final = Place(
    "purgatory.message",
    Scope.STREAM,
    "a message of a gateway, whose processor asks the leaders itself then, or the states that a logstore publishes",
)
ENTRY: Final = Place(
    "purgatory.entry", Scope.REQUEST, "what one parked entry waits for: it is answered as if its time were over"
)
PLACES: Final = (MESSAGE, ENTRY)


class Meter:
    __slots__ = ("_completed", "_parked", "_size", "_waiting", "dropped", "refused")

    def __init__(self) -> None:
        self._parked = dict.fromkeys(KIND_NAMES, 0)
        self._waiting = dict.fromkeys(KIND_NAMES, 0)
        self._size = dict.fromkeys(KIND_NAMES, 0)
        self._completed = {kind: dict.fromkeys(Outcome, 0) for kind in KIND_NAMES}
        self.dropped = 0
        self.refused = 0

    def parked(self, entry: Parked, conditions: int) -> None:
        kind = type(entry)
        self._parked[kind] += 1
        self._waiting[kind] += 1
        self._size[kind] += conditions

    def removed(self, entry: Parked, conditions: int) -> None:
        kind = type(entry)
        self._waiting[kind] -= 1
        self._size[kind] -= conditions

    def completed(self, entry: Parked, outcome: Outcome) -> None:
        self._completed[type(entry)][outcome] += 1

    def samples(self) -> Iterator[Sample]:
        for kind, name in KIND_NAMES.items():
            yield Sample(PURGATORY_SIZE, (name,), self._size[kind])
            yield Sample(DELAYED_OPERATIONS, (name,), self._waiting[kind])
            yield Sample(PARKED, (name,), self._parked[kind])
            for outcome, count in self._completed[kind].items():
                yield Sample(COMPLETED, (name, outcome.name.lower()), count)
        yield Sample(DROPPED, (), self.dropped)
        yield Sample(REFUSED, (), self.refused)
