"""One planted fault, run from seed to seed until something is noticed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count, islice

from tests.crash.mutants.catalogue import MUTANTS, WHERE
from tests.crash.programs import program_of
from tests.crash.run import run_program

SEEDS_MAX = 500


@dataclass(slots=True)
class Verdict:
    mutant: str
    seed: int | None
    failure: str
    cpu_s: float


def _anywhere(defaults: dict[str, str]) -> bool:
    return True


def hunt(mutant: str) -> Verdict:
    """Run seed after seed with the mutant planted, in this process, until something is noticed."""
    began = time.process_time()
    plant = MUTANTS[mutant]
    plant()
    may_show = WHERE.get(plant, _anywhere)
    programs = (program_of(seed) for seed in count(1))
    for program in islice((each for each in programs if may_show(dict(each.shape.defaults))), SEEDS_MAX):
        failure = run_program(program).failure
        if failure:
            return Verdict(mutant, program.seed, failure, time.process_time() - began)
    return Verdict(mutant, None, "", time.process_time() - began)
