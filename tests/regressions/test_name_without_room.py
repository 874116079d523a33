"""A cleaned segment, or a log that is deleted, whose name finds no room takes its directory offline, as
`docs/skipped.md` has it.

Both were taken for a disk that is full for a while, and nothing undid them: the swap stayed in progress for ever, so
that the log could not be cut, moved or retired, and the next swap raised; the directory of the other was offline, and
neither its partitions nor the operator heard of it.
"""

from __future__ import annotations

from barnabas.cluster.messages import StopReplica
from barnabas.ports.disk import DiskErrorKind
from barnabas_logstore.core.storage.compaction.orders import PassEnded
from tests.sim.disk_model import Fault
from tests.unit.logstore.compaction.test_cleaning import COMPACTED, EXCHANGE, READ, WATCH, CleaningHost, topic
from tests.unit.logstore.service.support import Host


def test_a_swap_without_room_takes_the_directory_offline() -> None:
    host = CleaningHost()
    host.greet(EXCHANGE, READ, WATCH, WATCH + 10)
    host.lead(topic(configs=COMPACTED))
    host.fill("a", "b", "a", "b", "a", "c")
    host.tick()
    host.take_order()
    host.disk.faults.append(Fault("rename", ".log.cleaned", DiskErrorKind.NO_SPACE))
    host.until(PassEnded)
    host.settle()
    assert not host.log.is_swapping
    assert host.core.all_directories_offline


def test_a_deletion_without_room_takes_the_directory_offline() -> None:
    host = Host()
    host.greet(EXCHANGE)
    host.lead(topic())
    host.disk.faults.append(Fault("rename", "orders-0", DiskErrorKind.NO_SPACE))
    host.core.on_control(7, host.command(StopReplica([host.stopped()])))
    assert [path for out in host.settle() for path, _ in out.offline] == ["/data0"]
