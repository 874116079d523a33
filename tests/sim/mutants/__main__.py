"""`python -m tests.sim.mutants`: each mutant in a process of its own, seed after seed until an invariant fails.

The last line is `N mutants, N caught`. One that is not caught is a hole to mend in the simulation.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys

from tests.sim.mutants import MUTANTS
from tests.sim.mutants.hunting import fails_without, hunt


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants", description="Can the simulation see?")
    parser.add_argument("--only", metavar="WORDS", default="", help="mutants whose name contains this")
    parser.add_argument("--processes", type=int)
    arguments = parser.parse_args()
    wanted = [name for name in MUTANTS if arguments.only in name]
    caught, cpu_s = 0, list[float]()
    context = multiprocessing.get_context("spawn")
    # A process for each mutant, as it stays planted; and one where nothing is.
    with context.Pool(arguments.processes, maxtasksperchild=1) as pool, context.Pool(1) as plain:
        for verdict in pool.imap(hunt, wanted):
            cpu_s.append(verdict.cpu_s)
            found = "NOT CAUGHT"
            if verdict.seed is not None:
                failure = plain.apply(fails_without, (verdict.mutant, verdict.seed))
                caught += not failure
                found = f"seed {verdict.seed}: {verdict.failure}"
                if failure:
                    found = f"NOT CAUGHT: seed {verdict.seed} fails without it: {failure}"
            told = f"{MUTANTS[verdict.mutant].rule:>4}  {verdict.mutant:<48} {verdict.cpu_s:6.1f} CPU s"
            print(f"{told} {verdict.virtual_s:6.0f} virtual s  {found}", flush=True)
    median_s = sorted(cpu_s)[len(cpu_s) // 2] if cpu_s else 0.0
    print(f"{sum(cpu_s) / 60:.1f} CPU minutes in all, median {median_s:.1f} s, at most {max(cpu_s, default=0.0):.1f} s")
    print(f"{len(wanted)} mutants, {caught} caught")
    sys.exit(0 if caught == len(wanted) else 1)


if __name__ == "__main__":
    main()
