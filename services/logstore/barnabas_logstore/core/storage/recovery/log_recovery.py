"""Open a log: fast after a clean shutdown, with a scan otherwise.

After a crash everything from the recovery point on is suspect. Its segments are read with their CRCs; the log ends at
the first batch that is torn, corrupt, missing or out of order (`batch_order`), and whatever follows is dropped: a later
segment is useless with a gap before it. Only below the cleaner's checkpoint may segments have a gap between them, in a
log that Kafka's cleaner has compacted: a cleaned segment is durable as a whole, so that it can't have lost its end.
Indexes are rebuilt; leader epochs and producers come from what is durable
below the recovery point plus the batches that were read. The epochs are held against the batches (`epoch_evidence`).
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import Disk
from barnabas.wire.record_batch import BatchHeader
from barnabas_logstore.core.storage.checkpoints import LEADER_EPOCH_CHECKPOINT, TopicPartition
from barnabas_logstore.core.storage.compaction.swap import finish_swaps
from barnabas_logstore.core.storage.effects import NewFile
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.log.state.leader_epochs import NO_EPOCH, LeaderEpochs
from barnabas_logstore.core.storage.log.state.log_state import LogState, UnflushedFiles
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState, note_producer, stray_snapshots
from barnabas_logstore.core.storage.log.state.transactions import index_aborted
from barnabas_logstore.core.storage.recovery.epoch_evidence import EpochsOfBatches, supported_epochs
from barnabas_logstore.core.storage.recovery.producer_recovery import load_producers
from barnabas_logstore.core.storage.segment.batch_order import OffsetAndEpoch, in_order
from barnabas_logstore.core.storage.segment.log_segments import LogSegments
from barnabas_logstore.core.storage.segment.scan import (
    is_broken_off,
    offsets_of,
    read_marker,
    scan_batches,
    write_again,
)
from barnabas_logstore.core.storage.segment.segment import (
    ALL_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    Segment,
    file_name,
)
from barnabas_logstore.core.storage.segment.transaction_index import TRANSACTION_INDEX_SUFFIX

# Leftovers of an interrupted replacement, deletion or compaction.
LEFTOVER_SUFFIXES = (".tmp", ".deleted", ".cleaned")

_OFFSET_MAX = 2**63 - 1
_EPOCH_MAX = 2**31 - 1


@dataclass(slots=True, frozen=True)
class RecoveredLog:
    """`scanned_bytes` were found valid by their CRCs, `dropped_bytes` came after the last valid batch and are removed.

    `is_damaged`: there were more of them than a process leaves that dies during a write, or the log ends before it may
    begin. Records that had been acknowledged may be missing. `has_wrong_epochs`: those of the checkpoint were, and are
    the batches' now.
    """

    state: LogState
    scanned_bytes: int
    dropped_bytes: int
    is_damaged: bool
    has_wrong_epochs: bool


@dataclass(slots=True, frozen=True)
class OpenedLog:
    """A log, and the result of its recovery: see `RecoveredLog`."""

    log: PartitionLog
    scanned_bytes: int
    dropped_bytes: int
    is_damaged: bool
    has_wrong_epochs: bool


def open_log(
    disk: Disk,
    directory: str,
    topic_partition: TopicPartition,
    config: TopicConfig,
    *,
    recovery_point: int,
    shut_down_cleanly: bool,
    log_start_offset: int = 0,
    first_dirty_offset: int = 0,
    is_page_cache_in_doubt: bool = False,
) -> OpenedLog:
    """Open the log in `directory`: see `recover_log`. Raises DiskError."""
    found = recover_log(
        disk,
        directory,
        topic_partition,
        config,
        recovery_point=recovery_point,
        shut_down_cleanly=shut_down_cleanly,
        log_start_offset=log_start_offset,
        first_dirty_offset=first_dirty_offset,
        is_page_cache_in_doubt=is_page_cache_in_doubt,
    )
    return OpenedLog(
        PartitionLog(disk, found.state),
        found.scanned_bytes,
        found.dropped_bytes,
        found.is_damaged,
        found.has_wrong_epochs,
    )


def recover_log(
    disk: Disk,
    directory: str,
    topic_partition: TopicPartition,
    config: TopicConfig,
    *,
    recovery_point: int,
    shut_down_cleanly: bool,
    log_start_offset: int,
    first_dirty_offset: int = 0,
    are_epochs_sure: bool = False,
    is_page_cache_in_doubt: bool = False,
) -> RecoveredLog:
    """Recover the log in `directory`, which exists; one without segments gets its first. Raises DiskError.

    `log_start_offset` is that of the checkpoint, if any: the log begins there, or with its first segment if that is
    later. `first_dirty_offset` is that of the cleaner's checkpoint, if any. `are_epochs_sure`: their checkpoint has
    just been written. `is_page_cache_in_doubt`: a flush may have failed. What is suspect is written again then, since
    no later flush would: its pages seem to be clean.
    """
    opening = _Opening(disk, directory, config, recovery_point, log_start_offset, first_dirty_offset)
    opening.is_page_cache_in_doubt = is_page_cache_in_doubt
    opening.open_segments(shut_down_cleanly, are_epochs_sure)
    opening.begin_at_log_start()
    if not shut_down_cleanly:
        opening.find_first_epochs()
    opening.remove_leftovers()
    unflushed = UnflushedFiles(
        opening.snapshot_offset, has_new_names=not shut_down_cleanly, closed_segments=opening.closed_segments
    )
    if opening.unsaved_snapshot is not None:
        offset, content = opening.unsaved_snapshot
        unflushed.add_snapshot(NewFile(f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}", content), offset)
    state = LogState(
        directory,
        topic_partition,
        config,
        opening.segments,
        opening.leader_epochs,
        opening.producers,
        unflushed,
        log_start_offset=opening.log_start_offset,
        next_offset=opening.next_offset,
        recovery_point=min(opening.recovery_point, opening.next_offset),
    )
    is_damaged = opening.is_damaged or (shut_down_cleanly and opening.dropped_bytes > 0)
    return RecoveredLog(state, opening.scanned_bytes, opening.dropped_bytes, is_damaged, opening.has_wrong_epochs)


class _Opening:
    """A log while it is being opened: its parts as far as they are known."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: TopicConfig,
        recovery_point: int,
        log_start_offset: int,
        first_dirty_offset: int,
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.config = config
        self.recovery_point = recovery_point
        self.log_start_offset = log_start_offset
        self.first_dirty_offset = first_dirty_offset
        self.files = {entry.name: entry.byte_count for entry in disk.list(directory)}
        finish_swaps(disk, directory, self.files)
        self.segments = LogSegments()
        self.producers = ProducerState()
        self.leader_epochs = LeaderEpochs()
        self.closed_segments: list[tuple[Segment, int]] = []
        self.snapshot_offset = 0
        self.unsaved_snapshot: tuple[int, bytes] | None = None
        self.next_offset = 0
        self.scanned_bytes = 0
        self.dropped_bytes = 0
        self.is_damaged = False
        self.has_wrong_epochs = False
        self.is_page_cache_in_doubt = False
        self._saved_epochs: list[tuple[int, int]] = []
        self._legible_epochs: list[tuple[int, int]] = []
        self._directory_changed = False

    def open_segments(self, shut_down_cleanly: bool, are_epochs_sure: bool) -> None:
        found = self._find_segments()
        if not found:
            self._create_empty_log()
            return
        suspect_index = sum(segment.base_offset <= self.recovery_point for segment in found[1:])
        end: OffsetAndEpoch | None = None
        self._load_leader_epochs()
        if shut_down_cleanly:
            suspect_index = len(found) - 1
            if not are_epochs_sure:
                self._check_leader_epochs(found, 0)
            file_bytes = found[-1].byte_count
            tail = found[-1].open_active()
            tail_end = tail[-1][0] + tail[-1][1].size_bytes if tail else 0
            is_later = tail_end == file_bytes and self._is_only_last_of_later_epoch(found[-1], tail)
            if is_later or (tail_end == file_bytes and self._are_of_known_epochs(tail)):
                self._add_sound(found, tail)
                self._load_producers(self.next_offset)
                self.leader_epochs.truncate_from(self.next_offset)
                if is_later:
                    self._begin_segment_after_doubt()
                return
            if self.leader_epochs.latest != NO_EPOCH:
                end = OffsetAndEpoch(_OFFSET_MAX, self.leader_epochs.latest)
        else:
            self._check_leader_epochs(found[:suspect_index], found[suspect_index].base_offset)
        self._add_sound(found[:suspect_index], [])
        self._recover(found[suspect_index:], end)

    def begin_at_log_start(self) -> None:
        """If a crash has left a log that ends before its log start, start over, empty, at the log start."""
        if self.next_offset < self.log_start_offset:
            self.is_damaged = True
            for segment in self.segments.all():
                self._drop(segment)
            self._create_empty_log()
        self.log_start_offset = max(self.log_start_offset, self.segments.first.base_offset)
        self.leader_epochs.trim_to(self.log_start_offset)

    def find_first_epochs(self) -> None:
        """A crash may move a log start back, and the epochs dropped along with it apply to records again."""
        known = self.leader_epochs.entries()
        if not known or known[0][1] <= self.log_start_offset:
            return
        epochs = LeaderEpochs()
        for segment in self.segments.overlapping(self.log_start_offset, known[0][1]):
            for _, header in scan_batches(self.disk, segment.file, 0, segment.byte_count):
                is_between = self.log_start_offset <= header.last_offset and header.base_offset < known[0][1]
                if is_between and header.partition_leader_epoch <= known[0][0]:
                    epochs.assign(header.partition_leader_epoch, max(header.base_offset, self.log_start_offset))
        for epoch, start_offset in known:
            epochs.assign(epoch, start_offset)
        epochs.unsaved = True
        self.leader_epochs = epochs

    def _create_empty_log(self) -> None:
        self.segments = LogSegments()
        self.producers.clear()
        self.leader_epochs.truncate_from(self.log_start_offset)
        self.closed_segments = []
        self.snapshot_offset = 0
        self.unsaved_snapshot = None
        self.next_offset = self.log_start_offset
        segment = Segment(self.disk, self.directory, self.log_start_offset, 0, self.config)
        segment.create()
        self.segments.add(segment)
        for offset in offsets_of(self.files, SNAPSHOT_SUFFIX):
            # The next start would take its producers for those of a log that continues where this one ended.
            name = file_name(offset, SNAPSHOT_SUFFIX)
            self.disk.remove(f"{self.directory}/{name}")
            del self.files[name]
            self._directory_changed = True

    def remove_leftovers(self) -> None:
        """Remove files that belong to no segment, and snapshots with producers' batches that the log no longer has."""
        base_offsets = {segment.base_offset for segment in self.segments.all()}
        names = [name for name in self.files if name.endswith(LEFTOVER_SUFFIXES)]
        for suffix in ALL_SUFFIXES[1:]:
            orphans = [offset for offset in offsets_of(self.files, suffix) if offset not in base_offsets]
            names += [file_name(offset, suffix) for offset in orphans]
        ahead = [offset for offset in offsets_of(self.files, SNAPSHOT_SUFFIX) if offset > self.next_offset]
        names += [file_name(offset, SNAPSHOT_SUFFIX) for offset in ahead]
        snapshots = [offset for offset in offsets_of(self.files, SNAPSHOT_SUFFIX) if offset <= self.next_offset]
        names += [file_name(offset, SNAPSHOT_SUFFIX) for offset in stray_snapshots(snapshots, base_offsets)]
        for name in names:
            self.disk.remove(f"{self.directory}/{name}")
        if names or self._directory_changed:
            # A snapshot that came back after a power cut would confirm batches that were dropped.
            self.disk.flush_directory(self.directory)

    def _find_segments(self) -> list[Segment]:
        segments = []
        position = 0
        for base_offset in offsets_of(self.files, LOG_SUFFIX):
            byte_count = self.files[file_name(base_offset, LOG_SUFFIX)]
            segment = Segment(self.disk, self.directory, base_offset, position, self.config, byte_count)
            segment.aborted.may_exist = file_name(base_offset, TRANSACTION_INDEX_SUFFIX) in self.files
            segments.append(segment)
            position += byte_count
        return segments

    def _load_leader_epochs(self) -> None:
        if LEADER_EPOCH_CHECKPOINT in self.files:
            content = self.disk.read_file(f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}")
            epochs = LeaderEpochs.parse(content)
            if epochs is None:
                self.has_wrong_epochs = True
                self._legible_epochs = LeaderEpochs.legible_entries(content)
            self.leader_epochs = epochs or self.leader_epochs
            self._saved_epochs = self.leader_epochs.entries()

    def _check_leader_epochs(self, sound: list[Segment], may_begin_below: int) -> None:
        """`sound` are segments that recovery does not read. Without a checkpoint their epochs are all missing."""
        if sound:
            segments = [(segment.base_offset, segment.byte_count) for segment in sound]
            epochs = supported_epochs(
                self.disk,
                self.directory,
                segments,
                self.leader_epochs,
                self._legible_epochs,
                self.log_start_offset,
                may_begin_below=may_begin_below,
            )
            if epochs is not None:
                self.has_wrong_epochs = LEADER_EPOCH_CHECKPOINT in self.files
                self.leader_epochs = epochs

    def _are_of_known_epochs(self, batches: list[tuple[int, BatchHeader]]) -> bool:
        """After a clean stop the checkpoint has every epoch, except for those before the log's start."""
        known = self.leader_epochs
        return all(
            known.epoch_of(header.base_offset) in (header.partition_leader_epoch, NO_EPOCH) for _, header in batches
        )

    def _is_only_last_of_later_epoch(self, segment: Segment, tail: list[tuple[int, BatchHeader]]) -> bool:
        """Whether only the last batch contradicts the checkpoint, with an epoch later than its latest. One flipped bit
        makes the one larger or the other smaller. So the batch is kept if its checksum is right, and the file's epoch.
        """
        if not tail or not NO_EPOCH < self.leader_epochs.latest < tail[-1][1].partition_leader_epoch:
            return False
        batches = scan_batches(self.disk, segment.file, tail[-1][0], segment.byte_count, check_crc=True)
        return self._are_of_known_epochs(tail[:-1]) and next(batches, None) is not None

    def _begin_segment_after_doubt(self) -> None:
        """Report the log, so that a replica without doubt leads if there is one. Its next batches, of an epoch that may
        be smaller than the one in doubt, begin a segment: after a crash they would end the log before that batch.
        """
        self.is_damaged = True
        self._close_active()
        active = self.segments.active
        segment = Segment(
            self.disk, self.directory, self.next_offset, active.start_position + active.byte_count, self.config
        )
        segment.create()
        self.segments.add(segment)
        self._directory_changed = True

    def _add_sound(self, sound: list[Segment], tail: list[tuple[int, BatchHeader]]) -> None:
        """Add segments unchanged. `tail` are the last batches of the active one, if that is among them."""
        for segment in sound:
            self.segments.add(segment)
        if sound:
            self.next_offset = tail[-1][1].next_offset if tail else sound[-1].base_offset
        for position, header in tail:
            self.segments.recent.add(header.base_offset, position)

    def _load_producers(self, upto_offset: int) -> None:
        """Load the newest valid snapshot that is not past `upto_offset`, and the batches between the two."""
        self.producers, self.snapshot_offset = load_producers(
            self.disk,
            self.directory,
            offsets_of(self.files, SNAPSHOT_SUFFIX),
            self.segments.all(),
            upto_offset,
        )

    def _recover(self, suspects: list[Segment], end: OffsetAndEpoch | None) -> None:
        """Read the suspect segments up to the first damage, and drop what follows it. `end` is what is known of the
        log's end.
        """
        self.next_offset = suspects[0].base_offset
        epoch = NO_EPOCH
        # Its indexes are rebuilt: their old content is no longer durable, and the new one is not yet.
        self.recovery_point = min(self.recovery_point, self.next_offset)
        self._load_producers(self.next_offset)
        if len(self.segments):
            # It may have been closed after the flush that the recovery point describes: its last time index entry is in
            # doubt.
            tail = self.segments.active.open_active(is_in_doubt=True)
            if tail:
                # If one of the two were damaged and too large, valid batches would seem to be wrong.
                epoch = min(tail[-1][1].partition_leader_epoch, self.leader_epochs.epoch_of(self.next_offset - 1))
        hints = [entry for entry in self.leader_epochs.entries() if entry[1] >= self.next_offset]
        self.leader_epochs.truncate_from(self.next_offset)
        epochs = EpochsOfBatches(self.leader_epochs, hints, self.next_offset)
        for index, segment in enumerate(suspects):
            if segment.byte_count == 0 and segment is not suspects[0] and segment is not suspects[-1]:
                # Begun, and given up for lack of space.
                self._drop(segment)
                continue
            if not self._may_continue_at(segment.base_offset):
                self._drop_rest(suspects[index:])
                break
            self.next_offset = segment.base_offset
            self._close_active()
            self.segments.add(segment)
            file_bytes = self.disk.size(segment.file)
            batches = scan_batches(self.disk, segment.file, 0, file_bytes, check_crc=True)
            after = self._begin_of_first(suspects[index + 1 :]) or end
            for position, header in segment.rebuild(in_order(batches, OffsetAndEpoch(self.next_offset, epoch), after)):
                self.segments.recent.add(header.base_offset, position)
                epochs.add(header)
                ended = note_producer(self.producers, header, read_marker(self.disk, segment.file, position, header))
                index_aborted(segment, ended)
                self.next_offset, epoch = header.next_offset, header.partition_leader_epoch
            self.scanned_bytes += segment.byte_count
            self.is_damaged |= not is_broken_off(
                self.disk, segment.file, segment.byte_count, file_bytes, self.next_offset
            )
            if self.is_page_cache_in_doubt:
                write_again(self.disk, segment.file, segment.byte_count)
            # The cleaner reads the file, and a log may be cleaned before it is written to again.
            segment.aborted.save()
            if segment.byte_count < file_bytes:
                # Before the cut: a start that is broken off here has to find the damage again, since the gap may look
                # like one that compaction has left.
                self._drop_rest(suspects[index + 1 :])
                self.dropped_bytes += segment.cut()
                break
        self.leader_epochs.unsaved = self.leader_epochs.entries() != self._saved_epochs

    def _may_continue_at(self, base_offset: int) -> bool:
        return base_offset == self.next_offset or self.next_offset < base_offset <= self.first_dirty_offset

    def _begin_of_first(self, segments: list[Segment]) -> OffsetAndEpoch | None:
        """Return where the first non-empty one begins: its name decides, whatever its batches contain."""
        for segment in segments:
            if segment.byte_count > 0:
                batches = scan_batches(self.disk, segment.file, 0, segment.byte_count, check_crc=True)
                first = next(batches, None)
                is_begin = first is not None and first[1].base_offset == segment.base_offset
                epoch = first[1].partition_leader_epoch if first is not None and is_begin else _EPOCH_MAX
                return OffsetAndEpoch(segment.base_offset, epoch)
        return None

    def _close_active(self) -> None:
        """Give the indexes of a segment that has a successor their last entries; the next flush includes it."""
        if len(self.segments):
            self.segments.active.seal()
            self.closed_segments.append((self.segments.active, self.next_offset))
            # The active segment's beginning: what is before may be retired, and its producers could not be restored
            # then.
            self.unsaved_snapshot = (self.next_offset, self.producers.snapshot())

    def _drop_rest(self, segments: list[Segment]) -> None:
        """Drop what can't continue the log, durably."""
        for segment in reversed(segments):
            self.is_damaged |= segment.byte_count > 0
            self._drop(segment)
        if segments:
            self.disk.flush_directory(self.directory)

    def _drop(self, segment: Segment) -> None:
        self.dropped_bytes += segment.byte_count
        for suffix in ALL_SUFFIXES:
            name = file_name(segment.base_offset, suffix)
            if self.files.pop(name, None) is not None:
                self.disk.remove(f"{self.directory}/{name}")
        self._directory_changed = True
