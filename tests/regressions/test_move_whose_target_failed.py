"""A start that finds a log in two directories, as a move ended in a crash, deletes neither's records.

It took the copy for the log, as its file `moved-from` says, and deleted the directory that had been written to since,
as the target had failed at that very moment: acknowledged, flushed records were lost. Found by crashes.
"""

from __future__ import annotations

import pytest

from barnabas_logstore.core.storage.directories.finished_moves import finish_moves
from barnabas_logstore.core.storage.directories.log_copy import MOVED_FROM, Origin
from tests.sim.disk_model import DiskModel

NAME = ("orders", 0)


@pytest.fixture
def disk() -> DiskModel:
    """The log in /old, and its copy in /new, which says so."""
    disk = DiskModel()
    for path in ("/old", "/new", "/old/orders-0", "/new/orders-0"):
        disk.make_directory(path)
    disk.replace_file(f"/new/orders-0/{MOVED_FROM}", Origin(NAME, "/old").format())
    return disk


def test_what_was_written_to_since_is_the_log(disk: DiskModel) -> None:
    assert finish_moves(disk, [(NAME, "/old/orders-0", 5), (NAME, "/new/orders-0", 2)]) == ["/new/orders-0"]


def test_otherwise_the_copy_is(disk: DiskModel) -> None:
    assert finish_moves(disk, [(NAME, "/old/orders-0", 5), (NAME, "/new/orders-0", 5)]) == ["/old/orders-0"]
