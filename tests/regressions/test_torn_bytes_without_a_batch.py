"""Bytes without a whole batch in a segment of a log that was closed cleanly are cut, not appended over.

A write that finds no room may leave a new file with a part of a batch. Its indexes could not be its own, were rebuilt,
and with them the count of its bytes, which then agreed with what was found sound.
"""

from __future__ import annotations

from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import DIRECTORY, append, batch, close, read, reopen, settle

TORN = f"{DIRECTORY}/{1:020d}.log"


def test_they_are_cut() -> None:
    disk = DiskModel()
    log = reopen(disk).log
    append(log, batch())
    close(disk, log)
    disk.write_at(disk.open(TORN, create=True), 0, [batch(value_bytes=500)[:300]])

    opened = reopen(disk, recovery_point=1, shut_down_cleanly=True)
    assert (opened.dropped_bytes, disk.size(disk.open(TORN))) == (300, 0)
    append(opened.log, batch())
    settle(disk, opened.log)
    assert read(disk, opened.log, 1) == disk.read_file(TORN)
