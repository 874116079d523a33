"""A batch that is repeated waits for a flush (flush.messages); when that finds no room, only the repetition fails.

It was taken back like a batch that is not in the log. Its segment had been closed and flushed meanwhile, and the
logstore ended with an assertion.
"""

from __future__ import annotations

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError, DiskErrorKind
from services.logstore.core.storage.effects import execute
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import WALL_MS, append, batch, new_log, reopen, settle

FIRST = batch(producer_id=1, producer_epoch=0, base_sequence=0)
CONFIG = TopicConfig(flush_messages=1, segment_bytes=len(FIRST))


def test_what_is_in_the_log_stays() -> None:
    disk = DiskModel()
    killed = new_log(disk, CONFIG)
    append(killed, FIRST)
    write = killed.take_write()
    assert write is not None
    write.flush = None
    execute(disk, write)
    log = reopen(disk, CONFIG).log

    append(log, FIRST, token="repeated")
    empty = log.take_write()
    assert empty is not None
    assert empty.byte_count == 0
    append(log, batch(), token="new")
    no_room = DiskError(DiskErrorKind.NO_SPACE, "write", log.directory)
    assert log.room.write_failed(empty, no_room) == ["repeated"]
    assert log.room.is_log_whole
    assert log.room.accept()
    assert settle(disk, log) == ["new"]
    assert (log.log_end_offset, log.recovery_point) == (2, 2)
    assert log.append(memoryview(FIRST), 0, WALL_MS, None).is_written  # type: ignore[union-attr]
