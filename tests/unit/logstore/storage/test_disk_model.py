"""The model disk really forgets: a crash test on one that does not would prove nothing."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.ports.disk import DiskError, DiskErrorKind
from tests.sim.disk_model import DiskModel, Fault, MachineStopped
from tests.sim.disk_pages import PAGE_BYTES, SECTOR_BYTES, FileNode
from tests.sim.scheduler import InvariantViolation

SEEDS = range(100)


def with_file(content: bytes = b"") -> DiskModel:
    disk = DiskModel()
    disk.make_directory("/d")
    disk.flush_directory("/")
    disk.replace_file("/d/f", content)
    return disk


def after_power_cut(seed: int, disk: DiskModel) -> bytes | None:
    disk.lose_power(Random(seed))
    return disk.read_file("/d/f") if disk.exists("/d/f") else None


def outcomes(write: bytes, *, flush: bool) -> list[bytes | None]:
    found = []
    for seed in SEEDS:
        disk = with_file(b"old")
        file = disk.open("/d/f")
        disk.write_at(file, 3, [write])
        if flush:
            disk.flush(file)
        found.append(after_power_cut(seed, disk))
    return found


def test_unflushed_writes_are_lost_kept_or_torn_by_sectors() -> None:
    new = b"n" * (4 * SECTOR_BYTES)
    found = outcomes(new, flush=False)
    assert b"old" in found
    assert b"old" + new in found
    assert any(content not in (b"old", b"old" + new) for content in found)


def test_flushed_writes_survive() -> None:
    assert set(outcomes(b"new" * 1000, flush=True)) == {b"old" + b"new" * 1000}


def test_changes_of_one_name_survive_in_their_order_those_of_others_each_for_itself() -> None:
    found = set()
    for seed in SEEDS:
        disk = with_file()
        disk.open("/d/a", create=True)
        disk.rename("/d/f", "/d/g")
        disk.rename("/d/g", "/d/h")
        disk.remove("/d/a")
        disk.lose_power(Random(seed))
        found.add(tuple(entry.name for entry in disk.list("/d")))
    assert found == {("f",), ("a", "f"), ("a", "g"), ("a", "h"), ("g",), ("h",)}


def test_a_flush_of_a_file_does_not_save_its_name() -> None:
    found = set()
    for seed in SEEDS:
        disk = with_file()
        file = disk.open("/d/new", create=True)
        disk.write_at(file, 0, [b"new"])
        disk.flush(file)
        disk.lose_power(Random(seed))
        found.add(disk.read_file("/d/new") if disk.exists("/d/new") else None)
    assert found == {None, b"new"}


def test_names_survive_a_flush_of_their_directory() -> None:
    for seed in SEEDS:
        disk = with_file()
        disk.rename("/d/f", "/d/g")
        disk.flush_directory("/d")
        disk.lose_power(Random(seed))
        assert [entry.name for entry in disk.list("/d")] == ["g"]


def test_what_a_failed_flush_dropped_no_later_flush_saves() -> None:
    disk = with_file()
    file = disk.open("/d/f")
    disk.write_at(file, 0, [b"lost"])
    disk.faults.append(Fault("flush", "/d/f"))
    with pytest.raises(DiskError):
        disk.flush(file)
    disk.flush(file)
    assert disk.read_file("/d/f") == b"lost"
    assert after_power_cut(1, disk) == b""


def test_a_failed_write_leaves_a_part_behind() -> None:
    disk = with_file()
    fault = Fault("write_at", "/d/f", DiskErrorKind.IO, skip=1, written_bytes=2)
    disk.faults.append(fault)
    file = disk.open("/d/f")
    disk.write_at(file, 0, [b"ab"])
    with pytest.raises(DiskError):
        disk.write_at(file, 2, [b"cdef"])
    assert (disk.read_file("/d/f"), fault.hits) == (b"abcd", 1)


def test_capacity_is_a_full_disk() -> None:
    disk = with_file()
    disk.capacity_bytes = 5
    with pytest.raises(DiskError) as caught:
        disk.write_at(disk.open("/d/f"), 0, [b"abcdefgh"])
    assert caught.value.kind is DiskErrorKind.NO_SPACE
    assert disk.read_file("/d/f") == b"abcde"
    disk.write_at(disk.open("/d/f"), 0, [b"ABCDE"])


def test_the_same_seed_loses_the_same() -> None:
    new = b"n" * (20 * SECTOR_BYTES)
    assert outcomes(new, flush=False) == outcomes(new, flush=False)


def test_writes_to_one_sector_survive_in_their_order() -> None:
    found = set()
    for seed in SEEDS:
        disk = with_file()
        file = disk.open("/d/f")
        for position, letter in enumerate((b"a", b"b", b"c")):
            disk.write_at(file, position, [letter])
        content = after_power_cut(seed, disk)
        assert content is not None
        found.add(content.rstrip(b"\0"))
    assert found == {b"", b"a", b"ab", b"abc"}


def test_a_page_survives_without_those_before_it() -> None:
    found = outcomes(b"n" * (4 * PAGE_BYTES), flush=False)
    kept = [content[PAGE_BYTES:].strip(b"\0") for content in found if content and content.startswith(b"old\0")]
    assert any(kept)


def test_what_was_flushed_survives_in_a_sector_that_is_written_again() -> None:
    for seed in SEEDS:
        disk = with_file(b"old")
        file = disk.open("/d/f")
        disk.truncate(file, 2)
        disk.write_at(file, 2, [b"new" * 1000])
        content = after_power_cut(seed, disk)
        assert content is not None
        assert content.startswith(b"ol")


def test_a_process_ends_in_the_midst_of_a_write() -> None:
    found = set()
    for seed in SEEDS:
        disk = with_file()
        disk.chance = Random(seed)
        disk.interrupt_after = 1
        file = disk.open("/d/f")
        disk.write_at(file, 0, [b"a"])
        with pytest.raises(MachineStopped):
            disk.write_at(file, 1, [b"bc"])
        found.add(disk.read_file("/d/f"))
        disk.write_at(file, 0, [b"alive again"])
    assert found == {b"a", b"ab", b"abc"}


def test_pages_of_a_failed_flush_leave_the_cache() -> None:
    disk = with_file()
    file = disk.open("/d/f")
    disk.write_at(file, 0, [b"lost"])
    disk.faults.append(Fault("flush", "/d/f"))
    with pytest.raises(DiskError):
        disk.flush(file)
    disk.drop_clean_pages()
    assert disk.read_file("/d/f") == b""


def test_what_clients_were_sent_is_written_again_but_never_as_something_else() -> None:
    node = FileNode(bytearray(b"0123456789"), sent_end=6)
    node.change(2, b"2345....")
    assert node.content == b"012345...."
    with pytest.raises(InvariantViolation, match="I9: bytes from 2 on"):
        node.change(2, b"234x")
    node.change(4, None)
    with pytest.raises(InvariantViolation, match="I9: bytes from 4 on"):
        node.change(4, b"45")
