"""A log whose copy has its final name on another disk is written to no more when that disk fails.

The log was served on from where it had been, and acknowledged. The next start found it in both log directories, took
the copy for it, as nothing is written to the old one after a move, and deleted what had been acknowledged.
"""

from __future__ import annotations

from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.wire.errors import ErrorCode
from services.logstore.core.storage.effects import CopyEffect
from tests.sim.disk_model import Fault
from tests.unit.logstore.service.support import Host
from tests.unit.logstore.service.test_moves import ask, new_host


def before_its_last_step(host: Host) -> CopyEffect:
    """A move with everything done but the final name."""
    ask(host, "/data1")
    host.holds_effects = True
    host.core.tick(1_000)
    while True:
        host.turn()
        effect = host.held[0]
        if isinstance(effect, CopyEffect) and effect.final:
            return effect
        host.run_effect(effect)


def test_its_disk_fails_while_the_last_step_is_under_way() -> None:
    host = new_host()
    last = before_its_last_step(host)
    host.core._replicas.disk_failures.append(("/data1", DiskError(DiskErrorKind.IO, "write", "/data1/x")))
    host.turn()
    host.run_effect(last)
    host.holds_effects = False
    assert host.append().error_code == ErrorCode.KAFKA_STORAGE_ERROR
    (partition,) = host.core.partitions
    assert not partition.online


def test_the_flush_of_its_final_name_fails() -> None:
    host = new_host()
    last = before_its_last_step(host)
    host.disk.faults.append(Fault("flush_directory", "/data1", skip=1))
    host.run_effect(last)
    assert host.disk.exists("/data1/orders-0/moved-from")
    host.holds_effects = False
    assert host.append().error_code == ErrorCode.KAFKA_STORAGE_ERROR
