"""Writing a cleaned segment: `<base offset>.log.cleaned` with indexes of its own."""

from __future__ import annotations

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import Buffer, Disk
from barnabas.wire.record_batch import BatchHeader, parse_header
from barnabas_logstore.core.storage.compaction.transactions import (
    TRANSACTION_INDEX_SUFFIX,
    AbortedTransaction,
    format_transaction_index,
)
from barnabas_logstore.core.storage.effects import CLEANED_SUFFIX
from barnabas_logstore.core.storage.segment.segment import Segment, file_name


class CleanedSegmentWriter:
    """Batches go in by `add` and `copy`, to the disk by `write_gathered`; all of it is durable after `finish`."""

    def __init__(self, disk: Disk, directory: str, base_offset: int, config: TopicConfig, buffer_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._buffer_bytes = buffer_bytes
        self._segment = Segment(disk, directory, base_offset, 0, config, name_suffix=CLEANED_SUFFIX)
        self._segment.create()
        self._file = disk.open(self._segment.log_path)
        self._gathered: list[Buffer] = []
        self._written_bytes = 0
        # What is being copied as it is from one chunk, batch behind batch.
        self._run_data = b""
        self._run_start = self._run_end = 0

    @property
    def byte_count(self) -> int:
        return self._segment.byte_count

    def add(self, batch: bytes) -> None:
        """A batch that was made anew."""
        self._end_run()
        self._gathered.append(batch)
        header = parse_header(batch)
        self._segment.add_batch(header.last_offset, header.size_bytes, header.latest_timestamp)

    def copy(self, header: BatchHeader, data: bytes, index: int) -> None:
        """The batch at `index` of `data`, as it is."""
        if data is not self._run_data or index != self._run_end:
            self._end_run()
            self._run_data, self._run_start = data, index
        self._run_end = index + header.size_bytes
        self._segment.add_batch(header.last_offset, header.size_bytes, header.latest_timestamp)

    def write_gathered(self) -> None:
        """Write what has come in; nothing of the chunks is needed any more."""
        self._end_run()
        if self._gathered:
            self._disk.write_at(self._file, self._written_bytes, self._gathered)
            self._written_bytes = self._segment.byte_count
            self._gathered = []

    def finish(self, aborted: list[AbortedTransaction]) -> None:
        """Write the indexes, and flush everything. `aborted` are those with batches left in this segment."""
        self.write_gathered()
        self._segment.seal()
        for write in self._segment.take_unsaved_indexes():
            self._disk.write_at(self._disk.open(write.path), write.position, (write.content,))
        paths = self._segment.paths
        if aborted:
            name = file_name(self._segment.base_offset, TRANSACTION_INDEX_SUFFIX)
            paths = [*paths, f"{self._directory}/{name}{CLEANED_SUFFIX}"]
            file = self._disk.open(paths[-1], create=True)
            self._disk.truncate(file, 0)
            self._disk.write_at(file, 0, (format_transaction_index(aborted),))
        for path in paths:
            self._disk.flush(self._disk.open(path))

    def _end_run(self) -> None:
        if self._run_end > self._run_start:
            self._gathered.append(memoryview(self._run_data)[self._run_start : self._run_end])
        self._run_data = b""
        self._run_start = self._run_end = 0
