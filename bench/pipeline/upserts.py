"""A batch of changes into a keyed Delta table: delta-rs' merge beside our copy on write, each in a process of its own.

    .venv-pipeline/bin/python -m bench.pipeline.upserts [rows] [changes] [pairs]

One line per run: seconds, changes per second and the most memory that the process held above where it began. Keys are
scattered over all files, in order of the files (the changes are neighbours then), or scattered over 16 buckets.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from barnabas_pipeline.core.partitioning import parse_partitioning
from barnabas_pipeline.core.positions import TopicPositions
from barnabas_pipeline.tables.contract import Change
from barnabas_pipeline.tables.delta import DeltaLakeTable
from barnabas_pipeline.tables.record_columns import HEADERS, TIMESTAMP, TOMBSTONE, record_schema
from barnabas_pipeline.tables.running import wall_ms
from barnabas_pipeline.tables.upserts import upsert_by_copying
from barnabas_pipeline.tables.writing import FilesWriter

SCHEMA = record_schema("", with_value=True)
FILE_ROWS = 100_000
VALUE_BYTES = 100
TIME_US = 1_795_000_000_000_000
SHAPES = {"scattered": "none", "neighbours": "none", "buckets": "bucket(16)"}


def records(keys: np.ndarray, offset: int, rng: np.random.Generator) -> pa.Table:
    count = len(keys)
    values = [rng.bytes(VALUE_BYTES) for _ in range(count)]
    offsets = np.arange(offset, offset + count)
    columns = [
        pa.array(["users"] * count),
        pa.array(keys % 4),
        pa.array(offsets),
        pa.array(TIME_US + offsets).cast(TIMESTAMP),
        pa.array([b"%012d" % key for key in keys.tolist()]),
        pa.array(values),
        pa.nulls(count, HEADERS),
    ]
    return pa.table(columns, schema=SCHEMA)


def fill(location: str, shape: str, rows: int) -> None:
    rng = np.random.default_rng(1)
    keys = np.arange(rows) if shape == "neighbours" else rng.permutation(rows)
    table = DeltaLakeTable.create(location, "bench", SCHEMA, parse_partitioning(SHAPES[shape]), None, wall_ms)
    for since in range(0, rows, FILE_ROWS):
        writer = FilesWriter(table.write_target())
        writer.write(records(keys[since : since + FILE_ROWS], since, rng))
        table.commit(Change(tuple(writer.close())))


def upsert(location: str, how: str, shape: str, rows: int, count: int) -> None:
    """One in ten is a tombstone."""
    rng = np.random.default_rng(2)
    keys = np.arange(rows // 4, rows // 4 + count) if shape == "neighbours" else rng.choice(rows, count, replace=False)
    changes = records(keys, rows, rng).append_column(TOMBSTONE, pa.array(rng.random(count) < 0.1))
    table = DeltaLakeTable.open(location, "bench", wall_ms)
    assert table is not None
    progress = {"users": TopicPositions("id", {0: count})}
    before = resident_bytes()
    most = [before]
    threading.Thread(target=watch, args=(most,), daemon=True).start()
    begun = time.perf_counter()
    if how == "merge":
        table.upsert(changes, progress, {})
    else:
        upsert_by_copying(table, changes, progress, {})
    seconds = time.perf_counter() - begun
    print(
        f"{shape:10} {how:5} {seconds:6.2f} s {count / seconds:8,.0f}/s {(most[0] - before) / 1e6:6.0f} MB", flush=True
    )


def watch(most: list[int]) -> None:
    while True:
        most[0] = max(most[0], resident_bytes())
        time.sleep(0.005)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main(rows: int = 2_000_000, count: int = 10_000, pairs: int = 3) -> None:
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as root:
            fill(f"{root}/table", shape, rows)
            for how in ("copy", "merge") * pairs:
                shutil.copytree(f"{root}/table", f"{root}/work")
                arguments = (f"{root}/work", how, shape, str(rows), str(count))
                subprocess.run([sys.executable, "-m", "bench.pipeline.upserts", *arguments], check=True)
                shutil.rmtree(f"{root}/work")


if __name__ == "__main__":
    if len(sys.argv) > 4:
        upsert(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        main(*(int(argument) for argument in sys.argv[1:]))
