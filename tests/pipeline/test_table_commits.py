"""What a commit leaves in a table, whatever its format: progress, owner, files; and a commit whose answer was lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("deltalake", reason="needs the pipeline's environment (make pipeline)")

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyiceberg.exceptions import CommitFailedException

from barnabas_pipeline.core.bookkeeping import advanced
from barnabas_pipeline.core.partitioning import Partitioning
from barnabas_pipeline.core.positions import Positions, TopicPositions
from barnabas_pipeline.tables import parquet
from barnabas_pipeline.tables.contract import Change, SupersededError, Table
from barnabas_pipeline.tables.delta import DeltaLakeTable
from barnabas_pipeline.tables.destination import Destination
from barnabas_pipeline.tables.iceberg import IcebergTable
from barnabas_pipeline.tables.maintaining import maintain_table
from barnabas_pipeline.tables.parquet import committed_files
from barnabas_pipeline.tables.record_columns import record_schema
from barnabas_pipeline.tables.warehouse import TableFormat, Warehouse
from tests.pipeline.tables_world import FakeCluster, LocalRun, World

FORMATS = ["iceberg", "delta", "parquet"]


def made(tmp_path: Path, table_format: str) -> Table:
    warehouse = Warehouse(TableFormat(table_format), str(tmp_path), lambda: 1_795_000_000_000)
    return warehouse.create("orders", "tables", record_schema("", with_value=True), Partitioning())


def at(topic_id: str, *offsets: int) -> Positions:
    """Of partitions 0, 1, … of topic o."""
    return {"o": TopicPositions(topic_id, dict(enumerate(offsets)))}


def reach(table: Table, end: Positions) -> None:
    table.commit(Change((), (), advanced(table.progress(end), end)))


@pytest.mark.parametrize("table_format", FORMATS)
def test_partitions_of_an_earlier_topic_are_nothing_to_a_later_one(table_format: str, tmp_path: Path) -> None:
    """Delta's log had their offsets under the new topic as soon as it grew: as many records were never read."""
    table = made(tmp_path, table_format)
    reach(table, at("A", 10, 1000, 2000))
    reach(table, at("B", 5))
    assert table.progress(at("B", 0, 0, 0)) == at("B", 5)
    reach(table, at("B", 6, 7))
    assert table.progress(at("B", 0, 0, 0)) == at("B", 6, 7)
    reach(table, at("C", 1))
    assert table.progress(at("C", 0, 0, 0)) == at("C", 1)


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_recreated_topic_with_fewer_partitions_that_then_grows(table_format: str, mode: str, tmp_path: Path) -> None:
    cluster = FakeCluster()
    for partition in range(2):
        cluster.produce("orders", partition, *((b"%d of %d" % (each, partition), b"old") for each in range(20)))
    world = World(tmp_path, cluster, {"into": table_format, "mode": mode, "recreated": "append"})
    world.run()
    cluster.logs.clear()
    cluster.group.clear()
    cluster.topic_ids["orders"] = "id-of-the-next"
    cluster.produce("orders", 0, (b"new 0", b"v"), (b"new 1", b"v"))
    world.run()
    cluster.produce("orders", 1, *((b"grown %d" % each, b"v") for each in range(5)))
    world.run()
    new = {row["key"] for row in world.rows("orders") if row["value"] == b"v"}
    assert new == {b"new 0", b"new 1", *(b"grown %d" % each for each in range(5))}


def lose_the_answer(patches: pytest.MonkeyPatch, table: Table, then: Callable[[], object] = lambda: None) -> list[str]:
    """The table's next commit is made, and reported as a conflict; `then` is called in between. It is in the list
    then.
    """
    lost: list[str] = []

    def losing(name: str, earnest: Any, error: Exception, ours: Callable[..., bool] = lambda *_: True) -> Any:
        def commit(*arguments: Any, **named: Any) -> Any:
            result = earnest(*arguments, **named)
            if not lost and ours(*arguments):
                lost.append(name)
                then()
                raise error
            return result

        return commit

    match table:
        case DeltaLakeTable():
            failed = CommitFailedError("the answer is lost")
            patches.setattr(table, "_create", losing("commit", table._create, failed))
            merge = table._merge

            def merging(*arguments: Any) -> Any:
                return SimpleNamespace(execute=losing("merge", merge(*arguments).execute, failed))

            patches.setattr(table, "_merge", merging)
        case IcebergTable():
            catalog, name = table._table.catalog, table._table.name()
            commit = losing(
                "commit", catalog.commit_table, CommitFailedException(), lambda each, *_: each.name() == name
            )
            patches.setattr(catalog, "commit_table", commit)
        case _:
            log = Path(table.name.removeprefix("file://")) / "_barnabas" / "log"
            write = losing("commit", parquet._write_new, FileExistsError(), lambda path, _: path.parent == log)
            patches.setattr(parquet, "_write_new", write)
    return lost


def world_of_json(tmp_path: Path, table_format: str, mode: str) -> World:
    """A batch of it brings rows and a dead letter."""
    cluster = FakeCluster()
    for partition in range(2):
        rows = ((b"%d of %d" % (each, partition), b'{"id": %d}' % each) for each in range(5))
        cluster.produce("orders", partition, *rows, (b"dead", b"{"))
    return World(tmp_path, cluster, {"into": table_format, "mode": mode, "value": "json"})


def assert_each_once(world: World) -> None:
    """By readers that are not ours: each record is in one of the two tables."""
    assert sorted(world.identities("orders") + world.identities("orders__dead_letters")) == world.produced("orders")
    dead = [at for at, log in world.cluster.logs.items() for _, value in log if value == b"{"]
    assert len(world.identities("orders__dead_letters")) == len(dead)


@pytest.mark.parametrize("table", ["table", "dead_letters"])
@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_commit_whose_answer_was_lost(
    table_format: str, mode: str, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked like another run's: files that were committed were deleted, or the batch was brought once more."""
    world = world_of_json(tmp_path, table_format, mode)
    world.run()
    world.cluster.produce("orders", 0, (b"next", b'{"id": 7}'), (b"dead too", b"{"))
    run = world.start()
    lost = lose_the_answer(monkeypatch, getattr(run.run.destinations["orders"], table))
    run.batch()
    assert lost
    monkeypatch.undo()
    assert_each_once(world)
    run.batch()
    world.start().batch()
    assert_each_once(world)


def two_batches(run: LocalRun) -> None:
    run.batch()
    run.batch()


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_commit_whose_answer_was_lost_to_a_run_that_was_superseded(
    table_format: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends, and its files stay: they are the table's."""
    world = world_of_json(tmp_path, table_format, mode)
    world.run()
    world.cluster.produce("orders", 0, (b"next", b'{"id": 7}'))
    run = world.start()
    lost = lose_the_answer(monkeypatch, run.run.destinations["orders"].table, world.start)
    with pytest.raises(SupersededError):
        two_batches(run)
    assert lost
    monkeypatch.undo()
    assert_each_once(world)
    world.run()
    assert_each_once(world)


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_compaction_whose_answer_was_lost(table_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that it replaced were gone from the table, and so those that it had written were deleted."""
    world = world_of_json(tmp_path, table_format, "append")
    run = world.start()
    for number in range(3):
        world.cluster.produce("orders", 0, (b"next", b'{"id": %d}' % number))
        run.batch()
    table = world.warehouse.open("orders", "maintain")
    assert table is not None
    lost = lose_the_answer(monkeypatch, table)
    done = maintain_table(table, world.now_ms, 1024 * 1024, 3_600_000, 3_600_000)
    assert (lost, done.files_after) == (["commit"], 1)
    monkeypatch.undo()
    assert_each_once(world)
    run.batch()
    assert_each_once(world)


def test_a_link_whose_answer_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS asks again, and finds the name taken: by the link that it has made."""
    world = world_of_json(tmp_path, "parquet", "append")
    link = os.link

    def asked_twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    with monkeypatch.context() as patches:
        patches.setattr(os, "link", asked_twice)
        world.run()
    log = Path(world.job.to) / "orders" / "_barnabas" / "log"
    assert len(list(log.glob("*[0-9].json"))) == 4  # made, claimed, its column, its rows
    assert_each_once(world)
    with pytest.raises(FileExistsError):
        parquet._write_new(next(log.iterdir()), b"another's")


def test_a_list_of_files_never_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wrote it last had committed first: readers of the list missed a version until the next commit."""
    world = world_of_json(tmp_path, "parquet", "append")
    run = world.start()
    run.batch()
    world.cluster.produce("orders", 0, (b"next", b'{"id": 7}'))
    replace = parquet._replace
    came: list[Path] = []

    def slowly(path: Path, content: bytes) -> None:
        if path.parts[-3:] == ("orders", "_barnabas", "files.csv") and not came:
            came.append(path)
            table = world.warehouse.open("orders", "maintain")
            assert table is not None
            assert maintain_table(table, world.now_ms, 1024 * 1024, 3_600_000, 3_600_000).files_after == 1
        replace(path, content)

    monkeypatch.setattr(parquet, "_replace", slowly)
    run.batch()
    monkeypatch.undo()
    (listing,) = came
    assert listing.read_text().split() == ["file", *committed_files(f"{world.job.to}/orders")]


def test_a_run_is_known_by_its_epoch_however_long_ago_it_claimed_a_delta_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name was forgotten after 100 commits: then each compaction had a batch made again, of which 12 end a job."""
    world = world_of_json(tmp_path, "delta", "append")
    run = world.start()
    run.batch()
    other = world.warehouse.open("orders", "maintain")
    assert other is not None
    for _ in range(101):
        other.commit(Change())
    destination = run.run.destinations["orders"]
    commit, plan = destination.table.commit, Destination.plan
    called: list[str] = []

    def commit_onto_a_head_that_moved(change: Change) -> None:
        called.append("commit")
        if called.count("commit") == 1:
            other.refresh()
            other.commit(Change())
        commit(change)

    def counted_plan(*arguments: Any) -> Any:
        called.append("plan")
        return plan(*arguments)

    def history(*_: Any) -> Any:
        called.append("history")
        return []

    monkeypatch.setattr(destination.table, "commit", commit_onto_a_head_that_moved)
    monkeypatch.setattr(Destination, "plan", counted_plan)
    monkeypatch.setattr(DeltaTable, "history", history)
    world.cluster.produce("orders", 0, (b"next", b'{"id": 7}'))
    run.batch()
    assert called == ["plan", "commit", "commit"]
    assert_each_once(world)
