"""`python -m bench.groups`: rebalances, heartbeats and commits, beside Apache Kafka's in the same run.

Every part is taken on both sides in turn, pair by pair. A run of all parts with at least five pairs is saved, under
bench/results and in docs/verify/performance.md.
"""

from __future__ import annotations

import shutil

import click

from barnabas.cli.local.processes import raise_open_files_limit
from bench.apache_kafka import LIBS
from bench.ending import end_in_order
from bench.groups.heartbeats import GROUPS, heartbeats
from bench.groups.measurements import Comparison, commits, rebalances
from bench.groups.members import TOPIC
from bench.groups.report import GroupsRun, save, table
from bench.groups.swarm import Swarm
from bench.loads import create_topic
from bench.report import ROOT, command_line, commit, describe_machine, utc_now, without_paths, write_target_section
from bench.sides import ApacheKafkaSide, BarnabasSide, Side

PARTS = ("rebalance", "commits", "heartbeats")
"""Members that are gone expire within a session timeout: those who are many come last."""
PAIRS_MIN_TO_SAVE = 5
_PARTITIONS = (1, 50)
"""Of one commit."""


@click.command()
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only these; nothing is saved then.")
@click.option("--pairs", type=click.IntRange(1), default=5, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=10, show_default=True, help="Of rebalances, in each sample.")
@click.option("--seconds", type=float, default=4.0, show_default=True, help="Of each sample of commits.")
@click.option("--heartbeat-seconds", type=float, default=12.0, show_default=True, help="Of each sample of heartbeats.")
@click.option(
    "--groups", type=click.IntRange(1), default=GROUPS, show_default=True, help="Of ten, that send heartbeats."
)
@click.option("--logstores", type=click.Choice(["1", "3"]), default="1", show_default=True, help="And brokers.")
def main(
    parts: tuple[str, ...],
    pairs: int,
    rounds: int,
    seconds: float,
    heartbeat_seconds: float,
    groups: int,
    logstores: str,
) -> None:
    """Measure, and save what is whole."""
    end_in_order()
    if shutil.which("java") is None or not LIBS.exists():
        raise click.ClickException("Apache Kafka is not here: make peer (needs a JDK 17 and Maven)")
    raise_open_files_limit()
    replicas = int(logstores)
    directory = ROOT / ".cache/bench-groups"
    shutil.rmtree(directory, ignore_errors=True)
    ours, theirs = BarnabasSide(directory / "barnabas", replicas), ApacheKafkaSide(directory / "apache-kafka", replicas)
    machine = describe_machine()
    started: list[Side] = []
    comparisons: list[Comparison] = []
    try:
        for side in (ours, theirs):
            click.echo(f"starting {side.name}")
            started.append(side)
            side.start()
            create_topic(side.bootstrap, TOPIC, replicas, max(_PARTITIONS))
        for part in parts or PARTS:
            comparisons += _measure(part, ours, theirs, pairs, rounds, seconds, heartbeat_seconds, groups)
    finally:
        for each in started:
            each.stop()
    run = GroupsRun(
        command_line("bench.groups"),
        commit(),
        utc_now(),
        machine,
        ours.name,
        theirs.name,
        replicas,
        without_paths(ours.flags),
        without_paths(theirs.flags),
        comparisons,
    )
    shutil.rmtree(directory)
    if not parts and pairs >= PAIRS_MIN_TO_SAVE and groups == GROUPS:
        path = save(run)
        write_target_section("bench-groups" if replicas == 1 else "bench-groups LOGSTORES=3", table(run, path))
        click.echo(f"\nsaved {path.relative_to(ROOT)}")
    click.echo("\n" + table(run, ROOT / "not saved"))


def _measure(
    part: str,
    ours: Side,
    theirs: Side,
    pairs: int,
    rounds: int,
    seconds: float,
    heartbeat_seconds: float,
    groups: int,
) -> list[Comparison]:
    """By a swarm of its own: what is over is disconnected."""
    click.echo(part)
    with Swarm() as swarm:
        match part:
            case "rebalance":
                return rebalances(swarm, ours, theirs, pairs, rounds, click.echo)
            case "heartbeats":
                return [heartbeats(ours, theirs, groups, pairs, heartbeat_seconds, click.echo)]
            case _:
                return [
                    commits(swarm, ours, theirs, partitions, pairs, seconds, click.echo) for partitions in _PARTITIONS
                ]


if __name__ == "__main__":
    main()
