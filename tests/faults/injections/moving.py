"""Leaders that move under the producers of real clients, in a topic of their own."""

from __future__ import annotations

from typing import Final

from tests.compat.matrix.toolchains import UnavailableError
from tests.faults.checker.verdict import Kind
from tests.faults.moving_leaders import check as moving_leaders
from tests.faults.moving_leaders.clusters import GridCluster
from tests.faults.moving_leaders.log import UnreadableError
from tests.faults.moving_leaders.movers import Move
from tests.faults.moving_leaders.producers import KNOWN_AT_KAFKA, Client, ProducersError
from tests.faults.moving_leaders.run import Plan, play
from tests.faults.stage import AnomalyError, Stage
from tests.faults.topics import delete_topic

_IN_GRID: Final = {
    moving_leaders.Kind.LOST: Kind.LOST,
    moving_leaders.Kind.DOUBLED: Kind.DUPLICATED,
    moving_leaders.Kind.OUT_OF_ORDER: Kind.REORDERED,
    moving_leaders.Kind.OTHER_OFFSET: Kind.DIVERGED,
    moving_leaders.Kind.UNSENT: Kind.UNKNOWN,
}
"""What the grid calls them."""

SECONDS = 8.0
PARTITIONS = 12
PRODUCERS = 2


def move_leaders(stage: Stage, client: Client, move: Move) -> None:
    """A short run of `make moving-leaders` on the cluster of the grid. What the client does at Apache Kafka, too, is
    no failure of the cell. Raises AnomalyError."""
    number = len(stage.injections)
    topic = f"{stage.topic}-{client}-{number}"
    plan = Plan(client, move, SECONDS, PARTITIONS, PRODUCERS, stage.chance.randrange(2**31))
    with stage.injected(f"leaders move ({move}) under {client}"):
        try:
            outcome = play(
                GridCluster(stage.cluster), plan, topic, stage.directory / f"{client}-{number}", _say_nothing
            )
        except (ProducersError, UnreadableError, UnavailableError) as reason:
            raise AnomalyError(str(reason)) from None
        wrong = {kind: count for kind, count in outcome.verdict.counts.items() if kind not in KNOWN_AT_KAFKA[client]}
        for kind, count in wrong.items():
            if kind in _IN_GRID:
                stage.found[_IN_GRID[kind]] += count
        if any(wrong.values()):
            raise AnomalyError(outcome.verdict.summary)
    delete_topic(stage.cluster.layout, topic)


def _say_nothing(_: str) -> None:
    """The grid has one line per cell."""
