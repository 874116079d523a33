"""`make compat CHECK=1`: the quick half of the matrix, several clients at a time, held to the saved results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import click

from tests.compat.matrix.clients import Client
from tests.compat.matrix.programs import Report
from tests.compat.matrix.results import Saved

AGAINST: Final = "3"
AT_A_TIME: Final = 4
"""Programs mostly wait: for rebalances, and for each other's records."""
ATTEMPTS: Final = 2
QUICK: Final = (
    "confluent-kafka",
    "kafka-python",
    "aiokafka",
    "kafkajs",
    "@platformatic/kafka",
    "sarama",
    "sarama 1.43",
    "kafka-go",
    "franz-go",
    "Java clients 2.1",
    "Java clients 0.10.2",
)
"""What is installed or compiled in seconds, and changes nothing that another client sees."""


def new_failures(client: str, report: Report, saved: Iterable[Saved]) -> dict[str, str]:
    """Return what has failed, and did not in the saved run against as many logstores; all, if there is none."""
    known = next((each.report.failed for each in saved if (each.client, each.against) == (client, AGAINST)), {})
    return {capability: why for capability, why in report.failed.items() if capability not in known}


def check(clients: list[Client], run: Callable[[Client, str], Report], saved: list[Saved]) -> list[str]:
    """Run them, and one whose results are worse than saved once more. Return those that are worse again.

    `run` runs a client with a suffix for the names of its topics and groups.
    """

    def is_worse(client: Client) -> bool:
        for attempt in range(ATTEMPTS):
            report = run(client, f"-{attempt}" if attempt else "")
            failures = new_failures(client.name, report, saved)
            if report.skipped:
                click.echo(f"{client.name}: skipped: {report.skipped}")
                return False
            works = len(report.results) - len(report.failed)
            click.echo(f"{client.name} {report.version}: {works} of {len(report.results)}, {report.seconds} s")
            for capability, why in failures.items():
                click.echo(f"    {client.name} failed {capability}: {why}")
            if not failures:
                return False
        return True

    with ThreadPoolExecutor(AT_A_TIME) as executor:
        return [client.name for client, worse in zip(clients, executor.map(is_worse, clients), strict=True) if worse]
