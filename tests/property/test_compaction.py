"""A compacted log against what was written: whatever the keys, codecs, producers and transactions, and after any number
of passes, the latest record of every key is there, and nothing is where or what it was not.

One run is a seed: a log grows, is compacted, reopened, and grows again.
"""

from __future__ import annotations

import copy
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire.record_batch import BatchHeader, Compression, Record, build_batch
from barnabas_logstore.core.storage.effect_results import AbortedTransaction
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState
from barnabas_logstore.core.storage.recovery.log_recovery import open_log
from tests.property.test_storage_crash import check_byte_count
from tests.sim.disk_model import DiskModel
from tests.tiers import Cost, examples
from tests.unit.logstore.compaction.support import (
    LogWriter,
    batches_of,
    clean,
    compacted_topic,
    compress,
    latest,
    marker,
    records_of,
)
from tests.unit.logstore.storage.support import DIRECTORY, WALL_MS, read_all

CODECS = (Compression.NONE, Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)


class Run:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.disk = DiskModel()
        self.writer = LogWriter(self.disk, segment_bytes=random.choice((700, 2_000, 6_000)))
        self.config = compacted_topic(
            segment_bytes=random.choice((2_000, 6_000, 20_000)),
            segment_index_bytes=random.choice((60, 10_000)),
            index_interval_bytes=random.choice((0, 200, 4096)),
            delete_retention_ms=random.choice((0, 1_000, 10**6)),
        )
        self.wall_ms = WALL_MS
        self.keys = [b"k%d" % number for number in range(random.randint(1, 12))]
        self.keys += [b"", b"long" * 20, b"a" * 30, b"b" * 31]
        self.written: dict[int, Record] = {}
        """By offset, all records that a reader of committed ones would ever see."""
        self.headers: dict[int, BatchHeader] = {}
        self.sequences: dict[int, int] = {}
        self.cleaned_once: dict[int, int] = {}
        """When a pass first met a tombstone, by its offset."""
        self.aborted_offsets: set[int] = set()

    def record(self) -> Record:
        random = self.random
        key = None if random.random() < 0.03 else random.choice(self.keys)
        value = None if random.random() < 0.2 else random.randbytes(random.choice((0, 5, 60, 200)))
        headers = (("h", b"v"), ("n", None)) if random.random() < 0.1 else ()
        return Record(key, value, self.wall_ms + random.randint(-5_000, 5_000), headers)

    def append(self) -> None:
        """A batch, or a transaction of some with its marker."""
        random = self.random
        if random.random() < 0.15:
            producer_id, is_commit = random.choice((11, 12)), random.random() < 0.5
            before = self.writer.next_offset
            offsets = [offset for _ in range(random.randint(1, 3)) for offset in self.append_batch(producer_id)]
            end = self.writer.add(marker(producer_id, is_commit=is_commit, timestamp_ms=self.wall_ms))
            if not is_commit:
                self.writer.aborted(AbortedTransaction(producer_id, before, end, self.writer.next_offset))
                for offset in offsets:
                    del self.written[offset]
                self.aborted_offsets.update(offsets)
        else:
            self.append_batch(-1)

    def append_batch(self, transactional_id: int) -> range:
        random = self.random
        records = [self.record() for _ in range(random.choice((1, 2, 5, 30)))]
        producer_id = transactional_id if transactional_id >= 0 else random.choice((-1, -1, 1, 2))
        sequence = self.sequences.get(producer_id, 0) if producer_id >= 0 else -1
        batch = build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            is_transactional=transactional_id >= 0,
        )
        log_append_time_ms = self.wall_ms if random.random() < 0.1 else None
        base_offset = self.writer.add(compress(batch, random.choice(CODECS), log_append_time_ms))
        for index, record in enumerate(records):
            timestamp_ms = record.timestamp_ms if log_append_time_ms is None else log_append_time_ms
            self.written[base_offset + index] = Record(
                record.key, record.value, timestamp_ms, record.headers, base_offset + index
            )
        if producer_id >= 0:
            self.sequences[producer_id] = sequence + len(records)
        return range(base_offset, base_offset + len(records))

    def grow(self) -> None:
        for _ in range(self.random.randint(1, 40)):
            self.append()
        self.writer.roll()
        # The active segment, which no pass touches.
        self.append_batch(-1)
        self.log = self.writer.open(self.config)
        for header, _ in batches_of(self.disk, self.log):
            self.headers.setdefault(header.base_offset, header)

    def compact(self) -> None:
        log, random = self.log, self.random
        first_dirty_offset = log.first_dirty_offset
        producers = producers_of(log.producers)
        positions = [log.byte_position_of(offset) for offset in range(log.log_end_offset + 1)]
        cleanable_offset = log.segments.active.base_offset
        before = latest(self.visible())
        keys_max = random.choice((10_000, 10_000, 3, 17))
        clean(self.disk, log, self.wall_ms, keys_max=keys_max, buffer_bytes=random.choice((61, 500, 10**6)))
        assert first_dirty_offset <= log.first_dirty_offset <= cleanable_offset
        assert log.first_dirty_offset > first_dirty_offset or first_dirty_offset == cleanable_offset
        self.check_records(before)
        self.check_structure()
        after = [log.byte_position_of(offset) for offset in range(log.log_end_offset + 1)]
        assert after == sorted(after), "positions ascend with offsets"
        assert after[cleanable_offset:] == positions[cleanable_offset:], "positions past the pass have changed"
        self.check_reopened(producers)

    def visible(self) -> list[Record]:
        return [record for record in records_of(self.disk, self.log) if record.offset not in self.aborted_offsets]

    def check_records(self, before: dict[bytes, Record]) -> None:
        visible = self.visible()
        offsets = [record.offset for record in visible]
        assert offsets == sorted(set(offsets))
        for record in visible:
            assert record == self.written[record.offset], "a record has changed, or was never written"
        remaining = latest(visible)
        clean_offset = self.log.first_dirty_offset
        for key, record in before.items():
            if record.value is not None:
                assert remaining[key] == record, "the latest record of a key is gone"
            elif key in remaining:
                assert remaining[key] == record, "a deleted value is back"
            else:
                assert record.offset < clean_offset
                horizon_ms = self.cleaned_once[record.offset] + self.config.delete_retention_ms
                assert self.wall_ms >= horizon_ms, "a tombstone is gone before its time"
        clean = [record for record in visible if record.offset < clean_offset]
        for record in clean:
            if record.value is None and record.offset in self.cleaned_once:
                horizon_ms = self.cleaned_once[record.offset] + self.config.delete_retention_ms
                assert self.wall_ms < horizon_ms, "a tombstone is there past its time"
        assert all(record.key is not None for record in clean)
        last_offsets = latest(clean)
        assert all(last_offsets[record.key or b""] is record for record in clean), "a key is there twice"
        for header, records in batches_of(self.disk, self.log):
            # The horizon is the batch's: a pass that ends inside of it has met all of its tombstones.
            if header.has_delete_horizon or header.last_offset < clean_offset:
                for record in records:
                    self.cleaned_once.setdefault(record.offset, self.wall_ms)
        gone = [offset for offset in self.aborted_offsets if offset < clean_offset]
        assert not {record.offset for record in records_of(self.disk, self.log)} & set(gone)

    def check_structure(self) -> None:
        log = self.log
        segments = log.segments.all()
        check_byte_count(log)
        for header, records in batches_of(self.disk, log):
            was = self.headers[header.base_offset]
            assert header.last_offset == was.last_offset
            assert header[9:12] == was[9:12], "the producer, its epoch or its sequence has changed"
            assert header.partition_leader_epoch == was.partition_leader_epoch
            assert header.compression == was.compression or not records
            if records:
                assert header.max_timestamp == max(record.timestamp_ms for record in records)
        for end_offset in [*[segment.base_offset for segment in segments[1:]], log.log_end_offset]:
            last = max(
                header.next_offset for header, _ in batches_of(self.disk, log) if header.base_offset < end_offset
            )
            assert last == end_offset, "a gap between segments"
        assert read_all(self.disk, log) == [
            (header.base_offset, header.last_offset) for header, _ in batches_of(self.disk, log)
        ]

    def check_reopened(self, producers: dict[int, tuple[int, ...]]) -> None:
        """The same from nothing but the batches: indexes, producers, and what the aborted transactions are."""
        disk = copy.deepcopy(self.disk)
        for entry in disk.list(DIRECTORY):
            assert not entry.name.endswith((".cleaned", ".swap", ".deleted"))
            if not entry.name.endswith(".log"):
                disk.remove(f"{DIRECTORY}/{entry.name}")
        rebuilt = open_log(disk, DIRECTORY, ("orders", 0), self.config, recovery_point=0, shut_down_cleanly=False).log
        assert rebuilt.log_end_offset == self.log.log_end_offset
        assert producers_of(rebuilt.producers) == producers
        for ours, theirs in zip(self.log.segments.all(), rebuilt.segments.all(), strict=True):
            assert ours.base_offset == theirs.base_offset
            assert ours.offset_index.content() == theirs.offset_index.content()
            assert ours.time_index.content()[:12] == theirs.time_index.content()[:12]
            assert ours.max_timestamp() == theirs.max_timestamp()


def producers_of(state: ProducerState) -> dict[int, tuple[int, ...]]:
    """Of each producer its epoch and its last batch."""
    return {
        entry.producer_id: (entry.producer_epoch, *entry.batches[-1][:3]) for entry in state.entries() if entry.batches
    }


@examples(Cost.HIGH)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_latest_record_of_every_key_stays_where_and_as_it_was(seed: int) -> None:
    run = Run(seed)
    for _ in range(run.random.randint(1, 3)):
        run.grow()
        for _ in range(run.random.randint(1, 4)):
            run.compact()
            run.wall_ms += run.random.choice((0, 500, 1_500, 2 * 10**6))
