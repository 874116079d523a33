"""`spark.readStream.format("barnabas")`: micro-batches of new records, each of limited size.

Spark keeps one reader in a process on the driver as long as a query runs, and asks it where a batch may end; the tasks
that read get a copy of it. Positions are in Spark's checkpoint, which alone determines where to continue. The consumer
group to which `commit` writes progress is for lag tools.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from barnabas_pipeline.core.admission import Limits, admit_bytes, admit_records, probe_offsets
from barnabas_pipeline.core.cluster import Extents
from barnabas_pipeline.core.comparison import (
    Comparison,
    advanced,
    clipped,
    compare,
    latest_positions,
    readable_backlog,
)
from barnabas_pipeline.core.errors import PipelineError
from barnabas_pipeline.core.losses import LossReason
from barnabas_pipeline.core.options import ReadOptions
from barnabas_pipeline.core.positions import Positions, TopicPartition, from_dict, to_dict
from barnabas_pipeline.core.ranges import ranges_between
from barnabas_pipeline.kafka.cluster_client import ClusterClient
from barnabas_pipeline.kafka.places import positions_at, subscribed_topics
from barnabas_pipeline.kafka.progress import commit_progress
from barnabas_pipeline.kafka.sampling import sample
from barnabas_pipeline.source.reading import (
    RangePartition,
    judge_losses,
    noticed_on_the_driver,
    plan_partitions,
    read_partition,
)

log = logging.getLogger(__name__)

_PROBES: Final = 5
"""Samples of a partition's bytes per offset, spread over what a batch might read of it."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """On the driver it has a client; only its options are pickled for the tasks."""

    def __init__(self, options: ReadOptions, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._options = options
        self._clock = clock
        self._last_batch_at: float | None = None
        self._client: ClusterClient | None = None
        self._target: Positions | None = None
        self._latest: Positions | None = None
        self._initial: dict[str, Any] | None = None
        self._is_placed = False
        self._judged: set[str] = set()
        self._reported: dict[str, Any] = {}

    def __reduce__(self) -> tuple[type[StreamReader], tuple[ReadOptions]]:
        return type(self), (self._options,)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Spark does not store it, and asks again as long as no batch is done, also after a crash. So the first batch
        is empty: its end, which Spark stores, is where the query began."""
        if self._initial is None:
            options = self._options
            topics = subscribed_topics(self._cluster, options.subscription)
            options.subscription.check_all_there(topics, options.client.bootstrap_servers)
            self._initial = to_dict(positions_at(self._cluster, options.starting, self._cluster.extents(topics)))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Spark passes it back to `latestOffset`, or says that all is to be read. It can express one limit, so only the
        options count; this is what Spark prints."""
        limits = self._options.limits
        if limits.records_max is not None:
            return ReadMaxRows(limits.records_max)
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        return ReadMinRows(limits.records_min) if limits.records_min is not None else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        # Everything before `start` is done: Spark plans a batch when the previous one is. It calls `commit` only once
        # there is another one, so the last batch of a run would be committed by the next run.
        self.commit(start)
        if start == self._initial and not self._is_placed:
            self._is_placed = True
            return start
        extents = self._extents()
        self._latest = latest_positions(extents)
        if self._target is not None:
            extents = clipped(extents, self._target)
        comparison = compare(from_dict(start), extents)
        self._judge(comparison)
        limits = Limits() if isinstance(limit, ReadAllAvailable) else self._options.limits
        backlog = readable_backlog(comparison, extents)
        # Everything that exists at `availableNow` is read, however small the last batch of it is.
        may_be_put_off = self._target is None and not comparison.has_to_be_kept
        if may_be_put_off and limits.puts_off(sum(backlog.values()), self._since_last_batch_ms()):
            return start
        if backlog:
            self._last_batch_at = self._clock()
        return to_dict(advanced(comparison, self._admit(comparison, backlog, limits)))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = latest_positions(self._extents())

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return None if self._latest is None else to_dict(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RangePartition]:
        self._is_placed = True  # also by an earlier run, whose first batch is planned again here
        return plan_partitions(ranges_between(from_dict(start), from_dict(end)), self._options)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """A group that can't be updated is no reason to stop: only the checkpoint counts."""
        if self._options.group_id is None or end == self._reported:
            return
        try:
            commit_progress(self._cluster, self._options.group_id, from_dict(end))
            self._reported = end
        except PipelineError as error:
            log.warning("progress is not committed to group %s: %s", self._options.group_id, error)

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    @property
    def _cluster(self) -> ClusterClient:
        if self._client is None:
            self._client = ClusterClient(self._options.client)
        return self._client

    def _extents(self) -> Extents:
        return self._cluster.extents(subscribed_topics(self._cluster, self._options.subscription))

    def _judge(self, comparison: Comparison) -> None:
        for partition in comparison.moved_back:
            log.info("%s ends before the position: waiting, as after a failover", partition)
        noticed = [
            loss
            for loss in noticed_on_the_driver(comparison.losses, self._options)
            # A deleted topic stays deleted: it is reported once.
            if not (loss.reason is LossReason.DELETED and loss.key in self._judged)
        ]
        judge_losses(self._options, noticed)
        self._judged.update(loss.key for loss in noticed)

    def _since_last_batch_ms(self) -> float | None:
        return None if self._last_batch_at is None else (self._clock() - self._last_batch_at) * 1000

    def _admit(
        self, comparison: Comparison, backlog: dict[TopicPartition, int], limits: Limits
    ) -> dict[TopicPartition, int]:
        admitted = admit_records(backlog, limits.records_max)
        if limits.bytes_max is None or not admitted:
            return admitted
        starts = {each: comparison.standing[each.topic].offsets[each.partition] for each in admitted}
        probes = {each: probe_offsets(starts[each], admitted[each], _PROBES) for each in admitted}
        return admit_bytes(admitted, starts, sample(self._cluster, probes), limits.bytes_max)
