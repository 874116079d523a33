"""`spark.read.format("barnabas")`: all records between two places, once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader

from barnabas_pipeline.core.options import ReadOptions
from barnabas_pipeline.core.ranges import ranges_between
from barnabas_pipeline.kafka.cluster_client import ClusterClient
from barnabas_pipeline.kafka.places import positions_at, subscribed_topics
from barnabas_pipeline.source.reading import RangePartition, plan_partitions, read_partition


class BatchReader(DataSourceReader):
    """Plans on the driver, reads in tasks; holds only its options, since it is sent to the tasks."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[RangePartition]:
        options = self._options
        with ClusterClient(options.client) as client:
            topics = subscribed_topics(client, options.subscription)
            options.subscription.check_all_there(topics, options.client.bootstrap_servers)
            extents = client.extents(topics)
            start = positions_at(client, options.starting, extents)
            end = positions_at(client, options.ending, extents)
        return plan_partitions(ranges_between(start, end), options)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options)
