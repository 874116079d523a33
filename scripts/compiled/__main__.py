"""`make compiled`, or `python -m scripts.compiled`: the cores as a binary, in build/compiled."""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext

from barnabas.cores import find_build, problem_of
from scripts.compiled.build import FOLDER, build
from scripts.compiled.compiler import find_compiler
from scripts.compiled.lock import sole_build


def main() -> None:
    parser = argparse.ArgumentParser(description="Compile the cores with mypyc and a C compiler.")
    parser.add_argument("--optimization", type=int, default=2, choices=(0, 1, 2, 3), help="of the C compiler")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="C compilers beside each other")
    parser.add_argument("--check", action="store_true", help="only say whether build/compiled is current")
    parser.add_argument("--tools", action="store_true", help="only say whether a C compiler and Python.h are there")
    parser.add_argument("--holds-lock", action="store_true", help="the process that began this one holds the lock")
    arguments = parser.parse_args()
    if arguments.tools:
        print("compiled: there is a compiler:", *find_compiler())
        return
    if arguments.check:
        problem = problem_of(find_build([FOLDER]))
        raise SystemExit(f"compiled: {problem}: make compiled" if problem else 0)
    with nullcontext() if arguments.holds_lock else sole_build(FOLDER.parent):
        build(arguments.optimization, arguments.jobs)


if __name__ == "__main__":
    main()
