"""A pass of the cleaner over batches whose checksums are right and whose contents may be anything.

That is what a log can hold: a leader looks at headers, and takes the payload for what its producer says. The pass ends,
or says that the log can't be cleaned; what is there then is sound, and recovery finds the same end.

The input is one byte of choices, then batches (`tests.fuzz.pieces`); an empty piece begins a new segment.
"""

from __future__ import annotations

from random import Random
from typing import Final

from barnabas.ports.compression import Buffer, Codecs
from barnabas.runtime.compression import compress, decompress
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    MAGIC,
    Compression,
    Record,
    build_batch,
    crc_is_valid,
    iterate_headers,
    parse_header,
)
from barnabas_logstore.core.maintenance.cleanable import cleanable
from barnabas_logstore.core.storage.compaction.cleaning_pass import CleaningPass
from barnabas_logstore.core.storage.compaction.orders import CleanedSegment, UncleanableLog
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.fuzz.pieces import join_pieces, split_pieces
from tests.fuzz.target import Target
from tests.fuzz.targets.records import random_batch, repaired
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.compaction.support import LogWriter, compacted_topic, marker
from tests.unit.logstore.compaction.support import compress as compressed
from tests.unit.logstore.storage.support import WALL_MS, batch, reopen

_OPENED_BYTES_MAX: Final = 64 * 1024
_BATCHES_MAX: Final = 16
_OFFSET_DELTA_MAX: Final = 10_000
_CODECS: Final = Codecs(lambda codec, data, limit: _decompress(codec, data, limit), compress)


def _decompress(codec: int, data: Buffer, limit: int) -> bytes | None:
    return decompress(codec, data, min(limit, _OPENED_BYTES_MAX))


def check(data: bytes) -> None:
    choice = data[0] if data else 0
    disk = DiskModel()
    writer = LogWriter(disk)
    for piece in split_pieces(data[1:])[:_BATCHES_MAX]:
        if not piece:
            writer.roll()
        elif _is_storable(piece):
            writer.add(piece)
    if writer.byte_count:
        writer.roll()
    writer.add(batch())
    config = compacted_topic(
        segment_bytes=(500, 5000)[choice & 1],
        index_interval_bytes=(0, 4096)[choice >> 1 & 1],
        delete_retention_ms=(0, 10**6)[choice >> 2 & 1],
    )
    log = writer.open(config)
    end_offset = log.log_end_offset
    assert end_offset == writer.next_offset
    if len(log.segments) == 1:
        return
    try:
        _clean(disk, log, keys_max=(3, 1000)[choice >> 3 & 1])
    except UncleanableLog:
        pass
    _check_sound(disk, log)
    assert reopen(disk, config).log.log_end_offset == end_offset


def _is_storable(records: bytes) -> bool:
    """What recovery would let stand, at the next offset."""
    if len(records) < HEADER_BYTES:
        return False
    header = parse_header(records)
    has_bounds = header.size_bytes == len(records) and 0 <= header.last_offset_delta <= _OFFSET_DELTA_MAX
    return has_bounds and header.magic == MAGIC and crc_is_valid(records)


def _clean(disk: DiskModel, log: PartitionLog, keys_max: int) -> None:
    order = cleanable(log, log.log_end_offset, WALL_MS).order(1, WALL_MS)
    for step in CleaningPass(disk, order, _CODECS, keys_max, 500).steps():
        if isinstance(step, CleanedSegment):
            effect = log.begin_swap(step)
            assert effect is not None
            execute(disk, effect)
            log.on_swapped(effect)
            for path in effect.replaced_paths:
                if disk.exists(path):
                    disk.remove(path)


def _check_sound(disk: DiskModel, log: PartitionLog) -> None:
    next_offset = log.log_start_offset
    for segment in log.segments.all():
        content = disk.read_at(segment.file, 0, segment.byte_count)
        for position, header in iterate_headers(content):
            assert crc_is_valid(content, position)
            assert header.base_offset >= next_offset
            next_offset = header.next_offset
    assert next_offset == log.log_end_offset


def build(random: Random) -> bytes:
    pieces = []
    for _ in range(random.randint(1, 8)):
        match random.randrange(8):
            case 0:
                pieces.append(b"")
            case 1:
                pieces.append(marker(random.choice((1, 2)), is_commit=random.random() < 0.5))
            case 2:
                keyed = [Record(b"k%d" % random.randrange(4), b"v", WALL_MS) for _ in range(random.randint(1, 5))]
                pieces.append(
                    build_batch(keyed, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
                )
            case _:
                codec = random.choice((0, 0, 1, 2, 3, 4))
                records = random_batch(random)
                pieces.append(compressed(records, Compression(codec)) if codec else records)
    return random.randbytes(1) + join_pieces(pieces)


def repair(data: bytes) -> bytes:
    return data[:1] + join_pieces([repaired(piece) for piece in split_pieces(data[1:])])


TARGET = Target("compaction", check, build, repair, lines_max=300_000, lines_per_byte=1000)
