"""Write a cleaned segment: `<base offset>.log.cleaned` with its own indexes."""

from __future__ import annotations

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import Buffer, Disk
from barnabas.wire.record_batch import BatchHeader, parse_header
from barnabas_logstore.core.storage.effect_results import AbortedTransaction
from barnabas_logstore.core.storage.effects import CLEANED_SUFFIX
from barnabas_logstore.core.storage.segment.segment import Segment


class CleanedSegmentWriter:
    """Batches are added by `add` and `copy`, and written by `write_gathered`; everything is durable after `finish`."""

    def __init__(self, disk: Disk, directory: str, base_offset: int, config: TopicConfig, buffer_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._buffer_bytes = buffer_bytes
        self._segment = Segment(disk, directory, base_offset, 0, config, name_suffix=CLEANED_SUFFIX)
        self._segment.create()
        self._file = disk.open(self._segment.log_path)
        self._gathered: list[Buffer] = []
        self._written_bytes = 0
        # What is being copied unchanged from one chunk, batch after batch.
        self._run_data = b""
        self._run_start = self._run_end = 0

    @property
    def byte_count(self) -> int:
        return self._segment.byte_count

    def add(self, batch: bytes) -> None:
        """Add a batch that was rebuilt."""
        self._end_run()
        self._gathered.append(batch)
        header = parse_header(batch)
        self._segment.add_batch(header.last_offset, header.size_bytes, header.latest_timestamp)

    def copy(self, header: BatchHeader, data: bytes, index: int) -> None:
        """Copy the batch at `index` of `data` unchanged."""
        if data is not self._run_data or index != self._run_end:
            self._end_run()
            self._run_data, self._run_start = data, index
        self._run_end = index + header.size_bytes
        self._segment.add_batch(header.last_offset, header.size_bytes, header.latest_timestamp)

    def write_gathered(self) -> None:
        """Write what was added; the chunks are not needed any more."""
        self._end_run()
        if self._gathered:
            self._disk.write_at(self._file, self._written_bytes, self._gathered)
            self._written_bytes = self._segment.byte_count
            self._gathered = []

    def finish(self, aborted: list[AbortedTransaction]) -> None:
        """Write the indexes, and flush everything. `aborted` are the transactions with batches left in this segment."""
        self.write_gathered()
        self._segment.seal()
        for each in aborted:
            self._segment.aborted.add(each)
        for write in self._segment.take_unsaved_indexes():
            self._disk.write_at(self._disk.open(write.path, create=write.creates), write.position, (write.content,))
        for path in self._segment.paths:
            self._disk.flush(self._disk.open(path))

    def _end_run(self) -> None:
        if self._run_end > self._run_start:
            self._gathered.append(memoryview(self._run_data)[self._run_start : self._run_end])
        self._run_data = b""
        self._run_start = self._run_end = 0
