"""Checks by tools of Apache Kafka: a main class with its arguments, and what it must have written at its end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.acceptance.outcomes import Outcome, Outcomes
from tests.acceptance.suite import Broker
from tests.acceptance.suites.java_process import java
from tests.compat.matrix.programs import run_logged

Verdict: TypeAlias = Callable[[int | None, str], bool]
"""From the exit status, which is None for a tool that was ended because its time was over, and from what it wrote."""

TOOLS: Final = "org.apache.kafka.tools"
SECONDS_MAX: Final = 180.0
_ALL_SECONDS_MAX: Final = 900.0
"""For all checks; those that have not begun by then have failed."""
_TOPICS: Final = {"verified": 3, "performed": 3, "latency": 1, "copied": 1, "copies": 3, "compatible": 3}
"""What checks read and write, by name: how many partitions."""
_LOG4J: Final = """<Configuration status="ERROR">
  <Appenders><Console name="err" target="SYSTEM_ERR"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
  <Loggers><Root level="ERROR"><AppenderRef ref="err"/></Root></Loggers>
</Configuration>
"""


@dataclass(slots=True, frozen=True)
class Check:
    name: str
    main_class: str
    arguments: tuple[str, ...]
    verdict: Verdict | None
    """None: it prepares what a later check needs, and is no check of its own."""
    seconds_max: float = SECONDS_MAX


def tool(
    name: str,
    main_class: str,
    arguments: str,
    verdict: Verdict | None,
    seconds_max: float = SECONDS_MAX,
    package: str = TOOLS,
) -> Check:
    """Return a check by a tool of one of Kafka's packages; `arguments` are separated by spaces."""
    return Check(name, f"{package}.{main_class}", tuple(arguments.split()), verdict, seconds_max)


def says(pattern: str) -> Verdict:
    """The tool succeeds, and a line matches."""
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda status, output: status == 0 and compiled.search(output) is not None


def runs_on_and_says(pattern: str) -> Verdict:
    """The tool would run for ever, and a line matches."""
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda status, output: status is None and compiled.search(output) is not None


def is_silent(status: int | None, output: str) -> bool:
    """The tool succeeds, and writes nothing: so do tools whose request is all they do."""
    return status == 0 and not output.strip()


def consumes(records: int) -> Verdict:
    """The tool succeeds, and its reports of consumed records add up to exactly this number."""
    return lambda status, output: status == 0 and _consumed(output.splitlines()) == records


def _consumed(lines: Iterable[str]) -> int:
    total = 0
    for line in lines:
        try:
            event = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if isinstance(event, dict) and event.get("name") == "records_consumed":
            total += event["count"]
    return total


def run_checks(checks: Sequence[Check], libs: Path, broker: Broker, logs: Path) -> Outcomes:
    """Run them one after the other, with the jars of `libs`: later ones read what earlier ones have written."""
    _create_topics(broker)
    deletions = logs / "deletions.json"
    # A topic of one partition: of several one may have no record, since a producer without keys fills whole batches.
    deletions.write_text('{"partitions":[{"topic":"copied","partition":0,"offset":10}],"version":1}')
    values = {"bootstrap": broker.bootstrap, "brokers": str(broker.brokers), "deletions": str(deletions)}
    log4j = logs / "log4j2.xml"
    log4j.write_text(_LOG4J)
    command = [*java("384M"), "-cp", f"{libs}/*", f"-Dlog4j2.configurationFile={log4j}"]
    ends_at = time.monotonic() + _ALL_SECONDS_MAX
    outcomes: Outcomes = {}
    for number, check in enumerate(checks):
        is_right = time.monotonic() < ends_at and _is_right(check, command, values, logs, number)
        if check.verdict is not None:
            outcomes[check.name] = Outcome.PASS if is_right else Outcome.FAIL
    return outcomes


def _is_right(check: Check, command: list[str], values: dict[str, str], logs: Path, number: int) -> bool:
    log = logs / f"{number:02}-{check.main_class.rpartition('.')[2]}.log"
    arguments = [argument.format_map(values) for argument in check.arguments]
    status = run_logged([*command, check.main_class, *arguments], logs, log, check.seconds_max, {})
    return check.verdict is None or check.verdict(status, log.read_text(errors="replace"))


def _create_topics(broker: Broker) -> None:
    """Where no broker answers there are none, and every check fails."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": "0"})
    replicas = min(broker.brokers, 3)
    topics = [NewTopic(name, partitions, replicas) for name, partitions in _TOPICS.items()]
    for future in admin.create_topics(topics, operation_timeout=20).values():
        try:
            future.result(timeout=25)
        except (KafkaException, TimeoutError):
            return
