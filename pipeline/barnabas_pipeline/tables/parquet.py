"""A table of plain Parquet files, with a log of commits that says which of them are valid.

`_barnabas/log/<version>.json` is a commit: files added and removed, the columns, the progress, the owner. A version is
created by linking a finished file to its name, which fails if the name exists: compare and set on every file system
with hard links. Every fiftieth commit writes the whole state beside it (`.state.json`), so that opening stays fast.
Readers use `_barnabas/files.csv` (one path per line, replaced as a whole at each commit) or `committed_files`; never a
glob, which would include files of a commit that was never made.
"""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from barnabas_pipeline.core.partitioning import Partitioning, parse_partitioning
from barnabas_pipeline.core.positions import Positions, TopicPositions, from_dict, to_dict
from barnabas_pipeline.tables.contract import (
    Change,
    Clock,
    CommitConflictError,
    Kind,
    Owner,
    TableError,
    TableFile,
    WriteTarget,
    kind_of,
    recreated_topics,
)
from barnabas_pipeline.tables.locations import delete_file, local_path, to_uri
from barnabas_pipeline.tables.orphans import delete_orphans
from barnabas_pipeline.tables.upserts import upsert_by_copying

STATE_EVERY = 50


@dataclass(slots=True)
class _State:
    """The state that the log adds up to."""

    version: int = -1
    columns: pa.Schema | None = None
    partitioning: Partitioning = field(default_factory=Partitioning)
    kind: Kind | None = None
    progress: dict[str, dict[str, TopicPositions]] = field(default_factory=dict)
    recreated: set[str] = field(default_factory=set)  # topics
    owners: dict[str, Owner] = field(default_factory=dict)
    files: dict[str, TableFile] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)  # path to wall_ms: still on disk for readers under way

    def apply(self, entry: Mapping[str, Any]) -> None:
        self.version = int(entry["version"])
        if "columns" in entry:
            self.columns = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(entry["columns"])))
        if "partitioning" in entry:
            self.partitioning = parse_partitioning(entry["partitioning"])
        if "kind" in entry:
            self.kind = kind_of(entry["kind"])
        for job, owner in entry.get("owners", {}).items():
            self.owners[job] = Owner(int(owner["epoch"]), str(owner["run"]))
        for job, progress in entry.get("progress", {}).items():
            self.progress[job] = from_dict(progress)
        self.recreated.update(entry.get("made_anew", []))
        for path in entry.get("removed", []):
            self.files.pop(path, None)
            self.removed[path] = int(entry["wall_ms"])
        for path in entry.get("forgotten", []):
            self.removed.pop(path, None)
        for path, label, size_bytes, record_count in entry.get("added", []):
            partition = None if label is None else self.partitioning.value(label)
            self.files[path] = TableFile(path, partition, size_bytes, record_count)

    def entry(self) -> dict[str, Any]:
        """Return this state as one entry."""
        return {
            "version": self.version,
            "wall_ms": 0,
            "columns": _columns_text(self.columns),
            "partitioning": str(self.partitioning),
            **({} if self.kind is None else {"kind": self.kind.text()}),
            "owners": {job: {"epoch": each.epoch, "run": each.run} for job, each in self.owners.items()},
            "progress": {job: to_dict(each) for job, each in self.progress.items()},
            "made_anew": sorted(self.recreated),
            "added": [_file_entry(path, each, self.partitioning) for path, each in self.files.items()],
            "removed_earlier": self.removed,
        }


def _columns_text(schema: pa.Schema | None) -> str:
    assert schema is not None
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _file_entry(path: str, file: TableFile, partitioning: Partitioning) -> list[object]:
    label = None if str(partitioning) == "none" else partitioning.label(file.partition)
    return [path, label, file.size_bytes, file.record_count]


class ParquetTable:
    """See the module's docstring; implements `Table`. Paths in the log are relative to the table: it can be moved."""

    def __init__(self, location: str, job: str, state: _State, root: Path, now_ms: Clock) -> None:
        self._location = location
        self._job = job
        self._root = root
        self._state = state
        self._now_ms = now_ms

    @classmethod
    def open(cls, location: str, job: str, now_ms: Clock) -> ParquetTable | None:
        """Open the table, or return None. `now_ms` returns the wall clock time."""
        root = _root(location)
        state = _read_state(root)
        return None if state.version < 0 else cls(to_uri(location), job, state, root, now_ms)

    @classmethod
    def create(
        cls,
        location: str,
        job: str,
        schema: pa.Schema,
        partitioning: Partitioning,
        kind: Kind | None,
        now_ms: Clock,
    ) -> ParquetTable:
        root = _root(location)
        table = cls(to_uri(location), job, _State(), root, now_ms)
        entry = {"columns": _columns_text(schema), "partitioning": str(partitioning)}
        table._append(entry if kind is None else {**entry, "kind": kind.text()})
        return table

    @property
    def name(self) -> str:
        return self._location

    @property
    def partitioning(self) -> Partitioning:
        return self._state.partitioning

    @property
    def kind(self) -> Kind | None:
        return self._state.kind

    def refresh(self) -> None:
        self._state = _read_state(self._root, self._state)

    def arrow_schema(self) -> pa.Schema:
        assert self._state.columns is not None
        return self._state.columns

    def add_columns(self, schema: pa.Schema) -> None:
        self._append({"columns": _columns_text(schema)})

    def progress(self, wanted: Positions) -> Positions:
        del wanted  # the log has them all
        return self._state.progress.get(self._job, {})

    def was_recreated(self, topic: str) -> bool:
        return topic in self._state.recreated

    def epoch(self) -> int:
        return self.owner().epoch

    def owner(self) -> Owner:
        return self._state.owners.get(self._job, Owner(0, ""))

    def claim(self, run: str) -> Owner:
        owner = Owner(self.epoch() + 1, run)
        self._append({"owners": {self._job: {"epoch": owner.epoch, "run": owner.run}}})
        return owner

    def commit(self, change: Change) -> None:
        entry: dict[str, Any] = {"notes": dict(change.notes)}
        entry["added"] = [
            _file_entry(
                self._relative(each.uri),
                TableFile(each.uri, each.partition, each.size_bytes, each.metadata().num_rows),
                self.partitioning,
            )
            for each in change.added
        ]
        entry["removed"] = [self._relative(each.uri) for each in change.removed]
        if change.progress is not None:
            entry["progress"] = {self._job: to_dict(change.progress)}
            entry["made_anew"] = recreated_topics(self.progress(change.progress), change.progress)
        self._append(entry)

    def upsert(self, changes: pa.Table, progress: Positions, notes: Mapping[str, str]) -> None:
        upsert_by_copying(self, changes, progress, notes)

    def files(self) -> list[TableFile]:
        return [
            TableFile(f"{self._location}/{path}", each.partition, each.size_bytes, each.record_count)
            for path, each in self._state.files.items()
        ]

    def write_target(self) -> WriteTarget:
        return WriteTarget(self._location, self.arrow_schema().serialize().to_pybytes(), self.partitioning)

    def expire(self, older_than_ms: int) -> int:
        """Delete files that compaction or upserts removed from the table before then, and the log's entries before."""
        forgotten = [path for path, at_ms in self._state.removed.items() if at_ms < older_than_ms]
        if forgotten:
            self._append({"forgotten": forgotten})
            for path in forgotten:
                delete_file(f"{self._location}/{path}")
        self._write_state()
        for entry in sorted((self._root / "log").glob("*.json")):
            if int(entry.name[:20]) < self._state.version and entry.stat().st_mtime * 1000 < older_than_ms:
                entry.unlink()
        return len(forgotten)

    def remove_orphans(self, older_than_ms: int) -> int:
        def named() -> set[str]:
            self.refresh()
            return {f"{self._location}/{path}" for path in (*self._state.files, *self._state.removed)}

        below = f"{self._location}/data"
        count = delete_orphans(self.name, (below,), named, lambda path: path.endswith(".parquet"), older_than_ms)
        for unnamed in (*self._root.glob(".*"), *(self._root / "log").glob(".*")):  # of a commit that died
            try:
                if unnamed.stat().st_mtime * 1000 < older_than_ms:
                    unnamed.unlink()
                    count += 1
            except FileNotFoundError:
                pass  # of a commit under way, which is done with it now
        return count

    def _relative(self, uri: str) -> str:
        return uri.removeprefix(self._location + "/")

    def _append(self, entry: dict[str, Any]) -> None:
        version = self._state.version + 1
        entry = {"version": version, "wall_ms": self._now_ms(), "job": self._job, **entry}
        log = self._root / "log"
        log.mkdir(parents=True, exist_ok=True)
        if version > 0 and not (log / f"{version - 1:020}.json").exists():
            # Expired while this run was suspended: the next name may be free again, but means nothing.
            raise CommitConflictError(f"{self._location}: version {version - 1} is out of date")
        try:
            _write_new(log / f"{version:020}.json", json.dumps(entry).encode())
        except FileExistsError:
            raise CommitConflictError(f"{self._location}: version {version} was committed by another") from None
        self._state.apply(entry)
        if version % STATE_EVERY == 0:
            self._write_state()
        self._write_listing()

    def _write_listing(self) -> None:
        """Write the list of the newest version: a slower writer's may come after, and replace, that of the next one."""
        state = self._state
        while True:
            listing = "file\n" + "".join(f"{_listed(self._location, path)}\n" for path in state.files)
            _replace(self._root / "files.csv", listing.encode())
            if not (self._root / "log" / f"{state.version + 1:020}.json").exists():
                return
            state = _read_state(self._root)

    def _write_state(self) -> None:
        _replace(self._root / "log" / f"{self._state.version:020}.state.json", json.dumps(self._state.entry()).encode())


def _listed(location: str, path: str) -> str:
    return str((local_path(location) or Path(location)) / path)


def _root(location: str) -> Path:
    path = local_path(to_uri(location))
    if path is None:
        raise TableError(
            f"a Parquet table's log needs a file system with hard links (a disk, NFS, a mounted volume), not "
            f"{location}; in an object store, choose iceberg or delta"
        )
    return path / "_barnabas"


def _read_state(root: Path, known: _State | None = None) -> _State:
    """Follow the log from what is known, else from the newest complete state."""
    log = root / "log"
    state = known
    if state is None or not (log / f"{state.version:020}.json").exists():
        state = _State()
        whole = max(log.glob("*.state.json"), default=None)
        if whole is not None:
            entry = json.loads(whole.read_bytes())
            state.apply(entry)
            state.removed = dict(entry["removed_earlier"])
    while (path := log / f"{state.version + 1:020}.json").exists():
        try:
            state.apply(json.loads(path.read_bytes()))
        except (ValueError, KeyError, TypeError) as error:
            raise TableError(f"{path} is damaged: {error}; restore it from a backup") from None
    return state


def _write_new(path: Path, content: bytes) -> None:
    """Write a complete file under a name that was free, or raise FileExistsError and write nothing."""
    unnamed = path.with_name(f".{uuid.uuid4().hex}")
    try:
        _write_synced(unnamed, content)
        try:
            os.link(unnamed, path)
        except FileExistsError:
            if not path.samefile(unnamed):  # NFS asks again where an answer was lost, and meets its own link
                raise
        _sync_directory(path.parent)
    finally:
        unnamed.unlink(missing_ok=True)


def _replace(path: Path, content: bytes) -> None:
    unnamed = path.with_name(f".{uuid.uuid4().hex}")
    try:
        _write_synced(unnamed, content)
        unnamed.replace(path)
    finally:
        unnamed.unlink(missing_ok=True)


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def committed_files(location: str) -> list[str]:
    """Return the valid files of a Parquet table, as paths: `spark.read.parquet(*committed_files(location))`."""
    state = _read_state(_root(location))
    if state.version < 0:
        raise TableError(f"no table in {location}")
    return [_listed(to_uri(location), path) for path in state.files]
