"""One pass over one log: map the keys of its dirty part, then copy every segment from the log's start on without the
records that a later record of the same key replaces.

A pass is a generator over steps of bounded work, one read each: its host may stop, throttle or drop it in between. It
changes nothing that the log consists of. It writes `.cleaned` files, one set per group of segments, durable when they
are reported; the core swaps them in (`swap`), in order: a tombstone may be removed only after the records that it
deletes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.ports.compression import Codecs
from barnabas.ports.disk import Disk
from barnabas_logstore.core.storage.compaction.batch_filter import AS_IT_IS, BatchFilter
from barnabas_logstore.core.storage.compaction.batch_reader import BatchReader
from barnabas_logstore.core.storage.compaction.cleaned_segment import CleanedSegmentWriter
from barnabas_logstore.core.storage.compaction.groups import Group, group_segments
from barnabas_logstore.core.storage.compaction.offset_map import OffsetMap
from barnabas_logstore.core.storage.compaction.orders import CleanedSegment, CleanOrder, PassStatistics, SourceSegment
from barnabas_logstore.core.storage.compaction.segment_chunks import Chunk, read_chunks
from barnabas_logstore.core.storage.compaction.transactions import TransactionRetention
from barnabas_logstore.core.storage.effect_results import AbortedTransaction
from barnabas_logstore.core.storage.segment.segment import LOG_SUFFIX, file_name
from barnabas_logstore.core.storage.segment.transaction_index import TRANSACTION_INDEX_SUFFIX, parse_transaction_index


@dataclass(slots=True, frozen=True)
class BytesMoved:
    """A step of a pass is done: so many bytes were read and written in it."""

    byte_count: int


Step = BytesMoved | CleanedSegment


class CleaningPass:
    """Run `steps` to its end; then `next_dirty_offset` holds, once all its cleaned segments are swapped in."""

    def __init__(self, disk: Disk, order: CleanOrder, codecs: Codecs, map_entries_max: int, buffer_bytes: int) -> None:
        """`buffer_bytes` are read at once, or one batch if that is larger."""
        self._disk = disk
        self._order = order
        self._map = OffsetMap(map_entries_max, order.first_dirty_offset)
        self._buffer_bytes = buffer_bytes
        self._reader = BatchReader(codecs, order.config)
        self.is_mapped = False
        """Whether all keys are read that this pass uses."""
        self.statistics = PassStatistics()

    @property
    def next_dirty_offset(self) -> int:
        return self._map.last_offset + 1

    def steps(self) -> Iterator[Step]:
        """Raises UncleanableLog and DiskError; NOT_FOUND means that the log has changed meanwhile, or is gone."""
        aborted = self._aborted_transactions()
        order = self._order
        yield from self._map_dirty_segments(TransactionRetention(aborted, order.first_dirty_offset))
        offset_map = self._map
        offset_map.close()
        self.is_mapped = True
        self.statistics.map_entries = len(offset_map)
        batch_filter = BatchFilter(
            self._reader,
            offset_map,
            transactions := TransactionRetention(aborted, order.segments[0].base_offset),
            order.producers,
            order.wall_ms,
            order.config.delete_retention_ms,
            self.statistics,
        )
        below = [segment for segment in order.segments if segment.base_offset < self.next_dirty_offset]
        sizes = {entry.name: entry.byte_count for entry in self._disk.list(order.directory)}
        for group in group_segments(below, sizes, order.config, order.end_offset):
            yield from self._clean(group, batch_filter, transactions)

    # --- the map ---

    def _map_dirty_segments(self, transactions: TransactionRetention) -> Iterator[Step]:
        """Read the keys of the dirty segments, until these end or the map is full."""
        order, offset_map = self._order, self._map
        ends = [segment.base_offset for segment in order.segments[1:]] + [order.end_offset]
        for segment, end_offset in zip(order.segments, ends, strict=True):
            if end_offset <= order.first_dirty_offset:
                continue
            for chunk in self._chunks(segment):
                self._map_chunk(chunk, transactions)
                self.statistics.map_bytes_read += chunk.byte_count
                yield BytesMoved(chunk.byte_count)
                if self.statistics.map_is_full:
                    return
            # Records that compaction has removed from the end of a segment are in no batch.
            offset_map.last_offset = end_offset - 1

    def _map_chunk(self, chunk: Chunk, transactions: TransactionRetention) -> None:
        offset_map, statistics = self._map, self.statistics
        for index, header in chunk.batches:
            if header.last_offset < self._order.first_dirty_offset:
                continue
            if header.is_control:
                transactions.on_control_batch(header, self._reader.control_type_of(chunk.data, index, header))
            elif not transactions.on_batch(header) and header.records_count:
                statistics.map_records_read += header.records_count
                self._reader.map_batch(chunk.data, index, header, offset_map)
                if offset_map.last_offset < header.last_offset:
                    statistics.map_is_full = True
                    return
            offset_map.last_offset = header.last_offset

    # --- the copy ---

    def _clean(self, group: Group, batch_filter: BatchFilter, transactions: TransactionRetention) -> Iterator[Step]:
        order = self._order
        writer = CleanedSegmentWriter(self._disk, order.directory, group.base_offset, order.config, self._buffer_bytes)
        for segment in group.segments:
            is_last = segment is group.segments[-1]
            for chunk in self._chunks(segment):
                before = writer.byte_count
                end = chunk.end_position if is_last and chunk.end_position == segment.byte_count else -1
                self._copy_chunk(chunk, batch_filter, writer, ends_segment_at=end)
                written = writer.byte_count - before
                self.statistics.bytes_read += chunk.byte_count
                self.statistics.bytes_written += written
                yield BytesMoved(chunk.byte_count + written)
        writer.finish(transactions.take_retained())
        replaced = [segment.base_offset for segment in group.segments]
        yield CleanedSegment(order.order_id, group.base_offset, writer.byte_count, replaced)

    def _copy_chunk(
        self, chunk: Chunk, batch_filter: BatchFilter, writer: CleanedSegmentWriter, *, ends_segment_at: int
    ) -> None:
        data = chunk.data
        for index, header in chunk.batches:
            end = index + header.size_bytes
            ends_segment = chunk.position + end == ends_segment_at
            kept = batch_filter.keep(data, index, header, ends_segment=ends_segment)
            if kept is AS_IT_IS:
                writer.copy(header, data, index)
            elif kept:
                writer.add(kept)
        writer.write_gathered()

    # --- what is read ---

    def _chunks(self, segment: SourceSegment) -> Iterator[Chunk]:
        path = f"{self._order.directory}/{file_name(segment.base_offset, LOG_SUFFIX)}"
        return read_chunks(self._disk, self._disk.open(path), segment.byte_count, self._buffer_bytes)

    def _aborted_transactions(self) -> list[AbortedTransaction]:
        """Return all that the log's indexes contain: a transaction whose data is cleaned may be indexed where its
        marker is, further on.
        """
        aborted = []
        for entry in self._disk.list(self._order.directory):
            if entry.name.endswith(TRANSACTION_INDEX_SUFFIX):
                aborted += parse_transaction_index(self._disk.read_file(f"{self._order.directory}/{entry.name}"))
        return aborted
