"""Upkeep of tables: beside a job that commits all the time, cut short anywhere, no file taken that is needed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("deltalake", reason="needs the pipeline's environment (make pipeline)")

import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.io.pyarrow import PyArrowFileIO

from barnabas_pipeline.tables import delta, maintaining, orphans, parquet
from barnabas_pipeline.tables.contract import CommitConflictError, Table, TableError
from barnabas_pipeline.tables.delta import DeltaLakeTable
from barnabas_pipeline.tables.maintaining import maintain_table
from barnabas_pipeline.tables.parquet import committed_files
from tests.pipeline.tables_world import FakeCluster, KilledError, World

FORMATS = ["iceberg", "delta", "parquet"]
MIB = 1024 * 1024
HOUR_MS = 3_600_000
NOW = -(10**10)  # as an age: all that there is, whatever the clock


def filled_world(tmp_path: Path, table_format: str, **options: Any) -> World:
    cluster = FakeCluster()
    for partition in range(2):
        cluster.produce("orders", partition, (b"k%d" % partition, b"first"))
    # The wall's time, by which delta-rs goes and files are dated.
    return World(tmp_path, cluster, {"into": table_format, **options}, wall_ms=time.time_ns() // 1_000_000)


def produce(world: World, rng: random.Random) -> None:
    """Keys keep to one partition."""
    for _ in range(rng.randrange(1, 8)):
        number = rng.randrange(8)
        value = None if rng.random() < 0.2 else b"%d" % rng.randrange(1000)
        world.cluster.produce("orders", number % 2, (b"k%d" % number, value))


def opened(world: World, job: str = "maintain") -> Table:
    table = world.warehouse.open("orders", job)
    assert table is not None
    return table


def assert_whole(world: World) -> None:
    """All that was produced is in the table, once; in a keyed table the newest of each key."""
    run = world.start()
    run.batch()
    run.batch()
    if world.job.mode == "append":
        assert world.identities("orders") == world.produced("orders")
        return
    newest: dict[bytes | None, bytes | None] = {}
    for log in world.cluster.logs.values():
        newest |= dict(log)
    rows = world.rows("orders")
    assert {row["key"]: row["value"] for row in rows} == {key: value for key, value in newest.items() if value}
    assert len(rows) == len({row["key"] for row in rows})


def named_files(world: World) -> set[Path]:
    """What the table's own metadata names, as others read it: all snapshots, the whole log, removed files too."""
    root = Path(world.job.to) / "orders"
    match world.job.into:
        case "iceberg":
            table = world.warehouse.iceberg_catalog.load_table("lake.orders")
            uris = [*table.inspect.all_files()["file_path"].to_pylist(), table.metadata_location]
            uris += [*table.inspect.all_manifests()["path"].to_pylist(), *(s.manifest_list for s in table.snapshots())]
            uris += [each.metadata_file for each in table.metadata.metadata_log]
            return {Path(uri.removeprefix("file://")) for uri in uris}
        case "delta":
            actions = [
                json.loads(line) for log in root.glob("_delta_log/*.json") for line in log.read_text().splitlines()
            ]
            changed = [each.get("add") or each.get("remove") for each in actions]
            return {root / each["path"] for each in changed if each is not None}
        case _:
            entries = [json.loads(log.read_bytes()) for log in root.glob("_barnabas/log/*.json")]
            added = {added[0] for entry in entries for added in entry.get("added", [])}
            added |= {path for entry in entries for path in entry.get("removed_earlier", {})}
            return {root / path for path in added - {path for entry in entries for path in entry.get("forgotten", [])}}


def files_on_disk(world: World) -> set[Path]:
    """Those that can be orphans."""
    root = Path(world.job.to).resolve() / world.warehouse.identifier("orders").replace(".", "/")
    if world.job.into != "iceberg":
        root = Path(world.job.to) / "orders"
    return {path for path in root.rglob("*") if path.is_file() and path.suffix in (".parquet", ".avro")} - set(
        root.glob("_delta_log/*")
    )


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("table_format", FORMATS)
def test_groups_of_several_partitions(table_format: str, mode: str, tmp_path: Path) -> None:
    """A second group's commit follows the first one's: Iceberg's knew nothing of its files any more."""
    world = filled_world(tmp_path, table_format, mode=mode, partition_by="bucket(2)")
    run = world.start()
    for number in range(3):
        run.batch()
        keys = (b"%d of %d" % (each, number) for each in range(20))
        world.cluster.produce("orders", 0, *((key, b"v") for key in keys))
    table = opened(world)
    done = maintain_table(table, world.now_ms, MIB, NOW, HOUR_MS)
    assert (done.files_before > 2, done.files_after) == (True, 2)
    assert_whole(world)


@pytest.mark.parametrize("table_format", FORMATS)
def test_an_upsert_between_two_groups_is_not_undone(
    table_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of the second group were grouped before the job replaced them."""
    world = filled_world(tmp_path, table_format, mode="upsert", partition_by="bucket(2)")
    run = world.start()
    for number in range(3):
        run.batch()
        world.cluster.produce("orders", 0, *((b"%d of %d" % (each, number), b"v") for each in range(20)))
    run.batch()
    table = opened(world)
    compact = maintaining._compact
    groups: list[list[Any]] = []

    def after_a_batch(table: Table, group: list[Any]) -> None:
        if groups:
            world.cluster.produce("orders", 0, *((b"%d of %d" % (each, 1), b"new") for each in range(20)))
            run.batch()
            table.refresh()
        groups.append(group)
        compact(table, group)

    monkeypatch.setattr(maintaining, "_compact", after_a_batch)
    maintain_table(table, world.now_ms, MIB, HOUR_MS, HOUR_MS)
    assert len(groups) == 2
    assert_whole(world)


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_job_that_commits_before_each_attempt_wins(
    table_format: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = filled_world(tmp_path, table_format, mode=mode)
    rng = random.Random(3)
    run = world.start()
    for number in range(3):
        run.batch()
        for key in range(8 * number, 8 * number + 8):
            world.cluster.produce("orders", key % 2, (b"k%d" % key, b"v"))
    run.batch()
    table = opened(world)
    earnest = table.commit
    lost = []

    def late(change: Any) -> None:
        produce(world, rng)
        run.batch()
        try:
            earnest(change)
        except CommitConflictError:
            lost.append(change)
            raise

    monkeypatch.setattr(table, "commit", late)
    maintain_table(table, world.now_ms, MIB, HOUR_MS, HOUR_MS)
    assert lost
    monkeypatch.undo()
    assert_whole(world)
    written = {Path(each.uri.removeprefix("file://")) for change in lost for each in change.added}
    assert not any(path.exists() for path in written)


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("table_format", FORMATS)
def test_beside_a_job_in_another_thread(table_format: str, mode: str, tmp_path: Path) -> None:
    world = filled_world(tmp_path, table_format, mode=mode, partition_by="bucket(2)")
    run = world.start()
    run.batch()
    failures: list[BaseException] = []

    def job() -> None:
        rng = random.Random(5)
        try:
            for _ in range(12):
                produce(world, rng)
                run.batch()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=job)
    thread.start()
    rounds = 0
    while thread.is_alive() or not rounds:
        with contextlib.suppress(TableError):  # the job changed it too often, this time
            maintain_table(opened(world), world.now_ms, MIB, HOUR_MS, HOUR_MS)
        rounds += 1
    thread.join()
    assert failures == []
    assert_whole(world)


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_reader_of_an_older_list_of_files_reads_on(table_format: str, tmp_path: Path) -> None:
    world = filled_world(tmp_path, table_format)
    run = world.start()
    for number in range(4):
        run.batch()
        world.cluster.produce("orders", 0, (b"k", b"%d" % number))
    table = opened(world)
    before = [each.uri.removeprefix("file://") for each in table.files()]
    done = maintain_table(table, world.now_ms, MIB, HOUR_MS, NOW)
    assert (done.files_before, done.files_after) == (len(before), 1)
    assert sum(pq.read_metadata(path).num_rows for path in before) == 5
    done = maintain_table(table, world.now_ms, MIB, NOW, NOW)
    assert done.expired > 0
    assert not any(Path(path).exists() for path in before)
    assert_whole(world)


def test_a_parquet_list_is_readable_until_its_hours_are_over(tmp_path: Path) -> None:
    world = filled_world(tmp_path, "parquet")
    run = world.start()
    run.batch()
    world.cluster.produce("orders", 0, (b"k", b"v"))
    run.batch()
    held = committed_files(f"{world.job.to}/orders")
    maintain_table(opened(world), world.now_ms, MIB, HOUR_MS, 24 * HOUR_MS)
    world.wall_ms += HOUR_MS - 10_000
    assert maintain_table(opened(world), world.now_ms, MIB, HOUR_MS, 24 * HOUR_MS).expired == 0
    assert sum(pq.read_metadata(path).num_rows for path in held) == 3
    world.wall_ms += 20_000
    assert maintain_table(opened(world), world.now_ms, MIB, HOUR_MS, 24 * HOUR_MS).expired == len(held)
    assert not any(Path(path).exists() for path in held)
    assert_whole(world)


def test_delta_names_removed_files_as_long_as_they_are_kept(tmp_path: Path) -> None:
    """Its log forgets them after a week; from then on they would be orphans, however long they are to be kept."""
    world = filled_world(tmp_path, "delta")
    world.run()
    for keep_hours, said in ((24, None), (720, "interval 720 hours")):
        maintain_table(opened(world), world.now_ms, MIB, keep_hours * HOUR_MS, 72 * HOUR_MS)
        configuration = DeltaTable(f"{world.job.to}/orders").metadata().configuration
        assert configuration.get("delta.deletedFileRetentionDuration") == said
    assert_whole(world)


def test_a_snapshot_counts_from_when_it_was_replaced(tmp_path: Path) -> None:
    """By Iceberg's own rule one of last week that was replaced this minute goes at once, under its readers."""
    world = filled_world(tmp_path, "iceberg")
    run = world.start()
    run.batch()
    catalog = world.warehouse.iceberg_catalog
    first = catalog.load_table("lake.orders").current_snapshot()
    assert first is not None
    made_ms = first.timestamp_ms
    world.cluster.produce("orders", 0, (b"k", b"v"))
    while True:
        run.batch()
        replaced_ms = catalog.load_table("lake.orders").metadata.snapshot_log[-1].timestamp_ms
        if replaced_ms > made_ms + 1:
            break
    table = opened(world)
    table.expire(made_ms + 1)  # the first was made before, and replaced later
    kept = catalog.load_table("lake.orders")
    assert first.snapshot_id in {each.snapshot_id for each in kept.snapshots()}
    assert kept.scan(snapshot_id=first.snapshot_id).to_arrow().num_rows == 2
    table.expire(replaced_ms + 1)
    assert first.snapshot_id not in {each.snapshot_id for each in catalog.load_table("lake.orders").snapshots()}


@pytest.mark.parametrize("table_format", FORMATS)
def test_young_orphans_stay_and_old_ones_go(table_format: str, tmp_path: Path) -> None:
    """A young one may be of a batch that is being written now."""
    world = filled_world(tmp_path, table_format, partition_by="hour")
    world.run()
    table = opened(world)
    known = Path(table.files()[0].uri.removeprefix("file://"))
    young, old = known.with_name("young.parquet"), known.with_name("old.parquet")
    for path, age_hours in ((young, 71), (old, 73)):
        path.write_bytes(known.read_bytes())
        modified = world.wall_ms / 1000 - age_hours * 3600
        os.utime(path, (modified, modified))
    assert maintain_table(table, world.now_ms, MIB, HOUR_MS, 72 * HOUR_MS).orphans == 1
    assert (young.exists(), old.exists()) == (True, False)
    assert_whole(world)


@pytest.mark.parametrize("table_format", FORMATS)
def test_what_is_committed_while_the_directory_is_listed_stays(
    table_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However old it looks: a file system's clock may be wrong."""
    world = filled_world(tmp_path, table_format)
    run = world.start()
    run.batch()
    table = opened(world)
    owner, name = (table._table, "vacuum") if isinstance(table, DeltaLakeTable) else (orphans, "files_below")
    earnest = getattr(owner, name)
    listings: list[Any] = []

    def after_a_batch(*arguments: Any, **named: Any) -> Any:
        if not listings:
            world.cluster.produce("orders", 0, (b"k", b"v"))
            run.batch()
        listings.append(arguments)
        return earnest(*arguments, **named)

    monkeypatch.setattr(owner, name, after_a_batch)
    assert table.remove_orphans(10**15) == 0
    assert listings
    monkeypatch.undo()
    assert_whole(world)


@pytest.mark.parametrize("table_format", ["iceberg", "parquet"])
def test_names_that_do_not_match_the_directory_delete_nothing(table_format: str, tmp_path: Path) -> None:
    world = filled_world(tmp_path, table_format)
    world.run()
    table = opened(world)
    known = Path(table.files()[0].uri.removeprefix("file://"))
    orphan = known.with_name("orphan.parquet")
    known.rename(orphan)
    with pytest.raises(TableError, match=r"is named and not there .* no orphan was deleted"):
        table.remove_orphans(10**15)
    assert orphan.exists()


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("table_format", FORMATS)
def test_no_file_that_is_named_goes_in_any_history(
    table_format: str, seed: int, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches and upkeep, each dying anywhere; orphans of any age are taken where no batch is under way."""
    rng = random.Random(seed)
    partition_by = rng.choice(["none", "bucket(2)", "day"])
    world = filled_world(tmp_path, table_format, mode=mode, partition_by=partition_by)
    world.run()
    for _ in range(10):
        with monkeypatch.context() as patches:
            try:
                if rng.random() < 0.6:
                    produce(world, rng)
                    run = world.start()
                    dying(patches, rng, run.run.destinations["orders"].table, "commit")
                    run.batch()
                else:
                    table = opened(world)
                    dying(patches, rng, table, "commit")
                    dying(patches, rng, orphans, "_delete")
                    dying(patches, rng, parquet, "delete_file")
                    dying(patches, rng, delta, "delete_file")
                    dying(patches, rng, PyArrowFileIO, "delete")
                    maintain_table(table, world.now_ms, MIB, rng.choice([NOW, HOUR_MS]), rng.choice([NOW, HOUR_MS]))
            except KilledError:
                pass
        before = {path for path in named_files(world) if path.exists()}
        opened(world).remove_orphans(10**15)
        assert {path for path in named_files(world) if path.exists()} == before
        assert files_on_disk(world) <= before
    assert_whole(world)


def dying(patches: pytest.MonkeyPatch, rng: random.Random, owner: Any, name: str) -> None:
    earnest: Callable[..., Any] = getattr(owner, name)

    def killing(*arguments: Any) -> Any:
        if rng.random() < 0.1:
            raise KilledError
        result = earnest(*arguments)
        if rng.random() < 0.1:
            raise KilledError
        return result

    patches.setattr(owner, name, killing)
