"""Make a failing case small: less time, fewer kinds of faults, fewer processes and clients, and still the same failure.

What is taken away changes what chance decides afterwards, so most smaller cases of the same seed fail no more. The
seeds next to it are tried then: whichever fails in the same place shows the same thing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

from tests.sim.run import Options, Outcome, simulate
from tests.sim.shapes import AtMost, Profile

SEEDS_PER_CASE = 4
CPU_S_MAX = 240.0
# In the order of what helps a reader most.
SIZES = (
    "transactional",
    "groups",
    "members",
    "producers",
    "consumers",
    "topics",
    "partitions",
    "replication_factor",
    "gateways",
    "purgatories",
    "controllers",
    "logstores",
)


@dataclass(slots=True)
class Case:
    seed: int
    options: Options

    @property
    def command(self) -> str:
        """One line that plays it."""
        options = self.options
        words = [f"python -m tests.sim --seed {self.seed}"]
        if options.profile is not Profile.BUSY:
            words.append(f"--profile {options.profile.value}")
        if options.seconds is not None:
            words.append(f"--seconds {options.seconds}")
        if options.faults is not None:
            words.append(f"--faults '{','.join(fault.name.lower() for fault in options.faults)}'")
        if str(options.at_most):
            words.append(f"--at-most {options.at_most}")
        if options.is_transactional:
            words.append("--transactions")
        if options.has_last_epochs:
            words.append("--last-epochs")
        if options.steps is not None:
            words.append(f"--steps {options.steps}")
        return " ".join(words)


class Shrinking:
    """`told` is called with every smaller case."""

    def __init__(
        self, case: Case, outcome: Outcome, reported: Callable[[Case], None], cpu_s_max: float = CPU_S_MAX
    ) -> None:
        assert outcome.failure is not None
        self._case = Case(case.seed, replace(case.options, faults=outcome.kinds, lines_max=0))
        self._place = outcome.failure.place
        self._failed_at_s = outcome.failure.at_us // 1_000_000 + 1
        self._reported = reported
        self._until_s = time.process_time() + cpu_s_max

    def run(self) -> Case:
        """The smallest case found in the time that there is."""
        has_shrunk = True
        while has_shrunk:
            has_shrunk = False
            for smaller in self._smaller():
                found = self._fails(smaller)
                if found is not None:
                    has_shrunk = True
                    self._case = found
                    self._reported(found)
                    break
                if time.process_time() > self._until_s:
                    return self._case
        return self._case

    def _smaller(self) -> Iterator[Options]:
        """Cases that are one step smaller, those first that cost least to try."""
        options = self._case.options
        seconds = self._failed_at_s if options.seconds is None else options.seconds
        for fewer_seconds in sorted({min(seconds, self._failed_at_s), seconds // 2, seconds * 3 // 4}):
            if 0 < fewer_seconds < seconds or options.seconds is None:
                yield replace(options, seconds=fewer_seconds)
        kinds = options.faults or []
        half = len(kinds) // 2
        for fewer_kinds in (kinds[:half], kinds[half:]) if half > 1 else ():
            yield replace(options, faults=fewer_kinds)
        for kind in kinds:
            yield replace(options, faults=[each for each in kinds if each is not kind])
        assert set(SIZES) == {each.name for each in fields(AtMost)}
        for size in SIZES:
            least = 0 if size in ("transactional", "groups", "consumers") else 1
            for bound in range(least, min(4, getattr(options.at_most, size))):
                yield replace(options, at_most=replace(options.at_most, **{size: bound}))

    def _fails(self, options: Options) -> Case | None:
        for seed in range(self._case.seed, self._case.seed + SEEDS_PER_CASE):
            outcome = simulate(seed, options)
            if outcome.failure is not None and outcome.failure.place == self._place:
                self._failed_at_s = outcome.failure.at_us // 1_000_000 + 1
                return Case(seed, options)
        return None
