"""Upkeep: small files made large ones, old snapshots forgotten, files of no commit deleted; beside a running job.

A micro-batch a second makes many small files; a reader pays for each. Compaction keeps rows and their order (by
partition and offset), and commits only onto the head that it read, and only if all of its files are still in that: a
job that commits meanwhile goes first, always. Whatever dies here leaves orphans for the next time and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from barnabas_pipeline.tables.contract import (
    Change,
    Clock,
    CommitConflictError,
    Table,
    TableError,
    TableFile,
    WrittenFile,
)
from barnabas_pipeline.tables.rows_of_files import as_schema, read_rows
from barnabas_pipeline.tables.writing import FilesWriter, discard_uncommitted

log = logging.getLogger(__name__)
ATTEMPTS = 5
FILES_PER_COMMIT = 500


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What was done to one table."""

    files_before: int
    files_after: int
    expired: int
    orphans: int

    def line(self, name: str) -> str:
        return (
            f"{name}: {self.files_before:,} files are {self.files_after:,}, {self.expired:,} snapshots or files "
            f"expired, {self.orphans:,} files of no commit deleted"
        )


def maintain_table(table: Table, now_ms: Clock, small_bytes: int, keep_ms: int, orphans_ms: int) -> Upkeep:
    """Compact files under `small_bytes`, expire what was replaced `keep_ms` ago, delete orphans `orphans_ms` old.

    Raises TableError if others commit always first.
    """
    before = len(table.files())
    for group in _small_files(table, small_bytes):
        _compact(table, group)
    expired = _expire(table, now_ms() - keep_ms)
    orphans = table.remove_orphans(now_ms() - orphans_ms)
    table.refresh()
    return Upkeep(before, len(table.files()), expired, orphans)


def _expire(table: Table, older_than_ms: int) -> int:
    for _ in range(ATTEMPTS):
        table.refresh()
        try:
            return table.expire(older_than_ms)
        except CommitConflictError as error:
            log.info("%s; once more", error)
    raise TableError(f"{table.name} changes too often to expire anything of it; try when its job is quieter")


def _small_files(table: Table, small_bytes: int) -> Iterator[list[TableFile]]:
    """Groups of a partition's small files that become one, none of more than a large file's bytes."""
    by_partition: dict[int | None, list[TableFile]] = {}
    for file in table.files():
        if file.size_bytes < small_bytes:
            by_partition.setdefault(file.partition, []).append(file)
    for files in by_partition.values():
        group: list[TableFile] = []
        for file in files:
            if group and (sum(each.size_bytes for each in group) + file.size_bytes > small_bytes * 4):
                yield from _worthwhile(group)
                group = []
            group.append(file)
            if len(group) >= FILES_PER_COMMIT:
                yield from _worthwhile(group)
                group = []
        yield from _worthwhile(group)


def _worthwhile(group: list[TableFile]) -> Iterator[list[TableFile]]:
    if len(group) > 1:
        yield group


def _compact(table: Table, group: list[TableFile]) -> None:
    if not _has(table, group):
        return  # an upsert took one of them away since they were grouped
    written = _merged(table, group)
    for _ in range(ATTEMPTS):
        try:
            table.commit(Change(tuple(written), tuple(group), None, {"compaction": str(len(group))}))
        except CommitConflictError as error:
            log.info("%s; once more", error)
            table.refresh()
            if written and _has(table, written):
                return  # it was made, and its answer was lost
            if not _has(table, group):
                break  # what was written is of before
            continue
        return
    log.info("%s: %d files stay as they are, its job commits too often or changed them", table.name, len(group))
    discard_uncommitted(table, written)


def _has(table: Table, group: Sequence[TableFile | WrittenFile]) -> bool:
    """Whether all of them are still in the table, at the head that the next commit goes onto."""
    return {each.uri for each in group} <= {each.uri for each in table.files()}


def _merged(table: Table, group: list[TableFile]) -> list[WrittenFile]:
    writer = FilesWriter(table.write_target())
    try:
        rows = pa.concat_tables([as_schema(read_rows(each.uri), writer.schema) for each in group])
        prefix = "_" if "_offset" in rows.column_names else ""
        order = [(f"{prefix}{name}", "ascending") for name in ("topic", "partition", "offset")]
        writer.write(rows.sort_by(order))
        return writer.close()
    except BaseException:
        writer.abandon()
        raise
