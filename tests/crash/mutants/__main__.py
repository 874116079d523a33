"""Plants what is wanted, each in a process of its own."""

from __future__ import annotations

import argparse
import multiprocessing
import sys

from tests.crash.mutants.catalogue import MUTANTS
from tests.crash.mutants.hunt import hunt


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.mutants", description="Do crashes show our faults?")
    parser.add_argument("--only", metavar="WORDS", default="", help="mutants whose name contains this")
    parser.add_argument("--processes", type=int)
    arguments = parser.parse_args()
    wanted = [mutant for mutant in MUTANTS if arguments.only in mutant]
    caught = 0
    with multiprocessing.get_context("spawn").Pool(arguments.processes, maxtasksperchild=1) as pool:
        for verdict in pool.imap_unordered(hunt, wanted, chunksize=1):
            caught += verdict.seed is not None
            found = f"seed {verdict.seed}: {verdict.failure[:110]}" if verdict.seed is not None else "NOT CAUGHT"
            print(f"{verdict.mutant:<42} {verdict.cpu_s:6.1f} s  {found}", flush=True)
    print(f"{len(wanted)} planted, {caught} caught")
    sys.exit(0 if caught == len(wanted) else 1)


if __name__ == "__main__":
    main()
