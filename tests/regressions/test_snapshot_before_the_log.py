"""A snapshot of producers from before the log's first segment says nothing: what followed it is in no file.

A start that was broken off after it had started a log over left one; the next start believed it, and removed it.
"""

from __future__ import annotations

from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import DIRECTORY, append, batch, close, new_log, reopen


def test_it_is_not_believed() -> None:
    disk = DiskModel()
    log = new_log(disk)
    append(log, batch(producer_id=1, producer_epoch=0, base_sequence=0))
    close(disk, log)
    disk.remove(f"{DIRECTORY}/{0:020d}.log")
    disk.open(f"{DIRECTORY}/{4:020d}.log", create=True)
    for _ in range(2):
        log = reopen(disk).log
        assert log.log_start_offset == 4
        assert not log.producers.entries()
