"""A local Spark, and topics of a running cluster, for tests of the source."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from barnabas_pipeline.source import BarnabasDataSource

_SECONDS_MAX = 60.0


def spark_session(directory: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    BarnabasDataSource.register(spark)
    return spark


class Topics:
    """Made, filled and deleted by librdkafka."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=named)])[topic].result(_SECONDS_MAX)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(_SECONDS_MAX)

    def fill(self, topic: str, values: list[bytes], *, partition: int = 0, batch_records: int = 0, **more: Any) -> None:
        """`batch_records`: how many to a record batch, 0 for as librdkafka likes; `more` goes to `produce`."""
        settings = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True}
        producer = Producer(settings | ({"batch.num.messages": batch_records} if batch_records else {}))
        failures: list[Any] = []
        for value in values:
            producer.produce(
                topic,
                value,
                partition=partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
                **more,
            )
            if batch_records == 1:
                producer.flush(_SECONDS_MAX)
        assert producer.flush(_SECONDS_MAX) == 0
        assert failures == []

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        from confluent_kafka import TopicPartition

        wanted = TopicPartition(topic, partition, before)
        self.admin.delete_records([wanted])[wanted].result(_SECONDS_MAX)


def stream(spark: SparkSession, topics: Topics, checkpoint: Path, **options: object) -> list[Any]:
    """Everything that is there now, by a query with that checkpoint: the rows in order of partition and offset."""
    return [row for batch in batches(spark, topics, checkpoint, **options) for row in batch]


def batches(spark: SparkSession, topics: Topics, checkpoint: Path, **options: object) -> list[list[Any]]:
    """The same, by micro-batch; those without rows are left out."""
    gathered: list[list[Any]] = []

    def gather(frame: Any, _: int) -> None:
        rows = frame.orderBy("topic", "partition", "offset").collect()
        if rows:
            gathered.append(rows)

    reader = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", topics.bootstrap)
    for name, value in options.items():
        reader = reader.option(name.replace("_", "."), str(value))
    query = (
        reader.load()
        .writeStream.foreachBatch(gather)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination(180)
        assert not query.isActive
    finally:
        query.stop()
    return gathered
