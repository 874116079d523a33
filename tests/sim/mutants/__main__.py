"""`python -m tests.sim.mutants`: each mutant in a process of its own, seed after seed until an invariant fails.

The last line is `N mutants, N caught`. One that is not caught is a hole to mend in the simulation.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from pathlib import Path

from tests.sim.campaign import commit
from tests.sim.mutants import MUTANTS
from tests.sim.mutants.hunting import Verdict, fails_without, hunt

_PAGE = """# What the simulation sees

Faults of our own, each breaking one rule, planted in a core of the [simulation](simulation.md) and looked for seed
after seed: `python -m tests.sim.mutants --save docs/simulation-mutants.md`, at {commit}. The rules are those of the
list of rules that a rewrite of Kafka gets wrong; with an I, an invariant.

| rule | mutant | CPU s | virtual s | seed | what was seen |
|---|---|---:|---:|---:|---|
{rows}

{summary}
"""


def page_of(verdicts: list[Verdict], summary: str) -> str:
    rows = [
        f"| {MUTANTS[each.mutant].rule} | {each.mutant} | {each.cpu_s:.1f} | {each.virtual_s:.0f} | {each.seed or '-'} "
        f"| {each.failure[:120].replace('|', ' ') or '**nothing**'} |"
        for each in verdicts
    ]
    return _PAGE.format(commit=commit(), rows="\n".join(rows), summary=summary)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants", description="Can the simulation see?")
    parser.add_argument("--only", metavar="WORDS", default="", help="mutants whose name contains this")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--save", type=Path, metavar="PATH", help="a page of what was seen")
    arguments = parser.parse_args()
    wanted = [name for name in MUTANTS if arguments.only in name]
    verdicts: list[Verdict] = []
    context = multiprocessing.get_context("spawn")
    # A process for each mutant, as it stays planted; and one where nothing is.
    with context.Pool(arguments.processes, maxtasksperchild=1) as pool, context.Pool(1) as plain:
        for verdict in pool.imap(hunt, wanted):
            found = "NOT CAUGHT"
            if verdict.seed is not None:
                found = f"seed {verdict.seed}: {verdict.failure}"
                failure = plain.apply(fails_without, (verdict.mutant, verdict.seed))
                if failure:
                    found = f"NOT CAUGHT: seed {verdict.seed} fails without it: {failure}"
                    verdict.seed, verdict.failure = None, ""
            verdicts.append(verdict)
            told = f"{MUTANTS[verdict.mutant].rule:>7}  {verdict.mutant:<48} {verdict.cpu_s:6.1f} CPU s"
            print(f"{told} {verdict.virtual_s:6.0f} virtual s  {found}", flush=True)
    cpu_s = sorted(each.cpu_s for each in verdicts)
    caught = sum(each.seed is not None for each in verdicts)
    summary = (
        f"{sum(cpu_s) / 60:.1f} CPU minutes in all, median {cpu_s[len(cpu_s) // 2]:.1f} s, at most {cpu_s[-1]:.1f} s\n"
        f"{len(wanted)} mutants, {caught} caught"
        if cpu_s
        else "0 mutants, 0 caught"
    )
    if arguments.save is not None:
        arguments.save.write_text(page_of(verdicts, summary))
    print(summary)
    sys.exit(0 if caught == len(wanted) else 1)


if __name__ == "__main__":
    main()
