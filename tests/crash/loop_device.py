"""`make crash-loop`: power cuts on a real file system, on a loop device.

A logstore writes to a file system in an image file. At some moment it is stopped, the kernel having written back some
of its dirty pages and not others, and the image is copied as it is then: that is what the platter would have had. The
copy is mounted (the file system replays its journal), the logs are opened, and what was acknowledged has to be there.
The writer goes on meanwhile, and is cut again; or is killed, and started on what it has left; or finds its disk full.

    python -m tests.crash.loop_device [--cuts 40] [--file-systems ext4,xfs,btrfs]

What this machine can't do is skipped, with the reason. It needs root, loop devices and mkfs of the file system.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from barnabas.wire.record_batch import patch_offsets
from barnabas_logstore.shell.posix_disk import PosixDisk
from tests.crash import naive
from tests.crash.batches import records_of
from tests.crash.loop_writer import KEYS, TOPICS, batch_at, open_life

ROOT = Path(__file__).parents[2]
MKFS = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"], "btrfs": ["mkfs.btrfs", "-q", "-f"]}
IMAGE_BYTES = {"ext4": 96 << 20, "xfs": 320 << 20, "btrfs": 160 << 20}
CUTS_PER_IMAGE = 8
FLUSHED = 0
_SYNC_FILE_RANGE_WRITE = 2
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash.loop_device", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--cuts", type=int, default=40, help="power cuts per file system")
    parser.add_argument("--file-systems", default="ext4,xfs,btrfs")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    failed = 0
    for name in arguments.file_systems.split(","):
        reason = why_not(name)
        if reason:
            print(f"{name}: skipped: {reason}")
            continue
        began = time.monotonic()
        hits: Counter[str] = Counter()
        random = Random(arguments.seed)
        try:
            while hits["power cuts"] < arguments.cuts:
                with tempfile.TemporaryDirectory(prefix="barnabas-crash-") as place:
                    torment(Path(place), name, random, hits, min(CUTS_PER_IMAGE, arguments.cuts - hits["power cuts"]))
        except AssertionError as error:
            failed += 1
            print(f"{name}: FAILED: {error}")
        reported = ", ".join(f"{count:,} {what}" for what, count in sorted(hits.items()))
        print(f"{name}: {reported}; {time.monotonic() - began:.0f} s", flush=True)
    sys.exit(1 if failed else 0)


def why_not(name: str) -> str:
    """What this machine lacks; empty when nothing."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if shutil.which(MKFS[name][0]) is None:
        return f"no {MKFS[name][0]} here"
    if f"\t{name}\n" not in Path("/proc/filesystems").read_text():
        return f"this kernel has no {name}"
    if not Path("/dev/loop-control").exists() or shutil.which("losetup") is None:
        return "no loop devices"
    return ""


# --- mounting ---


@contextlib.contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    at.mkdir(exist_ok=True)
    run("mount", "-o", "loop,noatime", str(image), str(at))
    try:
        yield at
    finally:
        # Mappings and files of logs that are not used any more.
        gc.collect()
        run("umount", *(["--lazy"] if sys.exc_info()[0] else []), str(at))


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"


def device_of(image: Path) -> str:
    found = subprocess.run(["losetup", "--noheadings", "-O", "NAME", "-j", str(image)], capture_output=True, text=True)
    return found.stdout.strip().rpartition("/")[2]


def copy_as_it_is(image: Path, copy: Path) -> None:
    """The image at one moment: copied again when the kernel has written to the device meanwhile."""
    statistics = Path(f"/sys/block/{device_of(image)}/stat")
    while True:
        before = statistics.read_text().split()
        shutil.copyfile(image, copy)
        after = statistics.read_text().split()
        # Completed writes, and what is in flight.
        if (before[4], before[8]) == (after[4], "0"):
            return


# --- one image ---


class Writer:
    """The process, and what it has been heard to acknowledge: per topic the end offset and the recovery point."""

    def __init__(self, directory: Path, round_: int) -> None:
        command = [sys.executable, "-m", "tests.crash.loop_writer", str(directory), str(round_)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self._process.stdout is not None
        self._out = self._process.stdout
        assert self._out.readline() == b"begun\n", self._out.read().decode()
        os.set_blocking(self._out.fileno(), False)
        self._rest = b""
        self.acknowledged = [0] * len(TOPICS)
        self.durable = [0] * len(TOPICS)

    def listen(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            data = self._out.read() or b""
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                words = line.split()
                assert len(words) == 3, line.decode()
                topic, end_offset, recovery_point = map(int, words)
                self.acknowledged[topic] = max(self.acknowledged[topic], end_offset)
                self.durable[topic] = max(self.durable[topic], recovery_point)
            if time.monotonic() >= deadline and not data:
                return
            time.sleep(0.002)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Between two of its calls of the kernel; all that it has said is heard."""
        os.kill(self._process.pid, signal.SIGSTOP)
        state = Path(f"/proc/{self._process.pid}/stat")
        while state.read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.001)
        self.listen(0)
        yield
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.listen(0)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None


def torment(place: Path, name: str, random: Random, hits: Counter[str], cuts: int) -> None:
    image, copy = place / "image", place / "copy"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES[name])
    run(*MKFS[name], str(image))
    with mounted(image, place / "mounted") as root:
        directory = root / "data"
        writer = Writer(directory, round_=1)
        rounds = 1
        try:
            for _ in range(cuts):
                writer.listen(random.uniform(0.02, 0.6))
                if random.random() < 0.7:
                    write_some_pages_back(directory, random)
                with writer.stopped():
                    promised = list(writer.durable)
                    promised[FLUSHED] = max(promised[FLUSHED], writer.acknowledged[FLUSHED])
                    copy_as_it_is(image, copy)
                rounds += 1
                with mounted(copy, place / "after") as after:
                    hits["batches found after power cuts"] += check(after / "data", promised, rounds)
                hits["power cuts"] += 1
                if random.random() < 0.3:
                    writer.kill()
                    rounds += 1
                    hits["batches found after kills"] += check(directory, writer.acknowledged, rounds)
                    hits["kills"] += 1
                    writer = Writer(directory, rounds + 1)
                    rounds += 1
            fill_up(root, writer, hits)
        finally:
            writer.kill()
        check(directory, writer.acknowledged, rounds + 1)


def write_some_pages_back(directory: Path, random: Random) -> None:
    """Have the kernel begin to write back a part of some files, as it does whenever it likes to."""
    for path in sorted(directory.glob("*/*")):
        # Some are gone by now: the writer goes on.
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            if random.random() < 0.3:
                where = ctypes.c_int64(random.randrange(0, 1 << 16, 4096)), ctypes.c_int64(1 << random.randint(12, 20))
                _libc.sync_file_range(file.fileno(), *where, _SYNC_FILE_RANGE_WRITE)


def fill_up(root: Path, writer: Writer, hits: Counter[str]) -> None:
    """No room for a while: appends are refused, nothing is acknowledged, and then it goes on."""
    filler = root / "filler"
    free = os.statvfs(root)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(free.f_bavail * free.f_frsize - (1 << 18), 4096))
    at_full, deadline = -1, time.monotonic() + 60
    while at_full != (acknowledged := sum(writer.acknowledged)):
        assert time.monotonic() < deadline, "the disk is full, and still there is something acknowledged"
        at_full = acknowledged
        writer.listen(1.5)
    assert not writer.has_ended, "a full disk has ended the logstore"
    filler.unlink()
    deadline = time.monotonic() + 20
    while sum(writer.acknowledged) == at_full:
        assert time.monotonic() < deadline, "there is room again, and nothing goes on"
        writer.listen(0.2)
    hits["full disks"] += 1


def check(directory: Path, promised: list[int], round_: int) -> int:
    """Start on what is there, look, stop cleanly; how many batches were found."""
    life = open_life(str(directory), round_)
    disk = PosixDisk()
    found = 0
    by_topic = {opened.topic_partition[0]: opened for opened in life.loaded}
    for topic, (name, configs) in enumerate(TOPICS):
        opened = by_topic.get(name)
        if opened is None:
            assert promised[topic] == 0, f"{name} is gone, and held everything below {promised[topic]}"
            continue
        log = opened.opened.log
        assert log.log_end_offset >= promised[topic], f"{name} ends at {log.log_end_offset}, not {promised[topic]}"
        segments = naive.read_segments(disk, log.directory)
        assert all(segment.torn_bytes == 0 for segment in segments), f"{name} has torn bytes"
        found += check_batches(topic, segments, log.log_end_offset, is_compacted="cleanup.policy" in configs)
    assert not life.stop_cleanly(Random(round_)), "no clean-shutdown marker"
    again = open_life(str(directory), round_)
    assert all(each.was_shut_down_cleanly for each in again.directories)
    ends = {opened.topic_partition[0]: opened.opened.log.log_end_offset for opened in again.loaded}
    assert ends == {name: opened.opened.log.log_end_offset for name, opened in by_topic.items()}
    return found


def check_batches(topic: int, segments: list[naive.NaiveSegment], end_offset: int, *, is_compacted: bool) -> int:
    """Every batch is the one that belongs at its offset; in compacted topics the last record of every key is there."""
    next_offset = found = 0
    last: dict[bytes, int] = {}
    for segment in segments:
        assert segment.base_offset == next_offset, f"{TOPICS[topic][0]}: {segment.base_offset} follows {next_offset}"
        for _, header, content in segment.batches:
            expected = bytearray(batch_at(topic, header.base_offset))
            patch_offsets(expected, 0, header.base_offset, header.partition_leader_epoch)
            assert is_compacted or header.base_offset == next_offset
            assert is_compacted or content == bytes(expected), (
                f"{TOPICS[topic][0]}: another batch at {header.base_offset}"
            )
            whole = dict(records_of(bytes(expected)))
            for offset, record in records_of(content):
                assert whole[offset] == record
                last[record.key] = offset
            next_offset = header.next_offset
            found += 1
    assert next_offset == end_offset
    if is_compacted and end_offset > 2 * KEYS:
        missing = [key for key in range(KEYS) if b"key %d" % key not in last]
        assert not missing, f"{TOPICS[topic][0]}: keys {missing} are gone"
    return found


if __name__ == "__main__":
    main()
