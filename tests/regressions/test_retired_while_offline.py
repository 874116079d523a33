"""Segments whose files are renamed when their directory is offline already: the outcome comes, and nobody minds.

The log had forgotten the effect when it went offline, and the logstore ended with an assertion.
"""

from __future__ import annotations

from barnabas.ports.disk import DiskError, DiskErrorKind
from barnabas_logstore.core.storage.effect_execution import execute
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.test_log_start import DAY_MS, WALL_MS, filled


def test_it_is_of_no_consequence() -> None:
    disk = DiskModel()
    log = filled(disk, 5, retention_ms=0)
    log.apply_retention(log.log_end_offset, WALL_MS + 9 * DAY_MS)
    effect = log.begin_retirement()
    assert effect is not None
    log.fail(DiskError(DiskErrorKind.IO, "write", log.directory))
    execute(disk, effect)
    log.retirement.done(effect)
    assert log.begin_retirement() is None
