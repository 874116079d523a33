"""A batch that is repeated waits for a flush (flush.messages); when that finds no room, only the repetition fails.

It was taken back like a batch that is not in the log. Its segment had been closed and flushed meanwhile, and the
logstore ended with an assertion.
"""

from __future__ import annotations

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.effect_execution import execute
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.service.support import EXCHANGE, Host, append_results, topic
from tests.unit.logstore.storage.support import WALL_MS, append, batch, new_log, reopen, settle

FIRST = batch(producer_id=1, producer_epoch=0, base_sequence=0)
CONFIG = TopicConfig(flush_messages=1, segment_bytes=len(FIRST))


def test_what_is_in_the_log_stays() -> None:
    disk = DiskModel()
    killed = new_log(disk, CONFIG)
    append(killed, FIRST)
    write = killed.begin_write()
    assert write is not None
    write.flush = None
    execute(disk, write)
    log = reopen(disk, CONFIG).log

    append(log, FIRST, token="repeated")
    empty = log.begin_write()
    assert empty is not None
    assert empty.byte_count == 0
    append(log, batch(), token="new")
    no_room = DiskError(DiskErrorKind.NO_SPACE, "write", log.directory)
    assert log.on_write_without_room(empty, no_room) == ["repeated"]
    assert log.disk_full.is_log_whole
    assert log.disk_full.accept_appends()
    assert settle(disk, log) == ["new"]
    assert (log.log_end_offset, log.recovery_point) == (2, 2)
    assert log.append(memoryview(FIRST), 0, WALL_MS, None).is_written  # type: ignore[union-attr]


def test_what_waits_behind_it_is_written() -> None:
    disk = DiskModel()
    flushed_first = {"flush.messages": "1"}
    host = Host(disk)
    host.greet(EXCHANGE)
    host.lead(topic(configs=flushed_first))
    host.holds_effects = True
    host.send(host.append_request(FIRST))
    host.turn()
    (write,) = host.held
    write.flush = None  # type: ignore[union-attr]
    execute(disk, write)

    host = Host(disk)
    host.greet(EXCHANGE)
    host.lead(topic(leader_epoch=1, configs=flushed_first))
    host.holds_effects = True
    host.send(host.append_request(FIRST, leader_epoch=1))
    host.turn()
    host.send(host.append_request(batch(), leader_epoch=1))
    host.turn()
    disk.faults.append(Fault("write_at", "leader-epoch-checkpoint", DiskErrorKind.NO_SPACE))
    host.holds_effects = False
    host.run_effects()
    results = [result.error_code for out in host.settle() for result in append_results(out)]
    assert results == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
