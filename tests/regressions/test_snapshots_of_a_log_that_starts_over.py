"""A log that a crash has left shorter than what was deleted from it starts over, and knows no producers then or later.

It knew none at its first start, and at the second one those of a snapshot that had been left: two answers to the same
retry.
"""

from __future__ import annotations

from barnabas_logstore.core.storage.recovery.log_recovery import open_log
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import DIRECTORY, append, batch, close, new_log

DELETED_UPTO = 1
LOG = f"{DIRECTORY}/{0:020d}.log"


def test_every_start_knows_the_same() -> None:
    disk = DiskModel()
    log = new_log(disk)
    append(log, batch(producer_id=1, producer_epoch=0, base_sequence=0))
    close(disk, log)
    assert any(entry.name.endswith(".snapshot") for entry in disk.list(DIRECTORY))
    disk.truncate(disk.open(LOG), 0)
    for _ in range(3):
        log = open_log(
            disk,
            DIRECTORY,
            log.topic_partition,
            log.config,
            recovery_point=0,
            shut_down_cleanly=False,
            log_start_offset=DELETED_UPTO,
        ).log
        assert (log.log_start_offset, log.log_end_offset) == (DELETED_UPTO, DELETED_UPTO)
        assert not log.producers.entries()
