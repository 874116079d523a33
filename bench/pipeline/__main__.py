"""`python -m bench.pipeline`: rows per second of `format("barnabas")` and of Spark's JVM connector, side by side.

Both read the same topic of the same cluster, pair by pair, each in a Spark of its own on two cores; who goes first
changes with every pair.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import click
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from barnabas_cli.local.processes import identify
from bench.accounting import cpu_seconds
from bench.ending import end_in_order
from bench.report import RESULTS, ROOT, command_line, commit, describe_machine, utc_now
from bench.sides import ApacheKafkaSide, BarnabasSide

JVM_PYTHON = ROOT / ".venv-pipeline-jvm/bin/python"
JVM_JARS = ROOT / ".cache/spark-kafka/libs"
PAIRS_MIN_TO_SAVE = 3
TOPIC = "rows"
_PARTITIONS = 2
_WARM_UPS = 2


@dataclass(slots=True)
class Load:
    records: int
    value_bytes: int
    compression: str
    broker: str


@dataclass(slots=True)
class Comparison:
    """`ratios` by pair: our rows per second over theirs; `cpu_ratios`: their CPU seconds over ours, which are Spark's
    with its JVM and workers, the broker's not among them."""

    command: str
    commit: str
    taken: str
    machine: dict[str, str]
    load: Load
    ours: str
    theirs: str
    seconds_ours: list[float]
    seconds_theirs: list[float]
    cpu_seconds_ours: list[float]
    cpu_seconds_theirs: list[float]
    ratios: list[float]
    ratio_median: float
    cpu_ratios: list[float]
    cpu_ratio_median: float
    rows_per_second_ours: int
    rows_per_second_theirs: int


@dataclass(frozen=True, slots=True)
class Reading:
    """Of a whole topic. `figures` tell what was read."""

    seconds: float
    cpu_seconds: float
    figures: list[Any]


class Side:
    """A process of `bench.pipeline.side`, with all its children a session of its own."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=_environment(),
            start_new_session=True,
        )
        identity = identify(self._process.pid)
        assert identity is not None
        self._session = identity
        self.spark = self._answer()["spark"]

    def read(self) -> Reading:
        assert self._process.stdin is not None
        before = cpu_seconds([self._session])
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._answer()
        return Reading(answer["seconds"], cpu_seconds([self._session]) - before, answer["figures"])

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise click.ClickException(f"{self.name} ended: see above")
        return json.loads(line)


@click.command()
@click.option("--pairs", type=click.IntRange(1), default=5, show_default=True)
@click.option("--records", type=click.IntRange(1), default=1_000_000, show_default=True)
@click.option("--value-bytes", type=click.IntRange(1), default=100, show_default=True)
@click.option("--compression", type=click.Choice(["none", "lz4", "zstd", "snappy", "gzip"]), default="none")
@click.option("--broker", type=click.Choice(["barnabas", "kafka"]), default="barnabas", show_default=True)
@click.option("--save/--no-save", "is_saved", default=True, help="Under bench/results, from three pairs on.")
def main(pairs: int, records: int, value_bytes: int, compression: str, broker: str, is_saved: bool) -> None:
    """Measure, print and save."""
    end_in_order()
    if not JVM_PYTHON.exists():
        raise click.ClickException("Spark's JVM connector is not here: make bench-pipeline gets it")
    load = Load(records, value_bytes, compression, broker)
    machine = describe_machine()
    with _cluster(broker) as bootstrap:
        click.echo(f"filling {records} records of {value_bytes} bytes, compression {compression}")
        _fill(bootstrap, load)
        jars = ",".join(str(jar) for jar in sorted(JVM_JARS.glob("*.jar")))
        script = str(ROOT / "bench/pipeline/side.py")
        with (
            _side("barnabas", [sys.executable, script, "barnabas", bootstrap, TOPIC]) as ours,
            _side("kafka", [str(JVM_PYTHON), script, "kafka", bootstrap, TOPIC, jars]) as theirs,
        ):
            for _ in range(_WARM_UPS):
                if ours.read().figures != theirs.read().figures:
                    raise click.ClickException("the two sides did not read the same rows")
            readings: dict[str, list[Reading]] = {ours.name: [], theirs.name: []}
            for pair in range(pairs):
                for side in (ours, theirs) if pair % 2 == 0 else (theirs, ours):
                    readings[side.name].append(side.read())
                mine, other = readings[ours.name][-1], readings[theirs.name][-1]
                click.echo(
                    f"pair {pair + 1}: {records / mine.seconds:,.0f} rows/s, JVM connector "
                    f"{records / other.seconds:,.0f}, ratio {other.seconds / mine.seconds:.2f}; CPU seconds "
                    f"{mine.cpu_seconds:.2f} and {other.cpu_seconds:.2f}"
                )
            names = (f"format('barnabas'), Spark {ours.spark}", f"spark-sql-kafka-0-10, Spark {theirs.spark}")
    comparison = _comparison(load, machine, names, readings["barnabas"], readings["kafka"])
    click.echo(f"median ratio {comparison.ratio_median:.2f}; of CPU {comparison.cpu_ratio_median:.2f}")
    if is_saved and pairs >= PAIRS_MIN_TO_SAVE:
        path = RESULTS / f"pipeline-{comparison.taken.replace(':', '')}.json"
        path.write_text(json.dumps(asdict(comparison), indent=2) + "\n")
        click.echo(f"saved {path.relative_to(ROOT)}")


def _comparison(
    load: Load, machine: dict[str, str], names: tuple[str, str], ours: list[Reading], theirs: list[Reading]
) -> Comparison:
    ratios = [other.seconds / mine.seconds for mine, other in zip(ours, theirs, strict=True)]
    cpu_ratios = [other.cpu_seconds / mine.cpu_seconds for mine, other in zip(ours, theirs, strict=True)]
    return Comparison(
        command_line("bench.pipeline"),
        commit(),
        utc_now(),
        machine,
        load,
        *names,
        seconds_ours=[round(each.seconds, 3) for each in ours],
        seconds_theirs=[round(each.seconds, 3) for each in theirs],
        cpu_seconds_ours=[round(each.cpu_seconds, 2) for each in ours],
        cpu_seconds_theirs=[round(each.cpu_seconds, 2) for each in theirs],
        ratios=[round(each, 3) for each in ratios],
        ratio_median=round(statistics.median(ratios), 3),
        cpu_ratios=[round(each, 3) for each in cpu_ratios],
        cpu_ratio_median=round(statistics.median(cpu_ratios), 3),
        rows_per_second_ours=round(load.records / statistics.median(each.seconds for each in ours)),
        rows_per_second_theirs=round(load.records / statistics.median(each.seconds for each in theirs)),
    )


@contextmanager
def _cluster(broker: str) -> Iterator[str]:
    directory = ROOT / ".cache/bench-pipeline"
    shutil.rmtree(directory, ignore_errors=True)
    side = BarnabasSide(directory) if broker == "barnabas" else ApacheKafkaSide(directory)
    try:
        side.start()
        yield side.bootstrap
    finally:
        side.stop()


@contextmanager
def _side(name: str, command: list[str]) -> Iterator[Side]:
    side = Side(name, command)
    try:
        yield side
    finally:
        side.stop()


def _fill(bootstrap: str, load: Load) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, _PARTITIONS, 1)])[TOPIC].result(60)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": load.compression, "linger.ms": 20, "batch.size": 262_144}
    )
    for index in range(load.records):
        value = b"%d" % index
        while True:
            try:
                producer.produce(TOPIC, value.ljust(load.value_bytes, b"x"), b"key-%d" % (index % 5000), index % 2)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise click.ClickException("the topic could not be filled")


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


if __name__ == "__main__":
    main()
