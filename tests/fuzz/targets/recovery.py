"""A log directory of any content is opened: every file in it may hold anything.

Opening ends, with a refusal or a DiskError, or with logs that can be read, searched, appended to and opened again. A
log that was neither shut down cleanly nor vouched for by a recovery point holds only batches that were in its files,
each with a right checksum, in order.

The input is one byte of choices, then name and content of each file (the name is one byte, an index into `_NAMES`).
"""

from __future__ import annotations

from random import Random
from typing import Final

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError
from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import crc_is_valid, iterate_headers
from barnabas_logstore.core.storage.directories.directory_identity import DirectoryRefusal
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome, PartitionLog
from tests.fuzz.pieces import join_pieces, split_pieces
from tests.fuzz.target import Target
from tests.fuzz.targets.checkpoints import with_snapshot_crc
from tests.fuzz.targets.records import random_batch
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import WALL_MS, batch, flush_all, lookup, read, settle

PATH: Final = "/data"
PARTITION: Final = "t-0"
_OFFSETS: Final = (0, 4, 10, 2**31, 2**63 - 1, 10**19)
_SUFFIXES: Final = (
    *(".log", ".index", ".timeindex", ".snapshot", ".txnindex"),
    *(".log.cleaned", ".log.swap", ".log.deleted", ".index.swap"),
)
_NAMES: Final = (
    *("meta.properties", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"),
    *("replication-offset-checkpoint", "kernel-boot-id"),
    *(
        f"{PARTITION}/{name}"
        for name in ("leader-epoch-checkpoint", "partition.metadata", "leader-epoch-checkpoint.tmp")
    ),
    *(f"{PARTITION}/{offset:020d}{suffix}" for offset in _OFFSETS for suffix in _SUFFIXES),
    *("t-1/00000000000000000000.log", "t-0.0123-delete/00000000000000000000.log"),
)
_NUMBER_BY_NAME: Final = {name: number for number, name in enumerate(_NAMES)}
_CONFIGS: Final = (
    TopicConfig(),
    TopicConfig(segment_bytes=500, index_interval_bytes=0),
    TopicConfig(segment_index_bytes=24, index_interval_bytes=0, flush_messages=1),
)
_READS_MAX: Final = 200


def check(data: bytes) -> None:
    config = _CONFIGS[data[0] % len(_CONFIGS)] if data else _CONFIGS[0]
    disk = DiskModel()
    contents = _lay_out(disk, data[1:])
    directory = _load(disk, config)
    if directory is None:
        return
    was_clean = ".kafka_cleanshutdown" in contents
    is_scanned = not was_clean and "recovery-point-offset-checkpoint" not in contents
    for (topic, partition), log in directory.logs.items():
        if is_scanned:
            given = b"".join(
                content
                for name, content in sorted(contents.items())
                if name.startswith(f"{topic}-{partition}/") and name.endswith(".log")
            )
            _check_sound(disk, log, given)
        _use(disk, log)
    ends = {key: log.log_end_offset for key, log in directory.logs.items() if log.error is None}
    again = _load(disk, config)
    assert again is not None
    assert was_clean or {key: again.logs[key].log_end_offset for key in ends} == ends


def _lay_out(disk: DiskModel, data: bytes) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for piece in split_pieces(data):
        if piece:
            contents[_NAMES[piece[0] % len(_NAMES)]] = piece[1:]
    disk.make_directory(PATH)
    for name, content in contents.items():
        if "/" in name:
            disk.make_directory(f"{PATH}/{name.partition('/')[0]}")
        disk.write_at(disk.open(f"{PATH}/{name}", create=True), 0, (content,))
    return contents


def _load(disk: DiskModel, config: TopicConfig) -> LogDirectory | None:
    try:
        directory = LogDirectory.open(
            disk,
            PATH,
            cluster_id="cluster",
            node_id=1,
            kernel_boot_id="boot",
            new_directory_id=bytes(16),
            unique_name=lambda: "0" * 32,
        )
        if isinstance(directory, DirectoryRefusal):
            assert "\n" not in directory.message
            return None
        directory.load(lambda topic: config, 0)
    except DiskError:
        return None
    return directory


def _check_sound(disk: DiskModel, log: PartitionLog, given: bytes) -> None:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = read(disk, log, offset)
        assert isinstance(found, bytes)
        headers = list(iterate_headers(found))
        assert headers, f"nothing at {offset} of {log.log_end_offset}"
        for position, header in headers:
            content = found[position : position + header.size_bytes]
            assert crc_is_valid(content)
            assert content in given
            assert header.next_offset > offset, "offsets go up"
            offset = header.next_offset


def _use(disk: DiskModel, log: PartitionLog) -> None:
    """What clients may do with it: nothing but an error code or a DiskError may come of it."""
    try:
        offset = log.log_start_offset
        for _ in range(_READS_MAX):
            found = read(disk, log, offset, 300)
            if not isinstance(found, bytes) or not found:
                break
            offset = _end_of(found, offset)
        log.byte_position_of(log.log_start_offset)
        for timestamp_ms in (0, WALL_MS, WALL_MS + 5, -1, -2, -3):
            lookup(disk, log, timestamp_ms)
    except DiskError:
        return
    if log.next_offset < 2**62:
        outcome = log.append(memoryview(batch(2)), max(log.leader_epochs.latest, 0), WALL_MS, None)
        assert isinstance(outcome, AppendOutcome) or log.error is not None, outcome
        settle(disk, log)


def _end_of(found: bytes, offset: int) -> int:
    """Where a consumer goes on; past `offset` in any case, as the batches may be nonsense under a clean marker."""
    try:
        return max([offset + 1, *(header.next_offset for _, header in iterate_headers(found))])
    except MalformedFrame:
        return offset + 1


def build(random: Random) -> bytes:
    """A directory as a life of appends leaves it, shut down or not."""
    choice = random.randrange(len(_CONFIGS))
    config = _CONFIGS[choice]
    disk = DiskModel()
    directory = _load(disk, config)
    assert directory is not None
    log = directory.create(("t", 0), bytes(16), config)
    assert isinstance(log, PartitionLog)
    epoch = 0
    for _ in range(random.randint(0, 8)):
        log.append(memoryview(random_batch(random)), epoch, WALL_MS, None)
        epoch += random.random() < 0.2
        if random.random() < 0.5:
            settle(disk, log)
    settle(disk, log)
    if random.random() < 0.4:
        flush_all(disk, directory)
        directory.shut_down({("t", 0): log.log_end_offset}, 1)
    else:
        execute(disk, directory.checkpoint_recovery_points())
    pieces = []
    for name in (
        *(entry.name for entry in disk.list(PATH)),
        *(f"{PARTITION}/{e.name}" for e in disk.list(f"{PATH}/{PARTITION}")),
    ):
        if name in _NUMBER_BY_NAME and random.random() < 0.95:
            pieces.append(bytes([_NUMBER_BY_NAME[name]]) + disk.read_file(f"{PATH}/{name}"))
    return bytes([choice]) + join_pieces(pieces)


def repair(data: bytes) -> bytes:
    """The checksum of a snapshot put right; those of batches are `batches`' own business."""
    pieces = []
    for piece in split_pieces(data[1:]):
        name = _NAMES[piece[0] % len(_NAMES)] if piece else ""
        pieces.append(piece[:1] + with_snapshot_crc(piece[1:]) if name.endswith(".snapshot") else piece)
    return data[:1] + join_pieces(pieces)


TARGET = Target("recovery", check, build, repair, lines_max=300_000, lines_per_byte=2000)
