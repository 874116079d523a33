"""A batch whose offset lies before its segment, in a log shut down cleanly: the next roll found a segment there.

Found by `make fuzz` (recovery). Offsets lie outside the checksum, so that only their order says what is wrong.
"""

from __future__ import annotations

from barnabas.cluster.topic_config import TopicConfig
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import DIRECTORY, append, batch, close, new_log, read_all, reopen, settle


def test_the_log_ends_before_it() -> None:
    disk, config = DiskModel(), TopicConfig(segment_bytes=300)
    log = new_log(disk, config)
    append(log, batch())
    second = append(log, batch())
    close(disk, log)
    file = disk.open(f"{DIRECTORY}/00000000000000000000.log")
    place = disk.size(file) // 2
    disk.write_at(file, place, ((-5).to_bytes(8, "big", signed=True),))
    again = reopen(disk, config, recovery_point=2, shut_down_cleanly=True).log
    assert again.log_end_offset == second.base_offset
    for _ in range(4):
        append(again, batch())
    settle(disk, again)
    assert len(read_all(disk, again)) == 5
