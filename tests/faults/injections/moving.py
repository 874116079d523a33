"""Leaders that move under the producers of real clients, in a topic of their own."""

from __future__ import annotations

from tests.compat.matrix.toolchains import UnavailableError
from tests.faults.moving_leaders.clusters import GridCluster
from tests.faults.moving_leaders.log import UnreadableError
from tests.faults.moving_leaders.movers import Move
from tests.faults.moving_leaders.producers import KNOWN_AT_KAFKA, Client, ProducersError
from tests.faults.moving_leaders.run import Plan, play
from tests.faults.stage import AnomalyError, Stage
from tests.faults.topics import delete_topic

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
        verdict = outcome.verdict
        if any(count for kind, count in verdict.counts.items() if kind not in KNOWN_AT_KAFKA[client]):
            raise AnomalyError(str(verdict))
    delete_topic(stage.cluster.layout, topic)


def _say_nothing(_: str) -> None:
    """The grid has one line per cell."""
