"""`python -m tests.faults.transactions`: transactions under real faults, one cell after another.

Ends with `N cells with transactions, lost 0, doubled 0, dirty 0, …`, and with status 1 when anything at all went wrong:
a record, a cluster that did not come back, a transaction that never ended.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.faults.cluster import FaultCluster, UnhealthyError, signals_end_the_run
from tests.faults.rows import this_run
from tests.faults.transactions.cells import CELLS
from tests.faults.transactions.grid import TransactionGrid
from tests.faults.transactions.report import RESULTS, last_line, progress_line, save

SECONDS = 20.0


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
    rows = []
    with FaultCluster() as cluster:
        if cluster.no_network:
            print(f"no network namespaces: {cluster.no_network}")
        try:
            print(f"started in {cluster.start():.1f} s", flush=True)
        except UnhealthyError as reason:
            print(f"the cluster does not start: {reason}")
            return 1
        run = this_run("tests.faults.transactions")
        grid = TransactionGrid(cluster, arguments.seconds, arguments.seed, arguments.keep, run, arguments.debug)
        for name in names:
            rows.append(grid.play(CELLS[name]))
            print(progress_line(rows[-1]), flush=True)
            if arguments.save:
                save(rows, list(CELLS), RESULTS)
    print(last_line(rows))
    return 0 if all(row.passed for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.transactions", description="Transactions under real faults."
    )
    parser.add_argument("--cells", metavar="NAME,…", help="these alone, in this order; all by default")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of each cell under faults ({SECONDS:g})")
    parser.add_argument("--seed", type=int, default=1, help="of what is chosen by chance: whom a fault hits, and when")
    parser.add_argument("--save", action="store_true", help=f"save the rows in {RESULTS.name}, each as it is played")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="copy histories and logs of failed cells there")
    parser.add_argument("--debug", default="", metavar="CONTEXTS", help="librdkafka's, for the producers: eos,protocol")
    parser.add_argument("--list", action="store_true", help="name the cells")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
