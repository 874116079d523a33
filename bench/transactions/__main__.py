"""`python -m bench.transactions`: transactions per second and the time until they are visible, beside Apache Kafka's.

Each load is taken on both sides in turn, pair by pair. A run of all loads with at least five pairs is saved, under
bench/results and in docs/verify/performance.md.
"""

from __future__ import annotations

import shutil

import click

from bench.apache_kafka import LIBS
from bench.ending import end_in_order
from bench.report import ROOT, command_line, commit, describe_machine, utc_now, without_paths, write_target_section
from bench.sides import ApacheKafkaSide, BarnabasSide, Side
from bench.transactions.measurements import LOADS, compare, transaction_version
from bench.transactions.report import TransactionsRun, save, table
from tests.integration.kafka_tools import KafkaTools

PAIRS_MIN_TO_SAVE = 5
_FEATURES = "org.apache.kafka.tools.FeatureCommand"


@click.command()
@click.option("--load", "names", multiple=True, type=click.Choice([each.name for each in LOADS]), help="Only these.")
@click.option("--pairs", type=click.IntRange(1), default=5, show_default=True)
@click.option("--seconds", type=float, default=4.0, show_default=True, help="Of each sample, after one to warm up.")
@click.option("--logstores", type=click.Choice(["1", "3"]), default="1", show_default=True, help="And brokers.")
def main(names: tuple[str, ...], pairs: int, seconds: float, logstores: str) -> None:
    """Measure, and save what is whole."""
    end_in_order()
    if shutil.which("java") is None or not LIBS.exists():
        raise click.ClickException("Apache Kafka is not here: make peer (needs a JDK 17 and Maven)")
    replicas = int(logstores)
    directory = ROOT / ".cache/bench-transactions"
    shutil.rmtree(directory, ignore_errors=True)
    settings = {
        "transaction.state.log.replication.factor": logstores,
        "transaction.state.log.min.isr": str(min(2, replicas)),
    }
    ours = BarnabasSide(directory / "barnabas", replicas)
    theirs = ApacheKafkaSide(directory / "apache-kafka", replicas, settings)
    machine = describe_machine()
    started: list[Side] = []
    try:
        for side in (ours, theirs):
            click.echo(f"starting {side.name}")
            started.append(side)
            side.start()
        with KafkaTools() as tools:
            describe = [("--bootstrap-server", each.bootstrap, "describe") for each in (ours, theirs)]
            versions = [transaction_version(tools.output(_FEATURES, *each)) for each in describe]
            loads = [each for each in LOADS if not names or each.name in names]
            comparisons = [compare(tools, each, (ours, theirs), pairs, seconds, replicas, click.echo) for each in loads]
    finally:
        for each in started:
            each.stop()
    run = TransactionsRun(
        command_line("bench.transactions"),
        commit(),
        utc_now(),
        machine,
        ours.name,
        theirs.name,
        replicas,
        versions,
        without_paths(ours.flags),
        without_paths(theirs.flags),
        comparisons,
    )
    shutil.rmtree(directory)
    if not names and pairs >= PAIRS_MIN_TO_SAVE:
        path = save(run)
        target = "bench-transactions" if replicas == 1 else "bench-transactions LOGSTORES=3"
        write_target_section(target, table(run, path))
        click.echo(f"\nsaved {path.relative_to(ROOT)}")
    click.echo("\n" + table(run, ROOT / "not saved"))


if __name__ == "__main__":
    main()
