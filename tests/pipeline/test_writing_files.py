"""Files of a task on a disk that is full: the cause is told, and no file is left that nobody names."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow here (make pipeline-test)")
pytest.importorskip("mmh3", reason="needs the pipeline's environment (make pipeline)")

import pyarrow as pa

from barnabas_pipeline.core.partitioning import PartitionBy, Partitioning
from barnabas_pipeline.tables import writing
from barnabas_pipeline.tables.contract import WriteTarget
from barnabas_pipeline.tables.writing import FilesWriter

_SCHEMA = pa.schema([("partition", pa.int32()), ("value", pa.binary())])


class FullDisk:
    """A sink that takes `room` bytes; closing it fails too, as it writes what it holds back."""

    def __init__(self, sink: Any, room: int) -> None:
        self._sink = sink
        self._room = room

    @property
    def closed(self) -> bool:
        return bool(self._sink.closed)

    def write(self, data: Any) -> None:
        self._room -= len(data)
        if self._room < 0:
            raise OSError(28, "No space left on device")
        self._sink.write(data)

    def tell(self) -> int:
        return int(self._sink.tell())

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self._sink.close()
        if self._room < 0:
            raise OSError(28, "No space left on device: closing")


class FileSystem:
    """Arrow's, but that its files have so much room each."""

    def __init__(self, filesystem: Any, room: int) -> None:
        self._filesystem = filesystem
        self._room = room

    def create_dir(self, path: str, recursive: bool) -> None:
        self._filesystem.create_dir(path, recursive=recursive)

    def open_output_stream(self, path: str) -> FullDisk:
        return FullDisk(self._filesystem.open_output_stream(path), self._room)


def write_all(writer: FilesWriter, rows: pa.Table) -> None:
    writer.write(rows)
    writer.close()


@pytest.mark.parametrize("room", [0, 4, 60, 1000])
def test_a_full_disk_leaves_no_orphans_and_hides_no_cause(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = writing.filesystem_and_path

    def small(uri: str) -> tuple[Any, str]:
        filesystem, path = found(uri)
        return FileSystem(filesystem, room), path

    target = WriteTarget(
        f"file://{tmp_path}", _SCHEMA.serialize().to_pybytes(), Partitioning(PartitionBy.KAFKA_PARTITION)
    )
    writer = FilesWriter(target)
    rows = pa.table({"partition": [0, 1, 2], "value": [random.Random(1).randbytes(5000)] * 3}, schema=_SCHEMA)
    if room == 1000:  # the first files are whole, and one that is open is not
        writer.write(rows.slice(0, 2))
        assert len(writer.close()) == 2
    monkeypatch.setattr(writing, "filesystem_and_path", small)
    with pytest.raises(OSError, match=r"No space left on device$"):
        write_all(writer, rows)
    writer.abandon()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
