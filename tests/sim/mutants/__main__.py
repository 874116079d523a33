"""`python -m tests.sim.mutants`: each mutant in a process of its own, seed after seed until an invariant fails; or the
one test that has to see it.

The last line is `N mutants, N caught`. One that is not caught is a hole to mend.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.sim.campaign import commit
from tests.sim.mutants import MUTANTS
from tests.sim.mutants.hunting import Verdict, fails_without, hunt

_PAGE = """# Planted faults that the simulation finds

Each mutant breaks one rule in a core of the [simulation](simulation.md), which then runs seed after seed until an
invariant fails. Written by `python -m tests.sim.mutants --save docs/verify/simulation-mutants.md` at {commit}. The
rules are those of [correctness.md](../correctness.md); one that begins with I is an invariant. If the simulation can't
detect a mutant, the table names the test that has to fail. Every seed and test that detected a mutant passes without
it.

| rule | mutant | seen by | CPU s | virtual s | what was seen |
|---|---|---|---:|---:|---|
{rows}

{summary}
"""


def page_of(verdicts: Sequence[Verdict], summary: str) -> str:
    return _PAGE.format(commit=commit(), rows="\n".join(map(_row, verdicts)), summary=summary)


def _row(verdict: Verdict) -> str:
    virtual = f"{verdict.virtual_s:.0f}" if verdict.virtual_s else "-"
    seen = verdict.failure[:120].replace("|", " ") or "**nothing**"
    rule = MUTANTS[verdict.mutant].rule
    return f"| {rule} | {verdict.mutant} | {verdict.seen_by} | {verdict.cpu_s:.1f} | {virtual} | {seen} |"


def summary_of(verdicts: Sequence[Verdict]) -> str:
    """The last line says whether all is well."""
    if not verdicts:
        return "0 mutants, 0 caught"
    cpu_s = sorted(each.cpu_s for each in verdicts)
    caught = [each for each in verdicts if each.failure]
    by_seed = sum(each.seed > 0 for each in caught)
    return (
        f"{by_seed} by the simulation, {len(caught) - by_seed} by a test; "
        f"{sum(cpu_s) / 60:.1f} CPU minutes in all, median {cpu_s[len(cpu_s) // 2]:.1f} s, at most {cpu_s[-1]:.1f} s\n"
        f"{len(verdicts)} mutants, {len(caught)} caught"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants", description="Can the simulation see?")
    parser.add_argument("--only", metavar="WORDS", default="", help="mutants whose name contains this")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--save", type=Path, metavar="PATH", help="a page of what was seen")
    arguments = parser.parse_args()
    wanted = [name for name in MUTANTS if arguments.only in name]
    verdicts: list[Verdict] = []
    # A process for each mutant, as it stays planted, and one where nothing is: copies of one that knows the code.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.sim.mutants.hunting"])
    with context.Pool(arguments.processes, maxtasksperchild=1) as pool, context.Pool(1) as plain:
        for verdict in pool.imap(hunt, wanted):
            found = "NOT CAUGHT"
            if verdict.failure:
                found = f"{verdict.seen_by}: {verdict.failure}"
                failure = plain.apply(fails_without, (verdict.mutant, verdict.seed))
                if failure:
                    found = f"NOT CAUGHT: {verdict.seen_by} fails without it: {failure}"
                    verdict.seed, verdict.failure = 0, ""
            verdicts.append(verdict)
            reported = f"{MUTANTS[verdict.mutant].rule:>7}  {verdict.mutant:<48} {verdict.cpu_s:6.1f} CPU s"
            print(f"{reported} {verdict.virtual_s:6.0f} virtual s  {found}", flush=True)
    summary = summary_of(verdicts)
    if arguments.save is not None:
        arguments.save.write_text(page_of(verdicts, summary))
    print(summary)
    sys.exit(0 if all(each.failure for each in verdicts) else 1)


if __name__ == "__main__":
    main()
