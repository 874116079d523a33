"""MirrorMaker 2: a cluster and one of Apache Kafka are mirrored into each other, exactly once, with groups' offsets."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from tests.acceptance import clusters
from tests.acceptance.outcomes import Outcomes
from tests.acceptance.suite import Broker, Suite
from tests.acceptance.suites.connect_results import (
    PARTITIONS,
    Kill,
    problems_of_kills,
    problems_of_numbers,
    problems_of_order,
    problems_of_settings,
)
from tests.acceptance.suites.mirror_flows import SETTINGS, Flow, Mirroring, started
from tests.acceptance.suites.mirror_maker import HERE, OTHER, TOPIC, VERSION, bring, replicas_in
from tests.acceptance.suites.mirror_results import (
    Translated,
    problems_of_contents,
    problems_of_going_on,
    problems_of_numbers_read,
    problems_of_translated,
)
from tests.acceptance.suites.readers import read_to_the_end
from tests.acceptance.suites.steps import FAILURES, Problems, Step, all_failed, run_steps

_SECONDS_MAX: Final = 2400.0
_KILLS: Final = 2
"""One while a transaction of each flow is open."""
_RECORDS: Final = 3000
_TRANSACTION_RECORDS: Final = 30
_AHEAD_MAX: Final = 600
"""So many records are written at most that are not mirrored yet: some are left for after a kill."""
_KILLING_SECONDS_MAX: Final = 900.0
_END_SECONDS_MAX: Final = 240.0
_ROUNDS_MAX: Final = 8
_ROUND_RECORDS: Final = 120
_ROUND_SECONDS: Final = 15.0
_TRANSLATIONS_MAX: Final = 3
"""Offsets are synchronized a second after they were translated, or later."""
_REQUEST_SECONDS_MAX: Final = 60.0
_ALTERED: Final = {"retention.ms": "259200000", "max.message.bytes": "3145728"}


def _of_each(mirroring: Mirroring, problems_of_flow: Callable[[Flow], list[str]]) -> Problems:
    """Return the problems of each flow; what is raised of one is its problem alone."""
    problems = []
    for flow in mirroring.flows:
        try:
            problems.append(problems_of_flow(flow))
        except FAILURES as error:
            problems.append([repr(error)])
    return problems


def _topics(mirroring: Mirroring) -> Problems:
    return _of_each(mirroring, lambda flow: _problems_of_mirror(flow, PARTITIONS, SETTINGS))


def _problems_of_mirror(flow: Flow, partitions: int, settings: dict[str, str]) -> list[str]:
    """Say where the mirror differs from the topic. Raises KafkaException."""
    found = flow.target.admin.list_topics(flow.mirror, timeout=_REQUEST_SECONDS_MAX).topics[flow.mirror].partitions
    replicas = {len(each.replicas) for each in found.values()}
    problems = []
    if len(found) != partitions or replicas != {replicas_in(flow.target.broker)}:
        problems.append(f"{flow.mirror} has {len(found)} partitions of {sorted(replicas)} replicas")
    return problems + problems_of_settings(flow.mirror, flow.target.settings_of(flow.mirror), settings)


def _killed(mirroring: Mirroring) -> Problems:
    """Kill MirrorMaker while a transaction of one flow is open, then of the other, as both topics are written."""
    kills: list[Kill] = []

    def write_and_kill() -> bool:
        for flow in mirroring.flows:
            if flow.written < _RECORDS and flow.written - len(flow.committed.results) < _AHEAD_MAX:
                flow.write(_TRANSACTION_RECORDS)
        if len(kills) < _KILLS:
            flow = mirroring.flows[len(kills)]
            reached = len(flow.committed.results) >= _RECORDS * (len(kills) + 1) // (_KILLS + 1)
            if reached and flow.has_open_transaction:
                kills.append(Kill(len(flow.everything.numbers), len(flow.committed.numbers)))
                mirroring.maker.kill()
                mirroring.maker.start_again()
        return all(each.written >= _RECORDS and each.is_all_mirrored for each in mirroring.flows)

    mirroring.wait_for("all records are mirrored", write_and_kill, _KILLING_SECONDS_MAX)
    aborted = 0
    for flow in mirroring.flows:
        read_to_the_end(flow.committed, flow.everything, _END_SECONDS_MAX)
        aborted += len(flow.everything.results) - len(flow.committed.results)
    click.echo(f"  {aborted} records of aborted transactions in the mirrors, {kills}")
    of_kills = problems_of_kills(kills, _KILLS, aborted, _RECORDS)
    return [of_kills + each for flow in mirroring.flows for each in _problems_of_records(flow)]


def _problems_of_records(flow: Flow) -> list[list[str]]:
    found = flow.committed.results
    wanted = range(flow.written)
    return [problems_of_numbers(found, wanted), problems_of_order(found, wanted), problems_of_contents(found)]


def _caught_up(mirroring: Mirroring) -> Problems:
    """Have each group read its topic to the end: in the mirror it goes on at the end, and nowhere else."""

    def problems_of_flow(flow: Flow) -> list[str]:
        flow.have_group_read(flow.written)
        wanted = flow.mirror_ends
        mirroring.wait_for(f"{flow.group} goes on at {wanted} in the mirror", lambda: flow.translated == wanted)
        return []

    return _of_each(mirroring, problems_of_flow)


def _on_the_way(mirroring: Mirroring) -> Problems:
    """Have each group read a part of what is new, and go on in the mirror: no record is lost between the two."""
    return _of_each(mirroring, lambda flow: _problems_of_going_on(mirroring, flow))


def _problems_of_going_on(mirroring: Mirroring, flow: Flow) -> list[str]:
    before = flow.translated

    def goes_on_later() -> bool:
        return all(offset > before.get(partition, -1) for partition, offset in flow.translated.items())

    for _ in range(_ROUNDS_MAX):
        flow.write(_ROUND_RECORDS)
        mirroring.await_all_mirrored()
        read = flow.written - _ROUND_RECORDS // 2
        flow.have_group_read(read)
        # Of older offsets MirrorMaker knows one for each power of two, so that a round may tell it nothing.
        if mirroring.reads_until(goes_on_later, _ROUND_SECONDS):
            break
    else:
        return [f"{flow.group} goes on no later than at {before} in the mirror"]
    read_to_the_end(flow.committed, flow.everything, _END_SECONDS_MAX)
    translated, mirrored = flow.translated, flow.committed.results
    left = set(range(read, flow.written))
    wanted = [each.number for each in mirrored if each.offset >= translated[each.partition]]
    click.echo(f"  {flow.name}: {len(left)} of {flow.written} records are left, the group reads {len(wanted)}")
    return problems_of_going_on(mirrored, translated, left) + problems_of_numbers_read(
        flow.have_group_go_on(len(wanted)), wanted
    )


def _altered(mirroring: Mirroring) -> Problems:
    """Give each topic a partition more and other settings: its mirror follows."""
    for flow in mirroring.flows:
        resource = ConfigResource(
            ResourceType.TOPIC,
            TOPIC,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in _ALTERED.items()
            ],
        )
        (altered,) = flow.source.admin.incremental_alter_configs([resource]).values()
        altered.result(timeout=_REQUEST_SECONDS_MAX)
        (created,) = flow.source.admin.create_partitions([NewPartitions(TOPIC, PARTITIONS + 1)]).values()
        created.result(timeout=_REQUEST_SECONDS_MAX)
    return _of_each(mirroring, lambda flow: _problems_of_following(mirroring, flow))


def _problems_of_following(mirroring: Mirroring, flow: Flow) -> list[str]:
    def follows() -> bool:
        return not _problems_of_mirror(flow, PARTITIONS + 1, _ALTERED)

    mirroring.wait_for(f"{flow.mirror} has the partitions and settings of its topic", follows)
    return []


def _translated(mirroring: Mirroring) -> Problems:
    """Ask each cluster by RemoteClusterUtils: it says what the groups' offsets are in the mirrors."""
    return _of_each(mirroring, lambda flow: _problems_of_translating(mirroring, flow))


def _problems_of_translating(mirroring: Mirroring, flow: Flow) -> list[str]:
    alias = flow.source.alias
    problems: list[str] = []
    for _ in range(_TRANSLATIONS_MAX):
        found = mirroring.maker.translate(flow.target.broker.bootstrap, alias, flow.group)
        offsets = {(flow.mirror, partition): offset for partition, offset in flow.translated.items()}
        wanted = Translated((alias,), 1, (f"{alias}.checkpoints.internal",), offsets)
        problems = problems_of_translated(found, wanted)
        if not problems:
            break
    return problems


def _not_mirrored_back(mirroring: Mirroring) -> Problems:
    """Look for mirrors of mirrors, and for whether the records are still right."""

    def problems_of_flow(flow: Flow) -> list[str]:
        names = [name for name in flow.target.topics() if name.startswith(f"{flow.source.alias}.{flow.target.alias}.")]
        read_to_the_end(flow.committed, flow.everything, _END_SECONDS_MAX)
        problems = [problem for each in _problems_of_records(flow) for problem in each]
        return problems + ([f"{flow.target.alias} has {', '.join(names)}"] if names else [])

    ended = mirroring.maker.ended_unasked
    return [*_of_each(mirroring, problems_of_flow), [f"MirrorMaker ended unasked {ended} times"] if ended else []]


def _rows(*whats: str) -> tuple[str, ...]:
    """Return the names of rows of both flows."""
    return tuple(f"{source} to {target}: {what}" for source, target in ((HERE, OTHER), (OTHER, HERE)) for what in whats)


STEPS: Final[tuple[Step[Mirroring], ...]] = (
    (_rows("the mirror has the topic's partitions and settings"), _topics),
    (
        _rows(
            "killed: each record mirrored once",
            "killed: records in order",
            "killed: keys, headers and timestamps unchanged",
        ),
        _killed,
    ),
    (_rows("a group at the end goes on at the end"), _caught_up),
    (_rows("a group on its way goes on and loses no record"), _on_the_way),
    (_rows("RemoteClusterUtils translates offsets as they were synchronized"), _translated),
    (_rows("partitions added and settings altered: the mirror follows"), _altered),
    ((*_rows("no mirror is mirrored back"), "MirrorMaker did not end of its own accord"), _not_mirrored_back),
)


def _run(directory: Path, broker: Broker, logs: Path) -> Outcomes:
    ends_at = time.monotonic() + _SECONDS_MAX
    outcomes = all_failed(STEPS)
    try:
        with clusters.kafka(_OTHER) as (other, _), started(directory, broker, other, logs) as mirroring:
            run_steps(STEPS, mirroring, ends_at, outcomes)
    except FAILURES as error:
        click.echo(f"  MirrorMaker did not start: {error!r}")
    return outcomes


_OTHER: Final = Suite("mirror", "the other cluster", bring, _run)
SUITE: Final = Suite("mirror", f"MirrorMaker {VERSION}, both ways, exactly once, killed", bring, _run, kafka_brokers=3)
