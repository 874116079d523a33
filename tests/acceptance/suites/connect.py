"""Kafka Connect with exactly-once sources: two workers, killed and suspended as they write, then asked by REST."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import click

from bench.apache_kafka import VERSION
from tests.acceptance.clusters import CACHE
from tests.acceptance.outcomes import Outcomes
from tests.acceptance.suite import Broker, Suite
from tests.acceptance.suites.connect_pipeline import (
    SINK,
    SOURCE,
    SOURCE_PARTITION,
    TOPIC,
    Pipeline,
    asked_topics,
    describe_topics,
    started,
)
from tests.acceptance.suites.connect_results import (
    Kill,
    offsets_after,
    problems_of_kills,
    problems_of_numbers,
    problems_of_order,
    problems_of_repetition,
    problems_of_settings,
    problems_of_sink,
)
from tests.acceptance.suites.connect_workers import Worker
from tests.acceptance.suites.readers import read_to_the_end
from tests.acceptance.suites.steps import FAILURES, Problems, Step, all_failed, run_steps
from tests.compat.building import build
from tests.compat.matrix.toolchains import PEER_LIBS, prepare

_SOURCES: Final = Path(__file__).parents[1] / "java/connect"
_SECONDS_MAX: Final = 1500.0
"""For all steps; those that have not begun by then have failed."""
_KILLS: Final = 3
_KILLED_RECORDS: Final = 5000
_MORE_RECORDS: Final = 1000
_KILLING_SECONDS_MAX: Final = 600.0
_END_SECONDS_MAX: Final = 240.0
"""More than the timeout of the source's transactions."""
_PAUSED_SECONDS: Final = 3.0


def _internal_topics(pipeline: Pipeline) -> Problems:
    return [_problems_of_topics(pipeline, of_workers=True)]


def _source_topics(pipeline: Pipeline) -> Problems:
    return [_problems_of_topics(pipeline, of_workers=False)]


def _problems_of_topics(pipeline: Pipeline, *, of_workers: bool) -> list[str]:
    found = describe_topics(pipeline.broker)
    problems = []
    for name, asked in asked_topics(of_workers=of_workers, replicas=min(pipeline.broker.brokers, 3)).items():
        if name not in found:
            problems.append(f"{name} is not there")
            continue
        topic = found[name]
        if (topic.partitions, topic.replicas) != (asked.partitions, asked.replicas):
            problems.append(f"{name} has {topic.partitions} partitions of {sorted(topic.replicas)} replicas")
        wanted = {setting: value or "" for setting, value in asked.settings.items()}
        problems += problems_of_settings(name, topic.settings, wanted)
    return problems


def _killed(pipeline: Pipeline) -> Problems:
    """Kill the worker that runs the source's task whenever so many records are committed and a transaction is open."""
    kills: list[Kill] = []

    def kill_or_end() -> bool:
        reached = len(pipeline.committed.numbers) >= _KILLED_RECORDS * (len(kills) + 1) // (_KILLS + 1)
        if len(kills) < _KILLS and reached and (worker := _worker_with_transaction(pipeline)):
            kills.append(Kill(len(pipeline.everything.numbers), len(pipeline.committed.numbers)))
            worker.kill()
            worker.start_again()
            pipeline.wait_for("the worker that was killed answers again", worker.answers)
        return pipeline.is_all_committed

    pipeline.wait_for("all records are committed", kill_or_end, _KILLING_SECONDS_MAX)
    read_to_the_end(pipeline.committed, pipeline.everything, _END_SECONDS_MAX)
    aborted = len(pipeline.everything.results) - len(pipeline.committed.results)
    click.echo(f"  {len(pipeline.committed.results)} records, {aborted} aborted, {kills}")
    of_kills = problems_of_kills(kills, _KILLS, aborted, _KILLED_RECORDS)
    return [
        of_kills + problems_of_numbers(pipeline.committed.results, pipeline.expected),
        of_kills + problems_of_order(pipeline.committed.results, pipeline.expected),
        of_kills + _problems_of_source_offset(pipeline, _KILLED_RECORDS),
    ]


def _worker_with_transaction(pipeline: Pipeline) -> Worker | None:
    """Return the worker that runs the source's task, if a transaction of it is open and another worker answers."""
    worker = pipeline.worker_of_source()
    pipeline.read()
    others = [each for each in pipeline.workers if each is not worker]
    if worker is not None and all(each.answers() for each in others) and pipeline.has_open_transaction:
        return worker
    return None


def _suspended(pipeline: Pipeline) -> Problems:
    """Suspend that worker until the task runs on the other one, and wake it: its transaction must not commit."""
    begin = pipeline.expected[-1] + 1
    aborted_before = len(pipeline.everything.results) - len(pipeline.committed.results)
    pipeline.write(range(begin, begin + 2 * _MORE_RECORDS))
    found: list[Worker] = []

    def suspends() -> bool:
        if begin in pipeline.everything.numbers and (worker := _worker_with_transaction(pipeline)):
            worker.suspend()
            found.append(worker)
        return bool(found)

    pipeline.wait_for("a worker has an open transaction", suspends)
    committed = len(pipeline.committed.results)
    try:
        pipeline.wait_for(
            "the task runs elsewhere",
            lambda: pipeline.worker_of_source() not in (None, found[0]) and len(pipeline.committed.results) > committed,
        )
        is_early = not pipeline.is_all_committed
    finally:
        found[0].wake()
    problems = _problems_at_the_end(pipeline)
    aborted = len(pipeline.everything.results) - len(pipeline.committed.results) - aborted_before
    click.echo(f"  suspended at {committed} committed records, {aborted} aborted")
    problems += [] if aborted else ["no transaction was open as the worker was suspended"]
    return [problems + ([] if is_early else ["all records were written before the worker woke"])]


def _problems_at_the_end(pipeline: Pipeline) -> list[str]:
    """Wait until all is committed and nothing open; return what is wrong with the records."""
    pipeline.await_all_committed()
    pipeline.await_running(SOURCE)
    read_to_the_end(pipeline.committed, pipeline.everything, _END_SECONDS_MAX)
    delivered = pipeline.committed.results
    return problems_of_numbers(delivered, pipeline.expected) + problems_of_order(delivered, pipeline.expected)


def _paused(pipeline: Pipeline) -> Problems:
    begin = pipeline.expected[-1] + 1
    pipeline.write(range(begin, begin + 2 * _MORE_RECORDS))
    pipeline.wait_for("the source writes on", lambda: begin in pipeline.committed.numbers)
    pipeline.rest.call("PUT", f"/connectors/{SOURCE}/pause")
    pipeline.await_state(SOURCE, "PAUSED", ("PAUSED",))
    _read_for(pipeline, _PAUSED_SECONDS)
    before = len(pipeline.everything.results)
    _read_for(pipeline, _PAUSED_SECONDS)
    problems = []
    if len(pipeline.everything.results) > before:
        problems.append("a source that is paused writes on")
    if pipeline.expected[-1] in pipeline.everything.numbers:
        problems.append("all records were written before the source was paused")
    pipeline.resume(SOURCE)
    return [problems + _problems_at_the_end(pipeline)]


def _read_for(pipeline: Pipeline, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pipeline.read()


def _restarted(pipeline: Pipeline) -> Problems:
    begin = pipeline.expected[-1] + 1
    pipeline.write(range(begin, begin + _MORE_RECORDS))
    pipeline.wait_for("the source writes on", lambda: begin in pipeline.committed.numbers)
    plan = pipeline.rest.call("POST", f"/connectors/{SOURCE}/restart?includeTasks=true&onlyFailed=false")
    states = [plan["connector"]["state"], *(task["state"] for task in plan["tasks"])]
    problems = [] if states == ["RESTARTING"] * 2 else [f"the plan of the restart has the states {states}"]
    if pipeline.expected[-1] in pipeline.everything.numbers:
        problems.append("all records were written before the source was restarted")
    return [problems + _problems_at_the_end(pipeline)]


def _source_altered(pipeline: Pipeline) -> Problems:
    """Have the source go back by some records while it is stopped: it writes them again."""
    end = pipeline.expected[-1] + 1
    begin = end - _MORE_RECORDS // 2
    pipeline.stop(SOURCE)
    problems = _problems_of_source_offset(pipeline, end)
    body = {"offsets": [{"partition": SOURCE_PARTITION, "offset": {"next": begin}}]}
    pipeline.rest.call("PATCH", f"/connectors/{SOURCE}/offsets", body)
    problems += _problems_of_source_offset(pipeline, begin)
    pipeline.expected += range(begin, end)
    pipeline.resume(SOURCE)
    return [problems + _problems_at_the_end(pipeline)]


def _source_reset(pipeline: Pipeline) -> Problems:
    """Have the source begin again, with fewer records.

    Its offsets are those of the workers' topic by then: Connect 4.4 deletes none of a source's own topic, since it ends
    the transaction before it writes there (IllegalStateException: Cannot add partition to transaction in state READY).
    """
    end = pipeline.expected[-1] + 1
    pipeline.stop(SOURCE)
    pipeline.configure(end, keeps_offsets=False)
    problems = _problems_of_source_offset(pipeline, end)
    pipeline.rest.call("DELETE", f"/connectors/{SOURCE}/offsets")
    left = pipeline.rest.call("GET", f"/connectors/{SOURCE}/offsets")["offsets"]
    problems += [f"after the reset the offsets are {left}"] if left else []
    pipeline.write(range(_MORE_RECORDS // 2), keeps_offsets=False)
    pipeline.resume(SOURCE)
    return [problems + _problems_at_the_end(pipeline)]


def _problems_of_source_offset(pipeline: Pipeline, next_number: int) -> list[str]:
    found = pipeline.rest.call("GET", f"/connectors/{SOURCE}/offsets")["offsets"]
    wanted = [{"partition": SOURCE_PARTITION, "offset": {"next": next_number}}]
    return [] if found == wanted else [f"the source's offsets are {found} instead of {wanted}"]


def _sink_wrote_all(pipeline: Pipeline) -> Problems:
    wanted = set(pipeline.committed.results)
    pipeline.wait_for("the sink has written all records", lambda: wanted <= set(pipeline.sunk()))
    return [problems_of_sink(pipeline.sunk(), wanted)]


def _sink_offsets(pipeline: Pipeline) -> dict[int, int]:
    """Return the sink's, by partition. Raises RestError."""
    found = pipeline.rest.call("GET", f"/connectors/{SINK}/offsets")["offsets"]
    return {each["partition"]["kafka_partition"]: each["offset"]["kafka_offset"] for each in found}


def _sink_offsets_read(pipeline: Pipeline) -> Problems:
    wanted = offsets_after(pipeline.committed.results)
    pipeline.wait_for(f"the sink's offsets are {wanted}", lambda: _sink_offsets(pipeline) == wanted)
    return [[]]


def _sink_altered(pipeline: Pipeline) -> Problems:
    """Have the sink go back in one partition: it writes the records from there on again, and no other."""
    records = [each for each in pipeline.committed.results if each.partition == 0]
    first = records[len(records) // 2].offset
    pipeline.stop(SINK)
    before = pipeline.sunk()
    partition = {"kafka_topic": TOPIC, "kafka_partition": 0}
    body = {"offsets": [{"partition": partition, "offset": {"kafka_offset": first}}]}
    pipeline.rest.call("PATCH", f"/connectors/{SINK}/offsets", body)
    found = _sink_offsets(pipeline).get(0)
    problems = [] if found == first else [f"the sink's offset is {found} instead of {first}"]
    pipeline.resume(SINK)
    again = [each for each in records if each.offset >= first]
    pipeline.wait_for("the sink has written them again", lambda: len(pipeline.sunk()) >= len(before) + len(again))
    _read_for(pipeline, _PAUSED_SECONDS)
    return [problems + problems_of_repetition(before, pipeline.sunk(), again)]


def _sink_reset(pipeline: Pipeline) -> Problems:
    """Have the sink begin again: it writes every record again."""
    pipeline.stop(SINK)
    before = pipeline.sunk()
    pipeline.rest.call("DELETE", f"/connectors/{SINK}/offsets")
    left = _sink_offsets(pipeline)
    problems = [f"after the reset the sink's offsets are {left}"] if left else []
    pipeline.resume(SINK)
    again = pipeline.committed.results
    pipeline.wait_for("the sink has written all again", lambda: len(pipeline.sunk()) >= len(before) + len(again))
    _read_for(pipeline, _PAUSED_SECONDS)
    return [problems + problems_of_repetition(before, pipeline.sunk(), again)]


def _deleted(pipeline: Pipeline) -> Problems:
    for connector in (SOURCE, SINK):
        pipeline.rest.call("DELETE", f"/connectors/{connector}")
    deadline = time.monotonic() + _END_SECONDS_MAX
    while (left := pipeline.rest.call("GET", "/connectors")) and time.monotonic() < deadline:
        time.sleep(0.5)
    ended = sum(worker.ended_unasked for worker in pipeline.workers)
    return [[f"{left} are left"] if left else [], [f"workers ended unasked {ended} times"] if ended else []]


STEPS: Final[tuple[Step[Pipeline], ...]] = (
    (("workers' topics: compacted, with the settings asked for",), _internal_topics),
    (("source's topics: created with the settings asked for",), _source_topics),
    (
        (
            "source killed: each record committed once",
            "source killed: records in order",
            "source killed: its offset is that of the last record",
        ),
        _killed,
    ),
    (("source suspended, then woken: fenced, each record once and in order",), _suspended),
    (("source paused and resumed: each record once and in order",), _paused),
    (("source restarted: each record once and in order",), _restarted),
    (("source's offsets altered: read, and continued from there",), _source_altered),
    (("source's offsets reset: none left, and begun again",), _source_reset),
    (("sink: wrote all that is committed, and nothing else",), _sink_wrote_all),
    (("sink's offsets read: those after the last records",), _sink_offsets_read),
    (("sink's offsets altered: continued from there",), _sink_altered),
    (("sink's offsets reset: begun again",), _sink_reset),
    (("connectors deleted", "no worker ended of its own accord"), _deleted),
)
"""In their order: names of rows, and what returns the problems of each."""


def _run(directory: Path, broker: Broker, logs: Path) -> Outcomes:
    ends_at = time.monotonic() + _SECONDS_MAX
    outcomes = all_failed(STEPS)
    try:
        with started(directory, broker, logs, _KILLED_RECORDS) as pipeline:
            run_steps(STEPS, pipeline, ends_at, outcomes)
    except FAILURES as error:
        click.echo(f"  the workers did not start: {error!r}")
    return outcomes


def _bring() -> Path:
    """Return the directory of the connectors' classes. Raises UnavailableError."""
    prepare("peer")
    sources = sorted(str(path.relative_to(_SOURCES)) for path in _SOURCES.rglob("*.java"))
    return build(_SOURCES, CACHE / "connect", [["javac", "-d", "classes", "-cp", f"{PEER_LIBS}/*", *sources]])


SUITE: Final = Suite("connect", f"Kafka Connect {VERSION}, exactly-once source, killed", _bring, _run, kafka_brokers=3)
