"""What batch reader and stream reader share: both plan ranges on the driver, and read them in tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from barnabas_pipeline.core.errors import DataLost
from barnabas_pipeline.core.losses import Loss, LossReason, OnDataLoss, loss_advice
from barnabas_pipeline.core.options import ReadOptions
from barnabas_pipeline.core.ranges import OffsetRange, limit_ranges, split_ranges
from barnabas_pipeline.kafka.cluster_client import ClusterClient
from barnabas_pipeline.kafka.loss_topic import write_losses
from barnabas_pipeline.kafka.reading import read_range

log = logging.getLogger(__name__)


@dataclass
class RangePartition(InputPartition):
    """The range that one task reads."""

    value: OffsetRange


def plan_partitions(ranges: Iterable[OffsetRange], options: ReadOptions) -> list[RangePartition]:
    cut = split_ranges(limit_ranges(ranges, options.records_per_partition_max), options.partitions_min)
    return [RangePartition(each) for each in cut]


def read_partition(partition: Any, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Runs in a task. Spark plans one without a range if a batch read has none at all."""
    if partition.value is None:
        return
    with ClusterClient(options.client) as client:
        yield from read_range(
            client,
            partition.value,
            lambda loss: judge_losses(options, [loss]),
            with_headers=options.include_headers,
        )


def judge_losses(options: ReadOptions, losses: list[Loss]) -> None:
    """Raises DataLost, or records the losses and returns, depending on `onDataLoss`."""
    if not losses:
        return
    more = f" (and {len(losses) - 1} more like it)" if len(losses) > 1 else ""
    if options.on_data_loss is OnDataLoss.FAIL:
        raise DataLost(f"{losses[0]}{more}. {loss_advice('onDataLoss')}.")
    log.warning("continuing without lost records: %s%s", losses[0], more)
    if options.loss_topic is not None:
        write_losses(options.client, options.loss_topic, losses)


def noticed_on_the_driver(losses: Iterable[Loss], options: ReadOptions) -> list[Loss]:
    """Return losses that no task will notice. A task notices what retention has deleted, and knows how much: the driver
    only checks it to fail at once."""
    return [
        loss for loss in losses if options.on_data_loss is OnDataLoss.FAIL or loss.reason is not LossReason.RETENTION
    ]
