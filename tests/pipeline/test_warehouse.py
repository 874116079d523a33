"""Where tables are, when others look for them at the same moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="no pyspark here (make pipeline-test)")

from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables
from sqlalchemy import event

from barnabas_pipeline.tables.warehouse import TableFormat, Warehouse


def warehouse(root: Path) -> Warehouse:
    return Warehouse(TableFormat.ICEBERG, str(root), lambda: 0)


@pytest.mark.parametrize("made_first_by_another", [IcebergTables, IcebergNamespaceProperties])
def test_a_catalog_that_another_run_makes_at_the_same_moment_is_opened(
    made_first_by_another: Any, tmp_path: Path
) -> None:
    """The run found no table of the catalog's, and when it makes them they are there: it ended with SQLite's error."""
    another = warehouse(tmp_path)
    is_made = False

    def make_first(*_: Any, **__: Any) -> None:
        nonlocal is_made
        if not is_made:
            is_made = True
            another.iceberg_catalog  # noqa: B018 - it opens, and so makes, the catalog

    event.listen(made_first_by_another.__table__, "before_create", make_first)
    try:
        catalog = warehouse(tmp_path).iceberg_catalog
    finally:
        event.remove(made_first_by_another.__table__, "before_create", make_first)
    assert is_made
    assert catalog.list_namespaces() == []


def test_a_catalog_that_can_not_be_opened_says_why(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"no database at all, and long enough to be seen as none" * 20)
    with pytest.raises(Exception, match="not a database"):
        warehouse(tmp_path).iceberg_catalog  # noqa: B018 - opening it is what fails
