"""Logs to be compacted, and passes over them, on a disk in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import Disk
from barnabas.runtime.compression import CODECS
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    Compression,
    Record,
    assemble_batch,
    build_batch,
    crc_is_valid,
    decode_payload,
    iterate_headers,
    parse_header,
    patch_log_append_time,
)
from barnabas_logstore.core.maintenance.cleanable import cleanable
from barnabas_logstore.core.storage.compaction.cleaning_pass import CleaningPass
from barnabas_logstore.core.storage.compaction.orders import CleanedSegment, PassStatistics
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effect_results import AbortedTransaction
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.segment.segment import file_name
from barnabas_logstore.core.storage.segment.transaction_index import format_transaction_index
from tests.unit.logstore.storage.support import DIRECTORY, WALL_MS, reopen, settle

DAY_MS = 24 * 60 * 60 * 1000
KEYS_MAX = 10_000
BUFFER_BYTES = 500


def keyed(key: str | None, value: str | None, timestamp_ms: int = WALL_MS) -> Record:
    return Record(None if key is None else key.encode(), None if value is None else value.encode(), timestamp_ms)


def compress(batch: bytes, codec: Compression, log_append_time_ms: int | None = None) -> bytes:
    """The batch as a client with that codec sends it; with LogAppendTime as its leader stores it."""
    header = parse_header(batch)
    header = header._replace(attributes=header.attributes | codec)
    compressed = bytearray(assemble_batch(header, CODECS.compress(codec, batch[HEADER_BYTES:], None)))
    if log_append_time_ms is not None:
        patch_log_append_time(compressed, 0, log_append_time_ms)
    return bytes(compressed)


def marker(producer_id: int, *, is_commit: bool, timestamp_ms: int = WALL_MS, producer_epoch: int = 0) -> bytes:
    """The control batch that ends a transaction."""
    record = Record(b"\0\0" + (b"\0\1" if is_commit else b"\0\0"), b"\0\0\0\0\0\0", timestamp_ms)
    return build_batch(
        [record], producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True
    )


@dataclass(slots=True)
class LogWriter:
    """Writes the files of a log batch by batch: what a leader would have refused, or doesn't know yet, included."""

    disk: Disk
    segment_bytes: int = 10**9
    next_offset: int = 0
    base_offset: int = 0
    byte_count: int = 0

    def __post_init__(self) -> None:
        self.disk.make_directory("/data")
        self.disk.make_directory(DIRECTORY)

    def roll(self) -> None:
        self.base_offset, self.byte_count = self.next_offset, 0

    def add(self, batch: bytes, leader_epoch: int = 0) -> int:
        """The offset of its first record."""
        if self.byte_count and self.byte_count + len(batch) > self.segment_bytes:
            self.roll()
        placed = bytearray(batch)
        base_offset = self.next_offset
        placed[0:8] = base_offset.to_bytes(8, "big")
        placed[12:16] = leader_epoch.to_bytes(4, "big")
        file = self.disk.open(f"{DIRECTORY}/{file_name(self.base_offset, '.log')}", create=True)
        self.disk.write_at(file, self.byte_count, (bytes(placed),))
        self.byte_count += len(placed)
        self.next_offset = parse_header(placed).next_offset
        return base_offset

    def records(self, *records: Record, codec: Compression = Compression.NONE) -> int:
        batch = build_batch(records)
        return self.add(compress(batch, codec) if codec else batch)

    def aborted(self, transaction: AbortedTransaction) -> None:
        """Into the index of the present segment, where its marker is."""
        file = self.disk.open(f"{DIRECTORY}/{file_name(self.base_offset, '.txnindex')}", create=True)
        self.disk.write_at(file, self.disk.size(file), (format_transaction_index([transaction]),))

    def open(self, config: TopicConfig) -> PartitionLog:
        log = reopen(self.disk, config).log
        settle(self.disk, log)
        return log


def compacted_topic(**settings: object) -> TopicConfig:
    return replace(TopicConfig(), cleanup_policy="compact", **settings)  # type: ignore[arg-type]


def clean(
    disk: Disk,
    log: PartitionLog,
    wall_ms: int = WALL_MS,
    *,
    keys_max: int = KEYS_MAX,
    buffer_bytes: int = BUFFER_BYTES,
) -> PassStatistics:
    """One whole pass, its segments put in place as they come."""
    order = cleanable(log, log.log_end_offset, wall_ms).order(1, wall_ms)
    its_pass = CleaningPass(disk, order, CODECS, keys_max, buffer_bytes)
    for step in its_pass.steps():
        if isinstance(step, CleanedSegment):
            effect = log.begin_swap(step)
            assert effect is not None
            execute(disk, effect)
            log.on_swapped(effect)
            for path in effect.replaced_paths:
                if disk.exists(path):
                    disk.remove(path)
    log.state.first_dirty_offset = its_pass.next_dirty_offset
    return its_pass.statistics


def batches_of(disk: Disk, log: PartitionLog) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch of the log's files, opened; they are checked on the way."""
    found = []
    for segment in log.segments.all():
        content = disk.read_at(segment.file, 0, segment.byte_count)
        end = 0
        for position, header in iterate_headers(content):
            assert crc_is_valid(content, position)
            end = position + header.size_bytes
            payload: bytes | None = content[position + HEADER_BYTES : end]
            if header.compression:
                assert payload is not None
                payload = CODECS.decompress(header.compression, payload, 10**8) if header.records_count else payload
            assert payload is not None
            found.append((header, decode_payload(header, payload)))
        assert end == len(content)
    return found


def records_of(disk: Disk, log: PartitionLog, *, with_control: bool = False) -> list[Record]:
    batches = batches_of(disk, log)
    return [record for header, records in batches if with_control or not header.is_control for record in records]


def values_of(disk: Disk, log: PartitionLog) -> list[tuple[int, str | None, str | None]]:
    """(offset, key, value) of every record."""

    def text(content: bytes | None) -> str | None:
        return None if content is None else content.decode()

    return [(record.offset, text(record.key), text(record.value)) for record in records_of(disk, log)]


def latest(records: Iterable[Record]) -> dict[bytes, Record]:
    return {record.key: record for record in records if record.key is not None}
