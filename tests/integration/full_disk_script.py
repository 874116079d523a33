"""What `test_full_disk` runs in a mount namespace of its own: a log on a small tmpfs runs full, and goes on.

Prints one line, `took N, full at M, then K`, and ends with 0 if nothing is amiss.
"""

from __future__ import annotations

import sys
from pathlib import Path

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError
from barnabas.wire.record_batch import Record, build_batch
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effects import FlushEffect, WriteEffect
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome, PartitionLog
from barnabas_logstore.core.storage.recovery.log_recovery import OpenedLog, open_log
from barnabas_logstore.shell.posix_disk import PosixDisk

CONFIG = TopicConfig(segment_bytes=2 * 1024 * 1024)
WALL_MS = 1_700_000_000_000
BALLAST_BYTES = 8 * 1024 * 1024


def opened(disk: PosixDisk, directory: Path) -> OpenedLog:
    return open_log(disk, str(directory), ("orders", 0), CONFIG, recovery_point=0, shut_down_cleanly=False)


def fill(disk: PosixDisk, log: PartitionLog, records: bytes, batches_max: int) -> DiskError | None:
    """Append until something finds no room, or there are enough."""
    for _ in range(batches_max):
        outcome = log.append(memoryview(records), 0, WALL_MS, None)
        assert isinstance(outcome, AppendOutcome), outcome
        effect: WriteEffect | FlushEffect | None
        while (effect := log.begin_write() or log.begin_due_flush(0)) is not None:
            try:
                execute(disk, effect)
            except DiskError as error:
                if isinstance(effect, WriteEffect):
                    log.on_write_without_room(effect, error)
                else:
                    log.on_flush_without_room(effect, error)
                return error
            if isinstance(effect, WriteEffect):
                log.on_written(effect)
            else:
                log.on_flushed(effect)
    return None


def main(volume: Path) -> None:
    ballast, directory = volume / "ballast", volume / "orders-0"
    ballast.write_bytes(bytes(BALLAST_BYTES))
    directory.mkdir()
    disk = PosixDisk()
    log = opened(disk, directory).log
    records = build_batch([Record(b"k", b"v" * 50_000, WALL_MS)], producer_id=-1)
    error = fill(disk, log, records, 1_000_000)
    assert error is not None
    assert error.is_lack_of_room, error
    taken = log.log_end_offset
    ballast.unlink()
    effect = log.begin_taking_back()
    if effect is not None:
        log.disk_full.done(effect, execute(disk, effect))
    assert log.disk_full.accept_appends()
    assert fill(disk, log, records, 40) is None
    again = opened(PosixDisk(), directory)
    assert again.log.log_end_offset == log.log_end_offset == taken + 40
    assert again.dropped_bytes == 0
    print(f"took {taken}, full at {taken * len(records)}, then {log.log_end_offset}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
