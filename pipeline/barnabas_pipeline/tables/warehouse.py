"""Where a job's tables are, and how they are opened or made."""

from __future__ import annotations

import contextlib
import enum
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from barnabas_pipeline.core.partitioning import Partitioning
from barnabas_pipeline.tables.contract import Clock, Kind, Table, TableError
from barnabas_pipeline.tables.locations import local_path, to_uri

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

DEAD_LETTERS = "__dead_letters"
_OPENED_AGAIN_MAX: Final = 2


class TableFormat(enum.Enum):
    ICEBERG = "iceberg"
    DELTA = "delta"
    PARQUET = "parquet"


@dataclass(frozen=True)
class Warehouse:
    """`root` is a directory (or an address of an object store) with a table per name.

    For Iceberg `catalog` are pyiceberg's properties of a catalog (`type=rest uri=…`); without any, a catalog in SQLite
    beside the tables. A table's name may have a namespace before it (`lake.orders`); Iceberg needs one, `lake` if none.
    """

    format: TableFormat
    root: str
    now_ms: Clock
    catalog: Mapping[str, str] = field(default_factory=dict)

    def open(self, name: str, job: str) -> Table | None:
        match self.format:
            case TableFormat.ICEBERG:
                from barnabas_pipeline.tables.iceberg import IcebergTable

                if not self.catalog and not self._own_catalog.exists():
                    return None  # nothing is made for who only looks
                return IcebergTable.open(self.iceberg_catalog, self.identifier(name), job)
            case TableFormat.DELTA:
                from barnabas_pipeline.tables.delta import DeltaLakeTable

                return DeltaLakeTable.open(self.location(name), job, self.now_ms)
            case TableFormat.PARQUET:
                from barnabas_pipeline.tables.parquet import ParquetTable

                return ParquetTable.open(self.location(name), job, self.now_ms)

    def create(
        self, name: str, job: str, schema: pa.Schema, partitioning: Partitioning, kind: Kind | None = None
    ) -> Table:
        match self.format:
            case TableFormat.ICEBERG:
                from barnabas_pipeline.tables.iceberg import IcebergTable

                return IcebergTable.create(self.iceberg_catalog, self.identifier(name), job, schema, partitioning, kind)
            case TableFormat.DELTA:
                from barnabas_pipeline.tables.delta import DeltaLakeTable

                return DeltaLakeTable.create(self.location(name), job, schema, partitioning, kind, self.now_ms)
            case TableFormat.PARQUET:
                from barnabas_pipeline.tables.parquet import ParquetTable

                return ParquetTable.create(self.location(name), job, schema, partitioning, kind, self.now_ms)

    def location(self, name: str) -> str:
        return f"{to_uri(self.root)}/{name}"

    @staticmethod
    def identifier(name: str) -> str:
        return name if "." in name else f"lake.{name}"

    @property
    def _own_catalog(self) -> Path:
        """Iceberg's, beside the tables."""
        root = local_path(to_uri(self.root))
        if root is None:
            raise TableError(f"Iceberg in {self.root} needs a catalog: --catalog type=rest --catalog uri=http://…")
        return root / "catalog.db"

    @functools.cached_property
    def iceberg_catalog(self) -> Catalog:
        from pyiceberg.catalog import load_catalog
        from sqlalchemy.exc import DatabaseError

        properties = dict(self.catalog)
        if not properties:
            self._own_catalog.parent.mkdir(parents=True, exist_ok=True)
            properties = {"type": "sql", "uri": f"sqlite:///{self._own_catalog}"}
        properties.setdefault("warehouse", to_uri(self.root))
        # A catalog in SQL makes its own tables when it is first opened. Of two runs that start at once one finds none,
        # and then can't make them: it looks again, once for each of both tables.
        for _ in range(_OPENED_AGAIN_MAX):
            with contextlib.suppress(DatabaseError):
                return load_catalog("barnabas", **properties)
        return load_catalog("barnabas", **properties)


def table_name(template: str, topic: str) -> str:
    """The table for a topic: `{topic}` in the template, its dots and other signs made `_`."""
    return template.replace("{topic}", re.sub(r"[^A-Za-z0-9_-]", "_", topic))
