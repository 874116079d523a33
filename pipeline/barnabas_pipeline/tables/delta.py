"""A Delta table through delta-rs: no jar.

The progress is in the log itself, as in the protocol: a `txn` action per partition, whose version is the next offset,
in the same commit as the rows; checkpoints of the log keep them. A commit goes only onto the version that was last
read: delta-rs' retries, which would add our files to another's commit, are turned off.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction, WriterProperties
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.table import TableMerger
from deltalake.transaction import AddAction, RemoveAction

from barnabas_pipeline.core.partitioning import PartitionBy, Partitioning, partitioning_of
from barnabas_pipeline.core.positions import Positions, TopicPositions, each_offset
from barnabas_pipeline.tables.contract import (
    Change,
    Clock,
    CommitConflictError,
    Kind,
    Owner,
    TableError,
    TableFile,
    WriteTarget,
    WrittenFile,
    kind_of,
)
from barnabas_pipeline.tables.locations import delete_file, to_uri
from barnabas_pipeline.tables.record_columns import TOMBSTONE
from barnabas_pipeline.tables.rows_of_files import as_schema
from barnabas_pipeline.tables.upserts import record_prefix
from barnabas_pipeline.tables.writing import partition_values

_KIND = "barnabas.kind"
_RECREATED = "barnabas-made-anew/"
_KEEP = "delta.deletedFileRetentionDuration"
_KEEP_HOURS = 7 * 24  # as long as the log names removed files where it does not say otherwise
_EARLIER = "of an earlier topic"  # the log keeps a hash: that it is not this topic's id is all that is known
_NOTHING = -1  # the version of an earlier topic's partition: a `txn` can't be taken out of a log
_STATISTICS_OF = frozenset({"partition", "offset", "timestamp", "_partition", "_offset", "_timestamp"})


class DeltaLakeTable:
    """See the module's docstring; implements `Table`."""

    def __init__(self, location: str, table: DeltaTable, job: str, now_ms: Clock) -> None:
        self._location = location
        self._table = table
        self._job = job
        self._now_ms = now_ms

    @classmethod
    def open(cls, location: str, job: str, now_ms: Clock) -> DeltaLakeTable | None:
        try:
            return cls(to_uri(location), DeltaTable(to_uri(location)), job, now_ms)
        except TableNotFoundError:
            return None

    @classmethod
    def create(
        cls,
        location: str,
        job: str,
        schema: pa.Schema,
        partitioning: Partitioning,
        kind: Kind | None,
        now_ms: Clock,
    ) -> DeltaLakeTable:
        columns = list(schema)
        if partitioning.by is not PartitionBy.NONE:
            columns.append(pa.field(partitioning.column, pa.string()))
        configuration = {"delta.checkpointInterval": "50"} | ({} if kind is None else {_KIND: kind.text()})
        table = DeltaTable.create(
            to_uri(location),
            pa.schema(columns),
            partition_by=_partition_columns(partitioning),
            configuration=configuration,
            raise_if_key_not_exists=False,
        )
        return cls(to_uri(location), table, job, now_ms)

    @property
    def name(self) -> str:
        return self._location

    @property
    def partitioning(self) -> Partitioning:
        columns = self._table.metadata().partition_columns
        try:
            return partitioning_of(columns)
        except (ValueError, StopIteration):
            raise TableError(
                f"{self.name} is partitioned by {', '.join(columns)}: not a table of this pipeline"
            ) from None

    @property
    def kind(self) -> Kind | None:
        return kind_of(self._table.metadata().configuration.get(_KIND))

    def refresh(self) -> None:
        self._table.update_incremental()

    def arrow_schema(self) -> pa.Schema:
        partitioned = _partition_columns(self.partitioning)
        schema = pa.schema(self._table.schema().to_arrow())
        return pa.schema([pa.field(each.name, _narrow(each.type)) for each in schema if each.name not in partitioned])

    def add_columns(self, schema: pa.Schema) -> None:
        known = self.arrow_schema()
        names = set(known.names)
        grown = [each for each in schema if each.name not in names or _narrow(each.type) != known.field(each.name).type]
        fields: list[Field] = list(Schema.from_arrow(pa.schema(grown)).fields)
        self._attempt(lambda: self._table.alter.add_columns(fields, commit_properties=self._properties([], {})))

    def progress(self, wanted: Positions) -> Positions:
        progress = {}
        for topic, asked in wanted.items():
            known = self._table.transaction_version(self._application(topic))
            if known is None:
                continue
            if known != _number_of(asked.topic_id):
                progress[topic] = TopicPositions(_EARLIER, {})
                continue
            versions = {each: self._table.transaction_version(self._application(topic, each)) for each in asked.offsets}
            offsets = {each: version for each, version in versions.items() if version not in (None, _NOTHING)}
            progress[topic] = TopicPositions(asked.topic_id, offsets)
        return progress

    def was_recreated(self, topic: str) -> bool:
        return self._table.transaction_version(_RECREATED + topic) is not None

    def epoch(self) -> int:
        return self._table.transaction_version(f"barnabas/{self._job}") or 0

    def owner(self) -> Owner:
        epoch = self.epoch()
        for commit in self._table.history(100) if epoch else []:
            if commit.get("barnabas.job") == self._job and commit.get("barnabas.epoch") == str(epoch):
                return Owner(epoch, str(commit.get("barnabas.run")))
        return Owner(epoch, "")

    def claim(self, run: str) -> Owner:
        owner = Owner(self.epoch() + 1, run)
        notes = {"run": run, "epoch": str(owner.epoch), "job": self._job}
        self._write([], [Transaction(f"barnabas/{self._job}", owner.epoch)], notes)
        return owner

    def commit(self, change: Change) -> None:
        replaces = bool(change.removed) and change.progress is None  # compaction: the same rows in other files
        actions: list[AddAction | RemoveAction] = [self._add(each, data_change=not replaces) for each in change.added]
        actions += [self._remove(each, data_change=not replaces) for each in change.removed]
        self._write(actions, self._transactions(change.progress or {}), change.notes)

    def _transactions(self, progress: Positions) -> list[Transaction]:
        transactions = []
        for topic, reached in progress.items():
            number, application = _number_of(reached.topic_id), self._application(topic)
            if self._table.transaction_version(application) not in (None, number):
                for partition in self._partitions_of_earlier(topic) - set(reached.offsets):
                    transactions.append(Transaction(self._application(topic, partition), _NOTHING))
                transactions.append(Transaction(_RECREATED + topic, 1))
            transactions.append(Transaction(application, number))
        for (topic, partition), offset in each_offset(progress):
            transactions.append(Transaction(self._application(topic, partition), offset))
        return transactions

    def _partitions_of_earlier(self, topic: str) -> set[int]:
        """Return those with a version in the log. Kafka numbers them without gaps, and progress covers all existing
        ones.
        """
        known = (self._table.transaction_version(self._application(topic, each)) for each in itertools.count())
        return {partition for partition, _ in enumerate(itertools.takewhile(lambda each: each is not None, known))}

    def upsert(self, changes: pa.Table, progress: Positions, notes: Mapping[str, str]) -> None:
        """Use delta-rs' merge: files and progress in one commit, onto the version last read or not at all."""
        transactions = self._transactions(progress)
        version = self._table.version()
        merge = self._merge(changes, self._properties(transactions, notes))

        def commit() -> None:
            merge.execute()
            if self._table.version() == version:  # nothing was changed: then delta-rs commits nothing, progress neither
                self._create([], transactions, notes)

        self._attempt(commit)

    def _merge(self, changes: pa.Table, properties: CommitProperties) -> TableMerger:
        partitioning, prefix, schema = self.partitioning, record_prefix(changes), self.arrow_schema()
        names = list(schema.names)
        source = as_schema(changes, schema.append(pa.field(TOMBSTONE, pa.bool_())))
        same_key = _equal(f"{prefix}key")
        if partitioning.by is not PartitionBy.NONE:
            values = partition_values(changes, partitioning)
            assert values is not None  # there is a partitioning
            labels = [partitioning.label(each) for each in values.to_pylist()]
            source = source.append_column(partitioning.column, pa.array(labels, pa.string()))
            names.append(partitioning.column)
            if partitioning.by is PartitionBy.BUCKET:
                # Named one by one: delta-rs leaves files out by these, before reading them, and not by what the source
                # contains.
                touched = ", ".join(f"'{label}'" for label in sorted(set(labels)))
                column = _quoted(partitioning.column)
                same_key = f"target.{column} IN ({touched}) AND {_equal(partitioning.column)} AND {same_key}"
        partition, timestamp = _quoted(f"{prefix}partition"), _quoted(f"{prefix}timestamp")
        moved_later = f"target.{partition} <> source.{partition} AND target.{timestamp} > source.{timestamp}"
        newer = f"NOT coalesce({moved_later}, false)"
        updates = {_quoted(name): f"source.{_quoted(name)}" for name in names}
        tombstone = f"source.{_quoted(TOMBSTONE)}"
        return (
            self._table.merge(
                source,
                same_key,
                source_alias="source",
                target_alias="target",
                writer_properties=WriterProperties(compression="ZSTD"),
                commit_properties=properties,
            )
            .when_matched_delete(f"{tombstone} AND {newer}")
            .when_matched_update(updates, f"NOT {tombstone} AND {newer}")
            .when_not_matched_insert(updates, f"NOT {tombstone}")
        )

    def files(self) -> list[TableFile]:
        partitioning = self.partitioning
        actions = pa.table(self._table.get_add_actions(flatten=True))
        labelled = partitioning.by is not PartitionBy.NONE
        labels = actions[f"partition.{partitioning.column}"].to_pylist() if labelled else [None] * actions.num_rows
        columns = (actions[name].to_pylist() for name in ("path", "size_bytes", "num_records"))
        return [
            TableFile(f"{self.name}/{urllib.parse.unquote(path)}", _value(partitioning, label), size, records or 0)
            for path, size, records, label in zip(*columns, labels, strict=True)
        ]

    def write_target(self) -> WriteTarget:
        return WriteTarget(self.name, self.arrow_schema().serialize().to_pybytes(), self.partitioning)

    def expire(self, older_than_ms: int) -> int:
        """Vacuum: delete files that were removed from the table before then; checkpoint, and drop the log before it."""
        hours = self._hours_since(older_than_ms)
        wanted = f"interval {hours} hours"
        if hours > _KEEP_HOURS and self._table.metadata().configuration.get(_KEEP) != wanted:
            # A file removed that long ago is an orphan for readers of a log that has dropped it.
            properties = self._properties([], {})
            self._attempt(lambda: self._table.alter.set_table_properties({_KEEP: wanted}, commit_properties=properties))
        gone = self._vacuum(hours, dry_run=False, full=False)
        self.refresh()
        self._table.create_checkpoint()
        self._table.cleanup_metadata()
        return len(gone)

    def remove_orphans(self, older_than_ms: int) -> int:
        """Delete what a full vacuum would delete and the log does not name. (`expire` handles those that it names.)"""
        self.refresh()
        unused = self._vacuum(self._hours_since(older_than_ms), dry_run=True, full=True)
        self.refresh()  # what was committed while the directory was listed
        named = {self._relative(each.uri) for each in self.files()} | set(self._vacuum(0, dry_run=True, full=False))
        orphans = [path for path in unused if path not in named]
        for path in orphans:
            delete_file(f"{self.name}/{path}")
        return len(orphans)

    def _hours_since(self, wall_ms: int) -> int:
        return max(0, (self._now_ms() - wall_ms) // 3_600_000)

    def _vacuum(self, hours: int, *, dry_run: bool, full: bool) -> list[str]:
        gone: list[str] = self._table.vacuum(
            retention_hours=hours, dry_run=dry_run, enforce_retention_duration=False, full=full
        )
        return gone

    def _application(self, topic: str, partition: int | None = None) -> str:
        return f"barnabas/{self._job}/{topic}" + ("" if partition is None else f"/{partition}")

    def _properties(self, transactions: list[Transaction], notes: Mapping[str, str]) -> CommitProperties:
        metadata = {f"barnabas.{name}": value for name, value in notes.items()}
        return CommitProperties(custom_metadata=metadata, max_commit_retries=0, app_transactions=transactions)

    def _write(
        self,
        actions: list[AddAction | RemoveAction],
        transactions: list[Transaction],
        notes: Mapping[str, str],
    ) -> None:
        self._attempt(lambda: self._create(actions, transactions, notes))

    def _create(
        self,
        actions: list[AddAction | RemoveAction],
        transactions: list[Transaction],
        notes: Mapping[str, str],
    ) -> None:
        self._table.create_write_transaction(
            actions,
            "append",
            self._table.schema(),
            _partition_columns(self.partitioning),
            commit_properties=self._properties(transactions, notes),
        )

    def _attempt(self, commit: Callable[[], None]) -> None:
        try:
            commit()
        except CommitFailedError as error:
            raise CommitConflictError(f"{self.name}: {error}") from None
        self._table.update_incremental()

    def _add(self, written: WrittenFile, *, data_change: bool) -> AddAction:
        return AddAction(
            path=urllib.parse.quote(self._relative(written.uri), safe="/=-_.~"),
            size=written.size_bytes,
            partition_values=self._labels(written.partition),
            modification_time=self._now_ms(),
            data_change=data_change,
            stats=json.dumps(_statistics(written.metadata())),
        )

    def _remove(self, file: TableFile, *, data_change: bool) -> RemoveAction:
        return RemoveAction(
            path=urllib.parse.quote(self._relative(file.uri), safe="/=-_.~"),
            data_change=data_change,
            deletion_timestamp=self._now_ms(),
            size=file.size_bytes,
            partition_values=self._labels(file.partition),
        )

    def _relative(self, uri: str) -> str:
        return uri.removeprefix(self.name + "/")

    def _labels(self, value: int | None) -> dict[str, str | None]:
        partitioning = self.partitioning
        if partitioning.by is PartitionBy.NONE:
            return {}
        return {partitioning.column: None if value is None else partitioning.label(value)}


def _partition_columns(partitioning: Partitioning) -> list[str]:
    return [] if partitioning.by is PartitionBy.NONE else [partitioning.column]


def _quoted(name: str) -> str:
    """Quote a column's name for delta-rs' expressions, whatever it contains."""
    return "`" + name.replace("`", "``") + "`"


def _equal(name: str) -> str:
    return f"target.{_quoted(name)} = source.{_quoted(name)}"


def _value(partitioning: Partitioning, label: str | None) -> int | None:
    return None if label is None else partitioning.value(label)


def _number_of(topic_id: str) -> int:
    """Return a topic's id as a `txn` action can store it: 63 bits of its hash."""
    return int.from_bytes(hashlib.sha256(topic_id.encode()).digest()[:8], "big") >> 1


def _narrow(data_type: pa.DataType) -> pa.DataType:
    """delta-rs reads text as views; files are written with the usual types."""
    if pa.types.is_string_view(data_type) or pa.types.is_large_string(data_type):
        return pa.string()
    if pa.types.is_binary_view(data_type) or pa.types.is_large_binary(data_type):
        return pa.binary()
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(each.name, _narrow(each.type)) for each in data_type])
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return pa.list_(pa.field("element", _narrow(data_type.value_type)))
    if pa.types.is_map(data_type):
        return pa.map_(pa.string(), _narrow(data_type.item_type))
    return data_type


def _statistics(footer: pq.FileMetaData) -> dict[str, object]:
    """Return Delta's statistics: the number of rows, and the bounds of the columns by which readers skip files."""
    minima: dict[str, Any] = {}
    maxima: dict[str, Any] = {}
    for index in range(footer.num_row_groups):
        group = footer.row_group(index)
        for position in range(group.num_columns):
            column = group.column(position)
            name, statistics = column.path_in_schema, column.statistics
            if name in _STATISTICS_OF and statistics is not None and statistics.has_min_max:
                low, high = _plain(statistics.min), _plain(statistics.max)
                minima[name] = min(low, minima.get(name, low))
                maxima[name] = max(high, maxima.get(name, high))
    return {"numRecords": footer.num_rows, "minValues": minima, "maxValues": maxima}


def _plain(value: object) -> str | int:
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert isinstance(value, int | str)
    return value
