"""`python -m tests.faults`: real faults on real processes, one cell after another; see docs/verify/faults.md.

Ends with `N cells, lost 0, duplicated 0, reordered 0`, and with status 1 when anything at all went wrong: a record, a
cluster that did not come back by itself, clients that could not go on. A missed time goal is reported, but is not a
failure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.compat.matrix.toolchains import UnavailableError
from tests.faults.cells import CELLS, NEEDS_OF, Cell, Need
from tests.faults.cluster import FaultCluster, UnhealthyError, signals_end_the_run
from tests.faults.grid import Grid
from tests.faults.moving_leaders.producers import command_of
from tests.faults.report import RESULTS, last_lines, progress_line, save
from tests.faults.rows import row_of, this_run

SECONDS = 30.0
WHOLE_GRID = "grid"
"""The name under which a run of all cells is saved, and runs of some in the place of their rows."""


def main() -> int:
    arguments = _arguments()
    if arguments.list:
        print("\n".join(CELLS))
        return 0
    names = list(CELLS) if arguments.cells is None else arguments.cells.split(",")
    unknown = [name for name in names if name not in CELLS]
    if unknown:
        print(f"no cells {', '.join(unknown)}; there are {', '.join(CELLS)}", file=sys.stderr)
        return 2
    signals_end_the_run()
    run = this_run()
    lacking = _lacking_clients([CELLS[name] for name in names])
    rows = []
    with FaultCluster() as cluster:
        if cluster.no_network:
            print(f"no network namespaces: {cluster.no_network}")
        try:
            print(f"started in {cluster.start():.1f} s", flush=True)
        except UnhealthyError as reason:
            print(f"the cluster does not start: {reason}")
            return 1
        grid = Grid(cluster, arguments.seconds, arguments.seed, arguments.keep, lacking)
        for name in names:
            outcome = grid.play(CELLS[name])
            rows.append(row_of(outcome, run))
            print(progress_line(outcome, rows[-1]), flush=True)
    save_as = arguments.save or (WHOLE_GRID if arguments.cells is None else None)
    if save_as is not None:
        path = RESULTS / f"{save_as}.md"
        save(rows, path)
        print(f"saved: {path}")
    print("\n".join(last_lines(rows)))
    return 0 if all(row.passed for row in rows) else 1


def _lacking_clients(cells: Sequence[Cell]) -> dict[Need, str]:
    """Why there are no such clients here, after those that these cells need were built: the machine of the clients in
    the cluster has no network beside it."""
    lacking = {}
    for client, needs in NEEDS_OF.items():
        for need in needs:
            if any(need in cell.needs for cell in cells):
                try:
                    command_of(client)
                except UnavailableError as reason:
                    lacking[need] = f"{need.value}: {reason}"
    return lacking


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Real faults on real processes.")
    parser.add_argument("--cells", metavar="NAME,…", help="these alone, in this order; all by default")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of each cell under load ({SECONDS:g})")
    parser.add_argument("--seed", type=int, default=1, help="of what is chosen by chance: whom a fault hits, and when")
    parser.add_argument("--save", metavar="NAME", help="save the rows in this page of tests/faults/results")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="copy histories and logs of failed cells there")
    parser.add_argument("--list", action="store_true", help="name the cells")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
