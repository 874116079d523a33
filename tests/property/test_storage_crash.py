"""After any crash a log is a prefix of what was appended, holds every flushed record, and is consistent with
itself.

One run is a seed: it appends, writes, flushes, rolls, checkpoints, now and then shuts down cleanly, and loses power
in between, with effects half done. What comes back is held against the history and against a log whose indexes and
producers are rebuilt from nothing but its batches.
"""

from __future__ import annotations

import copy
from itertools import count
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.record_batch import BatchHeader, iterate_headers, parse_header
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effects import FlushEffect, RetireEffect, WriteEffect
from barnabas_logstore.core.storage.log.partition_log import AppendOutcome, PartitionLog
from barnabas_logstore.core.storage.log.state.producer_state import ProducerState
from barnabas_logstore.core.storage.recovery.log_recovery import open_log
from tests.sim.disk_model import DiskModel
from tests.tiers import Cost, examples
from tests.unit.logstore.storage.support import WALL_MS, batch, flush_all, read

TOPIC_PARTITION = ("orders", 0)
PATH = "/data"
TOPIC_ID = bytes(range(16))


class Run:
    """One logstore's directory through several lives."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = DiskModel()
        self.boots = count()
        self.config = TopicConfig(
            segment_bytes=self.random.choice((2000, 4000, 20_000)),
            index_interval_bytes=self.random.choice((0, 300, 4096)),
            segment_index_bytes=self.random.choice((40, 10_000)),
            segment_ms=self.random.choice((50, 10**9)),
            flush_messages=self.random.choice((1, 5, 10**9)),
            flush_ms=self.random.choice((20, 10**9)),
            retention_ms=-1,
            retention_bytes=self.random.choice((-1, 3000)),
        )
        self.history: list[bytes] = []
        """The log as it was appended, batch by batch, with offsets and epochs set."""
        self.flushed_offset = 0
        self.noted_log_start = 0
        """What a checkpoint has said of the log start: a crash may take it back to here, and no further."""
        self.leader_epoch = 0
        self.sequences: dict[int, int] = {}
        self.now_ms = 0
        self.under_way: list[WriteEffect | FlushEffect | RetireEffect] = []
        self.log = self.open()

    def open(self) -> PartitionLog:
        self.disk.flushes_volumes = self.random.random() < 0.5
        self.directory = self.open_directory()
        found = self.directory.load(lambda topic: self.config, self.now_ms)
        self.under_way = []
        if not found:
            assert self.flushed_offset == 0, "a partition with flushed records is gone"
            self.noted_log_start = 0
            log = self.directory.create(TOPIC_PARTITION, TOPIC_ID, self.config)
            assert isinstance(log, PartitionLog)
            return log
        if found[0].topic_id is None:
            assert self.flushed_offset == 0
            assert self.directory.record_topic_id(TOPIC_PARTITION, TOPIC_ID) is None
        else:
            assert found[0].topic_id == TOPIC_ID
        return found[0].opened.log

    def open_directory(self) -> LogDirectory:
        directory = LogDirectory.open(
            self.disk,
            PATH,
            cluster_id="cluster",
            node_id=1,
            kernel_boot_id=f"boot {next(self.boots)}",
            new_directory_id=TOPIC_ID,
            unique_name=lambda: "0" * 32,
        )
        assert isinstance(directory, LogDirectory)
        return directory

    def live(self, steps: int) -> None:
        for _ in range(steps):
            self.now_ms += self.random.randint(0, 10)
            actions = (self.append, self.start_effect, self.finish_effect, self.checkpoint, self.shorten)
            self.random.choices(actions, (12, 8, 8, 2, 1))[0]()
            check_byte_count(self.log)

    def append(self) -> None:
        producer_id = self.random.choice((-1, -1, 1, 2))
        records_count = self.random.randint(1, 4)
        sequence = self.sequences.get(producer_id, 0) if producer_id >= 0 else -1
        records = batch(
            records_count,
            value_bytes=self.random.choice((0, 30, 400)),
            timestamp_ms=WALL_MS + self.now_ms + self.random.randint(-30, 30),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
        )
        if self.random.random() < 0.05:
            self.leader_epoch += 1
        outcome = self.log.append(memoryview(records), self.leader_epoch, WALL_MS, None)
        assert isinstance(outcome, AppendOutcome), outcome
        placed = bytearray(records)
        placed[0:8] = outcome.base_offset.to_bytes(8, "big")
        placed[12:16] = self.leader_epoch.to_bytes(4, "big")
        self.history.append(bytes(placed))
        if producer_id >= 0:
            self.sequences[producer_id] = sequence + records_count

    def start_effect(self) -> None:
        effect: WriteEffect | FlushEffect | RetireEffect | None
        takes = (self.log.begin_write, lambda: self.log.begin_due_flush(self.now_ms), self.log.begin_retirement)
        effect = self.random.choices(takes, (7, 2, 1))[0]()
        if effect is not None:
            self.under_way.append(effect)

    def finish_effect(self) -> None:
        if self.under_way:
            self.finish(self.under_way[self.random.randrange(len(self.under_way))])

    def finish(self, effect: WriteEffect | FlushEffect | RetireEffect) -> None:
        self.under_way.remove(effect)
        execute(self.disk, effect)
        match effect:
            case WriteEffect():
                self.log.on_written(effect)
                assert self.config.flush_messages > 1 or self.log.recovery_point == effect.end_offset
            case FlushEffect():
                self.log.on_flushed(effect)
            case RetireEffect():
                self.log.retirement.done(effect)
        self.flushed_offset = max(self.flushed_offset, self.log.recovery_point)

    def checkpoint(self) -> None:
        execute(self.disk, self.directory.checkpoint_recovery_points())
        if self.random.random() < 0.5:
            execute(self.disk, self.directory.checkpoint_log_starts())
            self.noted_log_start = self.log.log_start_offset

    def shorten(self) -> None:
        """DeleteRecords and retention, up to what is written."""
        if self.random.random() < 0.5:
            self.log.delete_records(self.random.randint(0, self.log.log_end_offset), self.log.log_end_offset)
        self.log.apply_retention(self.log.log_end_offset, WALL_MS)

    def shut_down(self) -> None:
        while self.under_way or not self.log.is_idle:
            self.finish_effect()
            self.start_effect()
        flush_all(self.disk, self.directory)
        assert self.directory.shut_down({TOPIC_PARTITION: self.log.log_end_offset}, broker_epoch=7)
        self.flushed_offset = self.log.log_end_offset
        self.noted_log_start = self.log.log_start_offset

    def lose_power(self) -> None:
        self.kill()
        self.disk.lose_power(self.random)

    def kill(self) -> None:
        """End the process: effects under way may be done or not, and nobody hears of it."""
        for effect in self.under_way:
            if self.random.random() < 0.5:
                execute(self.disk, effect)

    def restart(self) -> None:
        self.log = self.open()
        self.check_prefix()
        self.check_rebuild()
        headers = headers_of(self.history)
        self.sequences = {header.producer_id: header.last_sequence + 1 for header in headers if header.has_producer}
        self.leader_epoch += 1

    def check_prefix(self) -> None:
        log_start = self.log.log_start_offset
        assert log_start >= self.noted_log_start, "what was deleted has come back, past what was noted"
        segment_start = self.log.segments.holding(log_start).base_offset
        before = b"".join(each for each in self.history if header_of(each).last_offset < log_start)
        held = before
        while (offset := max(end_of(held), log_start)) < self.log.log_end_offset:
            data = read(self.disk, self.log, offset, self.random.choice((100, 3000, 10**6)))
            assert isinstance(data, bytes)
            whole = [(position, header) for position, header in iterate_headers(data)]
            assert whole, f"nothing at {offset} of {self.log.log_end_offset}"
            held += data[: whole[-1][0] + whole[-1][1].size_bytes]
        assert b"".join(self.history).startswith(held), "the log is not a prefix of what was appended"
        assert self.log.log_end_offset == max(end_of(held), log_start)
        assert segment_start <= log_start
        assert self.log.log_end_offset >= self.flushed_offset, "flushed records are gone"
        survivors = list(iterate_headers(held))
        self.history = [held[position : position + header.size_bytes] for position, header in survivors]

    def check_rebuild(self) -> None:
        """Against the same batches opened without indexes, checkpoints and snapshots."""
        disk = copy.deepcopy(self.disk)
        directory = f"{PATH}/orders-0"
        for entry in disk.list(directory):
            if not entry.name.endswith(".log"):
                disk.remove(f"{directory}/{entry.name}")
        rebuilt = open_log(disk, directory, TOPIC_PARTITION, self.config, recovery_point=0, shut_down_cleanly=False).log
        assert rebuilt.log_end_offset == self.log.log_end_offset
        if epochs := self.log.leader_epochs.entries():
            # They may have been trimmed to a log start that the crash has taken back.
            rebuilt.leader_epochs.trim_to(epochs[0][1])
            if self.log.log_start_offset < self.log.log_end_offset:
                assert rebuilt.leader_epochs.entries() == epochs
        for ours, theirs in zip(self.log.segments.all(), rebuilt.segments.all(), strict=True):
            assert ours.base_offset == theirs.base_offset
            assert ours.start_position == theirs.start_position
            assert ours.offset_index.content() == theirs.offset_index.content()
            assert ours.max_timestamp() == theirs.max_timestamp()
            # A clean shutdown adds an entry to the active segment's time index: more of them, and each one true.
            assert set(entries_of(theirs.time_index)) <= set(entries_of(ours.time_index))
        check_time_indexes(self.log, headers_of(self.history))
        check_producers(self.log.producers, rebuilt.producers, is_shortened=rebuilt.segments.first.base_offset > 0)


def check_byte_count(log: PartitionLog) -> None:
    """It is kept, not added up: after whatever has happened it is what the segments have."""
    assert log.segments.byte_count == sum(segment.byte_count for segment in log.segments.all())


def headers_of(batches: list[bytes]) -> list[BatchHeader]:
    return [header for _, header in iterate_headers(b"".join(batches))]


def header_of(placed: bytes) -> BatchHeader:
    return parse_header(placed)


def end_of(batches: bytes) -> int:
    headers = [header for _, header in iterate_headers(batches)]
    return headers[-1].next_offset if headers else 0


def entries_of(index: object) -> list[tuple[int, int]]:
    from barnabas_logstore.core.storage.segment.time_index import TimeIndex

    assert isinstance(index, TimeIndex)
    return [index.entry(position) for position in range(len(index))]


def check_time_indexes(log: PartitionLog, headers: list[BatchHeader]) -> None:
    """An entry names the largest timestamp so far in its segment, and the batch that was the first to have it."""
    for segment in log.segments.all():
        for timestamp_ms, offset in entries_of(segment.time_index):
            upto = [header for header in headers if segment.base_offset <= header.base_offset <= offset]
            assert timestamp_ms == max(header.max_timestamp for header in upto)
            assert offset == next(header.last_offset for header in upto if header.max_timestamp == timestamp_ms)


def check_producers(ours: ProducerState, rebuilt: ProducerState, *, is_shortened: bool) -> None:
    """A snapshot keeps each producer's last batch only: what is known besides is a suffix of the last five.

    It also remembers producers, and batches, that the log has no more since it was shortened at its start.
    """
    theirs = {entry.producer_id: entry for entry in rebuilt.entries()}
    known = {entry.producer_id for entry in ours.entries()}
    assert known >= set(theirs) if is_shortened else known == set(theirs)
    for entry in ours.entries():
        full = theirs.get(entry.producer_id)
        if full is None:
            continue
        assert entry.producer_epoch == full.producer_epoch
        assert entry.last_timestamp_ms == full.last_timestamp_ms
        assert entry.batches
        common = min(len(full.batches), len(entry.batches)) if is_shortened else len(entry.batches)
        assert full.batches[-common:] == entry.batches[-common:]


@examples(Cost.HIGH)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_crash_leaves_a_consistent_prefix_with_every_flushed_record(seed: int) -> None:
    run = Run(seed)
    for _ in range(4):
        run.live(run.random.randint(0, 60))
        if run.random.random() < 0.25:
            run.shut_down()
            if run.random.random() < 0.5:
                run.lose_power()
        elif run.random.random() < 0.3:
            run.kill()
        else:
            run.lose_power()
        run.restart()
