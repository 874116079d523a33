"""The operations of a table, independent of its format.

One mechanism for all three: executors write Parquet files that are not visible yet, the driver commits them, all at
once, with their progress. A commit succeeds only on the head that was last read (compare and set): so two runs of one
job, or a run and a compaction, never overwrite each other, and the loser reads again and decides.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from barnabas_pipeline.core.errors import PipelineError
from barnabas_pipeline.core.partitioning import Partitioning
from barnabas_pipeline.core.positions import Positions

Clock = Callable[[], int]  # wall time in milliseconds


class TableError(PipelineError):
    """An error of a table that its user must fix; the text is for the user."""


class CommitConflictError(RuntimeError):
    """The table's head moved since it was read: nothing was committed."""


class SupersededError(TableError):
    """A newer run of the same job owns the table."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A Parquet file that is written and not committed. `footer` is its metadata."""

    uri: str
    partition: int | None
    size_bytes: int
    footer: bytes

    def metadata(self) -> pq.FileMetaData:
        return pq.read_metadata(io.BytesIO(self.footer))


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that is in the table."""

    uri: str
    partition: int | None
    size_bytes: int
    record_count: int


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """Everything that an executor needs to write files for a table. `schema` is Arrow's, serialized."""

    location: str
    schema: bytes
    partitioning: Partitioning

    def arrow_schema(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.BufferReader(self.schema))


@dataclass(frozen=True, slots=True)
class Change:
    """One commit. `progress` is the job's complete progress, None if unchanged (compaction); `notes` go into the
    log.
    """

    added: tuple[WrittenFile, ...] = ()
    removed: tuple[TableFile, ...] = ()
    progress: Positions | None = None
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of job that created a table: its rows have the same meaning only for jobs of that kind."""

    mode: str
    value: str

    def text(self) -> str:
        return f"{self.mode} {self.value}"


def kind_of(text: str | None) -> Kind | None:
    """Parse a kind from its text form; None if the table has none."""
    return None if text is None else Kind(*text.split(" "))


@dataclass(frozen=True, slots=True)
class Owner:
    """The run of a job that owns the table: the highest epoch."""

    epoch: int
    run: str


def recreated_topics(before: Positions, after: Positions) -> list[str]:
    """Return the topics of progress `after` that had another id in the progress `before`."""
    return sorted(topic for topic in after if topic in before and before[topic].topic_id != after[topic].topic_id)


class Table(Protocol):
    """A table of one format, as of when it was last read (`refresh`)."""

    @property
    def name(self) -> str: ...

    @property
    def partitioning(self) -> Partitioning: ...

    @property
    def kind(self) -> Kind | None:
        """The kind at its creation; None for tables without one (dead letters)."""

    def refresh(self) -> None:
        """Read the table's head again."""

    def arrow_schema(self) -> pa.Schema:
        """The columns as files store them (with field ids if the format has them)."""

    def add_columns(self, schema: pa.Schema) -> None:
        """Add the schema's new columns, in structs too. The new head is the one that counts then."""

    def progress(self, wanted: Positions) -> Positions:
        """Return the table's progress, at least for the wanted topics and partitions (their offsets are ignored).

        A topic under another id than the wanted one was recreated since: its positions are the earlier topic's.
        """

    def was_recreated(self, topic: str) -> bool:
        """Whether the table has rows of an earlier topic of that name: marked permanently with the first progress after
        it.
        """

    def epoch(self) -> int:
        """The epoch of the run that owns the table: the highest that was claimed, 0 without any."""

    def owner(self) -> Owner:
        """For messages: the run's name is looked up, and empty if not found."""

    def claim(self, run: str) -> Owner:
        """Become the owner, with an epoch above all earlier ones. Raises CommitConflictError."""

    def commit(self, change: Change) -> None:
        """All of the change or nothing, on the head last read. Raises CommitConflictError."""

    def upsert(self, changes: pa.Table, progress: Positions, notes: Mapping[str, str]) -> None:
        """Commit changes, one per key with a column that marks tombstones, and progress, on the head last read.

        A row of the table that came from another partition and has the later timestamp stays. Raises
        CommitConflictError.
        """

    def files(self) -> list[TableFile]: ...

    def write_target(self) -> WriteTarget: ...

    def expire(self, older_than_ms: int) -> int:
        """Drop snapshots that were replaced before then, and files that only they need; return how many files (or
        snapshots) were removed.

        Raises CommitConflictError.
        """

    def remove_orphans(self, older_than_ms: int) -> int:
        """Delete files that nothing in the table names, if they were written before then; return how many."""
