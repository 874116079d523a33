"""Crashes in `make test`: some seeds, the same trace twice, the plain reading of files, a fault of ours that is found.

`make crash SEEDS=1..2000` is the campaign, `make crash-mutants` plants all faults.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas_logstore.core.storage.segment.segment import Segment
from tests.crash.programs import program_of
from tests.crash.run import run_program, run_seed
from tests.crash.shrink import shrink
from tests.tiers import seeds

SEEDS = range(1, 25)
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", seeds(SEEDS, quick=6))
def test_a_log_outlives_crashes(seed: int) -> None:
    outcome = run_seed(seed)
    assert not outcome.failure, "\n".join([*outcome.lines[-20:], outcome.failure])
    assert outcome.crashes > 0


def test_a_seed_has_one_trace_in_any_process() -> None:
    command = [sys.executable, "-m", "tests.crash", "--seed", "3"]
    said = {
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "1")
    }
    assert said == {f"seed 3: {(outcome := run_seed(3)).crashes} crashes, trace {outcome.trace}\n"}


def test_a_planted_fault_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torn tail that stays: one life to tear it and one to find it are enough to show."""
    monkeypatch.setattr(Segment, "cut", lambda self: 0)
    seed = next(seed for seed in SEEDS if run_seed(seed).failure)
    program = program_of(seed)
    small = shrink(program)
    assert run_program(small).failure
    assert len(small.lives) < len(program.lives)
    assert len(small.lives) <= 4
