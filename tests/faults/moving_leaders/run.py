"""One run: a topic, producers, leaders that move, and the reports of deliveries compared with the log."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.faults import evidence
from tests.faults.cluster import UnhealthyError
from tests.faults.moving_leaders.check import Verdict, check
from tests.faults.moving_leaders.clusters import Cluster, bootstrap_of
from tests.faults.moving_leaders.log import UnreadableError, read_log
from tests.faults.moving_leaders.movers import SETTLE_SECONDS_MAX, Move, Moves, Say, mover_of, wait_until
from tests.faults.moving_leaders.producers import Client, Producers, ProducersError, command_of
from tests.faults.topics import RefusedError, create_topic, in_sync

WARM_UP_RECORDS: Final = 1000
WARM_UP_SECONDS_MAX: Final = 60.0
SAY_SECONDS: Final = 10.0


@dataclass(slots=True, frozen=True)
class Plan:
    client: Client
    move: Move
    seconds: float
    """For which leaders move."""
    partitions: int
    producers: int
    seed: int


@dataclass(slots=True)
class Outcome:
    verdict: Verdict
    moves: int
    """How often a partition got another leader."""
    rounds: int
    refused: int
    """Rounds that the cluster refused."""
    client_version: str


def play(cluster: Cluster, plan: Plan, topic: str, directory: Path, say: Say) -> Outcome:
    """On a cluster that has started. What was seen stays in `directory`.

    Raises UnavailableError, and UnhealthyError, RefusedError, ProducersError and UnreadableError where the run came to
    no verdict.
    """
    command = command_of(plan.client)
    create_topic(cluster, topic, plan.partitions, {"min.insync.replicas": "2"})
    wait_until(lambda: in_sync(cluster, topic, plan.partitions), SETTLE_SECONDS_MAX)
    bootstrap = bootstrap_of(cluster)
    try:
        with Producers(command, bootstrap, topic, plan.partitions, plan.producers, directory) as producers:
            producers.wait_for(WARM_UP_RECORDS, WARM_UP_SECONDS_MAX)
            with Moves(cluster, topic) as moves:
                rounds, refused = _move(cluster, plan, topic, producers, moves, say)
            wait_until(lambda: in_sync(cluster, topic, plan.partitions), SETTLE_SECONDS_MAX)
            say(f"{moves.count} moves; {producers.acknowledged} acknowledged, {producers.failed} failed; flushing")
            deliveries = producers.finish(say)
        verdict = check(deliveries, read_log(bootstrap, topic, plan.partitions))
    except (UnhealthyError, RefusedError, ProducersError, UnreadableError):
        evidence.keep(cluster.process_logs(), cluster.log_directories(), directory)
        raise
    if not verdict.is_clean:
        evidence.keep(cluster.process_logs(), cluster.log_directories(), directory)
        lines = [str(verdict), "", *_copies(verdict, cluster, topic)]
        (directory / "verdict.txt").write_text("".join(f"{line}\n" for line in lines))
    return Outcome(verdict, moves.count, rounds, refused, producers.version)


def _move(cluster: Cluster, plan: Plan, topic: str, producers: Producers, moves: Moves, say: Say) -> tuple[int, int]:
    """Rounds until the time is over; how many there were, and how many the cluster refused."""
    mover = mover_of(plan.move, cluster, topic, plan.partitions, random.Random(plan.seed))
    rounds, refused = 0, 0
    began = said = time.monotonic()
    while time.monotonic() < began + plan.seconds:
        producers.check_alive()
        rounds += 1
        try:
            mover.round()
        except RefusedError as reason:
            refused += 1
            say(f"round {rounds} was refused: {reason}")
            time.sleep(1.0)
        if time.monotonic() >= said + SAY_SECONDS:
            said = time.monotonic()
            say(
                f"{said - began:.0f} s: {rounds} rounds, {moves.count} moves, {producers.acknowledged} acknowledged, "
                f"{producers.failed} failed"
            )
    return rounds, refused


def _copies(verdict: Verdict, cluster: Cluster, topic: str) -> list[str]:
    """The batches of what is wrong, on each replica: which producer wrote them, in which epoch and sequences. Records
    of the same batches are one example."""
    seen: set[tuple[str, ...]] = set()
    lines = []
    for example in verdict.examples:
        partition = f"{topic}-{example.place.partition}"
        batches = tuple(
            f"  {line}"
            for each in cluster.log_directories()
            for line in evidence.batch_lines(each, partition, example.place.offsets)
            if example.place.offsets
        )
        if batches and batches not in seen:
            seen.add(batches)
            lines += [f"{example.kind}: {example.text}", *batches]
    return lines
