"""The simulation itself: some seeds, that a seed is a run, and that the harness sees a planted fault.

`python -m tests.sim --seeds A..B` explores; `python -m tests.sim.mutants` plants all mutants.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.cores import INTERPRETED, VARIABLE
from tests.sim.clients.consumer import Consumer, Taste
from tests.sim.clients.producer import Behaviour
from tests.sim.cluster import Cluster
from tests.sim.faults import Fault, Faults
from tests.sim.mutants.planting import LEADERS, SMALL
from tests.sim.run import Options, simulate
from tests.sim.scheduler import MS, SECOND, Scheduler
from tests.sim.shapes import Profile, random_shape
from tests.sim.topology import Shape, TopicShape
from tests.tiers import seeds

ROOT = Path(__file__).parents[2]
SECONDS = 6
EVERYTHING = [
    Fault.KILL_LOGSTORE,
    Fault.KILL_GATEWAY,
    Fault.KILL_PURGATORY,
    Fault.KILL_CONTROLLER,
    Fault.KILL_ETCD,
    Fault.RESET,
    Fault.CUT,
    Fault.PAUSE,
]


@pytest.mark.parametrize("seed", seeds(range(1, 11), quick=2))
def test_a_seed_holds_every_invariant(seed: int) -> None:
    outcome = simulate(seed, Options(SECONDS))
    assert not outcome.failure, str(outcome)
    assert outcome.operations > 0, "something was produced"


@pytest.mark.parametrize("seed", seeds(range(1, 11), quick=1))
def test_a_seed_holds_every_invariant_while_leaders_are_elected_unclean(seed: int) -> None:
    """What clients were sent is cut off from files in most of these seeds."""
    outcome = simulate(seed, Options(20, faults=LEADERS, at_most=SMALL, profile=Profile.UNCLEAN))
    assert not outcome.failure, str(outcome)
    assert outcome.operations > 0, "something was produced"


@pytest.mark.parametrize("seed", seeds(range(1, 11), quick=1))
def test_consumers_that_take_a_batch_at_a_time_skip_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their fetches end within segments, most of which are not the last one."""
    monkeypatch.setattr(Consumer, "partition_bytes_max", 150)
    outcome = simulate(seed, Options(SECONDS, at_most=SMALL, profile=Profile.SPARSE))
    assert not outcome.failure, str(outcome)
    assert outcome.operations > 0, "something was read"


def test_every_role_may_die_at_any_time() -> None:
    outcome = simulate(77, Options(8, faults=EVERYTHING))
    assert not outcome.failure, str(outcome)
    assert sum(outcome.hits.values()) >= 5


def test_a_leader_under_its_next_epoch_commits_what_it_appended_before() -> None:
    """The observer counted a watermark for the present epoch alone, and took that for a success without a reason."""
    faults = [Fault.SLOW_LINK, Fault.SLOW, Fault.CUT, Fault.KILL_LOGSTORE, Fault.KILL_ALL_LOGSTORES]
    outcome = simulate(
        3, Options(10, faults=faults, profile=Profile.SPARSE, at_most=replace(SMALL, replication_factor=2))
    )
    assert not outcome.failure, str(outcome)


COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.ms": "200"}


def test_logs_are_compacted_while_everything_else_goes_on() -> None:
    producer = Behaviour(idempotent=True, acks=-1, version=9, interval_us=10 * MS, records_max=3)
    shape = Shape(
        logstores=1,
        gateways=1,
        purgatories=1,
        controllers=1,
        topics={"orders": TopicShape(2, 1, COMPACTED)},
        producers=[producer],
        consumers=[Taste(version=12, max_wait_ms=20, min_bytes=1, isolation_level=0)],
    )
    cluster = Cluster(Scheduler(seed=1), shape)
    faults = Faults(cluster, [Fault.KILL_LOGSTORE, Fault.POWER_CUT], SECOND)
    cluster.start()
    cluster.start_clients()
    cluster.run_for(2 * SECOND)
    faults.start()
    cluster.run_for(6 * SECOND)
    cluster.settle(faults)
    (logstore,) = cluster.logstores
    assert logstore.passes >= 3
    assert sum(faults.hits.values()) >= 2


def traced(seed: int, hash_seed: str) -> str:
    """The last line of a run in a process of its own."""
    command = [sys.executable, "-m", "tests.sim", "--seed", str(seed), "--seconds", "2"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()[-1]


def test_a_seed_is_a_run_whatever_the_process() -> None:
    first = traced(5, hash_seed="1")
    assert first.startswith("trace ")
    assert len(first) == len("trace ") + 64
    assert traced(5, hash_seed="4294967295") == first
    assert traced(6, hash_seed="1") != first


def test_a_run_ends_at_the_chosen_event() -> None:
    whole, part, again = (
        simulate(5, Options(2)),
        simulate(5, Options(2, steps=900, lines_max=60)),
        simulate(5, Options(2, steps=900, lines_max=60)),
    )
    assert part.events == 900
    assert part.remembered == again.remembered
    assert part.trace == again.trace != whole.trace


def test_some_seeds_encode_every_message() -> None:
    """One in ten: not one in a hundred, and not all."""
    encoded = sum(random_shape(Scheduler(seed).random).encode for seed in range(1_000))
    assert 50 < encoded < 200


@pytest.mark.parametrize("mutant", ["lost entry is success", "watermark ahead of written", "answers out of order"])
def test_a_planted_fault_is_seen(mutant: str) -> None:
    command = [sys.executable, "-m", "tests.sim.mutants", "--only", mutant]
    # What is compiled can't be replaced.
    environment = os.environ | {VARIABLE: INTERPRETED}
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert run.stdout.splitlines()[-1] == "1 mutants, 1 caught", run.stdout + run.stderr
