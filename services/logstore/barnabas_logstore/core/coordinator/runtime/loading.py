"""Read a coordinator's log from its beginning, a bounded piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from barnabas.ports.compression import DECOMPRESSED_BYTES_MAX, Decompress
from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    Compression,
    Record,
    decode_payload,
    iterate_headers,
)
from barnabas_logstore.core.coordinator.runtime.coordinator_log import CoordinatedLog
from barnabas_logstore.core.coordinator.runtime.shard import Change, Store

RECORDS_PER_STEP: Final = 200


class LogLoader:
    """Replays a log's records into a store, from the first batch to `end_offset`."""

    def __init__(
        self,
        decode: Callable[[BatchHeader, Record], Change | None],
        store: Store,
        decompress: Decompress,
        end_offset: int,
        loaded: Callable[[], Iterator[None]],
    ) -> None:
        """`decode` is `ShardKind.decode`, `loaded` is `Shard.loaded`."""
        self._decode = decode
        self._store = store
        self._decompress = decompress
        self._end_offset = end_offset
        self._loaded: Callable[[], Iterator[None]] | None = loaded
        """What follows the last record, unless it has begun."""
        self._records: Iterator[None] | None = None
        """The unprocessed rest of the data that has been read, or of what follows it."""
        self.is_reading = False
        """Whether more of the log has been requested."""
        self.next_offset = 0
        """The offset to read next."""
        self.unreadable_records = 0

    @property
    def is_done(self) -> bool:
        return self._records is None and self.next_offset >= self._end_offset

    @property
    def has_data(self) -> bool:
        return self._records is not None

    def advance(self, log: CoordinatedLog, leader_epoch: int) -> bool:
        """Process a piece of the log, or of what follows it, or request more of it. Return whether all is done."""
        self.step()
        if self.is_done and self._loaded is not None:
            self._records = self._loaded()
            self._loaded = None
            self.step()
        if self.is_done:
            return True
        if not self.has_data and not self.is_reading:
            self.is_reading = True
            log.read(leader_epoch, self.next_offset)
        return False

    def feed(self, data: memoryview, next_offset: int) -> None:
        """Add complete batches, as requested; none means the end of the log."""
        assert self._records is None
        assert self.is_reading
        self.is_reading = False
        self.next_offset = next_offset if len(data) else self._end_offset
        self._records = self._replay_all(data)

    def step(self) -> None:
        """Process a bounded piece of what has been added."""
        if self._records is None:
            return
        for _ in range(RECORDS_PER_STEP):
            if next(self._records, self) is self:
                self._records = None
                return

    def _replay_all(self, data: memoryview) -> Iterator[None]:
        decode, replay = self._decode, self._store.replay
        for position, header in iterate_headers(data):
            batch = data[position : position + header.size_bytes]
            for record in self._records_of(header, batch[HEADER_BYTES:]):
                try:
                    change = decode(header, record)
                except MalformedFrame:
                    self.unreadable_records += 1
                else:
                    if change is not None:
                        replay(change, record.offset)
                yield

    def _records_of(self, header: BatchHeader, payload: memoryview) -> list[Record]:
        try:
            if header.compression == Compression.NONE:
                return decode_payload(header, payload)
            opened = self._decompress(header.compression, payload, DECOMPRESSED_BYTES_MAX)
            if opened is not None:
                return decode_payload(header, opened)
        except MalformedFrame:
            pass
        self.unreadable_records += header.records_count
        return []
