"""Kafka Streams with exactly_once_v2, at Barnabas or Apache Kafka, while processes are killed in turn.

    python -m tests.faults.streams --broker barnabas --seconds 60 --kill logstores
    python -m tests.faults.streams --smoke --kill each

The word count: three brokers, two instances of the application; each word that a producer was acknowledged must come
out as counts from 1 on, each once and in order. With --smoke it is Kafka Streams' own smoke test, which verifies
itself. Exit code 0 when all is as it must be.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from barnabas_cli.local.layout import HOST
from tests.compat.matrix.toolchains import UnavailableError, prepare
from tests.faults.cluster import signals_end_the_run
from tests.faults.moving_leaders.clusters import BROKERS, KafkaCluster, bootstrap_of, kafka_is_lacking
from tests.faults.rows import this_run
from tests.faults.streams import kills, smoke
from tests.faults.streams.applications import Application, ApplicationError
from tests.faults.streams.counting import INPUT, OUTPUT, Words, check, read_counts
from tests.faults.streams.report import RESULTS, Row, save, verdict_line
from tests.faults.topics import Servers, create_topic
from tests.integration.running_cluster import RunningCluster

PARTITIONS: Final = 6
INSTANCES: Final = 2
_START_SECONDS_MAX: Final = 120.0
_SMOKE_SECONDS_MAX: Final = 600.0
_VERDICTS: Final = ("SUCCESS", "FAILURE", "PROCESSED-LESS-THAN-GENERATED", "PROCESSED-MORE-THAN-GENERATED")


class _Gateway:
    """What answers requests of a cluster of Barnabas."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.servers = {"gateway": (HOST, cluster.local.layout.kafka_port)}


def main() -> int:
    arguments = _arguments()
    try:
        prepare("streams")
    except UnavailableError as reason:
        print(f"Kafka Streams can't run here: {reason}", file=sys.stderr)
        return 2
    if arguments.broker == "kafka" and (lacking := kafka_is_lacking()):
        print(lacking, file=sys.stderr)
        return 2
    signals_end_the_run()
    directory = Path(tempfile.mkdtemp(prefix="streams-"))
    with ExitStack() as stack:
        servers: Servers
        if arguments.broker == "kafka":
            kafka = stack.enter_context(KafkaCluster(directory / "cluster"))
            servers, victims = kafka, kills.of_kafka(kafka)
            bootstrap = bootstrap_of(kafka)
        else:
            barnabas = stack.enter_context(RunningCluster(directory / "cluster", BROKERS))
            servers, victims = _Gateway(barnabas), kills.of_barnabas(barnabas, arguments.kill == "logstores")
            bootstrap = barnabas.bootstrap
        killer = kills.Killer(victims if arguments.kill != "none" else [], arguments.period, _say)
        seen = directory / "seen"
        seen.mkdir()
        try:
            play = _smoke if arguments.smoke else _count_words
            row = play(servers, bootstrap, killer, seen, arguments)
        except ApplicationError as reason:
            row = _row(arguments, killer, unfinished=str(reason))
    _say(verdict_line(row))
    if arguments.save:
        save(row, RESULTS)
        _say(f"saved: {RESULTS}")
    shutil.rmtree(directory / "cluster", ignore_errors=True)
    if row.is_right:
        shutil.rmtree(directory)
        return 0
    _say(f"what was seen is in {seen}")
    return 1


def _count_words(
    servers: Servers, bootstrap: str, killer: kills.Killer, seen: Path, arguments: argparse.Namespace
) -> Row:
    for topic in (INPUT, OUTPUT):
        create_topic(servers, topic, PARTITIONS, {"min.insync.replicas": "2"})
    with ExitStack() as stack:
        instances = [
            stack.enter_context(
                Application(
                    "WordCount", [bootstrap, "word-count", str(seen / f"state-{number}")], seen / f"{number}.log"
                )
            )
            for number in range(INSTANCES)
        ]
        for instance in instances:
            instance.await_line("state RUNNING", _START_SECONDS_MAX)
        _say("both instances run")
        words = Words(bootstrap, arguments.rate, arguments.seed)
        words.start()
        try:
            if arguments.kill != "none":
                killer.start()
            ends_at = time.monotonic() + arguments.seconds
            while time.monotonic() < ends_at:
                _nap(instances)
        finally:
            if arguments.kill != "none":
                killer.stop()
            sent = words.finish()
        _say(f"{sent} words acknowledged, {words.failed} failed; reading what came of them")
        counts = read_counts(bootstrap, sent, _say)
        for instance in instances:
            instance.end_input()
    wrong = check(words.sent, counts)
    return _row(arguments, killer, sent=sent, failed=words.failed, counts=len(counts), wrong=wrong._asdict())


def _smoke(servers: Servers, bootstrap: str, killer: kills.Killer, seen: Path, arguments: argparse.Namespace) -> Row:
    for topic in smoke.TOPICS:
        create_topic(servers, topic, PARTITIONS, {"min.insync.replicas": "2"})
    clients: list[Application] = []
    with ExitStack() as stack:
        for number in range(INSTANCES):
            properties = seen / f"{number}.properties"
            settings = {
                "bootstrap.servers": bootstrap,
                "processing.guarantee": "exactly_once_v2",
                "state.dir": str(seen / f"state-{number}"),
                "replication.factor": "3",
                "session.timeout.ms": "10000",
            }
            properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            log = seen / f"{number}.log"
            clients.append(
                stack.enter_context(Application(smoke.MAIN_CLASS, [str(properties), "process"], log, smoke.LIBS))
            )
        run = [str(seen / "0.properties"), "run"]
        driver = stack.enter_context(Application(smoke.MAIN_CLASS, run, seen / "driver.log", smoke.LIBS))
        began = time.monotonic()
        if arguments.kill != "none":
            killer.start()
        try:
            # The driver sends for a minute and a half, then verifies.
            while not driver.has_ended and time.monotonic() < began + arguments.seconds:
                _nap(clients)
        finally:
            if arguments.kill != "none":
                killer.stop()
        while not driver.has_ended and time.monotonic() < began + _SMOKE_SECONDS_MAX:
            _nap(clients)
        driver.wait(1)
        said = [line.strip() for line in driver.log.read_text(errors="replace").splitlines()]
    return _row(arguments, killer, smoke=next((line for line in reversed(said) if line in _VERDICTS), "no verdict"))


def _nap(applications: list[Application]) -> None:
    """Raises ApplicationError when one of them has ended before it was asked to."""
    time.sleep(1)
    for each in applications:
        each.check_alive()


def _row(arguments: argparse.Namespace, killer: kills.Killer, **seen: object) -> Row:
    return Row(
        run=this_run("tests.faults.streams"),
        broker=arguments.broker,
        program="smoke test" if arguments.smoke else "word count",
        killed=arguments.kill,
        seconds=arguments.seconds,
        kills=killer.kills,
        **seen,  # type: ignore[arg-type]
    )


def _say(line: str) -> None:
    print(line, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.streams", description=__doc__)
    parser.add_argument("--broker", choices=["barnabas", "kafka"], default="barnabas")
    parser.add_argument("--smoke", action="store_true", help="Kafka Streams' own smoke test instead of the word count")
    parser.add_argument(
        "--kill", choices=["logstores", "each", "none"], default="logstores", help="what is killed in turn"
    )
    parser.add_argument("--period", type=float, default=10.0, help="seconds from one kill to the next (10)")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="for which words are sent and processes killed (60)"
    )
    parser.add_argument("--rate", type=int, default=200, help="words a second (200)")
    parser.add_argument("--seed", type=int, default=1, help="of the words")
    parser.add_argument("--save", action="store_true", help=f"add the run to {RESULTS.name}")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
