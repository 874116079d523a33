"""Looking for one mutant: seed after seed, in a process that it has to itself."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.sim.mutants import MUTANTS
from tests.sim.run import simulate

SEEDS_MAX = 200
CPU_S_MAX = 240.0


@dataclass(slots=True)
class Verdict:
    mutant: str
    seed: int | None
    failure: str
    cpu_s: float
    virtual_s: float


def hunt(name: str) -> Verdict:
    """Run seed after seed with the mutant planted, in this process, until something is noticed."""
    began_s = time.process_time()
    mutant = MUTANTS[name]
    mutant.plant()
    virtual_ms = 0
    for seed in range(1, SEEDS_MAX + 1):
        outcome = simulate(seed, mutant.options)
        virtual_ms += outcome.virtual_ms
        spent_s = time.process_time() - began_s
        if outcome.failure is not None:
            return Verdict(name, seed, str(outcome.failure), spent_s, virtual_ms / 1000)
        if spent_s > CPU_S_MAX:
            break
    return Verdict(name, None, "", time.process_time() - began_s, virtual_ms / 1000)


def fails_without(name: str, seed: int) -> str:
    """What a seed that has shown a mutant comes to where nothing is planted: it has to hold, or it has shown nothing.

    To be called in a process that plants nothing.
    """
    failure = simulate(seed, MUTANTS[name].options).failure
    return "" if failure is None else str(failure)
