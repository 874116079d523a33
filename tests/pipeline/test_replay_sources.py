"""What a replay takes from a table's files, and what it refuses."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("deltalake", reason="needs the pipeline's environment (make pipeline)")

import pyarrow as pa
import pyarrow.parquet as pq

from barnabas_pipeline.core.positions import TopicPartition
from barnabas_pipeline.core.replay import ReplayError, ReplayJob, SourceRecord, replay_job
from barnabas_pipeline.core.settings import Isolation
from barnabas_pipeline.kafka.cluster_client import ClusterClient
from barnabas_pipeline.replay import sources, windows
from barnabas_pipeline.replay.running import run_replay
from barnabas_pipeline.replay.sources import TableSource, TopicSource
from barnabas_pipeline.replay.windows import Window
from barnabas_pipeline.tables.maintaining import maintain_table
from tests.pipeline.tables_world import FakeCluster, World, timestamp_of

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


HEADERS_OF: list[tuple[tuple[str, bytes | None], ...]] = [(), (("a", b"1"), ("a", None)), (("b", b""),)]


def not_recreated(topic: str) -> bool:
    return topic == ""


def replayed(path: Path, files: list[list[tuple[int, int | None]]], **options: Any) -> list[SourceRecord]:
    """The records of a table with these files of (offset, time in ms), all of one partition."""
    for number, rows in enumerate(files):
        columns = {
            "topic": ["orders"] * len(rows),
            "partition": [0] * len(rows),
            "offset": [offset for offset, _ in rows],
            "timestamp": [None if time_ms is None else time_ms * 1000 for _, time_ms in rows],
            "key": [None] * len(rows),
            "value": [b"v"] * len(rows),
            "headers": [
                [{"key": key, "value": value} for key, value in HEADERS_OF[offset % 3]] or None for offset, _ in rows
            ],
        }
        pq.write_table(pa.table(columns, schema=SCHEMA), path / f"{number}.parquet")
    found = [SimpleNamespace(uri=f"file://{each}") for each in sorted(path.glob("*.parquet"))]
    table: Any = SimpleNamespace(
        name="orders", files=lambda: found, arrow_schema=lambda: SCHEMA, was_recreated=not_recreated
    )
    source = TableSource.open(table, ReplayJob(target="copy", table="orders", **options))
    return list(source.records(source.starts(), source.ends())[0])


@pytest.mark.parametrize("times", [{}, {"since_ms": 5}, {"until_ms": 500}])
def test_a_record_without_a_time_is_refused(tmp_path: Path, times: dict[str, int]) -> None:
    """A dead letter's may be null: it was compared with the time range, or with other records' times."""
    with pytest.raises(ReplayError, match="record 0/8 has no timestamp after 1970: it can't be written unchanged"):
        replayed(tmp_path, [[(7, 100), (8, None)]], **times)


def test_rows_of_a_topic_and_of_its_successor_are_refused(tmp_path: Path) -> None:
    """They were put between each other: both topics have these offsets."""
    files: list[list[tuple[int, int | None]]] = [[(3, 103), (4, 104), (5, 105)], [(0, 200), (1, 201), (5, 205)]]
    with pytest.raises(ReplayError, match=r"orders has two records 0/5, .* select one of them with --since or --until"):
        replayed(tmp_path, files)


def test_a_time_range_takes_one_of_two_topics(tmp_path: Path) -> None:
    files: list[list[tuple[int, int | None]]] = [[(0, 100), (1, 101)], [(0, 200), (1, 201)]]
    assert [each.timestamp_ms for each in replayed(tmp_path, files, since_ms=200)] == [200, 201]


def test_a_file_that_upkeep_deleted_meanwhile_is_one_line(tmp_path: Path) -> None:
    """It was a traceback, of a file not found."""
    cluster = FakeCluster()
    cluster.produce("orders", 0, (b"a", b"1"))
    world = World(tmp_path, cluster, {"into": "parquet"})
    world.run()
    table = world.warehouse.open("orders", "replay")
    assert table is not None
    source = TableSource.open(table, replay_job({"target": "copy", "table": "orders"}))
    for file in table.files():
        Path(file.uri.removeprefix("file://")).unlink()
    with pytest.raises(ReplayError, match=r"was removed by maintenance .*: run again to continue"):
        list(source.records(source.starts(), source.ends())[0])


def test_of_a_table_few_rows_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of an upsert table was, since its files' offsets lie between each other's."""
    held: list[int] = []
    held_bytes: list[int] = []
    converted: list[int] = []
    ordered, in_time = Window.ordered, sources._in_time

    def noting_ordered(window: Window) -> pa.Table:
        rows = ordered(window)
        held.append(rows.num_rows)
        held_bytes.append(rows.nbytes)
        return rows

    def noting_converted(rows: pa.Table, job: ReplayJob) -> Iterator[SourceRecord]:
        converted.append(rows.num_rows)
        return in_time(rows, job)

    monkeypatch.setattr(Window, "ordered", noting_ordered)
    monkeypatch.setattr(sources, "_in_time", noting_converted)
    monkeypatch.setattr(sources, "_HELD_BYTES", 20_000)
    monkeypatch.setattr(sources, "_CONVERTED_ROWS", 30)
    monkeypatch.setattr(windows, "_READ_ROWS_MAX", 64)
    offsets = random.Random(1).sample(range(100_000), 5_000)
    files: list[list[tuple[int, int | None]]]
    files = [[(offset, offset + 1) for offset in offsets[number::7]] for number in range(7)]
    found = replayed(tmp_path, files)
    assert [each.offset for each in found] == sorted(offsets)
    assert [each.headers for each in found] == [HEADERS_OF[each.offset % 3] for each in found]
    assert sum(held) == sum(converted) == 5_000
    assert max(held_bytes) <= 20_000
    assert max(converted) == 30


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_window_of_a_single_large_record(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which alone is more than may be held."""
    monkeypatch.setattr(sources, "_HELD_BYTES", 10)
    monkeypatch.setattr(windows, "_READ_ROWS_MAX", 2)
    cluster = FakeCluster()
    cluster.produce("orders", 0, *((b"%d" % each, b"v" * 1000) for each in range(20)))
    world = World(tmp_path, cluster, {"into": "delta", "mode": mode})
    world.run()
    cluster.produce("orders", 0, *((b"%d" % each, b"w" * 1000) for each in range(0, 20, 2)))
    world.run()
    found = whole_table(world, replay_job({"target": "copy", "table": "orders"}))
    expected = [*range(1, 20, 2), *range(20, 30)] if mode == "upsert" else list(range(30))
    assert [each.offset for each in found] == expected
    assert [each.headers for each in found] == [(("h", b"%d" % each), ("n", None)) for each in expected]


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("table_format", ["iceberg", "delta", "parquet"])
def test_a_table_of_two_topics_of_a_name_is_replayed_by_a_time_range_alone(
    table_format: str, mode: str, tmp_path: Path
) -> None:
    """Their records were put between each other where no offset was in both; the mark outlives all upkeep."""
    cluster = FakeCluster()
    cluster.produce("orders", 0, (b"a", b"old"), (b"b", b"old"), (b"c", b"old"))
    world = World(tmp_path, cluster, {"into": table_format, "mode": mode, "recreated": "append"})
    world.run()
    job = replay_job({"target": "copy", "table": "orders"})
    assert [each.key for each in whole_table(world, job)] == [b"a", b"b", b"c"]
    cluster.logs.clear()
    cluster.produce("orders", 0, *([(b"d", b"new")] * 4))
    cluster.earliest[TopicPartition("orders", 0)] = 3
    cluster.earliest_hour = 1000
    cluster.group.clear()
    cluster.topic_ids["orders"] = "id-of-the-next"
    world.run()
    world.run()
    hour_ms = 3_600_000
    for _ in range(2):
        world.wall_ms += 90 * 24 * hour_ms
        table = world.warehouse.open("orders", "maintain")
        assert table is not None
        maintain_table(table, world.now_ms, 1_000_000, 24 * hour_ms, 24 * hour_ms)
        with pytest.raises(ReplayError, match=r"has records of two topics orders, .*: with --since or --until"):
            whole_table(world, job)
    until_ms = round(timestamp_of(500).timestamp() * 1000)
    old = replay_job({"target": "copy", "table": "orders", "until_ms": until_ms})
    assert [each.value for each in whole_table(world, old)] == [b"old"] * 3


def whole_table(world: World, job: ReplayJob) -> list[SourceRecord]:
    table = world.warehouse.open(job.table, "replay")
    assert table is not None
    source = TableSource.open(table, job)
    return [record for part in source.records(source.starts(), source.ends()).values() for record in part]


@pytest.mark.parametrize(
    ("options", "isolation"),
    [({}, Isolation.READ_COMMITTED), ({"isolation": "read_uncommitted"}, Isolation.READ_UNCOMMITTED)],
)
def test_a_topic_is_read_without_what_was_aborted(
    options: dict[str, str], isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of aborted transactions became real ones."""
    opened: list[ClusterClient] = []

    def open_topic(client: ClusterClient, job: ReplayJob) -> TopicSource:
        opened.append(client)
        raise ReplayError("enough")

    monkeypatch.setattr(TopicSource, "open", open_topic)
    with pytest.raises(ReplayError, match="enough"):
        run_replay(replay_job({"target": "copy", "source_topic": "orders", **options}), lambda _: None)
    assert [client.settings.isolation for client in opened] == [isolation]
