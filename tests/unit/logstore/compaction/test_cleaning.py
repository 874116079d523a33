"""The core's part in compaction: which log is cleaned, when, and what becomes of a pass that is disturbed."""

from __future__ import annotations

import pytest

from barnabas.cluster.messages import LeaderAndIsr
from barnabas.ports.disk import DiskErrorKind
from barnabas.runtime.compression import CODECS
from barnabas.wire.record_batch import Record, build_batch, iterate_headers
from barnabas_logstore.core.maintenance.cleaning import DEATHS_MAX, RETRY_MS_MIN
from barnabas_logstore.core.replica.containment import CLEANING_PASS
from barnabas_logstore.core.storage.checkpoints import parse_offsets
from barnabas_logstore.core.storage.compaction.cleaner import Cleaner
from barnabas_logstore.core.storage.compaction.orders import (
    CancelOrder,
    CleanedSegment,
    CleanerCommand,
    CleanOrder,
    PassEnded,
    PassOutcome,
    PassReport,
)
from barnabas_logstore.core.storage.effects import SwapEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.outbox import Outputs
from tests.sim.disk_model import DiskModel, Fault
from tests.unit.logstore.compaction.support import values_of
from tests.unit.logstore.service.support import (
    EXCHANGE,
    READ,
    TOPIC,
    TOPIC_ID,
    WALL_MS,
    WATCH,
    Host,
    fetch,
    led_by_other,
    topic,
)

COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "1048576", "file.delete.delay.ms": "60000"}
VALUE = "v" * 400_000


def keyed_batch(key: str, value: str | None = VALUE, timestamp_ms: int = WALL_MS) -> bytes:
    return build_batch([Record(key.encode(), None if value is None else value.encode(), timestamp_ms)])


class CleaningHost(Host):
    """With a cleaner on the same disk that `clean` runs, step by step or to the end."""

    def __init__(self, disk: DiskModel | None = None, *, cleaner_is_enabled: bool = True) -> None:
        super().__init__(disk, cleaner_is_enabled=cleaner_is_enabled)
        self.commands: list[CleanerCommand] = []
        self.passes: list[PassReport] = []
        self.restart_cleaner()

    def restart_cleaner(self) -> None:
        self.cleaner = Cleaner(lambda: self.disk, CODECS, dedupe_buffer_bytes=2**20, io_buffer_bytes=2**20)

    def collect(self) -> Outputs:
        out = super().collect()
        self.commands += out.cleaner
        self.passes += out.passes
        return out

    def fill(self, *keys: str, **fields: int) -> None:
        for key in keys:
            assert self.append(keyed_batch(key), **fields).error_code == 0
        self.flush()

    def flush(self) -> None:
        """Closed segments are flushed: nothing is cleaned before that."""
        self.tick(100)

    @property
    def log(self) -> PartitionLog:
        (partition,) = [partition for partition in self.core.partitions if partition.topic == TOPIC]
        return partition.log

    @property
    def directory(self) -> str:
        return f"/data0/{TOPIC}-0"

    @property
    def names(self) -> list[str]:
        return [entry.name for entry in self.disk.list(self.directory)]

    def tick(self, passed_ms: int = 15_000) -> None:
        """The time comes for one look at all logs."""
        self.now_ms += passed_ms
        self.core.tick(self.now_ms)
        self.settle()

    def take_order(self) -> CleanOrder:
        (order,) = self.commands
        assert isinstance(order, CleanOrder)
        self.commands.clear()
        self.cleaner.begin(order, self.now_ms)
        return order

    def step_cleaner(self) -> CleanedSegment | PassEnded | None:
        _, report = self.cleaner.step(self.now_ms)
        if report is not None:
            self.core.on_cleaner_report(report)
        return report

    def until(self, kind: type[CleanedSegment | PassEnded]) -> None:
        while not isinstance(self.step_cleaner(), kind):
            pass

    def clean(self) -> PassReport:
        """One order, carried out."""
        self.tick()
        self.take_order()
        self.until(PassEnded)
        self.settle()
        return self.passes.pop()


@pytest.fixture
def host() -> CleaningHost:
    host = CleaningHost()
    host.greet(EXCHANGE, READ, WATCH, WATCH + 10)
    host.lead(topic(configs=COMPACTED))
    return host


def keys_of(host: CleaningHost) -> list[tuple[int, str | None]]:
    return [(offset, key) for offset, key, _ in values_of(host.disk, host.log)]


def test_a_dirty_log_is_ordered_cleaned_and_its_segments_take_their_place(host: CleaningHost) -> None:
    host.fill("a", "b", "a", "b", "a", "c")
    report = host.clean()
    assert (report.topic, report.partition, report.first_dirty_offset) == (TOPIC, 0, 0)
    assert (report.ended.outcome, report.ended.next_dirty_offset) == (PassOutcome.DONE, 4)
    assert report.cleanable_ratio == 1.0
    assert keys_of(host) == [(2, "a"), (3, "b"), (4, "a"), (5, "c")]
    assert [segment.base_offset for segment in host.log.segments.all()] == [0, 2, 4]
    # Of the first segment only its end is left, so that there is no gap between segments.
    result = host.read(fetch(0))
    assert [header.records_count for _, header in iterate_headers(result.partitions[0].records)] == [0]
    result = host.read(fetch(2))
    assert [header.base_offset for _, header in iterate_headers(result.partitions[0].records)] == [2, 3]


def test_what_was_cleaned_is_written_down_and_found_at_the_next_start(host: CleaningHost) -> None:
    host.fill("a", "b", "a", "b", "a")
    host.clean()
    host.tick()
    assert parse_offsets(host.disk.read_file("/data0/cleaner-offset-checkpoint")) == {(TOPIC, 0): 4}
    assert CleaningHost(host.disk).log.first_dirty_offset == 4


def test_nothing_is_ordered_while_nothing_is_dirty_enough(host: CleaningHost) -> None:
    host.fill("a", "b", "c", "d", "e")
    host.clean()
    host.fill("f", "g")
    host.tick()
    assert host.commands == []  # 2 dirty batches to 4 clean ones: a third, and the default ratio is a half.
    host.fill("h", "i", "j", "k", "l")
    host.tick()
    assert host.take_order().first_dirty_offset == 4


def test_logs_that_are_not_compacted_are_left_alone() -> None:
    host = CleaningHost()
    host.greet(EXCHANGE)
    host.lead(topic(configs={"segment.bytes": "1048576"}))
    host.fill("a", "a", "a", "a")
    host.tick()
    assert host.commands == []


def test_nothing_is_cleaned_by_the_defaults_before_the_topics_own_settings_are_known(host: CleaningHost) -> None:
    host.fill("a", "a", "a", "a")
    again = CleaningHost(host.disk)
    again.log.state.config = host.log.config
    again.flush()
    again.tick()
    assert again.commands == []
    again.lead(topic(leader_epoch=1, configs=COMPACTED))
    again.tick()
    assert again.take_order().end_offset == 2


def test_the_cleaner_can_be_disabled() -> None:
    host = CleaningHost(cleaner_is_enabled=False)
    host.greet(EXCHANGE)
    host.lead(topic(configs=COMPACTED))
    host.fill("a", "a", "a", "a")
    host.tick()
    assert host.commands == []


def test_the_filthiest_log_comes_first_and_the_next_one_without_a_pause(host: CleaningHost) -> None:
    host.lead(topic(partitions=2, partition_epoch=1, configs=COMPACTED))
    host.fill("a", "b", "c", "d", "e")
    host.clean()
    host.fill("f", "g", "h", "i", "j", "k", "l")
    host.fill("a", "a", "a", "a", partition=1)
    host.tick()
    assert host.take_order().directory.endswith(f"{TOPIC}-1")
    host.until(PassEnded)
    host.settle()
    host.tick(100)
    assert host.take_order().directory.endswith(f"{TOPIC}-0")


def test_old_files_go_after_the_delay(host: CleaningHost) -> None:
    host.fill("a", "b", "a", "b", "a")
    host.clean()
    assert any(name.endswith(".log.deleted") for name in host.names)
    host.tick(59_000)
    assert any(name.endswith(".deleted") for name in host.names)
    host.tick(2_000)
    assert not any(name.endswith(".deleted") for name in host.names)


def test_reads_go_on_while_files_are_being_renamed(host: CleaningHost) -> None:
    host.fill("a", "b", "a", "b", "a", "b", "a")
    host.tick()
    host.take_order()
    host.until(CleanedSegment)
    host.holds_effects = True
    host.turn()
    (swap,) = [effect for effect in host.held if isinstance(effect, SwapEffect)]
    host.held.remove(swap)
    host.holds_effects = False
    before = host.read(fetch(0, bytes_max=10**7), bytes_max=10**7).partitions[0].records
    host.held.append(swap)
    host.settle()
    assert host.read(fetch(0, bytes_max=10**7), bytes_max=10**7).partitions[0].records == before


# --- what is not cleaned ---


def test_records_younger_than_the_minimum_lag_are_not_cleaned(host: CleaningHost) -> None:
    host.lead(topic(partition_epoch=1, configs={**COMPACTED, "min.compaction.lag.ms": "1000"}))
    for key, timestamp_ms in (("a", -2000), ("b", -2000), ("a", -10), ("b", -2000), ("c", 0)):
        host.append(keyed_batch(key, timestamp_ms=WALL_MS + timestamp_ms))
    host.flush()
    host.tick()
    assert host.take_order().end_offset == 2


def test_a_log_is_overdue_after_the_maximum_lag_whatever_its_ratio(host: CleaningHost) -> None:
    configs = {**COMPACTED, "min.cleanable.dirty.ratio": "1.0"}
    host.lead(topic(partition_epoch=1, configs=configs))
    for key in ("a", "b", "a", "b"):
        host.append(keyed_batch(key, timestamp_ms=WALL_MS - 5_000))
    host.flush()
    host.tick()
    assert host.commands == []
    host.lead(topic(partition_epoch=2, configs={**configs, "max.compaction.lag.ms": "4000"}))
    host.tick()
    assert host.take_order().end_offset == 2


def test_the_active_segment_lasts_no_longer_than_the_maximum_lag(host: CleaningHost) -> None:
    host.lead(topic(partition_epoch=1, configs={**COMPACTED, "max.compaction.lag.ms": "4000"}))
    host.append(keyed_batch("a", "1", WALL_MS - 5_000))
    host.append(keyed_batch("a", "2", WALL_MS))
    assert len(host.log.segments) == 2


def test_nothing_above_the_high_watermark_is_cleaned(host: CleaningHost) -> None:
    host.lead(topic(partition_epoch=1, replicas=[1, 2], in_sync_replicas=[1, 2], configs=COMPACTED))
    host.send(*[host.append_request(keyed_batch(key), acks=1) for key in ("a", "a", "a", "a", "a")])
    host.flush()
    assert len(host.log.segments) > 1
    host.tick()
    assert host.commands == []


# --- a pass that does not come to its end ---


def under_way(host: CleaningHost) -> None:
    """A pass of two groups, of which one cleaned segment has been written and none taken over."""
    host.fill("a", "b", "c", "d", "e")
    host.tick()
    host.take_order()
    while not any(name.endswith(".log.cleaned") for name in host.names):
        assert host.step_cleaner() is None


def cancelled(host: CleaningHost) -> None:
    """The cleaner hears of it, and nothing is left."""
    (command,) = host.commands
    assert isinstance(command, CancelOrder)
    host.commands.clear()
    host.cleaner.cancel(command.order_id)
    host.until(PassEnded)
    host.settle()
    assert host.passes.pop().ended.outcome is PassOutcome.ABORTED


def test_another_leader_aborts_it_and_it_is_made_again(host: CleaningHost) -> None:
    under_way(host)
    host.lead(led_by_other(1, configs=COMPACTED))
    cancelled(host)
    host.lead(topic(leader_epoch=2, configs=COMPACTED))
    assert not any(name.endswith(".cleaned") for name in host.names)
    host.tick(14_000)
    assert host.commands == []
    assert host.clean().ended.outcome is PassOutcome.DONE


def test_a_deleted_topic_is_not_made_again_before_the_cleaner_has_let_go(host: CleaningHost) -> None:
    under_way(host)
    host.stop_replica()
    anew = topic(topic_id=b"new".ljust(16), configs=COMPACTED)
    host.core.on_control(8, host.command(LeaderAndIsr(False, [anew])))
    host.settle()
    assert host.core.partitions == []
    cancelled(host)
    host.settle()
    assert [partition.topic_id for partition in host.core.partitions] == [b"new".ljust(16)]
    assert not any(name.endswith(".cleaned") for name in host.names)


def test_segments_deleted_meanwhile_abort_it(host: CleaningHost) -> None:
    host.lead(topic(partition_epoch=1, configs={**COMPACTED, "cleanup.policy": "compact,delete"}))
    under_way(host)
    host.log.move_log_start(3)
    host.tick(400_000)
    assert host.log.segments.first.base_offset == 2
    host.until(PassEnded)
    host.settle()
    assert host.passes.pop().ended.outcome is PassOutcome.ABORTED
    assert not any(name.endswith(".cleaned") for name in host.names)
    assert keys_of(host)[0] == (2, "c")


def test_a_directory_that_fails_aborts_it(host: CleaningHost) -> None:
    under_way(host)
    host.disk.faults.append(Fault("write_at", f"{TOPIC}-0/"))
    host.send(host.append_request(keyed_batch("x")))
    host.settle()
    assert host.core.all_directories_offline
    cancelled(host)
    assert host.core.measures.health.uncleanable == {}


def test_an_error_that_the_cleaner_meets_takes_the_directory_offline(host: CleaningHost) -> None:
    under_way(host)
    host.disk.faults.append(Fault("flush", ".cleaned"))
    host.until(PassEnded)
    (path, error) = host.turn().offline[0]
    assert (path, error.kind) == ("/data0", DiskErrorKind.IO)


def test_a_full_disk_only_puts_it_off(host: CleaningHost) -> None:
    host.fill("a", "b", "c", "d", "e")
    host.tick()
    host.take_order()
    host.disk.capacity_bytes = host.disk.used_bytes() + 1000
    host.until(PassEnded)
    host.settle()
    assert host.passes.pop().ended.outcome is PassOutcome.ABORTED
    assert not any(name.endswith(".cleaned") for name in host.names)
    host.disk.capacity_bytes = None
    assert host.clean().ended.outcome is PassOutcome.DONE


def test_a_batch_that_cant_be_opened_stops_that_partition_alone(host: CleaningHost) -> None:
    host.lead(topic(partitions=2, partition_epoch=1, configs=COMPACTED))
    host.fill("a", "b", "a", "b", "a")
    host.disk.write_at(host.disk.open(f"{host.directory}/{0:020d}.log"), 100, (b"\0",))
    host.fill("a", "a", "a", "a", partition=1)
    outcomes = {}
    for _ in range(2):
        report = host.clean()
        outcomes[report.partition] = (report.ended.outcome, report.uncleanable)
    assert outcomes[1] == (PassOutcome.DONE, "")
    reason = "the batch at offset 0: its CRC is wrong; not tried again until the next start"
    assert outcomes[0] == (PassOutcome.UNCLEANABLE, reason)
    assert host.core.measures.health.uncleanable == {(TOPIC_ID, 0): reason}
    host.tick()
    assert host.commands == []


def reasons_of(host: CleaningHost) -> list[str]:
    return list(host.core.measures.health.uncleanable.values())


def let_cleaner_die(host: CleaningHost) -> None:
    host.tick()
    host.take_order()
    host.step_cleaner()
    host.core.on_cleaner_gone()
    host.restart_cleaner()
    host.settle()
    assert not any(name.endswith(".cleaned") for name in host.names)


def test_a_log_that_kills_the_cleaner_again_and_again_is_tried_ever_more_rarely(host: CleaningHost) -> None:
    host.fill("a", "b", "a", "b", "a")
    for _ in range(DEATHS_MAX):
        assert host.core.measures.health.uncleanable == {}
        let_cleaner_die(host)
    assert reasons_of(host) == ["the cleaner died at it 3 times; tried again after 60 s"]
    host.tick()
    assert host.commands == []
    host.now_ms += RETRY_MS_MIN
    let_cleaner_die(host)
    assert list(host.core.measures.health.uncleanable.values()) == [
        "the cleaner died at it 4 times; tried again after 120 s"
    ]
    host.now_ms += RETRY_MS_MIN
    host.tick()
    assert host.commands == []


def test_a_log_at_which_the_cleaner_died_is_cleaned_when_it_dies_no_more(host: CleaningHost) -> None:
    host.fill("a", "b", "a", "b", "a")
    for _ in range(DEATHS_MAX):
        let_cleaner_die(host)
    host.now_ms += RETRY_MS_MIN
    report = host.clean()
    assert (report.ended.outcome, report.uncleanable) == (PassOutcome.DONE, "")
    assert host.core.measures.health.uncleanable == {}


def test_a_partition_that_is_deleted_is_not_remembered(host: CleaningHost) -> None:
    host.fill("a", "b", "a", "b", "a")
    for _ in range(DEATHS_MAX):
        let_cleaner_die(host)
    host.stop_replica()
    host.tick()
    assert host.core.measures.health.uncleanable == {}


def test_what_a_dead_cleaner_said_of_an_older_order_counts_no_more(host: CleaningHost) -> None:
    host.fill("a", "b", "a", "b", "a")
    host.tick()
    order = host.take_order()
    host.core.on_cleaner_gone()
    host.settle()
    host.core.on_cleaner_report(PassEnded(order.order_id, PassOutcome.DONE, 4))
    assert host.log.first_dirty_offset == 0


def test_a_stop_takes_the_order_back_and_waits_for_the_cleaner(host: CleaningHost) -> None:
    under_way(host)
    host.core.stopping.begin()
    host.settle()
    was_idle = host.core.is_idle
    host.core.on_cleaner_gone()
    host.settle()
    assert (was_idle, host.core.is_idle) == (False, True)
    assert not any(name.endswith(".cleaned") for name in host.names)
    host.tick()
    assert isinstance(host.commands[-1], CancelOrder)


@pytest.mark.parametrize("is_swapping", [False, True])
def test_a_pass_that_ends_unexpectedly_costs_its_partition_and_others_are_cleaned(is_swapping: bool) -> None:
    """It ended the logstore, and the next start ordered the same log again."""
    host = CleaningHost()
    host.greet(EXCHANGE, READ, WATCH, WATCH + 10)
    host.lead(topic(configs=COMPACTED, partitions=2))
    host.fill("a", "b", "a", "b", "a")
    host.fill("a", "b", "a", partition=1)
    host.tick()
    order = host.take_order()
    if is_swapping:
        host.holds_effects = True
        host.until(CleanedSegment)
        host.turn()
    # A report that no cleaner sends.
    host.core.on_cleaner_report(PassEnded(order.order_id, PassOutcome.DISK_ERROR))
    if is_swapping:
        host.holds_effects = False
        host.run_effects()
    host.settle()
    first, second = host.core.partitions
    assert host.core.contained.counts[CLEANING_PASS] == 1
    assert (first.online, second.online) == (False, True)
    host.commands.clear()
    host.cleaner.cancel(order.order_id)
    host.until(PassEnded)
    host.tick()
    assert host.take_order().directory == second.log.state.directory
    host.until(PassEnded)
    host.settle()
    assert host.passes.pop().ended.outcome is PassOutcome.DONE


def test_positions_do_not_go_back_under_one_leader_epoch(host: CleaningHost) -> None:
    host.fill("a", "b", "a", "b", "a")
    (before,) = host.watch()
    host.clean()
    (after,) = host.watch(stream_id=13)
    assert after.high_watermark_position == before.high_watermark_position
