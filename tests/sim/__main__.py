"""`python -m tests.sim --seed N` runs one seed and ends with `trace <sha256>`; `--seeds A..B` explores many.

The same seed gives the same trace, in any process. A failure names its seed: run that alone to see its last events.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter

from tests.sim.faults import Fault
from tests.sim.run import Options, Outcome, simulate, simulate_job


def explore(first: int, last: int, options: Options, processes: int | None) -> int:
    """Run seeds on all cores; the number of those that failed."""
    began = time.monotonic()
    hits: Counter[Fault] = Counter()
    failed: list[Outcome] = []
    virtual_ms = events = 0
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes) as pool:
        jobs = ((seed, options) for seed in range(first, last + 1))
        for outcome in pool.imap_unordered(simulate_job, jobs):
            hits += outcome.hits
            virtual_ms += outcome.virtual_ms
            events += outcome.events
            if outcome.failure:
                failed.append(outcome)
                print(f"seed {outcome.seed} FAILED: {outcome.failure}", flush=True)
    print(
        f"{last - first + 1} seeds, {len(failed)} failed; {events:,} events, {virtual_ms / 3_600_000:.2f} virtual hours"
    )
    print(f"in {time.monotonic() - began:.0f} s; faults:")
    for fault in Fault:
        print(f"  {hits[fault]:>8} {fault.value}")
    return len(failed)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="A whole cluster, simulated from a seed.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int)
    which.add_argument("--seeds", metavar="A..B", help="explore all of these")
    parser.add_argument("--seconds", type=int, default=Options().seconds, help="virtual seconds with faults")
    parser.add_argument("--steps", type=int, help="end after so many events")
    parser.add_argument("--faults", metavar="NAME,…", help=f"only these: {', '.join(fault.name for fault in Fault)}")
    parser.add_argument("--processes", type=int, help="as many as cores unless told")
    arguments = parser.parse_args()
    faults = None
    if arguments.faults is not None:
        faults = [Fault[each.strip().upper()] for each in arguments.faults.split(",") if each.strip()]
    options = Options(arguments.seconds, arguments.steps, 60 if arguments.seed is not None else 0, faults)
    if arguments.seeds is not None:
        first, _, last = arguments.seeds.partition("..")
        sys.exit(1 if explore(int(first), int(last or first), options, arguments.processes) else 0)
    outcome = simulate(arguments.seed, options)
    print(outcome)
    print(f"trace {outcome.trace}")
    sys.exit(1 if outcome.failure else 0)


if __name__ == "__main__":
    main()
