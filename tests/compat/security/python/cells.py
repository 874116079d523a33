"""What the programs in Python have in common: each cell is done in turn, and reported by a line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Final

from tests.compat.matrix.python.checks import equal, run
from tests.compat.security.cells import Cell, read_cells

RECORDS: Final = 20
PATIENCE_S: Final = 60.0
REFUSED_WITHIN_S: Final = 10.0


def values_of(cell: Cell) -> list[bytes]:
    return [f"{cell.name} {number}".encode() for number in range(RECORDS)]


def run_cells(
    version: str,
    use: Callable[[Cell], list[bytes]],
    connect: Callable[[Cell], None],
    lacking: Collection[str] = (),
) -> None:
    """`use` produces `values_of` the cell and returns what it reads; `connect` has to raise where it is refused.
    `lacking`: mechanisms that the client does not have.
    """
    cells = [cell for cell in read_cells(Path(sys.argv[1])) if cell.mechanism not in lacking]
    run(version, {cell.name: partial(_do, cell, use, connect) for cell in cells})


def _do(cell: Cell, use: Callable[[Cell], list[bytes]], connect: Callable[[Cell], None]) -> None:
    if not cell.is_refused:
        equal(use(cell), values_of(cell))
        return
    began = time.monotonic()
    refusal = None
    try:
        connect(cell)
    except Exception as error:
        refusal = error
    seconds = time.monotonic() - began
    assert refusal is not None, "it is let in"
    assert seconds < REFUSED_WITHIN_S, f"refused after {seconds:.1f} s: {refusal}"
