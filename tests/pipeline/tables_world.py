"""A tables job without Spark and without a cluster: what both would do, in this process, with crashes wherever wanted.

Batches go through the checkpoint's files as Spark writes them, so that what a run finds after a crash is what it would
find in earnest; readers are not ours (DuckDB, delta-rs, pyiceberg).
"""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from barnabas_pipeline.core.cluster import TopicExtent
from barnabas_pipeline.core.freshness import BatchFigures
from barnabas_pipeline.core.positions import Positions, TopicPartition, TopicPositions, each_offset, to_dict
from barnabas_pipeline.core.tables_job import TablesJob, tables_job
from barnabas_pipeline.tables.contract import Table
from barnabas_pipeline.tables.parquet import committed_files
from barnabas_pipeline.tables.stream import TablesRun
from barnabas_pipeline.tables.warehouse import TableFormat, Warehouse

SOURCE_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


class KilledError(BaseException):
    """The process died here: nothing that catches errors may see it."""


@dataclass(slots=True)
class FakeCluster:
    """Topics with their records in memory: (key, value) by topic and partition."""

    logs: dict[TopicPartition, list[tuple[bytes | None, bytes | None]]] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    earliest: dict[TopicPartition, int] = field(default_factory=dict)
    group: dict[TopicPartition, int] = field(default_factory=dict)
    earliest_hour: int = 0  # of the records' timestamps, an hour each
    times_us: dict[int, int | None] = field(default_factory=dict)  # where they are others, by offset

    def produce(self, topic: str, partition: int, *records: tuple[bytes | None, bytes | None]) -> None:
        self.topic_ids.setdefault(topic, f"id-of-{topic}")
        self.logs.setdefault(TopicPartition(topic, partition), []).extend(records)

    def extents(self) -> dict[str, TopicExtent]:
        found: dict[str, TopicExtent] = {}
        for topic, topic_id in self.topic_ids.items():
            parts = {at.partition: len(log) for at, log in self.logs.items() if at.topic == topic}
            starts = {part: self.earliest.get(TopicPartition(topic, part), 0) for part in parts}
            found[topic] = TopicExtent(topic_id, starts, parts)
        return found

    def committed(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {at: self.group[at] for at in partitions if at in self.group}

    def commit(self, positions: Positions) -> None:
        self.group.update(each_offset(positions))

    def _timestamp(self, offset: int) -> datetime.datetime | int | None:
        return self.times_us[offset] if offset in self.times_us else timestamp_of(self.earliest_hour + offset)

    def end(self) -> dict[str, TopicPositions]:
        return {topic: TopicPositions(each.topic_id, dict(each.latest)) for topic, each in self.extents().items()}

    def batches(self, start: Positions, end: Positions) -> Iterator[pa.RecordBatch]:
        """One per partition, as tasks read them."""
        since = dict(each_offset(start))
        for at, until in each_offset(end):
            rows = [
                {
                    "key": key,
                    "value": value,
                    "topic": at.topic,
                    "partition": at.partition,
                    "offset": offset,
                    "timestamp": self._timestamp(offset),
                    "timestampType": 0,
                    "headers": [{"key": "h", "value": b"%d" % offset}, {"key": "n", "value": None}],
                }
                for offset, (key, value) in enumerate(self.logs[at])
                if since.get(at, 0) <= offset < until
            ]
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema=SOURCE_SCHEMA)


def timestamp_of(offset: int) -> datetime.datetime:
    return datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC) + datetime.timedelta(hours=offset)


@dataclass(slots=True)
class LocalFrame:
    """The part of Spark's DataFrame that a batch uses; every collect reads anew, one task per partition."""

    read: Callable[[], Iterator[pa.RecordBatch]]
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] | None = None

    def mapInArrow(self, function: Any, schema: str) -> LocalFrame:  # noqa: N802 - Spark's name
        assert schema == "report binary"
        return LocalFrame(self.read, function)

    def collect(self) -> list[Any]:
        assert self.function is not None
        reports = [out for batch in self.read() for out in self.function(iter([batch]))]
        return [SimpleNamespace(report=each["report"]) for batch in reports for each in batch.to_pylist()]


@dataclass(slots=True)
class World:
    """`crash_at` names the step of a batch after which the process dies, once."""

    root: Path
    cluster: FakeCluster
    options: dict[str, Any]
    said: list[str] = field(default_factory=list)
    figures: list[BatchFigures] = field(default_factory=list)
    runs: int = 0
    wall_ms: int = 1_795_000_000_000

    @property
    def job(self) -> TablesJob:
        topics = {"topics": sorted(self.cluster.topic_ids)} if "topic_pattern" not in self.options else {}
        return tables_job({"to": str(self.root / "lake"), **topics, **self.options})

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(TableFormat(self.job.into), self.job.to, self.now_ms)

    def now_ms(self) -> int:
        self.wall_ms += 1
        return self.wall_ms

    def start(self) -> LocalRun:
        self.runs += 1
        run = TablesRun(
            self.job,
            f"run-{self.runs}",
            self.warehouse,
            self.cluster,
            self.now_ms,
            self.said.append,
            self.figures.append,
        )
        checkpoint, positions = run.begin()
        return LocalRun(self, run, Path(checkpoint.uri.removeprefix("file://")), positions)

    def run(self) -> None:
        """A run from start to end, in one batch."""
        self.start().batch()

    def rows(self, table: str) -> list[dict[str, Any]]:
        """By a reader that is not ours."""
        location = f"{self.job.to}/{table}"
        match self.job.into:
            case "iceberg":
                found = self.warehouse.iceberg_catalog.load_table(f"lake.{table}").scan().to_arrow()
            case "delta":
                found = pa.table(DeltaTable(location).to_pyarrow_table())
            case _:
                files = committed_files(location)
                return [] if not files else duckdb.read_parquet(files, union_by_name=True).to_arrow_table().to_pylist()
        return found.to_pylist()

    def identities(self, table: str) -> list[tuple[str, int, int]]:
        raw = self.job.value == "raw" or table.endswith("__dead_letters")
        names = [name if raw else f"_{name}" for name in ("topic", "partition", "offset")]
        return sorted(tuple(row[name] for name in names) for row in self.rows(table))

    def produced(self, topic: str) -> list[tuple[str, int, int]]:
        return sorted(
            (at.topic, at.partition, offset)
            for at, log in self.cluster.logs.items()
            if at.topic == topic
            for offset in range(len(log))
        )


@dataclass(slots=True)
class LocalRun:
    """Spark's part: offsets written, the batch run, commits written; a batch begun before comes first, as it was."""

    world: World
    run: TablesRun
    checkpoint: Path
    positions: Positions

    def batch(self, crash_before_commit_log: bool = False) -> None:
        offsets, commits = self.checkpoint / "offsets", self.checkpoint / "commits"
        offsets.mkdir(parents=True, exist_ok=True)
        commits.mkdir(parents=True, exist_ok=True)
        number = max((int(each.name) for each in commits.iterdir()), default=-1) + 1
        if not (offsets / str(number)).exists():
            self._write_offsets(offsets / str(number), self.world.cluster.end())
        end = self._read_offsets(offsets / str(number))
        start = self._read_offsets(offsets / str(number - 1)) if number else self.positions
        self.run.batch(LocalFrame(lambda: self.world.cluster.batches(start, end)), number)  # type: ignore[arg-type]
        if crash_before_commit_log:
            raise KilledError
        (commits / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')

    def _write_offsets(self, path: Path, end: Positions) -> None:
        path.write_text(f"v1\n{{}}\n{json.dumps(to_dict(end))}")

    def _read_offsets(self, path: Path) -> Positions:
        document = json.loads(path.read_text().splitlines()[-1])
        return {
            topic: TopicPositions(each["id"], {int(part): offset for part, offset in each["offsets"].items()})
            for topic, each in document.items()
        }


def run_that_may_die(world: World, rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of one batch, of which the process may die before or after any commit to any table."""
    with monkeypatch.context() as patches:
        try:
            run = world.start()
            for destination in run.run.destinations.values():
                for table in (destination.table, destination.dead_letters):
                    _dies_at_random(patches, rng, table)
            run.batch(crash_before_commit_log=rng.random() < 0.2)
        except KilledError:
            pass


def _dies_at_random(patches: pytest.MonkeyPatch, rng: random.Random, table: Table) -> None:
    for name in ("commit", "upsert", "add_columns"):
        earnest = getattr(table, name)

        def killing(*arguments: Any, earnest: Any = earnest) -> None:
            if rng.random() < 0.15:
                raise KilledError
            earnest(*arguments)
            if rng.random() < 0.15:
                raise KilledError

        patches.setattr(table, name, killing)
