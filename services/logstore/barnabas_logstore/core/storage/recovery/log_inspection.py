"""Find where a log ends and which epochs it has, only by reading: what `open_log` would find.

For a logstore that is stopped, perhaps for good. After a clean stop the end is looked for from the last index entry of
the last segment on; otherwise everything past the recovery point is read with its CRCs, as recovery does.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.ports.disk import Disk, DiskFile
from barnabas_logstore.core.storage.checkpoints import LEADER_EPOCH_CHECKPOINT
from barnabas_logstore.core.storage.log.state.leader_epochs import NO_EPOCH, LeaderEpochs
from barnabas_logstore.core.storage.log.state.producer_state import NO_PRODUCER_ID, parse_snapshot
from barnabas_logstore.core.storage.recovery.epoch_evidence import EpochsOfBatches, supported_epochs
from barnabas_logstore.core.storage.segment.batch_order import OffsetAndEpoch, in_order
from barnabas_logstore.core.storage.segment.offset_index import ENTRY_BYTES, OffsetIndex
from barnabas_logstore.core.storage.segment.scan import ascending, offsets_of, scan_batches
from barnabas_logstore.core.storage.segment.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    file_name,
)

_OFFSET_MAX = 2**63 - 1
_EPOCH_MAX = 2**31 - 1


@dataclass(slots=True, frozen=True)
class LogFound:
    """`latest_epoch` is -1 if the log has none, `producer_id_max` -1 without a producer."""

    log_start_offset: int
    log_end_offset: int
    latest_epoch: int
    producer_id_max: int


def inspect_log(
    disk: Disk,
    directory: str,
    *,
    recovery_point: int,
    shut_down_cleanly: bool,
    log_start_offset: int,
    first_dirty_offset: int = 0,
) -> LogFound:
    """The offsets are those of the checkpoints, 0 without. Raises DiskError."""
    return _Reading(disk, directory, recovery_point, log_start_offset, first_dirty_offset).read(shut_down_cleanly)


class _Reading:
    def __init__(
        self, disk: Disk, directory: str, recovery_point: int, log_start_offset: int, first_dirty_offset: int
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._recovery_point = recovery_point
        self._log_start_offset = log_start_offset
        self._first_dirty_offset = first_dirty_offset
        self._files = {entry.name: entry.byte_count for entry in disk.list(directory)}
        self._base_offsets = offsets_of(self._files, LOG_SUFFIX)
        self._epochs = LeaderEpochs()
        self._legible_epochs: list[tuple[int, int]] = []
        self._end_offset = 0
        self._producer_id_max = NO_PRODUCER_ID

    def read(self, shut_down_cleanly: bool) -> LogFound:
        start = max([self._log_start_offset, *self._base_offsets[:1]])
        self._read_epochs()
        self._read_producers()
        self._end_offset = start
        if self._base_offsets:
            first = sum(base_offset <= self._recovery_point for base_offset in self._base_offsets[1:])
            if shut_down_cleanly:
                first = len(self._base_offsets) - 1
            self._check_epochs(first, shut_down_cleanly)
            if not (shut_down_cleanly and self._read_tail(self._base_offsets[-1])):
                is_end_known = shut_down_cleanly and self._epochs.latest != NO_EPOCH
                self._recover(first, OffsetAndEpoch(_OFFSET_MAX, self._epochs.latest) if is_end_known else None)
        self._epochs.truncate_from(self._end_offset)
        return LogFound(start, max(self._end_offset, start), self._epochs.latest, self._producer_id_max)

    def _read_epochs(self) -> None:
        if LEADER_EPOCH_CHECKPOINT in self._files:
            content = self._disk.read_file(f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}")
            epochs = LeaderEpochs.parse(content)
            self._legible_epochs = [] if epochs is not None else LeaderEpochs.legible_entries(content)
            self._epochs = epochs or self._epochs

    def _check_epochs(self, first_suspect: int, shut_down_cleanly: bool) -> None:
        sound = self._base_offsets if shut_down_cleanly else self._base_offsets[:first_suspect]
        if sound:
            epochs = supported_epochs(
                self._disk,
                self._directory,
                [(base_offset, self._byte_count(base_offset)) for base_offset in sound],
                self._epochs,
                self._legible_epochs,
                self._log_start_offset,
                may_begin_below=0 if shut_down_cleanly else self._base_offsets[first_suspect],
            )
            self._epochs = epochs or self._epochs

    def _read_producers(self) -> None:
        """Read every snapshot: the id of a producer that the log has dropped must not be assigned again either."""
        for offset in offsets_of(self._files, SNAPSHOT_SUFFIX):
            entries = parse_snapshot(self._disk.read_file(f"{self._directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"))
            for entry in entries or ():
                self._producer_id_max = max(self._producer_id_max, entry.producer_id)

    def _read_tail(self, base_offset: int) -> bool:
        """Read the end of a log that was closed. Return False if it is not as a clean stop leaves it."""
        byte_count = self._byte_count(base_offset)
        position = self._last_indexed(base_offset, byte_count)
        batches = scan_batches(self._disk, self._file(base_offset), position, byte_count)
        self._end_offset, end_position = base_offset, position
        for at, header in ascending(batches, base_offset):
            if self._epochs.epoch_of(header.base_offset) not in (header.partition_leader_epoch, NO_EPOCH):
                return False
            self._producer_id_max = max(self._producer_id_max, header.producer_id)
            self._end_offset, end_position = header.next_offset, at + header.size_bytes
        return end_position == byte_count

    def _recover(self, first: int, end: OffsetAndEpoch | None) -> None:
        """Read from that segment on, up to the first damage, as recovery would: what follows it does not count."""
        suspects = self._base_offsets[first:]
        self._end_offset = suspects[0]
        epoch = self._epoch_before(self._base_offsets[first - 1]) if first else NO_EPOCH
        hints = [entry for entry in self._epochs.entries() if entry[1] >= self._end_offset]
        self._epochs.truncate_from(self._end_offset)
        epochs = EpochsOfBatches(self._epochs, hints, self._end_offset)
        for index, base_offset in enumerate(suspects):
            byte_count = self._byte_count(base_offset)
            if byte_count == 0 and 0 < index < len(suspects) - 1:
                continue  # begun, and given up for lack of space
            if base_offset != self._end_offset and not self._end_offset < base_offset <= self._first_dirty_offset:
                return
            self._end_offset = base_offset
            batches = scan_batches(self._disk, self._file(base_offset), 0, byte_count, check_crc=True)
            after = self._begin_of_first(suspects[index + 1 :]) or end
            sound = in_order(batches, OffsetAndEpoch(self._end_offset, epoch), after)
            end_position = 0
            for position, header in ascending(sound, base_offset):
                epochs.add(header)
                self._producer_id_max = max(self._producer_id_max, header.producer_id)
                self._end_offset, epoch = header.next_offset, header.partition_leader_epoch
                end_position = position + header.size_bytes
            if end_position != byte_count:
                return

    def _epoch_before(self, base_offset: int) -> int:
        """Return the epoch of the last batch of a valid segment, or of what is known of its place, whichever is
        lower.
        """
        byte_count = self._byte_count(base_offset)
        position = self._last_indexed(base_offset, byte_count)
        batches = scan_batches(self._disk, self._file(base_offset), position, byte_count)
        epochs = [header.partition_leader_epoch for _, header in ascending(batches, base_offset)]
        return min(epochs[-1], self._epochs.epoch_of(self._end_offset - 1)) if epochs else NO_EPOCH

    def _begin_of_first(self, base_offsets: list[int]) -> OffsetAndEpoch | None:
        """Return where the first non-empty one begins: its name decides, whatever its batches contain."""
        for base_offset in base_offsets:
            byte_count = self._byte_count(base_offset)
            if byte_count > 0:
                first = next(scan_batches(self._disk, self._file(base_offset), 0, byte_count, check_crc=True), None)
                is_begin = first is not None and first[1].base_offset == base_offset
                epoch = first[1].partition_leader_epoch if first is not None and is_begin else _EPOCH_MAX
                return OffsetAndEpoch(base_offset, epoch)
        return None

    def _byte_count(self, base_offset: int) -> int:
        return self._files[file_name(base_offset, LOG_SUFFIX)]

    def _file(self, base_offset: int) -> DiskFile:
        return self._disk.open(f"{self._directory}/{file_name(base_offset, LOG_SUFFIX)}")

    def _last_indexed(self, base_offset: int, byte_count: int) -> int:
        """Return where a batch near the end of the segment begins; 0 if its index has none."""
        name = file_name(base_offset, OFFSET_INDEX_SUFFIX)
        entries = self._files.get(name, 0) // ENTRY_BYTES
        if entries == 0:
            return 0
        index = self._disk.open(f"{self._directory}/{name}")
        entry = self._disk.read_at(index, (entries - 1) * ENTRY_BYTES, ENTRY_BYTES)
        relative_offset, position = OffsetIndex.entry_format.unpack(entry)
        found = next(scan_batches(self._disk, self._file(base_offset), position, byte_count), None)
        is_batch = found is not None and found[1].last_offset == base_offset + relative_offset
        return position if is_batch else 0
