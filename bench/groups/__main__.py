"""`python -m bench.groups`: rebalances, heartbeats and commits, beside Apache Kafka's in the same run.

Every part is taken on both sides in turn, pair by pair. A run of all parts with at least five pairs is saved, under
bench/results and in docs/verify/performance.md.
"""

from __future__ import annotations

import shutil

import click

from barnabas_cli.local.processes import raise_open_files_limit
from bench.apache_kafka import need_apache_kafka
from bench.compared_run import PAIRS_MIN_TO_SAVE, fields_of_run, publish, started
from bench.ending import end_in_order
from bench.groups.heartbeats import GROUPS, heartbeats
from bench.groups.measurements import Comparison, commits, rebalances
from bench.groups.members import TOPIC
from bench.groups.report import GroupsRun, table
from bench.groups.swarm import Swarm
from bench.loads import create_topic
from bench.report import ROOT, describe_machine, save_figures
from bench.sides import ApacheKafkaSide, BarnabasSide, Side

PARTS = ("rebalance", "commits", "heartbeats")
"""Members that are gone expire within a session timeout: those who are many come last."""
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
    need_apache_kafka()
    raise_open_files_limit()
    replicas = int(logstores)
    directory = ROOT / ".cache/bench-groups"
    shutil.rmtree(directory, ignore_errors=True)
    ours, theirs = BarnabasSide(directory / "barnabas", replicas), ApacheKafkaSide(directory / "apache-kafka", replicas)
    machine = describe_machine()
    comparisons: list[Comparison] = []
    with started(ours, theirs):
        for side in (ours, theirs):
            create_topic(side.bootstrap, TOPIC, replicas, max(_PARTITIONS))
        for part in parts or PARTS:
            comparisons += _measure(part, ours, theirs, pairs, rounds, seconds, heartbeat_seconds, groups)
    run = GroupsRun(**fields_of_run("bench.groups", machine, (ours, theirs), replicas), comparisons=comparisons)
    shutil.rmtree(directory)
    if not parts and pairs >= PAIRS_MIN_TO_SAVE and groups == GROUPS:
        path = save_figures(run, "groups")
        publish("bench-groups", run, path, table(run, path))
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
