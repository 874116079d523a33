"""What of one batch a pass keeps: all of it as it is, some of its records, its header alone, or nothing.

Offsets never change: a batch keeps its base and its last offset whatever it loses, and with them its producer's
sequences. A batch that loses nothing is not touched; records that stay are copied as bytes.

KIP-534: the first pass that finds tombstones in a batch sets its delete horizon, now + delete.retention.ms, in the
place of the base timestamp; a pass at or past that time drops them. Markers of transactions do the same once nothing of
their transaction is left.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import BatchHeader, empty_batch, rebuild_batch
from barnabas_logstore.core.storage.compaction.batch_reader import BatchReader, uncleanable
from barnabas_logstore.core.storage.compaction.offset_map import OffsetMap
from barnabas_logstore.core.storage.compaction.orders import LastBatch, PassStatistics
from barnabas_logstore.core.storage.compaction.record_walk import (
    RecordPlace,
    joined,
    largest_timestamp_delta,
    places_by_key,
    places_of,
    with_timestamps_moved,
)
from barnabas_logstore.core.storage.compaction.transactions import TransactionRetention

# What a header can say. Records say how far they are from its base, whatever that comes to.
TIMESTAMPS_END = 2**63

AS_IT_IS = None
NOTHING = b""

Kept = bytes | None
"""The batch that takes the place of one that was read: AS_IT_IS, another, or NOTHING."""


class BatchFilter:
    """Shown the batches of a log in order, those of all its segments from the first on."""

    def __init__(
        self,
        reader: BatchReader,
        offset_map: OffsetMap,
        transactions: TransactionRetention,
        producers: Iterable[LastBatch],
        wall_ms: int,
        delete_retention_ms: int,
        statistics: PassStatistics,
    ) -> None:
        """`offset_map` is closed. `wall_ms` is the time of the pass."""
        self._reader = reader
        self._map = offset_map
        self._transactions = transactions
        self._producers = {each.producer_id: each for each in producers}
        self._wall_ms = wall_ms
        # A retention for ever is one to the end of all timestamps.
        self._new_horizon_ms = min(wall_ms + delete_retention_ms, TIMESTAMPS_END - 1)
        self._statistics = statistics

    def keep(self, data: bytes, index: int, header: BatchHeader, *, ends_segment: bool) -> Kept:
        """What stays of the batch at `index` of `data`.

        Of the one that ends a cleaned segment at least the header does: so a segment always reaches to the next one,
        and a gap between two of them is damage, which recovery can tell. Raises UncleanableLog.
        """
        self._statistics.records_read += header.records_count
        if header.is_control:
            kept = self._keep_control(data, index, header)
        elif self._transactions.on_batch(header) or header.records_count == 0:
            kept = NOTHING
        else:
            kept = self._keep_records(data, index, header)
        if kept is AS_IT_IS:
            self._statistics.records_written += header.records_count
        elif not kept and (ends_segment or self._is_last_of_producer(header)):
            return empty_batch(header)
        return kept

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._producers.get(header.producer_id)
        if last is None:
            return False
        if last.last_offset >= 0:
            return last.last_offset == header.last_offset
        return header.is_control and last.producer_epoch == header.producer_epoch

    def _keep_control(self, data: bytes, index: int, header: BatchHeader) -> Kept:
        control_type = self._reader.control_type_of(data, index, header)
        if not self._transactions.on_control_batch(header, control_type):
            return AS_IT_IS
        if header.records_count == 0 or self._is_past_horizon(header):
            return NOTHING
        if header.has_delete_horizon:
            return AS_IT_IS
        payload = self._reader.payload_of(data, index, header)
        return self._rebuild(header, payload, self._places(header, payload, range(header.records_count)), True)

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp <= self._wall_ms

    def _keep_records(self, data: bytes, index: int, header: BatchHeader) -> Kept:
        first, last = header.base_offset, header.last_offset
        offset_map = self._map
        if first > offset_map.last_offset:
            return AS_IT_IS
        if header.has_contiguous_offsets and offset_map.start_offset <= first and last <= offset_map.last_offset:
            return self._keep_mapped(data, index, header)
        payload = self._reader.payload_of(data, index, header)
        try:
            places, tombstones, null_keys = places_by_key(
                payload,
                self._reader.offsets_of(header, payload),
                offset_map.latest,
                offset_map.last_offset,
                drop_tombstones=self._is_past_horizon(header),
            )
        except (MalformedFrame, IndexError) as error:
            raise uncleanable(header, f"a record is broken, {error}") from None
        self._statistics.invalid_records += null_keys
        return self._keep_places(header, payload, places, tombstones > 0)

    def _keep_mapped(self, data: bytes, index: int, header: BatchHeader) -> Kept:
        """A batch whose records are all in the map: their offsets say which stay, and no key is looked at."""
        first, last = header.base_offset, header.last_offset
        offsets = self._map.offsets_within(first, last)
        tombstones = self._map.tombstones_within(first, last)
        if tombstones and self._is_past_horizon(header):
            dropped = set(tombstones)
            offsets = type(offsets)("q", [offset for offset in offsets if offset not in dropped])
            tombstones = tombstones[:0]
        if not offsets:
            return NOTHING
        has_tombstones = len(tombstones) > 0
        if len(offsets) == header.records_count and (header.has_delete_horizon or not has_tombstones):
            return AS_IT_IS
        payload = self._reader.payload_of(data, index, header)
        places = self._places(header, payload, [offset - first for offset in offsets])
        return self._keep_places(header, payload, places, has_tombstones)

    def _places(self, header: BatchHeader, payload: bytes, numbers: range | list[int]) -> list[RecordPlace]:
        try:
            return places_of(payload, numbers)
        except (MalformedFrame, IndexError) as error:
            raise uncleanable(header, f"a record is broken, {error}") from None

    def _keep_places(
        self, header: BatchHeader, payload: bytes, places: list[RecordPlace], has_tombstones: bool
    ) -> Kept:
        if not places:
            return NOTHING
        sets_horizon = has_tombstones and not header.has_delete_horizon
        if len(places) == header.records_count and not sets_horizon:
            return AS_IT_IS
        return self._rebuild(header, payload, places, sets_horizon)

    def _rebuild(self, header: BatchHeader, payload: bytes, places: list[RecordPlace], sets_horizon: bool) -> bytes:
        """The batch with the records at `places` alone."""
        self._statistics.records_written += len(places)
        max_timestamp = header.max_timestamp
        if not header.is_log_append_time and len(places) < header.records_count:
            max_timestamp = self._max_timestamp(header, payload, places)
        horizon_ms = None
        if not sets_horizon:
            records = joined(payload, places)
        else:
            horizon_ms = self._new_horizon_ms
            # With LogAppendTime nobody reads the deltas: every record has the batch's own time.
            moved_ms = 0 if header.is_log_append_time else header.base_timestamp - horizon_ms
            records = self._with_timestamps_moved(header, payload, places, moved_ms)
        return rebuild_batch(
            header,
            self._reader.compressed(header, records),
            records_count=len(places),
            max_timestamp=max_timestamp,
            delete_horizon_ms=horizon_ms,
        )

    def _max_timestamp(self, header: BatchHeader, payload: bytes, places: list[RecordPlace]) -> int:
        try:
            max_timestamp = header.base_timestamp + largest_timestamp_delta(payload, places)
        except (MalformedFrame, IndexError) as error:
            raise uncleanable(header, f"a record is broken, {error}") from None
        if not -TIMESTAMPS_END <= max_timestamp < TIMESTAMPS_END:
            raise uncleanable(header, f"a record's timestamp is {max_timestamp}")
        return max_timestamp

    def _with_timestamps_moved(
        self, header: BatchHeader, payload: bytes, places: list[RecordPlace], by_ms: int
    ) -> bytes:
        try:
            return b"".join(with_timestamps_moved(payload, places, by_ms))
        except (MalformedFrame, IndexError) as error:
            raise uncleanable(header, f"a record is broken, {error}") from None
