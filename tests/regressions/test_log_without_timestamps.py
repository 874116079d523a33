"""A log whose batches carry no timestamps has an empty time index; after a clean shutdown it could not be opened.

Found by `make fuzz` (recovery): the index was taken for a lost one, rebuilt, and was as empty as before.
"""

from __future__ import annotations

from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import append, batch, close, lookup, new_log, reopen


def test_it_opens_after_a_clean_shutdown() -> None:
    disk = DiskModel()
    log = new_log(disk)
    append(log, batch(1, timestamp_ms=-1))
    close(disk, log)
    again = reopen(disk, recovery_point=1, shut_down_cleanly=True).log
    assert again.log_end_offset == 1
    assert lookup(disk, again, 0).offset == -1
