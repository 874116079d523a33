"""Runs in the environment of Spark's JVM connector: `python jvm_script.py BOOTSTRAP JARS TOPIC COPY_TOPIC DIRECTORY`.

Prints one line of JSON: the rows of TOPIC by a batch read, and by a stream that also wrote them to COPY_TOPIC.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    from pyspark.sql import SparkSession

    bootstrap, jars, topic, copy_topic, directory = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", jars)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    batch = rows(spark.read.format("kafka").options(**options).load())
    query = (
        spark.readStream.format("kafka")
        .options(**options, maxOffsetsPerTrigger="60")
        .load()
        .selectExpr("key", "value", "headers", "partition", f"'{copy_topic}' as topic")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("includeHeaders", "true")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(300)
    print(json.dumps({"batch": batch, "is_done": not query.isActive}), flush=True)
    spark.stop()


def rows(frame: Any) -> list[Any]:
    """[partition, offset, key, value, time in ms, its type, headers], bytes as hex."""
    text = frame.selectExpr(
        "partition",
        "offset",
        "hex(key)",
        "hex(value)",
        "unix_millis(timestamp)",
        "timestampType",
        "transform(headers, each -> array(each.key, hex(each.value)))",
    )
    return sorted([*row] for row in text.collect())


if __name__ == "__main__":
    main()
