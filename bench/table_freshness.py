"""How fresh a table is under a steady stream: the age of each row at the moment a reader could see it.

`python -m bench.table_freshness`: Spark, the broker and the producer share this machine. A row is visible from its
snapshot's commit on; which snapshot brought it is in the snapshot's own summary (offset ranges). Rows of the warm-up,
in which Spark starts, are left out.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyiceberg.catalog import load_catalog

from bench.ending import end_in_order
from tests.integration.running_cluster import ROOT, RunningCluster

TOPIC = "steady"
PARTITIONS = 2
RESULTS = Path(__file__).parent / "results" / "table-freshness.json"


def produce_steadily(bootstrap: str, rate: int, seconds: float) -> int:
    """`rate` records a second, a tenth of them every tenth of a second; how many in all."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    sent = 0
    begun = time.monotonic()
    while (elapsed := time.monotonic() - begun) < seconds:
        while sent < elapsed * rate:
            producer.produce(TOPIC, b'{"order": %d}' % sent, b"k%d" % (sent % 100), sent % PARTITIONS)
            sent += 1
        producer.poll(0)
        time.sleep(0.02)
    producer.flush(60)
    return sent


def ages_ms(lake: Path, since_ms: int) -> list[int]:
    """Of all rows with a timestamp after `since_ms`, their age at their snapshot's commit."""
    table = load_catalog("barnabas", type="sql", uri=f"sqlite:///{lake}/catalog.db").load_table(f"lake.{TOPIC}")
    rows = table.scan(selected_fields=("partition", "offset", "timestamp")).to_arrow()
    times = pc.cast(pc.cast(rows["timestamp"], pa.timestamp("ms", tz="UTC")), pa.int64())
    commits: dict[tuple[int, int], int] = {}
    for snapshot in table.metadata.snapshots:
        summary = snapshot.summary
        assert summary is not None
        ranges = summary.additional_properties.get("barnabas.ranges", "{}")  # a claim brings no rows
        for name, (start, end) in json.loads(ranges).items():
            partition = int(name.rpartition("-")[2])
            commits.update({(partition, offset): snapshot.timestamp_ms for offset in range(start, end)})
    identities = zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
    pairs = zip(identities, times.to_pylist(), strict=True)
    return sorted(commits[at] - time_ms for at, time_ms in pairs if time_ms >= since_ms)


@click.command()
@click.option("--rate", default=1000, show_default=True)
@click.option("--seconds", default=60, show_default=True, help="Measured, after the warm-up.")
@click.option("--warm-up-seconds", default=45, show_default=True)
@click.option("--save/--no-save", default=True)
def main(rate: int, seconds: int, warm_up_seconds: int, save: bool) -> None:
    """The ages of rows when they become visible, with a trigger a second."""
    end_in_order()
    with tempfile.TemporaryDirectory(prefix="barnabas-freshness-") as directory:
        lake = Path(directory) / "lake"
        with RunningCluster(Path(directory) / "cluster", 1) as cluster:
            topics = AdminClient({"bootstrap.servers": cluster.bootstrap})
            topics.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)
            arguments = ["--bootstrap-servers", cluster.bootstrap, "--topics", TOPIC, "--to", str(lake)]
            job = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "barnabas_pipeline.cli",
                    "tables",
                    *arguments,
                    "--spark",
                    "spark.master=local[2]",
                ],
                cwd=ROOT,
                start_new_session=True,
            )
            try:
                produce_steadily(cluster.bootstrap, rate, warm_up_seconds)
                since_ms = time.time_ns() // 1_000_000
                produced = produce_steadily(cluster.bootstrap, rate, seconds)
                time.sleep(15)
                job.terminate()
                job.wait(60)
            finally:
                if job.poll() is None:
                    os.killpg(job.pid, signal.SIGKILL)
            ages = ages_ms(lake, since_ms)
    figures = {
        "rate": rate,
        "rows": len(ages),
        "produced": produced,
        "p50_ms": ages[len(ages) // 2],
        "p99_ms": ages[len(ages) * 99 // 100],
        "max_ms": ages[-1],
        "load_1min": os.getloadavg()[0],
    }
    click.echo(json.dumps(figures))
    if save:
        RESULTS.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
