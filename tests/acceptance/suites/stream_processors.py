"""Stream processors of Python, which count records exactly once while their processes are killed.

A case writes records, has the processor count them by key, and kills a process with SIGKILL whenever so many results
are in the log, of a committed transaction or not. Another process starts in its place. In the end a reader of committed
transactions has to see each record counted once, and each key's counts without a gap.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.acceptance.outcomes import Outcome, Outcomes
from tests.acceptance.suite import Broker
from tests.acceptance.suites.counted import Counted, parse, problems_of_records, problems_of_state
from tests.acceptance.suites.readers import Reader, read_to_the_end

PARTITIONS: Final = 4
_KEYS: Final = 50
_KILLS: Final = 3
_COUNT_SECONDS_MAX: Final = 420.0
_END_SECONDS_MAX: Final = 60.0
"""More than the timeouts of transactions."""
_AFTERWARDS_SECONDS: Final = 3.0
_REQUEST_SECONDS_MAX: Final = 20.0
_VIEWS: Final = ("each record counted once", "no count lost")


@dataclass(slots=True, frozen=True)
class Case:
    name: str
    records: int
    processes: int = 1
    keeps_state: bool = True
    """Whether a process starts on the directory of the killed one. Without, all state comes from the changelog."""


Arguments = Callable[[str, str, Path], list[str]]
"""The command line of a process, by the bootstrap address, the application's name, and the directory of its state."""


class _Process:
    """One process of the processor, in a directory of its own; what it says is in the log."""

    def __init__(self, argv: Callable[[Path], list[str]], state: Path, log: Path) -> None:
        self._argv = argv
        self._state = state
        self._log = log
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._state.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as output:
            return subprocess.Popen(
                self._argv(self._state),
                cwd=self._state,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def replace(self, *, keeps_state: bool) -> None:
        """Kill it, and start another one."""
        self.kill()
        if not keeps_state:
            shutil.rmtree(self._state, ignore_errors=True)
        self._process = self._start()

    def restart_if_ended(self) -> bool:
        """Start another one in place of one that ended of its own accord, as a supervisor does."""
        if self._process.poll() is None:
            return False
        self._process = self._start()
        return True


def run_cases(name: str, cases: tuple[Case, ...], arguments: Arguments, broker: Broker, logs: Path) -> Outcomes:
    """Run one case after the other; every case has an outcome for each way to look at its results."""
    outcomes: Outcomes = {}
    for number, case in enumerate(cases):
        problems: list[list[str]] = [["not run"]] * len(_VIEWS)
        try:
            problems = _run_case(f"{name}-{number}", case, arguments, broker, logs / str(number))
        except (KafkaException, TimeoutError, OSError) as error:
            problems = [[repr(error)]] * len(_VIEWS)
        for view, found in zip(_VIEWS, problems, strict=True):
            outcomes[f"{case.name}: {view}"] = Outcome.FAIL if found else Outcome.PASS
            for each in found[:5]:
                click.echo(f"  {case.name}: {view}: {each}")
    return outcomes


def _run_case(name: str, case: Case, arguments: Arguments, broker: Broker, logs: Path) -> list[list[str]]:
    """Return the problems by view. Raises KafkaException, TimeoutError."""
    logs.mkdir(parents=True)
    _create_topics(broker, name)
    _write_records(broker, f"{name}-input", case.records)
    results = f"{name}-output"
    with ExitStack() as stack:
        committed = stack.enter_context(closing(_reader(broker, results, "read_committed")))
        everything = stack.enter_context(closing(_reader(broker, results, "read_uncommitted")))
        processes = []
        for number in range(case.processes):
            process = _Process(
                lambda state: arguments(broker.bootstrap, name, state), logs / f"state-{number}", logs / f"{number}.log"
            )
            stack.callback(process.kill)
            processes.append(process)
        ended = _count_and_kill(case, processes, committed, everything)
        for process in processes:
            process.kill()
        read_to_the_end(committed, everything, _END_SECONDS_MAX)
    aborted = len(everything.results) - len(committed.results)
    click.echo(f"  {case.name}: {len(committed.results)} results, {aborted} aborted, {ended} processes ended unasked")
    of_kills = [] if aborted else ["no kill met a transaction that had results"]
    return [
        of_kills + problems_of_records(committed.results, case.records),
        of_kills + problems_of_state(committed.results),
    ]


def _reader(broker: Broker, topic: str, isolation: str) -> Reader[Counted]:
    return Reader(broker.bootstrap, topic, PARTITIONS, isolation, parse)


def _count_and_kill(
    case: Case, processes: list[_Process], committed: Reader[Counted], everything: Reader[Counted]
) -> int:
    """Return when all records are counted, or the time is over: how many processes ended without having been killed."""
    kills = ended = 0
    deadline = time.monotonic() + _COUNT_SECONDS_MAX
    done_at: float | None = None
    while time.monotonic() < min(deadline, done_at or deadline):
        everything.read()
        committed.read()
        if kills < _KILLS and len(everything.numbers) >= case.records * (kills + 1) // (_KILLS + 1):
            processes[kills % len(processes)].replace(keeps_state=case.keeps_state)
            kills += 1
        ended += sum(process.restart_if_ended() for process in processes)
        if done_at is None and len(committed.numbers) >= case.records:
            done_at = time.monotonic() + _AFTERWARDS_SECONDS
    return ended


def _create_topics(broker: Broker, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": "0"})
    topics = [NewTopic(f"{name}-{each}", PARTITIONS, min(broker.brokers, 3)) for each in ("input", "output")]
    for future in admin.create_topics(topics, operation_timeout=_REQUEST_SECONDS_MAX).values():
        future.result(timeout=_REQUEST_SECONDS_MAX)


def _write_records(broker: Broker, topic: str, records: int) -> None:
    # As clients of Java and aiokafka partition.
    settings = {"enable.idempotence": True, "partitioner": "murmur2", "log_level": "0"}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    for number in range(records):
        producer.produce(topic, key=f"key-{number % _KEYS}", value=json.dumps({"number": number}))
        producer.poll(0)
    if producer.flush(_REQUEST_SECONDS_MAX):
        raise TimeoutError("the records were not written")
