"""One segment of a log: `<base offset, 20 digits>.log`, its two indexes, and its `.txnindex` if it has aborted
transactions.

A segment counts bytes as soon as their place is assigned; `PartitionLog` knows how many of them are written. Once
rolled it never changes: its indexes leave memory and are mapped from their files when a lookup needs them. No segment
holds a file open; the disk keeps open what is used.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from crc32c import crc32c

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import Disk, DiskFile
from barnabas.wire.record_batch import HEADER_BYTES, BatchHeader, parse_header
from barnabas_logstore.core.storage.effects import SegmentFile, SmallWrite
from barnabas_logstore.core.storage.file_parts import ClosedIndexes, UnopenedFile
from barnabas_logstore.core.storage.segment.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from barnabas_logstore.core.storage.segment.offset_index import OffsetIndex
from barnabas_logstore.core.storage.segment.opening import map_indexes
from barnabas_logstore.core.storage.segment.record_times import RecordTimes
from barnabas_logstore.core.storage.segment.scan import RELATIVE_OFFSET_MAX, ascending, scan_batches
from barnabas_logstore.core.storage.segment.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from barnabas_logstore.core.storage.segment.time_index import NO_TIMESTAMP, TimeIndex
from barnabas_logstore.core.storage.segment.transaction_index import TRANSACTION_INDEX_SUFFIX, AbortedInSegment

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SNAPSHOT_SUFFIX = ".snapshot"
"""The snapshot of the producers as of the base offset in the name."""
INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
SEGMENT_SUFFIXES = (LOG_SUFFIX, *INDEX_SUFFIXES)
ALL_SUFFIXES = (*SEGMENT_SUFFIXES, TRANSACTION_INDEX_SUFFIX)
_RECENT_BATCHES_MIN = 512

# Returned by `Segment.mark`: bytes, bytes since the last index entry, largest timestamp with its offset, first
# timestamp, whether the indexes are full, entries of all three.
SegmentMark = tuple[int, int, tuple[int, int] | None, int, bool, int, int, int]


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


class RecentBatches:
    """Base offsets and positions of the last batches of the active segment: 512 at least, 1,024 at most (16 KiB).

    Consumers at the tail are served by it without reading an index.
    """

    def __init__(self) -> None:
        self._base_offsets = array("q")
        self._positions = array("q")

    def add(self, base_offset: int, position: int) -> None:
        base_offsets = self._base_offsets
        if len(base_offsets) == 2 * _RECENT_BATCHES_MIN:
            del base_offsets[:_RECENT_BATCHES_MIN]
            del self._positions[:_RECENT_BATCHES_MIN]
        base_offsets.append(base_offset)
        self._positions.append(position)

    def position_of(self, offset: int) -> int:
        """Return the position of the batch that contains `offset` (which must be assigned); -1 if that batch is not
        kept.
        """
        index = bisect_right(self._base_offsets, offset)
        return self._positions[index - 1] if index else -1

    def truncate_from(self, offset: int) -> None:
        """Drop the batches at or past `offset`."""
        count = bisect_left(self._base_offsets, offset)
        del self._base_offsets[count:]
        del self._positions[count:]

    def clear(self) -> None:
        del self._base_offsets[:]
        del self._positions[:]


class Segment:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        start_position: int,
        config: TopicConfig,
        byte_count: int = 0,
        name_suffix: str = "",
    ) -> None:
        """`start_position`: where the segment begins in the bytes of the whole log. `name_suffix`: the suffix of its
        files' names as long as they are not the log's.
        """
        self._disk = disk
        self._directory = directory
        self.base_offset = base_offset
        self.aborted = AbortedInSegment(disk, "", base_offset)
        """The aborted transactions whose markers it has."""
        self._name_files(name_suffix)
        self._held_file: DiskFile | None = None
        # For the active segment, and for a closed one until its entries are in its files; mapped otherwise.
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._are_indexes_known = False
        """Whether this process has checked, or created, the files: they are this log's."""
        self._bytes_since_index_entry = 0
        self._max_timestamp: tuple[int, int] | None = None
        self.start_position = self.position_min = start_position
        self._index_interval_bytes = config.index_interval_bytes
        self._index_entries_max = min(
            config.segment_index_bytes // OFFSET_ENTRY_BYTES, config.segment_index_bytes // TIME_ENTRY_BYTES - 1
        )
        self.indexes_full = False
        self.is_made = True
        self.is_retired = False
        """Not in the log any more, its files about to be removed; reads in progress continue with the file that they
        hold.
        """
        self._created_ms = -1
        """By the wall clock, if known: the age of a segment whose batches have no timestamps."""
        self.byte_count = byte_count
        self.first_timestamp_ms = NO_TIMESTAMP
        self.record_times = RecordTimes()

    def _name_files(self, name_suffix: str) -> None:
        names = [file_name(self.base_offset, suffix) + name_suffix for suffix in ALL_SUFFIXES]
        paths = [f"{self._directory}/{name}" for name in names]
        self.log_path, self.offset_index_path, self._time_index_path, transaction_index_path = paths
        self.aborted.relocate(transaction_index_path)

    def relocate(self, directory: str) -> None:
        """The files are in another directory from now on."""
        assert self._held_file is None
        self._directory = directory
        self._name_files("")
        for index, path in ((self._offset_index, self.paths[1]), (self._time_index, self.paths[2])):
            if index is not None:
                index.path = path

    @property
    def file(self) -> DiskFile:
        return self._disk.open(self.log_path) if self._held_file is None else self._held_file

    @property
    def opened_file(self) -> DiskFile | None:
        """Its file, if that is open."""
        return self._disk.opened(self.log_path) if self._held_file is None else self._held_file

    def unopened(self, *, with_indexes: bool) -> UnopenedFile:
        """Describe the file to an IO worker that is to open it, with those that tell where its batches are."""
        indexes = ClosedIndexes(self.offset_index_path, self._time_index_path, self.base_offset, self.byte_count)
        return UnopenedFile(self.log_path, indexes if with_indexes else None)

    def hold_files(self) -> None:
        """Use the files that have the names now, whatever they are renamed to afterwards."""
        self._offset_index, self._time_index = self._map_indexes()
        self.aborted.load()
        self._held_file = self.file

    def let_go_of_files(self) -> None:
        """The renaming is over: the files have their final names."""
        self._name_files("")
        self._held_file = None
        self.release_indexes()

    def position_in_log(self, position: int) -> int:
        """Return where a position of this segment is in the bytes of the whole log.

        A cleaned segment may be a little larger than its source segments, and then begins below `position_min`:
        positions of the log still ascend.
        """
        return max(self.start_position + position, self.position_min)

    @property
    def paths(self) -> list[str]:
        """All files that have to be flushed for the segment to be durable: the log's first, then the indexes'."""
        return [self.log_path, self.offset_index_path, self._time_index_path, *self.aborted.paths]

    @property
    def index_paths(self) -> list[str]:
        """The files of the indexes, whether they exist or not."""
        return [self.offset_index_path, self._time_index_path, self.aborted.path]

    @property
    def offset_index_in_memory(self) -> OffsetIndex | None:
        """The offset index, unless it is in its file alone."""
        return self._offset_index

    @property
    def offset_index(self) -> OffsetIndex:
        return self._offset_index if self._offset_index is not None else self._map_indexes()[0]

    def opened_offset_index(self) -> OffsetIndex | None:
        """Return the offset index, if it is in memory, or in a file that is open and known to be this log's."""
        if self._offset_index is not None or not self._are_indexes_known:
            return self._offset_index
        file = self._disk.opened(self.offset_index_path)
        return None if file is None else OffsetIndex(self.offset_index_path, self.base_offset, self._disk.map(file))

    def indexes_checked(self) -> None:
        """A worker has found that the files of both indexes are this log's."""
        self._are_indexes_known = True

    @property
    def time_index(self) -> TimeIndex:
        return self._time_index if self._time_index is not None else self._map_indexes()[1]

    def create(self) -> None:
        """Create the files, empty."""
        self.aborted.remove()
        for path in self.paths:
            self._disk.truncate(self._disk.open(path, create=True), 0)
        self.begin()
        self.is_made = True

    def begin(self) -> None:
        """Return an empty segment. The first write to it creates its files (`is_made`)."""
        self.byte_count = 0
        self._bytes_since_index_entry = 0
        self.indexes_full = False
        self.is_made = False
        self._max_timestamp = (NO_TIMESTAMP, self.base_offset)
        self._offset_index = OffsetIndex(self.offset_index_path, self.base_offset, bytearray())
        self._time_index = TimeIndex(self._time_index_path, self.base_offset, bytearray())
        self.aborted.begin()

    def remove(self) -> None:
        """Undo a `create` that failed halfway. Raises DiskError."""
        for path in self.paths:
            if self._disk.exists(path):
                self._disk.remove(path)

    def mark(self) -> SegmentMark:
        """Return the present state, for `take_back`."""
        assert self._offset_index is not None
        assert self._time_index is not None
        return (
            self.byte_count,
            self._bytes_since_index_entry,
            self._max_timestamp,
            self.first_timestamp_ms,
            self.indexes_full,
            self._offset_index.entry_count,
            self._time_index.entry_count,
            0 if self.aborted.index is None else self.aborted.index.entry_count,
        )

    def take_back(self, mark: SegmentMark) -> None:
        """Drop the batches since the mark. The index files are written again from their beginning, and have to be
        empty.
        """
        assert self._offset_index is not None
        assert self._time_index is not None
        (
            self.byte_count,
            self._bytes_since_index_entry,
            self._max_timestamp,
            self.first_timestamp_ms,
            self.indexes_full,
            offset_entries,
            time_entries,
            aborted_entries,
        ) = mark
        self._offset_index.cut(offset_entries)
        self._time_index.cut(time_entries)
        self.aborted.cut(aborted_entries)

    def save_whole_indexes(self) -> None:
        """A write of index entries may not have been done."""
        if self._offset_index is not None and self._time_index is not None:
            self._offset_index.save_whole()
            self._time_index.save_whole()
            if self.aborted.index is not None:
                self.aborted.index.save_whole()

    def open_active(self, *, is_in_doubt: bool = False) -> list[tuple[int, BatchHeader]]:
        """Prepare a cleanly closed segment for appends; return its last batches as (position, header).

        Indexes are loaded, and what follows the last entry is scanned without checking CRCs. `is_in_doubt`: the last
        entry of the time index may be torn.
        """
        offset_index, time_index = self._map_indexes()
        if is_in_doubt and not self._is_last_time_true(offset_index, time_index):
            self._repair_indexes()
            offset_index, time_index = self._map_indexes()
        self._offset_index = OffsetIndex(offset_index.path, self.base_offset, bytearray(offset_index.content()))
        self._time_index = TimeIndex(time_index.path, self.base_offset, bytearray(time_index.content()))
        self.aborted.load()
        position = self.offset_index.last_position()
        self._max_timestamp = self.time_index.last()
        self._bytes_since_index_entry = self.byte_count - position
        self.indexes_full = self.offset_index.entry_count >= self._index_entries_max
        tail = list(ascending(scan_batches(self._disk, self.file, position, self.byte_count), self.base_offset))
        for _, header in tail:
            self._note_timestamp(header.latest_timestamp, header.last_offset)
        for _, header in scan_batches(self._disk, self.file, 0, self.byte_count):
            self.first_timestamp_ms = header.max_timestamp
            break
        return tail

    def add_batch(self, last_offset: int, byte_count: int, max_timestamp_ms: int) -> None:
        """Add a batch at the end. Index entries are Kafka's: for a batch that is an interval past the last."""
        if self.byte_count == 0:
            self.first_timestamp_ms = max_timestamp_ms
        self._note_timestamp(max_timestamp_ms, last_offset)
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self.offset_index.append(last_offset, self.byte_count)
            self.time_index.append_if_later(*self.max_timestamp())
            self._bytes_since_index_entry = 0
            # The time index can't be the longer one: it gets an entry only along with the offset index, and the last of
            # all.
            self.indexes_full = self.offset_index.entry_count >= self._index_entries_max
        self.byte_count += byte_count
        self._bytes_since_index_entry += byte_count

    def must_roll(
        self, config: TopicConfig, byte_count: int, last_offset: int, timestamp_ms: int, wall_ms: int
    ) -> bool:
        """Whether a batch has to begin a new segment, by size, time, index space or the width of a relative offset
        (Kafka's LogSegment.shouldRoll). An empty segment never rolls.
        """
        return bool(self.byte_count) and (
            self.byte_count + byte_count > config.segment_bytes
            or self.indexes_full
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
            or self._waited_ms(timestamp_ms, wall_ms) > self._segment_ms(config)
        )

    def _waited_ms(self, timestamp_ms: int, wall_ms: int) -> int:
        """Return the age of the segment: by its first batch and the new one, or by the clock if the first has no
        timestamp.
        """
        if self.first_timestamp_ms >= 0:
            return timestamp_ms - self.first_timestamp_ms
        if self._created_ms < 0:
            self._created_ms = wall_ms
        return wall_ms - self._created_ms

    def _segment_ms(self, config: TopicConfig) -> int:
        """segment.ms minus a jitter of the segment: partitions created together must not always roll together.

        Records of the active segment are never compacted, so in a compacted topic it lasts at most
        max.compaction.lag.ms.
        """
        segment_ms = config.segment_ms
        if config.is_compacted:
            segment_ms = min(segment_ms, config.max_compaction_lag_ms)
        jitter_ms_max = min(config.segment_jitter_ms, segment_ms)
        if jitter_ms_max <= 0:
            return segment_ms
        spread: int = crc32c(f"{self._directory}/{self.base_offset}".encode())
        return segment_ms - spread % jitter_ms_max

    def max_timestamp(self) -> tuple[int, int]:
        """Return (timestamp_ms, last offset of the batch that reached it first); (NO_TIMESTAMP, base offset) without
        any.
        """
        if self._max_timestamp is None:
            self._max_timestamp = self.time_index.last()
        return self._max_timestamp

    @property
    def is_max_timestamp_known(self) -> bool:
        """Whether `max_timestamp` reads no file."""
        return self._max_timestamp is not None or self._time_index is not None

    def learn_max_timestamp(self, found: tuple[int, int]) -> None:
        """The time index has been read."""
        if self._max_timestamp is None:
            self._max_timestamp = found

    def first_timestamp(self) -> int:
        """The timestamp of the first batch in ms; NO_TIMESTAMP if it has none. For a segment found at start it is in
        the file.
        """
        if self.first_timestamp_ms == NO_TIMESTAMP and self.byte_count:
            self.first_timestamp_ms = parse_header(self._disk.read_at(self.file, 0, HEADER_BYTES)).max_timestamp
        return self.first_timestamp_ms

    def latest_time_ms(self) -> int:
        """The largest timestamp in the segment; when it was written last if its batches have none. Raises DiskError."""
        timestamp_ms = self.max_timestamp()[0]
        return timestamp_ms if timestamp_ms != NO_TIMESTAMP else self.modified_ms()

    def modified_ms(self) -> int:
        """When it was written last. Raises DiskError."""
        return self._disk.modified_ms(self.log_path)

    def as_file(self) -> SegmentFile:
        """Describe the segment to an IO worker that is to read it."""
        index = self._offset_index
        content = None if index is None else index.content()
        return SegmentFile(self.log_path, self.base_offset, self.byte_count, self.offset_index_path, content)

    def seal(self) -> None:
        """Write the last entry of the time index: a closed segment's own maximum is then known without reading it."""
        self.time_index.append_if_later(*self.max_timestamp())

    def take_unsaved_indexes(self) -> list[SmallWrite]:
        if self._offset_index is None or self._time_index is None:
            return []
        aborted = self.aborted.index
        if self._offset_index.is_saved and self._time_index.is_saved and aborted is None:
            return []
        unsaved = [self._offset_index.take_unsaved(), self._time_index.take_unsaved()]
        if aborted is not None:
            unsaved.append(aborted.take_unsaved())
        return [write for write in unsaved if write is not None]

    def release_indexes(self) -> None:
        """Drop the entries in memory; the files have them all."""
        self._offset_index = self._time_index = None
        self._are_indexes_known = True
        self.aborted.release()

    def rebuild(self, batches: Iterable[tuple[int, BatchHeader]]) -> Iterator[tuple[int, BatchHeader]]:
        """Rebuild the indexes from the log's own batches, which are passed in and yielded as (position, header).

        Ends with them, or at the first that is out of order; `byte_count` is then how far the log is valid. The index
        of aborted transactions is removed: who reads the batches adds them again.
        """
        self.aborted.remove()
        for path in self.paths[1:]:
            self._disk.truncate(self._disk.open(path, create=True), 0)
        self.begin()
        self.is_made = True
        for position, header in ascending(batches, self.base_offset):
            self.add_batch(header.last_offset, header.size_bytes, header.latest_timestamp)
            yield position, header

    def end_below(self, offset: int) -> tuple[int, int]:
        """Return where the batches below `offset` end, in bytes, and the offset after them; a batch that reaches past
        `offset` is not below it.
        """
        next_offset = self.base_offset
        for position, header in scan_batches(
            self._disk, self.file, self.offset_index.position_before(offset - 1), self.byte_count
        ):
            if header.last_offset >= offset:
                return position, next_offset
            next_offset = header.next_offset
        return self.byte_count, next_offset

    def cut(self) -> int:
        """Truncate the file durably to `byte_count`; return how many bytes were past it."""
        past_bytes = self._disk.size(self.file) - self.byte_count
        if past_bytes > 0:
            # If the old bytes came back after the next crash, they might be taken for what was appended in their place.
            self._disk.truncate(self.file, self.byte_count)
            self._disk.flush(self.file)
        return past_bytes

    def _map_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Map both indexes from their files, rebuilding them first if one is missing or can't be this log's."""
        mapped = self._try_to_map_indexes()
        if mapped is None or not (
            self._are_indexes_known or all(index.belongs_to(self.byte_count) for index in mapped)
        ):
            self._repair_indexes()
            # They are valid whatever they look like: a time index stays empty if no batch has a timestamp.
            mapped = self._try_to_map_indexes()
            assert mapped is not None, f"the indexes of {self.log_path} have just been written"
        self._are_indexes_known = True
        return mapped

    def _is_last_time_true(self, offset_index: OffsetIndex, time_index: TimeIndex) -> bool:
        """Whether the batch that the last entry of the time index describes exists."""
        timestamp_ms, offset = time_index.last()
        for _, header in scan_batches(self._disk, self.file, offset_index.position_before(offset), self.byte_count):
            if header.last_offset >= offset:
                return (header.latest_timestamp, header.last_offset) == (timestamp_ms, offset)
        return False

    def _try_to_map_indexes(self) -> tuple[OffsetIndex, TimeIndex] | None:
        return map_indexes(self._disk, self.base_offset, self.offset_index_path, self._time_index_path)

    def _repair_indexes(self) -> None:
        """The index of aborted transactions stays: batches alone do not tell where a transaction began."""
        aborted = list(self.aborted.ending_from(self.base_offset))
        for _ in self.rebuild(scan_batches(self._disk, self.file, 0, self._disk.size(self.file))):
            pass
        for each in aborted:
            self.aborted.add(each)
        self.seal()
        for write in self.take_unsaved_indexes():
            file = self._disk.open(write.path, create=write.creates)
            self._disk.write_at(file, write.position, (write.content,))
            self._disk.flush(file)
        self.release_indexes()

    def _note_timestamp(self, max_timestamp_ms: int, last_offset: int) -> None:
        if max_timestamp_ms > self.max_timestamp()[0]:
            self._max_timestamp = (max_timestamp_ms, last_offset)
