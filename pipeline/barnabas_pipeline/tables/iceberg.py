"""An Iceberg table through pyiceberg: no jar, any catalog that it supports.

Rows, columns and progress change in one commit: the snapshot's summary names the batch and its offsets, the table's
properties have the job's progress and owner (a property survives the expiry of snapshots). The catalog compares and
sets; pyiceberg's own retries, which would add our files to another's commit, are turned off.

A catalog compares the current snapshot, never a property. So a claim, and progress without rows, are snapshots too
(without files): a superseded run can't set the properties back.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    ValidationException,
)
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table as PyIcebergTable
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, IdentityTransform, Transform
from pyiceberg.typedef import Record

from barnabas_pipeline.core.partitioning import PartitionBy, Partitioning, parse_partitioning
from barnabas_pipeline.core.positions import Positions, from_dict, to_dict
from barnabas_pipeline.tables.contract import (
    Change,
    CommitConflictError,
    Kind,
    Owner,
    TableError,
    TableFile,
    WriteTarget,
    WrittenFile,
    kind_of,
    recreated_topics,
)
from barnabas_pipeline.tables.orphans import delete_orphans
from barnabas_pipeline.tables.upserts import upsert_by_copying

_PARTITIONING = "barnabas.partitioning"
_KIND = "barnabas.kind"
_RECREATED = "barnabas.made-anew."
_SUFFIXES = (".parquet", ".avro", ".metadata.json", ".puffin", ".stats")  # what can be an orphan
_PROPERTIES = {
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


class _AnsweredTable(PyIcebergTable):
    """A commit that was made, and whose answer was lost, so that the catalog refused its repetition, counts as made.

    pyiceberg would delete the manifests of the table's newest snapshot. (It checks this itself in its own retries.)
    """

    @classmethod
    def load(cls, catalog: Catalog, identifier: str) -> _AnsweredTable:
        loaded = catalog.load_table(identifier)
        place = (loaded.metadata_location, loaded.io)
        return cls(loaded.name(), loaded.metadata, *place, loaded.catalog, loaded.config)

    def _do_commit(self, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...]) -> None:
        try:
            super()._do_commit(updates, requirements)
        except CommitFailedException:
            self.refresh()
            ours = [each.snapshot.snapshot_id for each in updates if isinstance(each, AddSnapshotUpdate)]
            if not ours or any(self.metadata.snapshot_by_id(each) is None for each in ours):
                raise


class IcebergTable:
    """See the module's docstring; implements `Table`."""

    def __init__(self, table: PyIcebergTable, job: str) -> None:
        self._table = table
        self._job = job
        self._data_files: dict[str, DataFile] = {}

    @classmethod
    def open(cls, catalog: Catalog, identifier: str, job: str) -> IcebergTable | None:
        try:
            table = cls(_AnsweredTable.load(catalog, identifier), job)
        except NoSuchTableError:
            return None
        if any(table._table.properties.get(name) != value for name, value in _PROPERTIES.items()):
            table._set_properties(_PROPERTIES)
        return table

    @classmethod
    def create(
        cls,
        catalog: Catalog,
        identifier: str,
        job: str,
        schema: pa.Schema,
        partitioning: Partitioning,
        kind: Kind | None,
    ) -> IcebergTable:
        namespace = identifier.rpartition(".")[0]
        if not namespace:
            raise TableError(f"an Iceberg table's name has a namespace before it: lake.{identifier}, not {identifier}")
        try:
            catalog.create_namespace(namespace)
        except NamespaceAlreadyExistsError:
            pass
        properties = {**_PROPERTIES, _PARTITIONING: str(partitioning), "write.parquet.compression-codec": "zstd"}
        if kind is not None:
            properties[_KIND] = kind.text()
        transaction = catalog.create_table_transaction(identifier, schema=schema, properties=properties)
        if partitioning.by is not PartitionBy.NONE:
            source, transform = _partition_field(partitioning, schema)
            with transaction.update_spec() as update:
                update.add_field(source, transform, f"{source}_{partitioning.by.value}")
        transaction.commit_transaction()
        return cls(_AnsweredTable.load(catalog, identifier), job)

    @property
    def name(self) -> str:
        return ".".join(self._table.name())

    @property
    def partitioning(self) -> Partitioning:
        return parse_partitioning(self._table.properties.get(_PARTITIONING, "none"))

    @property
    def kind(self) -> Kind | None:
        return kind_of(self._table.properties.get(_KIND))

    def refresh(self) -> None:
        self._table.refresh()
        self._data_files.clear()

    def arrow_schema(self) -> pa.Schema:
        return schema_to_pyarrow(self._table.schema())

    def add_columns(self, schema: pa.Schema) -> None:
        transaction = self._table.transaction()
        with transaction.update_schema() as update:
            update.union_by_name(_without_field_ids(schema))
        self._finish(transaction)

    def progress(self, wanted: Positions) -> Positions:
        del wanted  # the property names them all
        text = self._table.properties.get(self._property("progress"))
        return {} if text is None else from_dict(json.loads(text))

    def was_recreated(self, topic: str) -> bool:
        return _RECREATED + topic in self._table.properties

    def epoch(self) -> int:
        return self.owner().epoch

    def owner(self) -> Owner:
        text = self._table.properties.get(self._property("owner"))
        if text is None:
            return Owner(0, "")
        owner = json.loads(text)
        return Owner(int(owner["epoch"]), str(owner["run"]))

    def claim(self, run: str) -> Owner:
        owner = Owner(self.epoch() + 1, run)
        transaction = self._table.transaction()
        transaction.set_properties({self._property("owner"): json.dumps({"epoch": owner.epoch, "run": owner.run})})
        notes = {"barnabas.job": self._job, "barnabas.run": run, "barnabas.epoch": str(owner.epoch)}
        with transaction.update_snapshot(snapshot_properties=notes).fast_append():
            pass
        self._finish(transaction)
        return owner

    def commit(self, change: Change) -> None:
        transaction = self._table.transaction()
        if change.progress is not None:
            recreated = {_RECREATED + topic: "true" for topic in recreated_topics(self.progress({}), change.progress)}
            transaction.set_properties({self._property("progress"): json.dumps(to_dict(change.progress)), **recreated})
        notes = {f"barnabas.{name}": value for name, value in change.notes.items()}
        update = transaction.update_snapshot(snapshot_properties=notes)
        with update.overwrite() if change.removed else update.fast_append() as snapshot:
            for written in change.added:
                snapshot.append_data_file(self._data_file(written))
            for removed in change.removed:
                snapshot.delete_data_file(self._data_files[removed.uri])
        self._finish(transaction)

    def upsert(self, changes: pa.Table, progress: Positions, notes: Mapping[str, str]) -> None:
        upsert_by_copying(self, changes, progress, notes)

    def files(self) -> list[TableFile]:
        self._data_files = {task.file.file_path: task.file for task in self._table.scan().plan_files()}
        return [
            TableFile(path, _partition_value(file), file.file_size_in_bytes, file.record_count)
            for path, file in self._data_files.items()
        ]

    def write_target(self) -> WriteTarget:
        schema = self.arrow_schema().serialize().to_pybytes()
        return WriteTarget(self._table.location().rstrip("/"), schema, self.partitioning)

    def expire(self, older_than_ms: int) -> int:
        """Drop snapshots that were replaced before then from the table, and the files that no snapshot needs any more.

        Iceberg's own rule counts from the creation of a snapshot. A snapshot of last week that compaction replaced a
        minute ago would be removed at once, while readers use it.
        """
        expired = self._replaced_before(older_than_ms)
        if not expired:
            return 0
        before = self._snapshots_files()
        try:
            self._table.maintenance.expire_snapshots().by_ids(expired).commit()
        except (CommitFailedException, ValidationException) as error:
            raise CommitConflictError(f"{self.name}: {error}") from None
        self.refresh()
        for path in sorted(before - self._snapshots_files()):
            self._table.io.delete(path)
        return len(expired)

    def _replaced_before(self, older_than_ms: int) -> list[int]:
        metadata = self._table.metadata
        replaced_ms: dict[int, int] = {}
        for entry, following in itertools.pairwise(metadata.snapshot_log):
            replaced_ms[entry.snapshot_id] = following.timestamp_ms
        kept = {reference.snapshot_id for reference in metadata.refs.values()}
        # One that was never current (of a deleted branch) counts from its creation.
        return [
            each.snapshot_id
            for each in metadata.snapshots
            if each.snapshot_id not in kept and replaced_ms.get(each.snapshot_id, each.timestamp_ms) < older_than_ms
        ]

    def remove_orphans(self, older_than_ms: int) -> int:
        location = self._table.location().rstrip("/")
        manifests: dict[str, set[str]] = {}

        def named() -> set[str]:
            self.refresh()
            return self._snapshots_files(manifests) | self._metadata_files()

        directories = (f"{location}/data", f"{location}/metadata")
        return delete_orphans(self.name, directories, named, lambda path: path.endswith(_SUFFIXES), older_than_ms)

    def _metadata_files(self) -> set[str]:
        metadata = self._table.metadata
        paths = {self._table.metadata_location, *(each.metadata_file for each in metadata.metadata_log)}
        paths.update(each.statistics_path for each in metadata.statistics)
        paths.update(each.statistics_path for each in metadata.partition_statistics)
        return paths

    def _snapshots_files(self, manifests: dict[str, set[str]] | None = None) -> set[str]:
        """Return every file that any snapshot needs: data, manifests, lists of manifests. `manifests`: known
        contents.
        """
        known = {} if manifests is None else manifests
        paths: set[str] = set()
        for snapshot in self._table.metadata.snapshots:
            paths.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(self._table.io):
                if manifest.manifest_path not in known:
                    entries = manifest.fetch_manifest_entry(self._table.io, discard_deleted=True)
                    known[manifest.manifest_path] = {entry.data_file.file_path for entry in entries}
                paths.add(manifest.manifest_path)
                paths |= known[manifest.manifest_path]
        return paths

    def _property(self, name: str) -> str:
        return f"barnabas.{name}.{self._job}"

    def _set_properties(self, properties: Mapping[str, str]) -> None:
        transaction = self._table.transaction()
        transaction.set_properties(dict(properties))
        self._finish(transaction)

    def _finish(self, transaction: Any) -> None:
        try:
            transaction.commit_transaction()
        except (CommitFailedException, ValidationException) as error:
            raise CommitConflictError(f"{self.name}: {error}") from None
        self._data_files.clear()

    def _data_file(self, written: WrittenFile) -> DataFile:
        metadata = self._table.metadata
        schema = metadata.schema()
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=written.metadata(),
            stats_columns=compute_statistics_plan(schema, metadata.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        partitioned = self.partitioning.by is not PartitionBy.NONE
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=written.uri,
            file_format=FileFormat.PARQUET,
            partition=Record(written.partition) if partitioned else Record(),
            file_size_in_bytes=written.size_bytes,
            sort_order_id=None,
            spec_id=metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


def _partition_field(partitioning: Partitioning, schema: pa.Schema) -> tuple[str, Transform[Any, Any]]:
    prefix = "_" if "_offset" in schema.names else ""
    match partitioning.by:
        case PartitionBy.DAY:
            return f"{prefix}timestamp", DayTransform()
        case PartitionBy.HOUR:
            return f"{prefix}timestamp", HourTransform()
        case PartitionBy.BUCKET:
            return f"{prefix}key", BucketTransform(partitioning.buckets)
        case PartitionBy.KAFKA_PARTITION | PartitionBy.NONE:
            return f"{prefix}partition", IdentityTransform()


def _partition_value(file: DataFile) -> int | None:
    values = list(file.partition)
    return values[0] if values else None


def _without_field_ids(schema: pa.Schema) -> pa.Schema:
    return pa.schema([_plain(each) for each in schema])


def _plain(each: pa.Field) -> pa.Field:
    return pa.field(each.name, _plain_type(each.type), each.nullable)


def _plain_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(data_type):
        return pa.struct([_plain(inner) for inner in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(pa.field("element", _plain_type(data_type.value_type)))
    if pa.types.is_map(data_type):
        return pa.map_(pa.string(), _plain_type(data_type.item_type))
    return data_type
