"""`python -m bench.transactions`: transactions per second and the time until they are visible, beside Apache Kafka's.

Each load is taken on both sides in turn, pair by pair. A run of all loads with at least five pairs is saved, under
bench/results and in docs/verify/performance.md.
"""

from __future__ import annotations

import shutil

import click

from bench.apache_kafka import need_apache_kafka
from bench.compared_run import PAIRS_MIN_TO_SAVE, fields_of_run, publish, started
from bench.ending import end_in_order
from bench.report import ROOT, describe_machine, save_figures
from bench.sides import ApacheKafkaSide, BarnabasSide
from bench.transactions.measurements import LOADS, compare, transaction_version
from bench.transactions.report import TransactionsRun, table
from tests.integration.kafka_tools import KafkaTools

_FEATURES = "org.apache.kafka.tools.FeatureCommand"


@click.command()
@click.option("--load", "names", multiple=True, type=click.Choice([each.name for each in LOADS]), help="Only these.")
@click.option("--pairs", type=click.IntRange(1), default=5, show_default=True)
@click.option("--seconds", type=float, default=4.0, show_default=True, help="Of each sample, after one to warm up.")
@click.option("--logstores", type=click.Choice(["1", "3"]), default="1", show_default=True, help="And brokers.")
def main(names: tuple[str, ...], pairs: int, seconds: float, logstores: str) -> None:
    """Measure, and save what is whole."""
    end_in_order()
    need_apache_kafka()
    replicas = int(logstores)
    directory = ROOT / ".cache/bench-transactions"
    shutil.rmtree(directory, ignore_errors=True)
    settings = {
        "transaction.state.log.replication.factor": logstores,
        "transaction.state.log.min.isr": str(min(2, replicas)),
    }
    ours = BarnabasSide(directory / "barnabas", replicas)
    theirs = ApacheKafkaSide(directory / "apache-kafka", replicas, settings)
    sides = ours, theirs
    machine = describe_machine()
    with started(*sides), KafkaTools() as tools:
        describe = [("--bootstrap-server", each.bootstrap, "describe") for each in sides]
        versions = [transaction_version(tools.output(_FEATURES, *each)) for each in describe]
        loads = [each for each in LOADS if not names or each.name in names]
        comparisons = [compare(tools, each, sides, pairs, seconds, replicas, click.echo) for each in loads]
    fields = fields_of_run("bench.transactions", machine, sides, replicas)
    run = TransactionsRun(**fields, versions=versions, comparisons=comparisons)
    shutil.rmtree(directory)
    if not names and pairs >= PAIRS_MIN_TO_SAVE:
        path = save_figures(run, "transactions")
        publish("bench-transactions", run, path, table(run, path))
    click.echo("\n" + table(run, ROOT / "not saved"))


if __name__ == "__main__":
    main()
