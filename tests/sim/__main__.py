"""Run the simulation.

    python -m tests.sim --seed N                 one seed; its last line is `trace <sha256>`
    python -m tests.sim --seeds A..B             all of these, on all cores; one that fails is made small
    python -m tests.sim --explore --hours 200    seeds that were never run, until so many hours have been simulated;
                                                 the result is saved in the ledger

The same seed gives the same trace, in any process.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.sim.campaign import Campaign, Progress, Totals, commit
from tests.sim.drains import DrainStep
from tests.sim.faults import Fault
from tests.sim.ledger import Exploration
from tests.sim.run import Options, simulate
from tests.sim.shapes import AtMost, Profile
from tests.sim.shrink import CPU_S_MAX, Case, Shrinking
from tests.sim.story import REMEMBERED_LINES


def run_one(case: Case, *, is_shrunk: bool) -> bool:
    """Play one case and tell of it. True: everything held."""
    outcome = simulate(case.seed, replace(case.options, lines_max=REMEMBERED_LINES))
    print(outcome)
    if outcome.failure is not None:
        print(f"commit {commit()}")
        print(f"again: {case.command}")
        if is_shrunk:
            shrink(case)
    print(f"trace {outcome.trace}")
    return outcome.failure is None


def shrink(case: Case, cpu_s_max: float = CPU_S_MAX) -> None:
    """Make a case that fails small, and tell of it."""
    outcome = simulate(case.seed, case.options)
    smallest = Shrinking(
        case, outcome, lambda smaller: print(f"  smaller: {smaller.command}", flush=True), cpu_s_max
    ).run()
    print(simulate(smallest.seed, replace(smallest.options, lines_max=REMEMBERED_LINES)))
    print(f"the smallest found: {smallest.command}")


def run_many(first: int, last: int, options: Options, processes: int | None, *, is_shrunk: bool) -> bool:
    """Play these seeds. True: everything held, and every fault has struck."""
    began_s = time.monotonic()
    totals = Totals(first, first)
    progress = Progress(totals)
    enough = lambda totals: totals.next_seed > last  # noqa: E731
    Campaign(totals, options, processes, enough=enough, noticed=progress.noticed).run()
    print(f"{totals}\nin {time.monotonic() - began_s:.0f} s at {commit()}; faults:")
    for fault in Fault:
        print(f"  {totals.hits[fault]:>8} {fault.value}")
    print("drains:")
    for step in DrainStep:
        print(f"  {totals.drains[step]:>8} {step.value}")
    for each in totals.never_hit:
        print(f"NEVER HIT: {each.value}")
    for failed in totals.open[:1]:
        run_one(Case(failed.seed, options), is_shrunk=is_shrunk)
    return not totals.open and not totals.never_hit


def arguments_of(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="A whole cluster, simulated from a seed.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int)
    which.add_argument("--seeds", metavar="A..B", help="all of these")
    which.add_argument("--explore", action="store_true", help="seeds that were never run, into the ledger")
    parser.add_argument("--hours", type=float, default=1.0, help="virtual hours of an exploration")
    ledger = Path("docs/verify/simulation-ledger")
    parser.add_argument("--ledger", type=Path, default=ledger, help="where results are saved")
    parser.add_argument("--profile", choices=[each.value for each in Profile], help="busy unless exploring")
    parser.add_argument("--seconds", type=int, help="virtual seconds with faults, not those of the profile")
    parser.add_argument("--steps", type=int, help="end after so many events")
    parser.add_argument("--faults", metavar="NAME,…", help=f"only these: {', '.join(fault.name for fault in Fault)}")
    parser.add_argument("--at-most", metavar="NAME=N,…", default="", help="a smaller cluster: logstores=3,producers=1")
    parser.add_argument("--transactions", action="store_true", help="with transactions in any case")
    parser.add_argument("--last-epochs", action="store_true", help="with transactions, near the last producer epoch")
    parser.add_argument("--no-shrink", action="store_true", help="leave a seed that fails as it is")
    parser.add_argument("--processes", type=int, help="as many as cores by default")
    return parser.parse_args(words)


def options_of(arguments: argparse.Namespace) -> Options:
    faults = None
    if arguments.faults is not None:
        faults = [Fault[each.strip().upper()] for each in arguments.faults.split(",") if each.strip()]
    bounds = [each.partition("=") for each in arguments.at_most.split(",") if each]
    return Options(
        seconds=arguments.seconds,
        steps=arguments.steps,
        faults=faults,
        profile=Profile(arguments.profile or (Profile.LONG if arguments.explore else Profile.BUSY)),
        at_most=AtMost(**{name: int(bound) for name, _, bound in bounds}),
        is_transactional=arguments.transactions,
        has_last_epochs=arguments.last_epochs,
    )


def main() -> None:
    arguments = arguments_of(sys.argv[1:])
    options = options_of(arguments)
    if arguments.seed is not None:
        is_small_already = options.faults is not None or options.steps is not None or arguments.at_most
        is_shrunk = not arguments.no_shrink and not is_small_already
        holds = run_one(Case(arguments.seed, options), is_shrunk=is_shrunk)
    elif arguments.seeds is not None:
        first, _, last = arguments.seeds.partition("..")
        holds = run_many(
            int(first), int(last or first), options, arguments.processes, is_shrunk=not arguments.no_shrink
        )
    else:
        # On SIGTERM it saves what it has.
        signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))
        holds = Exploration(arguments.ledger, options, commit()).run(arguments.hours, arguments.processes)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
