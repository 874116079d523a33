"""What the checker takes for cleaned, and what for lost."""

from __future__ import annotations

from typing import cast

import pytest

from barnabas.wire.markers import Marker, build_marker
from barnabas.wire.record_batch import (
    Record,
    build_batch,
    empty_batch,
    encode_record,
    parse_header,
    patch_offsets,
    rebuild_batch,
)
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.compaction import BadCleaning, CleanedLog, check_cleaned
from tests.sim.replica_logs import Batch, BatchRegister, Book, ReplicaLog

PASS_END = 4
"""Where the pass ends, unless a test says something else: behind everything that `Scene` begins with."""


class Scene:
    """A log that is committed: `a` and `b` in one batch, `c` alone, then `a` again."""

    def __init__(self) -> None:
        self.register, self.book = BatchRegister(), Book()
        self.written: list[bytes] = []
        for keys in ("ab", "c", "a"):
            self.append(_batch(keys))

    @property
    def end(self) -> int:
        return self.book.end

    def append(self, data: bytes) -> None:
        placed = bytearray(data)
        patch_offsets(placed, 0, self.end, 0)
        self.written.append(bytes(placed))
        (batch,) = self.register.take(bytes(placed))
        self.book.add([batch], batch.next_offset, 0)

    def clean(self, *kept: bytes, pass_end: int = PASS_END) -> list[Batch]:
        before = self.register.find(b"".join(self.written))
        return check_cleaned(before, CleanedLog(0, self.end, pass_end, b"".join(kept)), self.register, self.book.keys)

    def agreed_end_of(self, *kept: bytes) -> int:
        """Of a replica that was sent these batches, and has the leader's end."""
        replica = ReplicaLog(cast("PartitionLog", None))
        replica.add(self.register.take(b"".join(kept)))
        replica.end = self.end
        return self.book.agree(replica)


def _batch(keys: str, producer_id: int = -1, value: bytes = b"value") -> bytes:
    records = [Record(key.encode(), value, 1) for key in keys]
    return build_batch(records, producer_id=producer_id, producer_epoch=0, is_transactional=producer_id >= 0)


def _without(data: bytes, *indexes: int) -> bytes:
    """What a cleaner makes of a batch that loses these records."""
    header = parse_header(data)
    keys = [key for key in ("a", "b") if ord(key) - ord("a") not in indexes]
    records = [encode_record(Record(key.encode(), b"value", 1), ord(key) - ord("a"), 1) for key in keys]
    return rebuild_batch(header, b"".join(records), records_count=len(records), max_timestamp=1, delete_horizon_ms=None)


def test_a_record_goes_where_a_later_one_of_its_key_is_cleaned_too() -> None:
    scene = Scene()
    ab, c, a = scene.written
    smaller, *rest = scene.clean(_without(ab, 0), c, a)
    assert smaller.whole.crc != smaller.crc
    assert list(smaller.values()) == [1]
    assert [each.base_offset for each in rest] == [2, 3]
    assert scene.agreed_end_of(_without(ab, 0), c, a) == scene.end, "another replica has copied it"
    assert scene.agreed_end_of(ab, c, a) == scene.end, "or has not"


@pytest.mark.parametrize("pass_end", [0, 3])
def test_a_record_stays_where_the_later_one_is_not_part_of_the_pass(pass_end: int) -> None:
    scene = Scene()
    ab, c, a = scene.written
    with pytest.raises(BadCleaning, match="the record at offset 0 is gone"):
        scene.clean(_without(ab, 0), c, a, pass_end=pass_end)


def test_the_last_record_of_a_key_stays() -> None:
    scene = Scene()
    ab, c, a = scene.written
    for kept, offset in ((ab, a), 2), ((_without(ab, 1), c, a), 1), ((ab, c), 3):
        with pytest.raises(BadCleaning, match=f"the record at offset {offset} is gone"):
            scene.clean(*kept)


def test_a_batch_may_lose_all_records_and_stay_for_its_producer() -> None:
    scene = Scene()
    scene.append(_batch("c"))
    ab, c, a, last = scene.written
    scene.clean(ab, empty_batch(parse_header(c)), a, last, pass_end=5)
    assert scene.agreed_end_of(ab, a, last) == 2, "no pass has removed the header"
    assert scene.agreed_end_of(ab, empty_batch(parse_header(c)), a, last) == 5


def test_a_reader_may_miss_what_is_there_again() -> None:
    """Seed 2008 of an exploration: a record was written twice under two epochs of its producer, as Kafka allows after a
    restart, and cleaned where it was first.
    """
    scene = Scene()
    assert scene.book.may_be_gone(0, 1)
    for begin, end in (0, 2), (1, 2), (2, 3), (3, 4), (3, 5):
        assert not scene.book.may_be_gone(begin, end)
    scene.append(_batch("cab"))
    assert scene.book.may_be_gone(0, 4)
    assert not scene.book.may_be_gone(0, 5)


def test_a_batch_that_no_pass_has_removed_is_missed() -> None:
    """Also where a pass could have removed it: a replica has lost it."""
    scene = Scene()
    scene.append(_batch("c"))
    ab, c, a, last = scene.written
    assert scene.agreed_end_of(ab, a, last) == 2
    scene.clean(ab, a, last, pass_end=5)
    assert scene.agreed_end_of(ab, a, last) == 5
    assert scene.agreed_end_of(ab, last) == 3
    assert scene.agreed_end_of(ab, a) == 4
    with pytest.raises(BadCleaning, match="offset 4 is gone"):
        scene.clean(ab, c, a, pass_end=5)


def test_another_batch_in_the_place_of_a_removed_one_is_another_history() -> None:
    """A leader that died had written it, and no other had it: seed 77 took its removal from the log for a loss."""
    scene = Scene()
    scene.append(_batch("c"))
    ab, _, a, last = scene.written
    scene.clean(ab, a, last, pass_end=5)
    other = bytearray(_batch("x"))
    patch_offsets(other, 0, 2, 1)
    assert scene.agreed_end_of(ab, bytes(other)) == 2
    assert scene.agreed_end_of(ab, bytes(other), a, last) == 2


def test_records_of_aborted_transactions_go_and_their_marker_stays() -> None:
    scene = Scene()
    scene.append(_batch("d", producer_id=7))
    scene.append(build_marker(7, 0, Marker(False, 0), 1))
    ab, c, a, _, marker = scene.written
    with pytest.raises(BadCleaning, match="marker"):
        scene.clean(ab, c, a, pass_end=6)
    scene.clean(ab, c, a, marker, pass_end=6)
    assert scene.agreed_end_of(ab, c, a, marker) == scene.end


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_record_of_a_transaction_replaces_others_once_it_is_committed(is_commit: bool) -> None:
    scene = Scene()
    scene.append(_batch("c", producer_id=7))
    ab, _, a, again = scene.written
    with pytest.raises(BadCleaning, match="the record at offset 2 is gone"):
        scene.clean(ab, a, again, pass_end=5)
    scene.append(build_marker(7, 0, Marker(is_commit, 0), 1))
    if is_commit:
        scene.clean(ab, a, again, scene.written[-1], pass_end=6)
    else:
        with pytest.raises(BadCleaning, match="the record at offset 2 is gone"):
            scene.clean(ab, a, again, scene.written[-1], pass_end=6)


def test_nothing_new_comes_of_cleaning() -> None:
    scene = Scene()
    ab, c, a = scene.written
    changed = bytearray(_batch("c", value=b"other"))
    patch_offsets(changed, 0, 2, 0)
    with pytest.raises(BadCleaning, match="has changed"):
        scene.clean(ab, bytes(changed), a)
    other = bytearray(_batch("x"))
    patch_offsets(other, 0, 9, 0)
    with pytest.raises(BadCleaning, match="not there before"):
        scene.clean(ab, c, a, bytes(other))
