"""A table with its dead letters, as one run of a job holds them: opened, claimed, committed to."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from barnabas_pipeline.core.bookkeeping import advanced, offset_of, remainder
from barnabas_pipeline.core.columns import RESERVED, Column, Struct, evolved, leaves, type_text, within
from barnabas_pipeline.core.partitioning import Partitioning
from barnabas_pipeline.core.positions import Positions, TopicPartition, each_offset, to_dict
from barnabas_pipeline.core.rows import COLUMNS_MAX
from barnabas_pipeline.core.tables_job import TablesJob
from barnabas_pipeline.schemas.decoding import Decoding, ValueFormat
from barnabas_pipeline.tables.arrow_types import from_arrow_schema, to_arrow_schema
from barnabas_pipeline.tables.contract import (
    Change,
    CommitConflictError,
    Kind,
    Owner,
    SupersededError,
    Table,
    TableError,
    WriteTarget,
)
from barnabas_pipeline.tables.record_columns import (
    TOMBSTONE,
    RecordIdentity,
    dead_letter_schema,
    identities,
    record_schema,
)
from barnabas_pipeline.tables.rows_of_files import read_rows
from barnabas_pipeline.tables.tasks import TablePlan, TableReport
from barnabas_pipeline.tables.upserts import newest_changes
from barnabas_pipeline.tables.warehouse import DEAD_LETTERS, Warehouse
from barnabas_pipeline.tables.writing import discard, discard_uncommitted

log = logging.getLogger(__name__)
CLAIM_ATTEMPTS = 10


class ProgressMovedError(RuntimeError):
    """Another run committed between the plan and the commit: the batch must be planned anew."""


@dataclass(slots=True)
class Destination:
    """`owner` and `dead_owner` are this run's claims; a higher epoch than theirs in a table means a newer run."""

    name: str
    job: TablesJob
    table: Table
    dead_letters: Table
    owner: Owner
    dead_owner: Owner

    @classmethod
    def open(cls, name: str, job: TablesJob, warehouse: Warehouse, run: str) -> Destination:
        """Make what is not there, and claim it: a run that had it before is refused from now on."""
        kind = Kind(job.mode, job.value)
        table = _opened(name, job, warehouse, first_schema(job), job.partitioning, kind)
        _check_layout(name, job, table)
        dead_letters = _opened(name + DEAD_LETTERS, job, warehouse, dead_letter_schema(), Partitioning())
        destination = cls(name, job, table, dead_letters, _claimed(table, run), _claimed(dead_letters, run))
        destination._add_declared()
        return destination

    def plan(self, start: Positions, end: Positions) -> TablePlan | None:
        """What tasks must know; None if the table has all of it. Raises GapError and SupersededError.

        The tables are read anew: their heads of the last batch may have been compacted, and expired, since.
        """
        self.reread()
        left = remainder(start, end, self.table.progress(end))
        if left.is_empty:
            return None
        target = self.table.write_target()
        upsert = self.job.mode == "upsert"
        if upsert:
            staged = target.arrow_schema().append(pa.field(TOMBSTONE, pa.bool_()))
            target = WriteTarget(target.location, staged.serialize().to_pybytes(), Partitioning())
        return TablePlan(
            target=target,
            dead_letters=self.dead_letters.write_target(),
            decoding=decoding_of(self.job),
            partitioning=self.job.partitioning,
            upsert=upsert,
            skip_below=left.skip_below,
            set_aside=self._set_aside(end),
        )

    def _set_aside(self, end: Positions) -> frozenset[RecordIdentity]:
        """Dead letters that a batch committed whose rows never were: they stay what they are.

        Progress under another topic id is an earlier topic's, and says nothing of this one's records.
        """
        table, dead = self.table.progress(end), self.dead_letters.progress(end)
        since: dict[TopicPartition, int] = {}
        for at, _ in each_offset(end):
            topic_id = end[at.topic].topic_id
            told, has = offset_of(dead, at, topic_id), offset_of(table, at, topic_id) or 0
            if told is not None and told > has:
                since[at] = has
        return frozenset(self._dead_since(since)) if since else frozenset()

    def _dead_since(self, since: Mapping[TopicPartition, int]) -> Iterator[RecordIdentity]:
        for file in self.dead_letters.files():
            for identity in identities(read_rows(file.uri, ["topic", "partition", "offset", "timestamp"])):
                topic, partition, offset, _ = identity
                if offset >= since.get(TopicPartition(topic, partition), offset + 1):
                    yield identity

    def _add_declared(self) -> None:
        """Give a table that was there the declared columns that it lacks."""
        while lacking := _lacking_declared(self.name, self.job, self.table):
            known = from_arrow_schema(self.table.arrow_schema())
            try:
                self.table.add_columns(to_arrow_schema(Struct((*known.columns, *lacking))))
            except CommitConflictError:
                self.reread()  # it was a compaction, or a newer run's commit: then this one ends

    def grow(self, growth: Struct) -> None:
        """Give the table the columns that a batch brings."""
        before = from_arrow_schema(self.table.arrow_schema())
        after = evolved(before, within(before, growth, _leaves_max(before)))
        if after == before:
            raise TableError(f"{self.name} lacks columns that it can't be given: {growth.names}")
        new = [column.name for column in after.columns if column not in before.columns]
        log.info("%s: columns added or grown: %s", self.name, ", ".join(new))
        try:
            self.table.add_columns(to_arrow_schema(after))
        except CommitConflictError:
            self.reread()

    def commit(self, report: TableReport, start: Positions, end: Positions, batch_id: int) -> None:
        """Dead letters, then rows with progress. Raises ProgressMovedError and SupersededError.

        A crash between the two leaves dead letters whose batch comes again: they are set aside then (`plan`).
        """
        notes = self._notes(start, end, batch_id)
        if report.dead_letters:
            after = advanced(self.dead_letters.progress(end), end)
            dead = Change(tuple(report.dead_letters), (), after, notes)
            self._commit(self.dead_letters, self.dead_owner, end, after, lambda: self.dead_letters.commit(dead))
            report.dead_letters.clear()  # committed: not to be discarded if what follows fails
        after = advanced(self.table.progress(end), end)
        if self.job.mode == "append":
            rows = Change(tuple(report.files), (), after, notes)
            self._commit(self.table, self.owner, end, after, lambda: self.table.commit(rows))
        else:
            changes = newest_changes(report.files)
            if changes is None:
                rows = Change((), (), after, notes)
                self._commit(self.table, self.owner, end, after, lambda: self.table.commit(rows))
            else:
                self._commit(self.table, self.owner, end, after, lambda: self.table.upsert(changes, after, notes))
            discard(report.files)
        report.files.clear()

    def discard(self, report: TableReport) -> None:
        """Delete a report's files, but for those that the tables, as last read, name."""
        discard_uncommitted(self.dead_letters, report.dead_letters)
        discard_uncommitted(self.table, report.files)

    def _commit(
        self, table: Table, owner: Owner, end: Positions, after: Positions, attempt: Callable[[], None]
    ) -> None:
        """Commit onto the newest head, tried again for each. `after`: the progress that the commit brings.

        Where the owner is the same, nobody else brings progress: if it is `after`, the commit was made, and its answer
        lost on the way.
        """
        planned_from = table.progress(end)
        while True:
            try:
                attempt()
            except CommitConflictError as error:
                log.info("%s", error)
                table.refresh()
                if table is self.table:
                    _check_owner(table, owner)
                # Dead letters that another run has claimed are claimed again, or are its own: the next plan finds out.
                reached = table.progress(end)
                if table.epoch() != owner.epoch or reached not in (planned_from, after):
                    raise ProgressMovedError from None
                if reached != planned_from:
                    return
                continue
            return

    def reread(self) -> None:
        """Look at both tables anew. Raises SupersededError.

        Whose the table is, theirs are its dead letters: of two runs that start at once each may have claimed one of
        the two last, and both would end.
        """
        self.table.refresh()
        _check_owner(self.table, self.owner)
        self.dead_letters.refresh()
        if self.dead_letters.epoch() > self.dead_owner.epoch:
            self.dead_owner = _claimed(self.dead_letters, self.owner.run)

    def _notes(self, start: Positions, end: Positions, batch_id: int) -> dict[str, str]:
        since = dict(each_offset(start))
        ranges = {str(at): [since.get(at, 0), offset] for at, offset in each_offset(end)}
        return {
            "job": self.job.name,
            "run": self.owner.run,
            "epoch": str(self.owner.epoch),
            "batch": str(batch_id),
            "ranges": json.dumps(ranges),
            "progress": json.dumps(to_dict(end)),
        }


def first_schema(job: TablesJob) -> pa.Schema:
    """The columns that a job's table has before any value was seen: those of records, and the declared ones."""
    if job.value == "raw":
        return record_schema("", with_value=True)
    declared = to_arrow_schema(job.declared)
    return pa.schema([*record_schema("_", with_value=job.keep_raw), *declared])


def decoding_of(job: TablesJob) -> Decoding:
    return Decoding(ValueFormat(job.value), job.registry, job.registry_user, job.schema_file, job.message)


def _check_layout(name: str, job: TablesJob, table: Table) -> None:
    """A table made by a job of another kind is not this job's to write to."""
    for option in ("mode", "value"):
        made, asked = getattr(table.kind, option, None), getattr(job, option)
        if made is not None and made != asked:
            raise TableError(
                f"table {name} was made by a job with {option} {made}, this one says {asked}: "
                "choose another table, or make it the same"
            )
    if table.kind is None and job.mode == "upsert":
        raise TableError(
            f"table {name} does not say that it was made for upserts, and may have many rows of a key: "
            "choose another table"
        )
    wanted = set(first_schema(job).names) - set(job.columns)
    lacking = sorted(wanted - set(table.arrow_schema().names))
    if lacking:
        raise TableError(
            f"table {name} is there and has no column {lacking[0]}: it was made by a job of another kind; "
            "choose another table, or the job's value and keep_raw as they were"
        )
    if table.partitioning != job.partitioning:
        raise TableError(
            f"table {name} is partitioned by {table.partitioning}, the job says {job.partitioning}: make it the same"
        )
    _lacking_declared(name, job, table)


def _lacking_declared(name: str, job: TablesJob, table: Table) -> tuple[Column, ...]:
    """What is declared and not in the table; refuses what is there and otherwise."""
    known = from_arrow_schema(table.arrow_schema())
    by_lower = {column.name.lower(): column for column in known.columns}
    lacking = []
    for column in job.declared.columns:
        there = by_lower.get(column.name.lower())
        if there is None:
            lacking.append(column)
        elif there.name != column.name:
            raise TableError(
                f"table {name} has a column {there.name}, from which the declared {column.name} differs in case only: "
                f"declare it as {there.name}"
            )
        elif there.type != column.type:
            raise TableError(
                f"column {column.name} of table {name} is {type_text(there.type)}, the job declares "
                f"{type_text(column.type)}: a column keeps its type; declare that, or choose another table"
            )
    if lacking and leaves(known) + len(lacking) > _leaves_max(known):
        raise TableError(
            f"table {name} has no room for column {lacking[-1].name}: its {COLUMNS_MAX:,} columns are full"
        )
    return tuple(lacking)


def _leaves_max(table: Struct) -> int:
    """How wide a table can become. The record's own columns don't count: tasks, which tell of growth as long as there
    is room, don't count them."""
    return COLUMNS_MAX + leaves(Struct(tuple(column for column in table.columns if column.name in RESERVED)))


def _opened(
    name: str,
    job: TablesJob,
    warehouse: Warehouse,
    schema: pa.Schema,
    partitioning: Partitioning,
    kind: Kind | None = None,
) -> Table:
    """The table, made if it is not there."""
    table = warehouse.open(name, job.name)
    if table is None:
        try:
            table = warehouse.create(name, job.name, schema, partitioning, kind)
        except Exception:
            # Another run may have made it at this very moment, whatever its format calls that.
            table = warehouse.open(name, job.name)
            if table is None:
                raise
    return table


def _claimed(table: Table, run: str) -> Owner:
    for _ in range(CLAIM_ATTEMPTS):
        try:
            return table.claim(run)
        except CommitConflictError:
            table.refresh()
    raise TableError(
        f"{table.name} changes too often to be claimed; is another run of this job starting over and over?"
    )


def _check_owner(table: Table, owner: Owner) -> None:
    if table.epoch() > owner.epoch:
        now = table.owner()
        raise SupersededError(
            f"{table.name}: another run of this job took the table over ({now.run or 'unknown'}, epoch {now.epoch}); "
            f"this one ({owner.run}, epoch {owner.epoch}) ends, with nothing written twice"
        )
