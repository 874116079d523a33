"""`python -m tests.compat.matrix`: every client against one logstore and three, into docs/verify/clients.md."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import click
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from barnabas_cli.local.cluster import ClusterError, Started
from barnabas_cli.local.services import Role
from bench.apache_kafka import ApacheKafka
from tests.compat.matrix import table
from tests.compat.matrix.check import AGAINST, QUICK, check
from tests.compat.matrix.clients import CLIENTS, Client
from tests.compat.matrix.programs import Report, run_program
from tests.compat.matrix.results import Saved, commit, load, save, today
from tests.compat.matrix.toolchains import CACHE, ROOT, UnavailableError, prepare
from tests.integration.reserved_ports import free_port
from tests.integration.running_cluster import RunningCluster

BROKER_SETTINGS = {"group.min.session.timeout.ms": "1000"}
"""What kafka-python's own tests need, as in the configuration of the broker that they start themselves."""
BUSY_MACHINE_TRIES = 5
"""Each waits for a minute: where other work takes the processors, services start slower than operators like."""
REPLICATION = {"1": 1, "3": 3, table.PEER: 1}


@click.command()
@click.option("--client", "names", multiple=True, type=click.Choice([client.name for client in CLIENTS]))
@click.option("--toolchain", "toolchains", multiple=True, help="All clients of this toolchain.")
@click.option("--against", default="1,3", show_default=True, help="1, 3, or kafka: Apache Kafka, to compare with.")
@click.option("--save/--no-save", "is_saved", default=True, show_default=True)
@click.option("--check", "is_check", is_flag=True, help="The quick half, held to what is saved; saves nothing.")
def main(names: tuple[str, ...], toolchains: tuple[str, ...], against: str, is_saved: bool, is_check: bool) -> None:
    """Run the clients, or some of them; exits with 1 when one of them did not start, or did worse in a check."""
    everybody = not (names or toolchains)
    order = [client.name for client in CLIENTS]
    chosen = [each for each in CLIENTS if everybody or each.name in names or each.toolchain in toolchains]
    if is_check:
        sys.exit(_is_worse([each for each in chosen if each.name in (names or QUICK)]))
    is_started = True
    for cluster in against.split(","):
        with _bootstrap(cluster) as bootstrap:
            for client in chosen:
                report = _report(client, _prepared(client.toolchain), cluster, bootstrap)
                _say(client, cluster, report)
                is_started = is_started and "start" not in report.failed
                if is_saved:
                    table.write(save([Saved(client.name, cluster, commit(), today(), report)], order))
    sys.exit(not is_started)


def _is_worse(clients: list[Client]) -> bool:
    for toolchain in dict.fromkeys(client.toolchain for client in clients):
        _prepared(toolchain)
    with _bootstrap(AGAINST) as bootstrap:

        def run(client: Client, suffix: str) -> Report:
            return _report(client, _prepared(client.toolchain), AGAINST, bootstrap, suffix)

        worse = check(clients, run, load())
    click.echo(f"{len(worse)} of {len(clients)} clients did worse than saved" + "".join(f", {name}" for name in worse))
    return bool(worse)


@cache
def _prepared(toolchain: str) -> Path | UnavailableError:
    click.echo(f"preparing {toolchain}")
    try:
        return prepare(toolchain)
    except UnavailableError as reason:
        return reason


def _report(
    client: Client, directory: Path | UnavailableError, cluster: str, bootstrap: str, suffix: str = ""
) -> Report:
    if isinstance(directory, UnavailableError):
        return Report(skipped=str(directory))
    prefix = "".join(letter if letter.isalnum() else "-" for letter in client.name.lower()).strip("-") + suffix
    argv = [*client.argv(directory), bootstrap, str(REPLICATION[cluster]), prefix]
    log = CACHE / "logs" / cluster / f"{prefix}.log"
    return run_program(argv, directory, log, client.seconds_max, {"PYTHONPATH": str(ROOT)})


def _say(client: Client, cluster: str, report: Report) -> None:
    if report.skipped:
        click.echo(f"{cluster}: {client.name}: skipped: {report.skipped}")
        return
    works = len(report.results) - len(report.failed)
    click.echo(f"{cluster}: {client.name} {report.version}: {works} of {len(report.results)}, {report.seconds} s")
    for capability, why in report.failed.items():
        click.echo(f"    failed {capability}: {why}")


class _Barnabas(RunningCluster):
    def up(self) -> Started:
        self.local.services = [
            replace(each, properties=each.properties | BROKER_SETTINGS) if each.role == Role.LOGSTORE else each
            for each in self.local.services
        ]
        for _ in range(BUSY_MACHINE_TRIES):
            try:
                return super().up()
            except ClusterError as error:
                click.echo(f"waiting on: {error}")
        return super().up()


@contextmanager
def _bootstrap(cluster: str) -> Iterator[str]:
    """A new cluster's address; it is gone afterwards, with its data."""
    directory = Path(tempfile.mkdtemp(prefix="barnabas-compat-"))
    try:
        if cluster == table.PEER:
            with _apache_kafka(directory) as bootstrap:
                yield bootstrap
        else:
            with _Barnabas(directory, int(cluster)) as running:
                yield running.bootstrap
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _apache_kafka(directory: Path) -> Iterator[str]:
    prepare("java")
    broker = ApacheKafka(directory, free_port(), free_port(), "512M", BROKER_SETTINGS)
    broker.start()
    try:
        deadline = time.monotonic() + 180
        while not _answers(broker.bootstrap):
            assert time.monotonic() < deadline, broker.explain()
        yield broker.bootstrap
    finally:
        broker.stop()


def _answers(bootstrap: str) -> bool:
    try:
        return bool(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=2).brokers)
    except KafkaException:
        return False


if __name__ == "__main__":
    main()
