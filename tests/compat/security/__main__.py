"""`python -m tests.compat.security`: every client in every cell, with Barnabas and with Apache Kafka, into
docs/verify/security-matrix.md.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import pytest

from tests.compat.java_programs import class_path
from tests.compat.matrix.programs import Report, run_program
from tests.compat.matrix.results import Saved, commit, save, today
from tests.compat.matrix.toolchains import CACHE, PEER_LIBS, ROOT, SOURCES, UnavailableError, prepare
from tests.compat.security import table
from tests.compat.security.brokers import apache_kafka, barnabas, kerberos_realm, write_secrets
from tests.compat.security.cells import cells, write_cells
from tests.compat.security.suites import franz_go_tests

_SECONDS_MAX: Final = 900


@dataclass(slots=True, frozen=True)
class Client:
    name: str
    toolchain: str
    argv: Callable[[Path], list[str]]
    """From the directory of its toolchain; the path of the cells is added."""


def _python(module: str) -> Callable[[Path], list[str]]:
    return lambda _: [sys.executable, "-W", "ignore", "-m", f"tests.compat.security.python.{module}"]


def _java(_directory: Path) -> list[str]:
    # Its log would be on the lines that are reported.
    log = f"-Dlog4j2.configurationFile={SOURCES / 'java/log4j2.xml'}"
    return ["java", "-Xmx256M", "-XX:+UseSerialGC", log, "-cp", class_path(PEER_LIBS), "SecurityCells"]


CLIENTS: Final = (
    Client("Java clients", "peer", _java),
    Client("confluent-kafka", "python", _python("confluent")),
    Client("kcat", "kcat", _python("kcat")),
    Client("franz-go", "security-go", lambda directory: [str(directory / "bin/franz-go")]),
    Client("sarama", "security-go", lambda directory: [str(directory / "bin/sarama")]),
    Client("sarama 1.43", "security-go-older", lambda directory: [str(directory / "bin/sarama")]),
    Client("kafka-go", "security-go", lambda directory: [str(directory / "bin/kafka-go")]),
    Client("kafka-python", "python", _python("kafka_python")),
    Client("aiokafka", "python", _python("aiokafka_client")),
    Client("kafkajs", "security-node", lambda directory: ["node", str(directory / "kafkajs.mjs")]),
    Client("@platformatic/kafka", "security-node", lambda directory: ["node", str(directory / "platformatic.mjs")]),
)
_BROKERS: Final = {table.OURS: barnabas, table.PEER: apache_kafka}


@click.command()
@click.option("--client", "names", multiple=True, type=click.Choice([client.name for client in CLIENTS]))
@click.option("--against", multiple=True, type=click.Choice(list(_BROKERS)), help="Default: both.")
@click.option("--save/--no-save", "is_saved", default=True, show_default=True)
def main(names: tuple[str, ...], against: tuple[str, ...], is_saved: bool) -> None:
    """Run the clients; exits with 1 when a cell fails with Barnabas that passes with Apache Kafka."""
    chosen = [client for client in CLIENTS if not names or client.name in names]
    saved: list[Saved] = []
    for broker in against or _BROKERS:
        saved += _run(chosen, broker)
    if is_saved:
        table.write(save(saved, [*(client.name for client in CLIENTS), table.FRANZ_GO_TESTS], table.RESULTS))
    worse = table.worse_than_peer(saved)
    for line in worse:
        click.secho(line, fg="red")
    sys.exit(bool(worse))


def _run(clients: list[Client], broker: str) -> list[Saved]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="barnabas-security-")))
        secrets = directory / "secrets"
        secrets.mkdir()
        write_secrets(secrets)
        realm = stack.enter_context(kerberos_realm(secrets))
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in realm.items():
            environment.setenv(name, value)
        first_port = stack.enter_context(_BROKERS[broker](directory / "cluster", secrets))
        saved = []
        for client in clients:
            report = _report(client, broker, first_port, secrets)
            _say(client.name, broker, report)
            saved.append(Saved(client.name, broker, commit(), today(), report))
            if client.toolchain == "security-go" and client.name == "franz-go":
                report = franz_go_tests(first_port, CACHE / "logs" / f"security-{broker}-franz-go-tests.log")
                _say(table.FRANZ_GO_TESTS, broker, report)
                saved.append(Saved(table.FRANZ_GO_TESTS, broker, commit(), today(), report))
        return saved


def _report(client: Client, broker: str, first_port: int, secrets: Path) -> Report:
    try:
        directory = prepare(client.toolchain)
    except UnavailableError as reason:
        return Report(skipped=str(reason))
    prefix = "".join(letter if letter.isalnum() else "-" for letter in client.name.lower())
    path = secrets / f"{prefix}.json"
    write_cells(path, cells(first_port, secrets, prefix))
    log = CACHE / "logs" / f"security-{broker}-{prefix}.log"
    return run_program([*client.argv(directory), str(path)], ROOT, log, _SECONDS_MAX, {"PYTHONPATH": str(ROOT)})


def _say(name: str, broker: str, report: Report) -> None:
    if report.skipped:
        click.echo(f"{broker}: {name}: skipped: {report.skipped}")
        return
    passed = len(report.results) - len(report.failed)
    click.echo(f"{broker}: {name} {report.version}: {passed} of {len(report.results)}, {report.seconds} s")
    for cell, why in report.failed.items():
        click.echo(f"    failed {cell}: {why}")


if __name__ == "__main__":
    main()
