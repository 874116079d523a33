"""A log that moves to another log directory, with something else going on.

Segments that were just being put in place by the cleaner were copied under names that no log has, and the copy ended
with the log of one version and the indexes of another. On a full disk the flush before the last step was begun again
and again, at once, while appends waited.
"""

from __future__ import annotations

from barnabas.ports.disk import DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.effects import CopyEffect, SwapEffect
from tests.sim.disk_model import Fault
from tests.unit.logstore.service.support import WALL_MS, Host, batch
from tests.unit.logstore.service.test_moves import ask, directory_of, new_host, tick


def copies(host: Host) -> list[CopyEffect]:
    host.turn()
    return [effect for effect in host.held if isinstance(effect, CopyEffect)]


def test_no_step_is_taken_while_a_cleaned_segment_is_put_in_place() -> None:
    host = new_host()
    host.holds_effects = True
    ask(host, "/data1")
    host.core.tick(1_000)
    (begin,) = copies(host)
    (partition,) = host.core.partitions
    log = partition.log
    log._swap = (SwapEffect(log.directory, []), log.segments.first)
    host.run_effect(begin)
    assert not copies(host)
    log._swap = None
    assert copies(host)


def test_a_log_without_room_for_its_last_flush_is_let_go_and_moves_later() -> None:
    host = new_host()
    host.append()
    host.disk.faults.append(Fault("write_at", ".snapshot", DiskErrorKind.NO_SPACE))
    host.disk.faults.append(Fault("write_at", "room-probe", DiskErrorKind.NO_SPACE))
    ask(host, "/data1")
    tick(host, 1_000)
    assert directory_of(host) == "/data0/orders-0"
    assert host.append().error_code == ErrorCode.KAFKA_STORAGE_ERROR
    for now_ms in (10_000, 20_000, 30_000):
        tick(host, now_ms)
    assert directory_of(host) == "/data1/orders-0"
    assert host.append().error_code == ErrorCode.NONE


def test_what_is_rolled_while_a_log_is_held_is_flushed_where_it_goes() -> None:
    """Its snapshot of producers was to be made in the directory that was gone, and took the new one offline."""
    host = new_host()
    host.append(batch(timestamp_ms=WALL_MS))
    tick(host, 1_000)
    host.holds_effects = True
    ask(host, "/data1")
    host.core.tick(2_000)
    host.turn()
    (partition,) = host.core.partitions
    while not partition.log.is_held:
        host.run_effect(host.held[0])
        host.turn()
    host.send(*[host.append_request(batch(timestamp_ms=WALL_MS + past_ms)) for past_ms in (5_000, 10_000)])
    host.holds_effects = False
    host.settle()
    for now_ms in (3_000, 4_000):
        tick(host, now_ms)
    assert directory_of(host) == "/data1/orders-0"
    assert partition.online
    assert partition.log.flushes.snapshot_offset == 8
    assert host.disk.exists(f"/data1/orders-0/{8:020d}.snapshot")
