"""An index entry that points past its log, under a clean-shutdown marker: a read of less than nothing was asked of the
disk, whose error took the directory offline.

Found by `make fuzz` (recovery). Opening looks at the last entry of an index only, as Kafka does.
"""

from __future__ import annotations

from barnabas.cluster.topic_config import TopicConfig
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import DIRECTORY, append, batch, close, new_log, read, read_all, reopen


def test_the_batch_is_found_without_it() -> None:
    disk, config = DiskModel(), TopicConfig(index_interval_bytes=0)
    log = new_log(disk, config)
    for _ in range(40):
        append(log, batch())
    close(disk, log)
    index = disk.open(f"{DIRECTORY}/00000000000000000000.index")
    disk.write_at(index, 8 * 5 + 4, (b"\x7f\xff\xff\xff",))
    again = reopen(disk, config, recovery_point=40, shut_down_cleanly=True).log
    damaged_offset = again.segments.active.offset_index.entry(5)[0]
    found = read(disk, again, damaged_offset, 1)
    assert isinstance(found, bytes)
    assert int.from_bytes(found[:8], "big") == damaged_offset
    assert len(read_all(disk, again)) == 40
