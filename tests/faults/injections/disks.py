"""Disks that fill up, that fail a flush, that forget what was not flushed, and that change a bit."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from barnabas.wire.record_batch import iterate_headers
from barnabas_logstore.core.storage.checkpoints import KERNEL_BOOT_ID, RECOVERY_POINT_CHECKPOINT, parse_offsets
from tests.faults.cluster import UnhealthyError
from tests.faults.injections.crashes import Choice
from tests.faults.machines import LOGSTORES, broker_id
from tests.faults.stage import Stage

NOTICED_SECONDS_MAX = 20.0
"""By then nothing may depend on a disk that failed."""
_FULL_SECONDS = 10.0
_LEADER_EPOCH_LAST_AT = 15
"""In a batch, its last byte."""
_SHIM_SOURCE = Path(__file__).with_name("fsync_shim.c")


def has_compiler() -> bool:
    return shutil.which("gcc") is not None


def full_disk(stage: Stage) -> None:
    """One directory of logstore-0 has no room any more; in the end it has again, and its process is killed."""
    assert stage.cluster.small_disk is not None, "a cell that fills it says so"
    filler = stage.cluster.small_disk / "filler"
    with stage.injected("the disk of one directory of logstore-0 is full"):
        fill(filler)
        _wait_for_others(stage)
        stage.hold(_FULL_SECONDS)
        filler.unlink()
        stage.hold(1.0)
        stage.cluster.kill(LOGSTORES[0])
        stage.cluster.spawn(LOGSTORES[0])


def full_disk_that_empties(stage: Stage) -> None:
    """There is free space again, without a restart of anything."""
    assert stage.cluster.small_disk is not None, "a cell that fills it says so"
    filler = stage.cluster.small_disk / "filler"
    with stage.injected("the disk of one directory of logstore-0 is full for a while"):
        fill(filler)
        _wait_for_others(stage)
        stage.hold(_FULL_SECONDS)
        filler.unlink()


def fsync_fails(stage: Stage, directories: int) -> None:
    """EIO from every flush in one of the leader's directories, or in both: what was written there may be gone.

    The topic flushes every batch. The directory goes offline; with the last one the process ends.
    """
    victim = stage.leader()
    shim, order = _shim(stage), stage.cluster.layout.directory / "fsync-fails-below"
    order.write_text("")
    stage.cluster.kill(victim)
    stage.cluster.spawn(victim, {"LD_PRELOAD": str(shim), "FSYNC_FAILS_BELOW": str(order)})
    stage.settle()
    paths = stage.cluster.layout.log_directories(victim)[:directories]
    # Its directories are <victim>-a and <victim>-b: what both begin with is an order for both.
    below = str(paths[0]) if directories == 1 else str(paths[0])[:-1]
    with stage.injected(f"fsync fails in {directories} of 2 directories of {victim}"):
        order.write_text(below)
        stage.wait_until(lambda: _still_relied_on(stage, victim, paths), NOTICED_SECONDS_MAX)
        if directories == 2:
            stage.wait_until(lambda: f"{victim} runs" if stage.cluster.is_alive(victim) else None, NOTICED_SECONDS_MAX)
        order.unlink()
        stage.cluster.kill(victim)
        stage.cluster.spawn(victim)


def no_victim(stage: Stage) -> list[str]:
    return []


def power_cut(stage: Stage, whom: Choice, killed_too: Choice = no_victim) -> None:
    """The machine of one logstore loses power: of each log a part of what was not flushed is gone.

    Others may be killed with it, and started again with it; they have what the kernel kept for them.
    """
    (victim,) = whom(stage)
    victims = [victim, *(each for each in killed_too(stage) if each != victim)]
    with stage.injected(f"power cut of {victim}, kill -9 of {', '.join(victims)}"):
        stage.cluster.kill(*victims)
        for directory in stage.cluster.layout.log_directories(victim):
            # A restarted machine has another one.
            (directory / KERNEL_BOOT_ID).write_text("of the life before")
        for path, flushed in _logs(stage, victim):
            if not flushed:
                _truncate(path, stage.chance.uniform(0.3, 1.0))
        for each in victims:
            stage.cluster.spawn(each)


def bit_flip(stage: Stage, whom: Choice, killed_too: Choice = no_victim, *, in_leader_epochs: bool = False) -> None:
    """A logstore that was killed finds one bit of each log changed: a hole in what it had answered for.

    Others may be killed with it, and started again with it. A flipped leader epoch is one that no checksum tells of.
    """
    (victim,) = whom(stage)
    victims = [victim, *(each for each in killed_too(stage) if each != victim)]
    where = "leader epochs" if in_leader_epochs else "the logs"
    with stage.injected(f"bit flips in {where} of {victim}, kill -9 of {', '.join(victims)}"):
        stage.cluster.kill(*victims)
        for path, _ in _logs(stage, victim):
            part = stage.chance.uniform(0.5, 0.95)
            _flip_bit(path, _leader_epoch_at(path, part) if in_leader_epochs else int(path.stat().st_size * part))
        for each in victims:
            stage.cluster.spawn(each)


def lost_directory(stage: Stage) -> None:
    """A logstore comes back with a new, empty disk in the place of one of its two."""
    victim = stage.leader()
    with stage.injected(f"a disk of {victim} is replaced by an empty one"):
        stage.cluster.kill(victim)
        for entry in stage.cluster.layout.log_directories(victim)[0].iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        stage.hold(1.0)
        stage.cluster.spawn(victim)


def fill(path: Path) -> None:
    """Until nothing more fits."""
    with path.open("wb", buffering=0) as file:
        for chunk_bytes in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(chunk_bytes))
            except OSError:
                continue


def _wait_for_others(stage: Stage) -> None:
    """Until logstore-0 leads nothing that lies on its small disk."""
    assert stage.cluster.small_disk is not None
    directories = [stage.cluster.small_disk]
    stage.wait_until(lambda: _still_relied_on(stage, LOGSTORES[0], directories), NOTICED_SECONDS_MAX)


def _still_relied_on(stage: Stage, victim: str, directories: list[Path]) -> str | None:
    """A partition in one of the directories that the victim still leads; None when there is none."""
    for partition, leader in stage.leaders().items():
        if leader == victim and any((each / f"{stage.topic}-{partition}").exists() for each in directories):
            return f"{victim} still leads {stage.topic}-{partition} from that disk"
    return None


def _logs(stage: Stage, logstore: str) -> list[tuple[Path, bool]]:
    """The last segment of every partition of the topic there; whether a part of it is certainly on disk."""
    found = []
    for directory in stage.cluster.layout.log_directories(logstore):
        checkpoint = directory / RECOVERY_POINT_CHECKPOINT
        flushed = (parse_offsets(checkpoint.read_bytes()) if checkpoint.exists() else None) or {}
        for partition in range(stage.partitions):
            segments = sorted((directory / f"{stage.topic}-{partition}").glob("*.log"))
            if segments and segments[-1].stat().st_size > 0:
                found.append((segments[-1], flushed.get((stage.topic, partition), 0) > 0))
    if not found:
        raise UnhealthyError(f"broker {broker_id(logstore)} has no logs of {stage.topic}")
    return found


def _truncate(path: Path, part: float) -> None:
    with path.open("r+b") as file:
        file.truncate(int(path.stat().st_size * part))


def _leader_epoch_at(path: Path, part: float) -> int:
    """Where the epoch of a batch ends; not of the last one, which nothing contradicts, unless there is no other."""
    starts = [start for start, _ in iterate_headers(path.read_bytes())][:-1]
    return (starts[int(len(starts) * part)] if starts else 0) + _LEADER_EPOCH_LAST_AT


def _flip_bit(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 0x10]))


def _shim(stage: Stage) -> Path:
    """The compiled shim, in the directory of the run."""
    path = stage.cluster.layout.directory / "fsync_shim.so"
    if not path.exists():
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", path, _SHIM_SOURCE, "-ldl"], check=True)
    return path
