"""A streaming query from one topic into another, to its end, as a user would write it: for `spark-submit`.

It prints a line for each batch that is done.
"""

from __future__ import annotations

import click
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

from barnabas_pipeline.source import BarnabasDataSource


class _Lines(StreamingQueryListener):
    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        print(f"batch {event.progress.batchId}: {event.progress.numInputRows} rows", flush=True)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        pass


@click.command()
@click.option("--bootstrap", required=True)
@click.option("--source", required=True)
@click.option("--target", required=True)
@click.option("--checkpoint", required=True)
@click.option("--transactional-id")
@click.option("--records-per-batch", default=400)
@click.option("--tasks", default=4)
def main(
    bootstrap: str,
    source: str,
    target: str,
    checkpoint: str,
    transactional_id: str | None,
    records_per_batch: int,
    tasks: int,
) -> None:
    spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    BarnabasDataSource.register(spark)
    spark.streams.addListener(_Lines())
    rows = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", records_per_batch)
        .option("minPartitions", tasks)
        .load()
        .select("key", "value")
    )
    writer = rows.writeStream.format("barnabas").option("kafka.bootstrap.servers", bootstrap).option("topic", target)
    if transactional_id is not None:
        writer = writer.option("kafka.transactional.id", transactional_id)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
