"""Measures: what a logstore has to report of itself, asked for at a scrape and never in the path of a request."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.metrics.family import Measured, Sample
from barnabas.metrics.replica_families import (
    AT_MIN_ISR_PARTITIONS,
    LEADERS,
    OFFLINE_REPLICAS,
    PARTITIONS,
    UNDER_MIN_ISR_PARTITIONS,
    UNDER_REPLICATED_PARTITIONS,
)
from services.logstore.core.partition import Partition
from services.logstore.core.replicas import Replicas


class Survey:
    """One look at every replica, in slices of the caller's choice; what has come or gone meanwhile may be missed."""

    def __init__(self, replicas: Replicas) -> None:
        self._left = list(replicas.by_key.values())
        self._offline = len(replicas.without_disk)
        self._partitions = len(self._left)
        self._leaders = 0
        self._under_replicated = 0
        self._under_min_isr = 0
        self._at_min_isr = 0

    def step(self, count_max: int) -> bool:
        """Look at the next ones; True when all have been looked at."""
        for partition in self._left[-count_max:]:
            self._look_at(partition)
        del self._left[-count_max:]
        return not self._left

    def _look_at(self, partition: Partition) -> None:
        if not partition.online:
            self._offline += 1
        if not partition.leading:
            return
        self._leaders += 1
        in_sync = len(partition.isr.committed)
        self._under_replicated += in_sync < len(partition.replicas)
        self._under_min_isr += not partition.in_sync_replicas_at_minimum
        self._at_min_isr += in_sync == partition.in_sync_replicas_min

    def samples(self) -> Iterator[Sample]:
        yield Sample(PARTITIONS, (), self._partitions)
        yield Sample(LEADERS, (), self._leaders)
        yield Sample(OFFLINE_REPLICAS, (), self._offline)
        yield Sample(UNDER_REPLICATED_PARTITIONS, (), self._under_replicated)
        yield Sample(UNDER_MIN_ISR_PARTITIONS, (), self._under_min_isr)
        yield Sample(AT_MIN_ISR_PARTITIONS, (), self._at_min_isr)


class Measures:
    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self.parts: list[Measured] = []
        """Asked at every scrape; each has a bounded number of samples, whatever the number of partitions."""

    def survey(self) -> Survey:
        """To be stepped until it is done, then asked for its samples."""
        return Survey(self._replicas)
