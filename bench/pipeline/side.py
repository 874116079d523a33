"""One side of the comparison, as a process: a Spark that reads a topic whenever it is told to.

`python bench/pipeline/side.py FORMAT BOOTSTRAP TOPIC [JAR,JAR]`, with the interpreter that has that side's Spark. For
each line on stdin it reads the whole topic and prints one line of JSON. Every column is looked at, and the figures
that come out have to be the same on both sides.
"""

from __future__ import annotations

import json
import os
import sys
import time

from pyspark.sql import SparkSession

FIGURES = (
    "count(*)",
    "sum(length(key))",
    "sum(length(value))",
    "sum(offset)",
    "sum(partition)",
    "max(unix_millis(timestamp))",
    "max(topic)",
    "max(timestampType)",
)


def main() -> None:
    name, bootstrap, topic, *jars = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "1g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    if jars:
        builder = builder.config("spark.jars", jars[0])
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if name == "barnabas":
        from barnabas_pipeline.source import BarnabasDataSource

        BarnabasDataSource.register(spark)
    print(json.dumps({"spark": spark.version}), flush=True)
    for _ in sys.stdin:
        frame = spark.read.format(name).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic).load()
        began = time.monotonic()
        figures = list(frame.selectExpr(*FIGURES).collect()[0])
        seconds = time.monotonic() - began
        print(json.dumps({"seconds": seconds, "figures": figures}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
