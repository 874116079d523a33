"""Metrics of a logstore, computed at a scrape and never in the path of a request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from barnabas.metrics.family import Family, Measured, Sample
from barnabas.metrics.log_families import FULL_LOG_DIRECTORIES, OFFLINE_LOG_DIRECTORIES
from barnabas.metrics.topic_families import (
    BYTES_IN,
    BYTES_OUT,
    FAILED_FETCH_REQUESTS,
    FAILED_PRODUCE_REQUESTS,
    FETCH_REQUESTS,
    MESSAGES_IN,
    PRODUCE_REQUESTS,
    REPLICATION_BYTES_IN,
    REPLICATION_BYTES_OUT,
    TOPICS_WITHOUT_LABEL,
)
from barnabas_logstore.core.coordinator.coordination import Coordination
from barnabas_logstore.core.coordinator.transactions.config import TransactionConfig
from barnabas_logstore.core.maintenance.cleaning import Cleaning
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.observability.health import Health
from barnabas_logstore.core.observability.partition_metrics_scan import PartitionMetricsScan
from barnabas_logstore.core.observability.transaction_scan import LATE_BUFFER_MS, TransactionScan
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.replica.topic_meters import TopicMeter


class Measures:
    def __init__(
        self,
        replicas: Replicas,
        directories: Directories,
        coordination: Coordination,
        cleaning: Cleaning,
        counting: Sequence[Measured],
        transactions: TransactionConfig,
    ) -> None:
        """`counting` know what they have counted, and have a bounded number of samples, whatever the number of
        partitions, as everything here has.
        """
        self._replicas = replicas
        self._directories = directories
        self._coordination = coordination
        self._counting = counting
        self._late_transaction_ms = transactions.max_timeout_ms + LATE_BUFFER_MS
        self.health = Health(replicas, coordination, cleaning, self._late_transaction_ms)

    def scan_partitions(self, wall_ms: int) -> PartitionMetricsScan:
        """Return a scan to be stepped until it is done, and then read."""
        coordination = self._coordination
        transactions = TransactionScan(coordination.transaction_partitions, wall_ms, self._late_transaction_ms)
        return PartitionMetricsScan(self._replicas, coordination.partitions, transactions)

    def samples(self) -> Iterator[Sample]:
        """All but the scan's."""
        yield Sample(OFFLINE_LOG_DIRECTORIES, (), self._directories.offline_count)
        yield Sample(FULL_LOG_DIRECTORIES, (), self._directories.full_count)
        meters = self._replicas.meters
        yield from _samples_of(meters.total(), "")
        for meter in meters:
            yield from _samples_of(meter, meter.label)
        yield Sample(TOPICS_WITHOUT_LABEL, (), meters.refused)
        for each in self._counting:
            yield from each.samples()


def _samples_of(meter: TopicMeter, label: str) -> Iterator[Sample]:
    counted: tuple[tuple[Family, int], ...] = (
        (BYTES_IN, meter.bytes_in),
        (MESSAGES_IN, meter.messages_in),
        (BYTES_OUT, meter.bytes_out),
        (PRODUCE_REQUESTS, meter.produce_requests),
        (FAILED_PRODUCE_REQUESTS, meter.failed_produce_requests),
        (FETCH_REQUESTS, meter.fetch_requests),
        (FAILED_FETCH_REQUESTS, meter.failed_fetch_requests),
        (REPLICATION_BYTES_IN, meter.replication_bytes_in),
        (REPLICATION_BYTES_OUT, meter.replication_bytes_out),
    )
    for family, count in counted:
        yield Sample(family, (label,), count)
