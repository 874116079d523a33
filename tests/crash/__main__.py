"""`python -m tests.crash --seed N` runs one seed and ends with its trace; `--seeds A..B` runs many on all cores.

The same seed gives the same trace, in any process. A failing seed is shown with its commit, the end of its story, and
how to run it again; `--shrink` leaves out what the failure does not need.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import subprocess
import sys
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path

from tests.crash.programs import Program, program_of
from tests.crash.run import Outcome, run_program, run_seed
from tests.crash.shrink import shrink

LINES_SHOWN = 25
PROGRESS_S = 10
FAILURES_SHOWN = 10
# A campaign of this many seeds has to have met every one of these.
SEEDS_FOR_ALL_FAULTS = 100
FAULTS = (
    "power cuts",
    "kills",
    "clean stops",
    "crashes within its start",
    "crashes within its life",
    "crashes within a clean stop",
    "effects done in part",
    "failed flushes",
    "pages dropped after a failed flush",
    "writes on a full disk",
    "writes broken off",
    "starts refused by the disk",
    "files without their last writes",
    "files as of an earlier moment",
    "pages lost beside others",
    "sectors torn",
    "zeros at the end of a file",
    "names lost",
    "repetitions recognised",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description="Crash the storage, and look.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int)
    which.add_argument("--seeds", metavar="A..B", help="run all of these")
    parser.add_argument("--shrink", action="store_true", help="with --seed: make a failing program small")
    parser.add_argument("--lines", type=int, default=LINES_SHOWN, help="of the story of a failure")
    parser.add_argument("--processes", type=int, help="as many as cores by default")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        sys.exit(run_one(arguments.seed, arguments.lines, is_to_shrink=arguments.shrink))
    first, _, last = arguments.seeds.partition("..")
    sys.exit(run_many(int(first), int(last or first), arguments.processes))


def run_one(seed: int, lines: int, *, is_to_shrink: bool) -> int:
    program = program_of(seed)
    outcome = run_program(program)
    if outcome.failure and is_to_shrink:
        program = shrink(program)
        outcome = run_program(program)
        show_program(program)
    if outcome.failure:
        show(outcome, lines)
    print(f"seed {seed}: {outcome.crashes} crashes, trace {outcome.trace}")
    return 1 if outcome.failure else 0


def run_many(first: int, last: int, processes: int | None) -> int:
    began = reported = time.monotonic()
    began_cpu_s = _children_cpu_s()
    hits: Counter[str] = Counter()
    traces = {}
    crashes = failed = 0
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for outcome in pool.imap_unordered(run_seed, range(first, last + 1)):
            hits += outcome.hits
            crashes += outcome.crashes
            traces[outcome.seed] = outcome.trace
            if outcome.failure:
                failed += 1
                if failed <= FAILURES_SHOWN:
                    show(outcome, LINES_SHOWN)
            if time.monotonic() - reported > PROGRESS_S:
                reported = time.monotonic()
                print(f"  {len(traces)} of {last - first + 1} seeds, {crashes:,} crashes, {failed} failed", flush=True)
        pool.close()
        pool.join()
    cpu_minutes = max(_children_cpu_s() - began_cpu_s, 0.001) / 60
    unmet = [fault for fault in FAULTS if not hits[fault]] if last - first + 1 >= SEEDS_FOR_ALL_FAULTS else []
    for name, count in sorted(hits.items()):
        print(f"  {count:>10,} {name}")
    for fault in unmet:
        print(f"  no {fault}: this campaign proves less than it should")
    print(f"in {time.monotonic() - began:.0f} s, {crashes / cpu_minutes:,.0f} crashes per CPU-minute")
    digest = sha256("".join(traces[seed] for seed in sorted(traces)).encode()).hexdigest()
    reported_faults = ", ".join(f"{hits[fault]:,} {fault}" for fault in FAULTS[:3] + FAULTS[6:8])
    print(f"{len(traces)} seeds, {failed} open; {crashes:,} crashes; {reported_faults}; trace {digest[:16]}")
    return 1 if failed or unmet else 0


def show(outcome: Outcome, lines: int) -> None:
    print(f"seed {outcome.seed} FAILED at commit {_commit()}; the last of its {len(outcome.lines)} lines:")
    for line in outcome.lines[-lines:]:
        print(f"    {line}")
    print(f"  again, and small: PYTHONHASHSEED=0 python -m tests.crash --seed {outcome.seed} --shrink", flush=True)


def show_program(program: Program) -> None:
    print(f"what is left of seed {program.seed}, on {program.shape}:")
    for plan in program.lives:
        print(f"  a life that ends with a {plan.end.value}, interrupted in change {plan.interrupt_in}")
        for operation in plan.operations:
            print(f"    {operation}")


def _commit() -> str:
    root = Path(__file__).parents[2]
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
