"""Looking for one mutant, in a process that it has to itself: seed after seed, or by the test that it names."""

from __future__ import annotations

import io
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.sim.mutants import MUTANTS
from tests.sim.run import Options, simulate

SEEDS_MAX = 400
CPU_S_MAX = 240.0
_ARGUMENTS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "tests.tiers", "--hypothesis-profile=deep")
"""pytest's. The module with the profiles is a plugin to it, since pytest has to be the first to import Hypothesis."""


@dataclass(slots=True)
class Verdict:
    """`seen_by`: the seed or the test that `failure` is of, which is empty where nothing was seen. 0 is no seed."""

    mutant: str
    seen_by: str
    failure: str
    cpu_s: float
    virtual_s: float = 0.0
    seed: int = 0


def hunt(name: str) -> Verdict:
    """Plant the mutant, in this process, and look until something is noticed."""
    began_s = time.process_time()
    mutant = MUTANTS[name]
    mutant.plant()
    match mutant.looked_for:
        case Options() as options:
            return _hunt_seeds(name, options, began_s)
        case test:
            failure = failure_of(test)
            return Verdict(name, short_name(test), failure, time.process_time() - began_s)


def _hunt_seeds(name: str, options: Options, began_s: float) -> Verdict:
    virtual_ms = 0
    for seed in range(1, SEEDS_MAX + 1):
        outcome = simulate(seed, options)
        virtual_ms += outcome.virtual_ms
        spent_s = time.process_time() - began_s
        if outcome.failure is not None:
            return Verdict(name, f"seed {seed}", str(outcome.failure), spent_s, virtual_ms / 1000, seed)
        if spent_s > CPU_S_MAX:
            break
    return Verdict(name, "the simulation", "", time.process_time() - began_s, virtual_ms / 1000)


def fails_without(name: str, seed: int) -> str:
    """What a seed, or a test, that has shown a mutant comes to where nothing is planted: it has to hold, or it has
    shown nothing.

    To be called in a process that plants nothing.
    """
    match MUTANTS[name].looked_for:
        case Options() as options:
            failure = simulate(seed, options).failure
            return "" if failure is None else str(failure)
        case test:
            return failure_of(test)


class _Reports:
    """A plugin of pytest: what has passed, and the first failure."""

    def __init__(self) -> None:
        self.passed = 0
        self.failure = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed
        if report.failed and not self.failure:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = str(report.longrepr) if crash is None else crash.message.partition(" + where")[0]
            place = "" if crash is None else f" ({Path(crash.path).name}:{crash.lineno})"
            self.failure = " ".join(message.split()) + place


def failure_of(test: str) -> str:
    """Run one test, by its pytest node id, in this process: how it has failed, empty when it passes.

    A test that is not there, or was not run, proves nothing: that is an assertion of ours.
    """
    reports = _Reports()
    with redirect_stdout(io.StringIO()) as said:
        code = pytest.main([*_ARGUMENTS, test], plugins=[reports])
    if code == pytest.ExitCode.OK:
        assert reports.passed, f"nothing of {test} was run"
        return ""
    assert code == pytest.ExitCode.TESTS_FAILED, f"{test}: {said.getvalue()}"
    assert reports.failure, f"{test}: {said.getvalue()}"
    return reports.failure


def short_name(test: str) -> str:
    """The last words of a node id."""
    path, _, name = test.partition("::")
    return f"{path.rpartition('/')[2]}: {name}"
