"""A disk fails while the last step of a move is under way: nothing that is acknowledged may go.

The copy was removed when the disk of the log had failed, though it was whole, and all that was left. (Which of the two
is the log at the next start: `test_move_whose_target_failed`.)
"""

from __future__ import annotations

from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.effects import CopyEffect
from tests.sim.disk_model import Fault
from tests.unit.logstore.service.support import Host
from tests.unit.logstore.service.test_moves import ask, new_host, tick


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


def test_the_copy_stays_when_the_disk_of_the_log_fails() -> None:
    host = new_host()
    last = before_its_last_step(host)
    host.core._replicas.contained.failures.append(("/data0", DiskError(DiskErrorKind.IO, "write", "/data0/x")))
    host.turn()
    host.run_effect(last)
    host.holds_effects = False
    for now_ms in (2_000, 100_000):
        tick(host, now_ms)
    assert host.disk.exists(f"/data1/orders-0/{0:020d}.log")


def test_the_log_is_served_on_when_the_disk_of_the_copy_fails() -> None:
    host = new_host()
    last = before_its_last_step(host)
    host.disk.faults.append(Fault("flush_directory", "/data1", skip=1))
    host.run_effect(last)
    host.holds_effects = False
    assert host.append().error_code == ErrorCode.NONE
