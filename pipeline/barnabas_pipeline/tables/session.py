"""The Spark session of a job: local by itself, or what spark-submit gives."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.ui.showConsoleProgress": "false",
}
# Where no spark-submit decides: all cores of this machine, no web server.
# The driver hands results to Python through a socket: 15 s, Spark's own bound, is short on a busy machine.
_LOCAL = {
    "spark.master": "local[*]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.python.authenticate.socketTimeout": "120s",
}


def spark_session(app_name: str, settings: Mapping[str, str]) -> SparkSession:
    """`settings` (spark.…) win over ours, and what spark-submit was given over our local ones."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    from barnabas_pipeline.source import BarnabasDataSource

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = "SPARK_ENV_LOADED" in os.environ or "spark.master" in dict(SparkConf().getAll())
    if not submitted:
        # The driver and its one executor are the same process: no need of a host name that resolves.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(app_name)
    for name, value in {**_DEFAULTS, **({} if submitted else _LOCAL), **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL" if not submitted else "WARN")
    BarnabasDataSource.register(spark)
    return spark
