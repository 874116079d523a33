"""Explorations, saved: each as a JSON file of its own, all of them together as one page that adds them up.

An exploration runs seeds that no other has run, at one commit, until so many virtual hours have been simulated. It is
saved as it goes: one that was interrupted is gone on with where it ended, as long as the code is the same.
"""

from __future__ import annotations

import json
import time
from array import array
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.sim.campaign import Campaign, Open, Progress, Totals
from tests.sim.drains import DrainStep
from tests.sim.faults import Fault
from tests.sim.run import Options, Outcome, simulate

SAVE_EVERY_S = 30

_PAGE = """# The simulation's ledger

Every saved exploration of the [simulation](simulation.md), which runs whole clusters from seeds, each for minutes or
hours of virtual time. `make sim-explore HOURS=200` adds an exploration, from the first seed that was never run, and
writes this page from the files in `{directory}/`, which also have the faults by kind and further counts.

An operation is a client's request that was answered: a produce, or a fetch that returned records. A transition is a
change of one replica's part in its partition, distinct by the roles of the other replicas at that time. An open seed is
one that failed and has not passed since. A rebalance is a generation of a consumer group, a commit an acknowledged
offset of one partition; transactions are those that a coordinator has completed, and hours with them those of seeds
that had any.

| commit | seeds | virtual hours | operations | per s | acknowledged | faults | leader changes | ISR changes \
| distinct transitions | rebalances | commits | transactions | hours with them | CPU hours | open |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
{rows}
"""


_SUMMED = (
    "virtual_ms",
    "operations",
    "acknowledged_records",
    "faults",
    "leader_changes",
    "isr_changes",
    "rebalances",
    "commits",
    "transactions",
    "transactional_ms",
    "cpu_s",
)
# Explorations that were saved before there were groups, or transactions.
_WITHOUT = {"rebalances": 0, "commits": 0, "transactions": 0, "transactional_ms": 0}


class Exploration:
    """One exploration in the ledger's `directory`."""

    def __init__(self, directory: Path, options: Options, commit: str) -> None:
        self._directory = directory
        self._options = options
        self._commit = commit
        self._saved_s = time.monotonic()
        saved = _all_of(directory)
        unfinished = [each for each in saved if not each["is_complete"] and each["commit"] == commit]
        if unfinished:
            self.totals = _totals_of(unfinished[-1])
            known = self._distinct_path
            self.totals.distinct = set(array("q", known.read_bytes()) if known.exists() else ())
        else:
            first = max((each["next_seed"] for each in saved), default=1)
            self.totals = Totals(first, first)

    @property
    def _path(self) -> Path:
        return self._directory / f"seeds-{self.totals.first}.json"

    @property
    def _distinct_path(self) -> Path:
        """What a continued exploration needs, and nothing else does."""
        return self._path.with_suffix(".transitions")

    def run(self, hours: float, processes: int | None) -> bool:
        """Until `hours` are simulated in all, or interrupted. True: nothing is open, and every fault has struck."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._try_open_seeds_again()
        print(f"from seed {self.totals.next_seed}, at {self._commit}, into {self._path}", flush=True)
        progress = Progress(self.totals)

        def noticed(outcome: Outcome) -> None:
            progress.noticed(outcome)
            if time.monotonic() - self._saved_s >= SAVE_EVERY_S:
                self._save(hours, is_complete=False)

        is_complete = False
        try:
            enough = lambda totals: totals.virtual_hours >= hours  # noqa: E731
            Campaign(self.totals, self._options, processes, enough=enough, noticed=noticed).run()
            is_complete = True
        except KeyboardInterrupt:
            print("interrupted: the next exploration goes on here", flush=True)
        finally:
            self._save(hours, is_complete=is_complete)
        print(self.totals)
        for never in self.totals.never_hit:
            print(f"NEVER HIT: {never.value}")
        for each in self.totals.open:
            profile = self._options.profile.value
            words = f"--seed {each.seed} --profile {profile}{_words_of(self._options)}"
            print(f"open: python -m tests.sim {words}  # {each.failure}")
        return is_complete and not self.totals.open and not self.totals.never_hit

    def _try_open_seeds_again(self) -> None:
        """What failed at an earlier commit and holds now is open no more."""
        for path in sorted(self._directory.glob("seeds-*.json")):
            saved = json.loads(path.read_text())
            again = [each for each in saved["open"] if "held_at" not in each] if saved["commit"] != self._commit else []
            for each in again:
                words = saved["command"].split()
                options = replace(
                    self._options,
                    is_transactional="--transactions" in words,
                    has_last_epochs="--last-epochs" in words,
                )
                outcome = simulate(each["seed"], options)
                print(f"seed {each['seed']} again: {outcome.failure or 'it holds'}", flush=True)
                if outcome.failure is None:
                    each["held_at"] = self._commit
            if again:
                _write(path, json.dumps(saved, indent=1) + "\n")

    def _save(self, hours: float, *, is_complete: bool) -> None:
        self._saved_s = time.monotonic()
        totals, options = self.totals, self._options
        saved = {
            "command": f"python -m tests.sim --explore --hours {hours:g}{_words_of(options)}",
            "commit": self._commit,
            "is_complete": is_complete,
            "first_seed": totals.first,
            "next_seed": totals.next_seed,
            "seeds": totals.seeds,
            "virtual_ms": totals.virtual_ms,
            "virtual_hours": round(totals.virtual_hours, 2),
            "events": totals.events,
            "operations": totals.operations,
            "operations_per_s": round(totals.operations_per_s, 2),
            "acknowledged_records": totals.acknowledged,
            "groups": totals.groups,
            "rebalances": totals.rebalances,
            "commits": totals.commits,
            "transactions": totals.transactions,
            "transactional_ms": totals.transactional_ms,
            "faults": sum(totals.hits.values()),
            "faults_by_kind": {fault.value: totals.hits[fault] for fault in Fault},
            "drains_by_step": {step.value: totals.drains[step] for step in DrainStep},
            "transitions": totals.transitions,
            "distinct_transitions": len(totals.distinct),
            "leader_changes": totals.leader_changes,
            "isr_changes": totals.isr_changes,
            "seeds_run_twice": totals.rerun,
            "cpu_s": round(totals.cpu_s),
            "open": [{"seed": each.seed, "failure": each.failure} for each in totals.open],
        }
        _write(self._path, json.dumps(saved, indent=1) + "\n")
        if is_complete:
            self._distinct_path.unlink(missing_ok=True)
        else:
            self._distinct_path.write_bytes(array("q", sorted(totals.distinct)).tobytes())
        _write(self._directory.with_suffix(".md"), page_of(self._directory))


def page_of(directory: Path) -> str:
    """The ledger's page, from its files."""
    saved = [_WITHOUT | each for each in _all_of(directory)]
    rows = [_row(each) for each in saved]
    total: dict[str, Any] = {name: sum(each[name] for each in saved) for name in _SUMMED}
    total |= {
        "commit": "**all**",
        "seeds": sum(each["seeds"] for each in saved),
        "open": [each for one in saved for each in one["open"]],
        # How many of them are the same is not stored.
        "distinct_transitions": max((each["distinct_transitions"] for each in saved), default=0),
    }
    return _PAGE.format(directory=directory.name, rows="\n".join([*rows, _row(total)]))


def _row(saved: dict[str, Any]) -> str:
    seeds = f"{saved['seeds']:,}"
    if "first_seed" in saved:
        seeds = f"[{saved['first_seed']}..{saved['next_seed'] - 1}](simulation-ledger/seeds-{saved['first_seed']}.json)"
    cells = [
        saved["commit"],
        seeds,
        f"{saved['virtual_ms'] / 3_600_000:.1f}",
        f"{saved['operations']:,}",
        f"{saved['operations'] * 1_000 / max(1, saved['virtual_ms']):.1f}",
        f"{saved['acknowledged_records']:,}",
        f"{saved['faults']:,}",
        f"{saved['leader_changes']:,}",
        f"{saved['isr_changes']:,}",
        ("" if "first_seed" in saved else "at least ") + f"{saved['distinct_transitions']:,}",
        f"{saved['rebalances']:,}",
        f"{saved['commits']:,}",
        f"{saved['transactions']:,}",
        f"{saved['transactional_ms'] / 3_600_000:.1f}",
        f"{saved['cpu_s'] / 3600:.1f}",
        str(len([each for each in saved["open"] if "held_at" not in each])),
    ]
    return f"| {' | '.join(cells)} |"


def _all_of(directory: Path) -> list[dict[str, Any]]:
    """Every saved exploration, in the order of their seeds."""
    saved = [json.loads(path.read_text()) for path in directory.glob("seeds-*.json")]
    return sorted(saved, key=lambda each: int(each["first_seed"]))


def _totals_of(saved: dict[str, Any]) -> Totals:
    return Totals(
        first=saved["first_seed"],
        next_seed=saved["next_seed"],
        seeds=saved["seeds"],
        virtual_ms=saved["virtual_ms"],
        events=saved["events"],
        operations=saved["operations"],
        acknowledged=saved["acknowledged_records"],
        groups=saved["groups"],
        rebalances=saved["rebalances"],
        commits=saved["commits"],
        transactions=saved.get("transactions", 0),
        transactional_ms=saved.get("transactional_ms", 0),
        transitions=saved["transitions"],
        leader_changes=saved["leader_changes"],
        isr_changes=saved["isr_changes"],
        cpu_s=saved["cpu_s"],
        rerun=saved["seeds_run_twice"],
        hits=Counter({fault: saved["faults_by_kind"].get(fault.value, 0) for fault in Fault}),
        drains=Counter({step: saved["drains_by_step"].get(step.value, 0) for step in DrainStep}),
        open=[Open(each["seed"], each["failure"]) for each in saved["open"]],
    )


def _words_of(options: Options) -> str:
    """Return what the command line has for what a seed does not decide."""
    return " --transactions" * options.is_transactional + " --last-epochs" * options.has_last_epochs


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    beside.replace(path)
