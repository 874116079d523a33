"""What a table must be able to do, whatever its format.

One mechanism for all three: executors write Parquet files that nobody sees, the driver commits them, all at once, with
the progress that they bring. A commit succeeds only on the head that was last read (compare and set): so two runs of
one job, or a run and a compaction, never overwrite each other, and the loser reads again and decides.
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
    """Something about a table that its user must mend; the text is for them."""


class CommitConflictError(RuntimeError):
    """The table's head moved since it was read: nothing was committed."""


class SupersededError(TableError):
    """A newer run of the same job has the table."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A Parquet file that is written and not committed. `footer` is its metadata as the file has it."""

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
    """All that an executor must know to write files for a table. `schema` is Arrow's, serialized."""

    location: str
    schema: bytes
    partitioning: Partitioning

    def arrow_schema(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.BufferReader(self.schema))


@dataclass(frozen=True, slots=True)
class Change:
    """One commit. `progress` is the whole of the job's, None where it stays (compaction); `notes` go into the log."""

    added: tuple[WrittenFile, ...] = ()
    removed: tuple[TableFile, ...] = ()
    progress: Positions | None = None
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kind:
    """By which sort of job a table was made: its rows mean what they do only for another of the same sort."""

    mode: str
    value: str

    def text(self) -> str:
        return f"{self.mode} {self.value}"


def kind_of(text: str | None) -> Kind | None:
    """The opposite of `text`; None for a table without."""
    return None if text is None else Kind(*text.split(" "))


@dataclass(frozen=True, slots=True)
class Owner:
    """Which run of a job has the table: the highest epoch."""

    epoch: int
    run: str


def made_anew(before: Positions, after: Positions) -> list[str]:
    """The topics of progress `after` that were others, by their ids, in the progress `before`."""
    return sorted(topic for topic in after if topic in before and before[topic].topic_id != after[topic].topic_id)


class Table(Protocol):
    """A table of one format, as of when it was last read (`refresh`)."""

    @property
    def name(self) -> str: ...

    @property
    def partitioning(self) -> Partitioning: ...

    @property
    def kind(self) -> Kind | None:
        """As it was made; None for tables that tell nothing of it (dead letters)."""

    def refresh(self) -> None:
        """Read the table's head again."""

    def arrow_schema(self) -> pa.Schema:
        """The columns as files store them (with field ids where the format has them)."""

    def add_columns(self, schema: pa.Schema) -> None:
        """Take the schema's new columns, in structs too. The head that counts is then the new one."""

    def progress(self, wanted: Positions) -> Positions:
        """What is in the table, of the topics and partitions that are wanted at least (their offsets say nothing).

        A topic under another id than the wanted one was made anew since: its positions are the earlier topic's.
        """

    def was_made_anew(self, topic: str) -> bool:
        """Whether rows of an earlier topic of that name came before: marked for good with the first progress after."""

    def epoch(self) -> int:
        """Of the run that has the table: the highest that was claimed, 0 without any."""

    def owner(self) -> Owner:
        """For messages: the run's name is looked for, and empty where it is not found."""

    def claim(self, run: str) -> Owner:
        """Become the owner, with an epoch above all before. Raises CommitConflictError."""

    def commit(self, change: Change) -> None:
        """All of the change or nothing, on the head last read. Raises CommitConflictError."""

    def upsert(self, changes: pa.Table, progress: Positions, notes: Mapping[str, str]) -> None:
        """Commit changes, one per key with a column that says of tombstones, and progress, on the head last read.

        A row of the table that came by another partition and has the later timestamp stays. Raises CommitConflictError.
        """

    def files(self) -> list[TableFile]: ...

    def write_target(self) -> WriteTarget: ...

    def expire(self, older_than_ms: int) -> int:
        """Forget snapshots that were replaced before then, and what only they hold; how many files (or snapshots) went.

        Raises CommitConflictError.
        """

    def remove_orphans(self, older_than_ms: int) -> int:
        """Delete files that nothing in the table names, if they were written before then; how many went."""
