"""Copy one log to another log directory (KIP-113): track what has been copied, and what is next.

The copy is a directory `<topic>-<partition>.<unique>-future` with the log's own files, byte for byte. Closed segments
come first, each made durable as it is complete; then the rest, in pieces, until little is missing. Then the log is
held: no write begins, and appends accumulate. All of it is flushed, the last bytes are copied, and the copy gets its
final name. From then on it is the log, and the old directory is deleted.

A crash leaves one of these, in this order: a `-future` directory besides the log: the copy starts over. The log in both
directories: the one with the file `moved-from` is the log, since nothing is written to the other afterwards; should
that one be longer nevertheless, it is the log, because nothing written may be deleted here (`finished_moves`). The log
only in the new directory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.ports.disk import Disk, DiskError, DiskErrorKind
from barnabas_logstore.core.storage.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    TopicPartition,
    whole_number,
)
from barnabas_logstore.core.storage.effects import CopyEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.storage.segment.segment import LOG_SUFFIX, SNAPSHOT_SUFFIX, Segment, file_name

MOVED_FROM = "moved-from"
PIECE_BYTES = 4 * 1024 * 1024
# How much may be missing when the log is held for the last part.
TAIL_BYTES_MAX = 4 * 1024 * 1024


@dataclass(slots=True, frozen=True)
class Origin:
    """The content of `moved-from`: what a directory is a copy of, and from which log directory."""

    topic_partition: TopicPartition
    log_directory: str

    def format(self) -> bytes:
        topic, partition = self.topic_partition
        return f"{topic} {partition}\n{self.log_directory}\n".encode()


def parse_origin(content: bytes) -> Origin | None:
    """Return None if it is torn."""
    lines = content.decode("utf-8", "replace").splitlines()
    topic, _, digits = lines[0].rpartition(" ") if len(lines) == 2 else ("", "", "")
    partition = whole_number(digits)
    return Origin((topic, partition), lines[1]) if topic and partition is not None and lines[1] else None


def read_origin(disk: Disk, directory: str) -> Origin | None:
    """Read the origin of a partition's directory; None if there is none, or a torn one. Raises DiskError."""
    try:
        return parse_origin(disk.read_file(f"{directory}/{MOVED_FROM}"))
    except DiskError as error:
        if error.kind is not DiskErrorKind.NOT_FOUND:
            raise
        return None


@dataclass(slots=True)
class _Copied:
    """The progress of one segment's copy."""

    byte_count: int = 0
    is_whole: bool = False
    """Whether the segment is closed, and everything of it is copied and durable."""


@dataclass(slots=True, eq=False)
class LogCopy:
    """`log_directory` is the target, `future` the copy's directory in it.

    Steps are effects, one at a time: `begin`, then `next_step` until there is none, then (with the log held, idle and
    flushed) `last_step`.
    """

    log: PartitionLog
    log_directory: str
    future: str
    _copied: dict[Segment, _Copied] = field(default_factory=dict)

    @property
    def byte_count(self) -> int:
        """The bytes copied so far, of what is still in the log."""
        return sum(self._copied[segment].byte_count for segment in self.log.segments.all() if segment in self._copied)

    @property
    def offset_lag(self) -> int:
        """How many offsets the copy lags behind the log's end, in complete segments."""
        for segment in self.log.segments.all():
            copied = self._copied.get(segment)
            if copied is None or copied.byte_count < segment.byte_count:
                return self.log.log_end_offset - max(segment.base_offset, self.log.log_start_offset)
        return 0

    def begin(self) -> CopyEffect:
        source = self.log.directory.rpartition("/")[0]
        marker = Origin(self.log.topic_partition, source).format()
        return CopyEffect(
            self.log_directory,
            self.future,
            # Two directories that each name the other as their origin would both be the old one.
            forgets=f"{self.log.directory}/{MOVED_FROM}",
            makes=(f"{self.future}/{MOVED_FROM}", marker),
            flushes=[f"{self.future}/{MOVED_FROM}"],
        )

    def next_step(self, bytes_max: int = PIECE_BYTES) -> CopyEffect | None:
        """Return the next piece, of at most `bytes_max`; None if so little is missing that the log may be held for
        it.
        """
        log = self.log
        missing_bytes = 0
        segments = log.segments.all()
        for segment, following in zip(segments, [*segments[1:], None], strict=True):
            copied = self._copied.setdefault(segment, _Copied())
            written_bytes = min(segment.byte_count, log.written_position - segment.start_position)
            left_bytes = written_bytes - copied.byte_count
            is_closed = following is not None and following.base_offset <= log.flushes.whole_segments_upto
            if is_closed and not copied.is_whole:
                length = min(left_bytes, bytes_max)
                return self._piece(segment, copied, length) if left_bytes > 0 else self._rest(segment, copied)
            missing_bytes += max(left_bytes, 0)
            if missing_bytes > TAIL_BYTES_MAX:
                return self._piece(segment, copied, min(left_bytes, bytes_max))
        return None

    def _piece(self, segment: Segment, copied: _Copied, length: int) -> CopyEffect:
        effect = CopyEffect(self.log_directory, self.future)
        effect.pieces.append((segment.log_path, self._place_of(segment.log_path), copied.byte_count, length))
        copied.byte_count += length
        return effect

    def _rest(self, segment: Segment, copied: _Copied) -> CopyEffect:
        """Copy the small files of a closed segment; all of it is durable then."""
        effect = CopyEffect(self.log_directory, self.future)
        self._add_files(effect, self._small_files(segment))
        effect.flushes.append(self._place_of(segment.log_path))
        copied.is_whole = True
        return effect

    def last_step(self) -> CopyEffect:
        """Copy everything that is missing, and set the final name."""
        log = self.log
        assert log.is_held
        assert log.is_idle
        effect = CopyEffect(self.log_directory, self.future)
        names = [MOVED_FROM, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA]
        self._add_files(effect, [f"{log.directory}/{name}" for name in names[1:]])
        for segment in log.segments.all():
            copied = self._copied.setdefault(segment, _Copied())
            names += [path.rpartition("/")[2] for path in (segment.log_path, *self._small_files(segment))]
            if copied.is_whole:
                continue
            if segment.byte_count > copied.byte_count:
                length = segment.byte_count - copied.byte_count
                place = self._place_of(segment.log_path)
                effect.pieces.append((segment.log_path, place, copied.byte_count, length))
                copied.byte_count = segment.byte_count
            elif segment.byte_count == 0:
                self._add_files(effect, [segment.log_path])
            self._add_files(effect, self._small_files(segment))
            effect.flushes.append(self._place_of(segment.log_path))
        newest = f"{log.directory}/{file_name(log.flushes.snapshot_offset, SNAPSHOT_SUFFIX)}"
        self._add_files(effect, [newest])
        names.append(newest.rpartition("/")[2])
        effect.keeps = names
        effect.final = f"{self.log_directory}/{log.directory.rpartition('/')[2]}"
        return effect

    def _small_files(self, segment: Segment) -> list[str]:
        """Return the indexes and the snapshot at its beginning; some of them exist only sometimes."""
        prefix = segment.log_path.removesuffix(LOG_SUFFIX)
        return [*segment.index_paths, prefix + SNAPSHOT_SUFFIX]

    def _add_files(self, effect: CopyEffect, paths: list[str]) -> None:
        for path in paths:
            place = self._place_of(path)
            effect.files.append((path, place))
            effect.flushes.append(place)

    def _place_of(self, path: str) -> str:
        return f"{self.future}/{path.rpartition('/')[2]}"
