"""Leaders move, nothing else goes wrong, and producers that act as the real ones notice nothing of it."""

from __future__ import annotations

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas_gateway.core.model.config import AddressPolicy
from tests.sim.clients.producers.calls import ProducerConfig
from tests.sim.clients.producers.process import Habits, Kind
from tests.sim.cluster import Cluster
from tests.sim.run import Options, simulate
from tests.sim.scheduler import MS, SECOND, InvariantViolation, Scheduler
from tests.sim.shapes import Profile
from tests.sim.topology import Shape, TopicShape
from tests.tiers import seeds

SECONDS = 3


@pytest.mark.parametrize("seed", seeds(range(1, 5), quick=1))
def test_nothing_fails_waits_or_comes_twice(seed: int) -> None:
    outcome = simulate(seed, Options(SECONDS, faults=[], profile=Profile.MOVING))
    assert not outcome.failure, str(outcome)
    assert outcome.reached.leader_changes > 0
    assert outcome.acknowledged > 0


def small_shape(kind: Kind) -> Shape:
    habits = Habits(kind, ProducerConfig(), version=9, interval_us=5 * MS, burst_max=6)
    return Shape(
        gateways=1,
        purgatories=1,
        controllers=1,
        topics={"orders": TopicShape(3)},
        real_producers=[habits],
        moving_us=200 * MS,
        address_policy=AddressPolicy.PER_BROKER_PORT,
    )


@pytest.mark.parametrize("kind", Kind)
def test_leaders_are_looked_for_and_found(kind: Kind) -> None:
    """Each client meets leaders that lead no more."""
    cluster = Cluster(Scheduler(seed=1), small_shape(kind))
    cluster.start()
    cluster.start_clients()
    cluster.run_for(4 * SECOND)
    cluster.settle()
    answers = cluster.deliveries.answers
    assert answers[ErrorCode.NOT_LEADER_OR_FOLLOWER.name] > 0
    assert answers[ErrorCode.NONE.name] > 0
    assert cluster.history.counts.repeated == 0


def test_a_batch_that_stays_unanswered_is_noticed() -> None:
    cluster = Cluster(Scheduler(seed=1), small_shape(Kind.JAVA))
    cluster.start()
    cluster.start_clients()
    cluster.run_for(SECOND)
    for gateway in cluster.gateways:
        gateway.pause()
    with pytest.raises(InvariantViolation, match="liveness"):
        cluster.run_for(10 * SECOND)
