"""What stands around a run: a failure is summarized and shrunk, explorations are saved and continued."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.sim import shrink, workers
from tests.sim.campaign import Campaign, Totals
from tests.sim.drains import DrainStep
from tests.sim.faults import Fault
from tests.sim.ledger import Exploration, page_of
from tests.sim.run import Options, Outcome
from tests.sim.shapes import AtMost, Profile
from tests.sim.shrink import Case, Shrinking
from tests.sim.story import Failure, short_story
from tests.sim.transitions import Reached


def outcome_of(
    seed: int,
    failure: Failure | None = None,
    kinds: tuple[Fault, ...] = (),
    drains: tuple[DrainStep, ...] = tuple(DrainStep),
) -> Outcome:
    reached = Reached({seed % 3, seed % 5}, 10, 2, 1)
    return Outcome(
        seed=seed,
        trace=f"{seed}",
        events=100,
        virtual_ms=3_600_000,
        cpu_s=1.0,
        operations=20_000,
        acknowledged=9_000,
        groups=2,
        rebalances=5,
        transactions=5,
        commits=70,
        reported="",
        shape="",
        hits=Counter(kinds),
        kinds=list(kinds),
        drains=Counter(drains),
        reached=reached,
        thrown=[],
        replayed_shards=4,
        failure=failure,
        remembered=[],
    )


def failure_at(at_s: int) -> Failure:
    return Failure("I1: something is lost", "promises.py:1 < invariants.py:2", at_s * 1_000_000, [], [])


def test_a_case_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails whenever a logstore is killed while two producers write, after 7 seconds, in every other seed."""

    def simulate(seed: int, options: Options) -> Outcome:
        kinds = tuple(options.faults or ())
        fails = Fault.KILL_LOGSTORE in kinds and options.at_most.producers >= 2 and (options.seconds or 20) > 7
        return outcome_of(seed, failure_at(7) if fails and seed % 2 else None)

    monkeypatch.setattr(shrink, "simulate", simulate)
    kinds = (Fault.CUT, Fault.KILL_LOGSTORE, Fault.PAUSE, Fault.SLOW, Fault.RESET)
    case = Case(11, Options(profile=Profile.LONG))
    smallest = Shrinking(case, outcome_of(11, failure_at(7), kinds), lambda smaller: None, 60).run()
    assert smallest.options.faults == [Fault.KILL_LOGSTORE]
    assert smallest.options.seconds == 8
    least = AtMost(
        1,
        1,
        1,
        1,
        producers=2,
        consumers=0,
        topics=1,
        partitions=1,
        replication_factor=1,
        groups=0,
        members=1,
        transactional=0,
    )
    assert smallest.options.at_most == least
    assert smallest.command == (
        "python -m tests.sim --seed 11 --profile long --seconds 8 --faults 'kill_logstore' --at-most "
        "logstores=1,gateways=1,purgatories=1,controllers=1,producers=2,consumers=0,topics=1,partitions=1,"
        "replication_factor=1,groups=0,members=1,transactional=0"
    )


def test_a_case_that_fails_elsewhere_is_another_case(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = Failure("I9: an offset is two values", "history.py:1 < consumer.py:2", 1, [], [])
    monkeypatch.setattr(shrink, "simulate", lambda seed, options: outcome_of(seed, elsewhere))
    case = Case(3, Options(seconds=4))
    smallest = Shrinking(case, outcome_of(3, failure_at(4)), lambda smaller: None, 60).run()
    assert (smallest.seed, smallest.options.seconds, str(smallest.options.at_most)) == (3, 4, "")


def test_a_story_is_of_those_whom_the_failure_names() -> None:
    reported = [
        "           5 logstore-1 starts",
        "          10 logstore-1>logstore-2 replicate 7 fetch 3 positions [(1, 0, 2)]",
        "          20 gateway-0>logstore-1 exchange 9 appends",
        "          30 logstore-2 ticks",
        "          40 fault: kill -9 of a logstore",
        "     1000050 logstore-2 does a write of 80 bytes to /data/orders-1 up to 4",
        "     1000060 logstore-2 does a write of 80 bytes to /data/orders-0 up to 4",
    ]
    of_a_process = short_story(Failure("", "", 0, ["logstore-2"], []), reported)
    assert [line.split(" s  ", 1)[1] for line in of_a_process] == [
        "logstore-1 starts",
        "logstore-1>logstore-2 replicate 7 fetch 3 positions [(1, 0, 2)]",
        "fault: kill -9 of a logstore",
        "logstore-2 does a write of 80 bytes to /data/orders-1 up to 4",
        "logstore-2 does a write of 80 bytes to /data/orders-0 up to 4",
    ]
    of_a_partition = short_story(Failure("", "", 0, ["logstore-2"], ["orders-1"]), reported, lines_max=2)
    assert [line.strip() for line in of_a_partition] == [
        "0.000040 s  fault: kill -9 of a logstore",
        "1.000050 s  logstore-2 does a write of 80 bytes to /data/orders-1 up to 4",
    ]


def test_an_exploration_goes_on_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three seeds, an interruption, and on from the fourth; the next one begins where that ended."""
    directory = tmp_path / "ledger"
    seen: list[int] = []

    def run(self: Campaign) -> None:
        while True:
            seed = self.totals.next_seed
            if seed == 4 and 4 not in seen:
                seen.append(4)
                raise KeyboardInterrupt
            seen.append(seed)
            self.totals.add(outcome_of(seed, failure_at(1) if seed == 2 else None, (Fault.CUT,)))
            if self._enough(self.totals):
                return

    monkeypatch.setattr(Campaign, "run", run)
    assert not Exploration(directory, Options(), "abc").run(6, 1)
    saved = json.loads((directory / "seeds-1.json").read_text())
    assert (saved["is_complete"], saved["next_seed"], saved["seeds"]) == (False, 4, 3)

    assert not Exploration(directory, Options(), "abc").run(6, 1), "seed 2 is open"
    saved = json.loads((directory / "seeds-1.json").read_text())
    assert (saved["is_complete"], saved["next_seed"], saved["seeds"]) == (True, 7, 6)
    assert saved["virtual_hours"] == 6
    assert saved["operations"] == 120_000
    assert saved["operations_per_s"] == round(120_000 / (6 * 3600), 2)
    assert saved["faults_by_kind"][Fault.CUT.value] == 6
    assert saved["distinct_transitions"] == 5
    assert saved["drains_by_step"] == {step.value: 6 for step in DrainStep}
    assert (saved["groups"], saved["rebalances"], saved["commits"]) == (12, 30, 420)
    assert [each["seed"] for each in saved["open"]] == [2]
    assert not list(directory.glob("*.transitions"))

    assert Exploration(directory, Options(), "abc").run(2, 1)
    assert (directory / "seeds-7.json").exists()
    assert (tmp_path / "ledger.md").read_text() == page_of(directory)
    assert "| **all** | 8 | 8.0 | 160,000 |" in page_of(directory)


def test_a_large_campaign_has_to_hit_with_every_fault() -> None:
    totals = Totals(1, 1)
    kinds = tuple(fault for fault in Fault if fault is not Fault.SLOW)
    for seed in range(1, 200):
        totals.add(outcome_of(seed, kinds=kinds))
    assert totals.never_hit == []
    totals.add(outcome_of(200, kinds=kinds))
    assert totals.never_hit == [Fault.SLOW]


def test_a_large_campaign_has_to_see_all_that_drains_come_to() -> None:
    totals = Totals(1, 1)
    for seed in range(1, 201):
        totals.add(outcome_of(seed, kinds=tuple(Fault), drains=(DrainStep.DRAINED,)))
    assert totals.never_hit == [step for step in DrainStep if step is not DrainStep.DRAINED]
    totals.add(outcome_of(201, drains=tuple(DrainStep)))
    assert totals.never_hit == []


def test_the_ledger_says_what_its_files_say() -> None:
    directory = Path(__file__).parents[2] / "docs" / "verify" / "simulation-ledger"
    assert directory.with_suffix(".md").read_text() == page_of(directory)


def test_all_jobs_come_back_though_processes_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SEEDS_PER_PROCESS", 2)
    pool = workers.Workers(1)
    jobs = [(seed, Options(1, steps=5)) for seed in range(5)]
    try:
        came = [(job, outcome.seed, outcome.events) for job, outcome in pool.map(iter(jobs))]
    finally:
        pool.close()
    assert came == [(job, job[0], 5) for job in jobs]
