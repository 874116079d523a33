"""Kafka Streams' smoke test: it sends records through a topology with exactly_once_v2, and verifies what comes out."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.acceptance.outcomes import Outcome, Outcomes
from tests.acceptance.suite import Broker, Suite
from tests.compat.matrix.toolchains import prepare
from tests.faults.streams import smoke
from tests.faults.streams.applications import Application, ApplicationError

_TEST: Final = "StreamsSmokeTest, exactly_once_v2"
_SECONDS_MAX: Final = 600.0
_PARTITIONS: Final = 6


def _run(_: Path, broker: Broker, logs: Path) -> Outcomes:
    replicas = min(broker.brokers, 3)
    properties = logs / "streams.properties"
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": str(logs / "state"),
        "replication.factor": str(replicas),
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    driver_log = logs / "driver.log"
    try:
        _create_topics(broker, replicas)
        with ExitStack() as stack:
            application = Application(
                smoke.MAIN_CLASS, [str(properties), "process"], logs / "application.log", smoke.LIBS
            )
            stack.enter_context(application)
            driver = stack.enter_context(
                Application(smoke.MAIN_CLASS, [str(properties), "run"], driver_log, smoke.LIBS)
            )
            deadline = time.monotonic() + _SECONDS_MAX
            while not driver.has_ended and time.monotonic() < deadline:
                application.check_alive()
                time.sleep(0.5)
    except (ApplicationError, KafkaException, TimeoutError) as error:
        click.echo(f"streams: {error!r}")
    said = driver_log.read_text(errors="replace") if driver_log.exists() else ""
    return {_TEST: read_verdict(said)}


def read_verdict(said: str) -> Outcome:
    """Return what the driver found: it says SUCCESS on a line of its own, or something else."""
    return Outcome.PASS if "SUCCESS" in (line.strip() for line in said.splitlines()) else Outcome.FAIL


def _create_topics(broker: Broker, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": "0"})
    for future in admin.create_topics([NewTopic(each, _PARTITIONS, replicas) for each in smoke.TOPICS]).values():
        future.result(timeout=60)


SUITE: Final = Suite("streams", f"Kafka Streams' smoke test {smoke.VERSION}", lambda: prepare("streams"), _run)
