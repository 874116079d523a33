"""What is counted of transactions: as they end, and by looking at all of them."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.metrics.family import Family, Sample
from barnabas.metrics.transaction_families import (
    LATE_TRANSACTIONS,
    ONGOING_TIME_MAX,
    PRODUCERS_FENCED,
    TRANSACTIONAL_IDS,
    TRANSACTIONS_ENDED,
)
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.observability.transaction_scan import TransactionScan
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import WALL_MS, append, batch, new_log
from tests.unit.logstore.storage.test_transactions import end, write
from tests.unit.logstore.transactions.support import ID, TIMEOUT_MS, World

LATE_MS = 1_200_000


def values(samples: Iterable[Sample], family: Family) -> dict[tuple[str, ...], float]:
    return {each.labels: each.value for each in samples if each.family is family}


def ended(world: World) -> dict[str, float]:
    found = values(world.kind.meter.samples(), TRANSACTIONS_ENDED)
    return {labels[0]: value for labels, value in found.items()}


def fenced(world: World) -> float:
    return values(world.kind.meter.samples(), PRODUCERS_FENCED)[()]


def scanned(world: World, step: int = 1) -> TransactionScan:
    scan = TransactionScan(world.coordinator.shards, world.wall_ms, LATE_MS)
    while not scan.step(step):
        pass
    return scan


def late(log: PartitionLog, after_ms: int) -> float:
    scan = TransactionScan([], WALL_MS + after_ms, LATE_MS)
    scan.look_at_log(log)
    return values(scan.samples(), LATE_TRANSACTIONS)[()]


class TestCounts:
    def test_each_end_counts_once_by_its_result(self) -> None:
        world = World()
        assert ended(world) == {"commit": 0, "abort": 0, "timeout": 0}
        for commit in (True, False, True):
            producer_id, epoch = world.begun()
            world.end(producer_id, epoch, commit=commit)
            world.end(producer_id, epoch, commit=commit)  # a retry
            world.markers.write()
            world.turn()
        assert ended(world) == {"commit": 2, "abort": 1, "timeout": 0}

    def test_a_timeout_is_no_abort_of_a_producer(self) -> None:
        world = World()
        world.begun()
        world.advance(2 * TIMEOUT_MS)
        assert world.markers.sent
        assert ended(world) == {"commit": 0, "abort": 0, "timeout": 1}

    def test_counts_outlive_a_partition(self) -> None:
        world = World()
        producer_id, epoch = world.begun()
        world.end(producer_id, epoch)
        world.fail_over()
        assert ended(world)["commit"] == 1

    def test_a_replaced_producer_is_counted_with_each_of_its_requests(self) -> None:
        world = World()
        first = world.init()
        assert world.add(first.producer_id, first.producer_epoch, 0) == ErrorCode.NONE
        assert fenced(world) == 0
        world.init()  # which aborts the transaction of the first one
        world.markers.write()
        world.turn()
        assert world.init().error_code == ErrorCode.NONE
        assert world.add(first.producer_id, first.producer_epoch, 0) == ErrorCode.PRODUCER_FENCED
        assert world.end(first.producer_id, first.producer_epoch).error_code == ErrorCode.PRODUCER_FENCED
        assert fenced(world) == 2


class TestScan:
    def test_ids_by_state_and_how_long_the_oldest_has_taken(self) -> None:
        world = World()
        world.init("idle")
        world.begun()
        world.advance(2_500)
        samples = list(scanned(world).samples())
        states = values(samples, TRANSACTIONAL_IDS)
        assert states["Empty",] == 1
        assert states["Ongoing",] == 1
        assert sum(states.values()) == 2
        assert values(samples, ONGOING_TIME_MAX) == {(): 2_500}
        world.end(world.transaction(ID).producer_id, 0)
        samples = list(scanned(world, step=100).samples())
        assert values(samples, TRANSACTIONAL_IDS)["PrepareCommit",] == 1
        assert values(samples, ONGOING_TIME_MAX) == {(): 0}

    def test_a_transaction_is_late_when_its_coordinator_should_have_ended_it(self) -> None:
        log = new_log(DiskModel())
        append(log, batch())
        assert late(log, 2 * LATE_MS) == 0
        write(log, 0)
        assert late(log, LATE_MS) == 0
        assert late(log, LATE_MS + 1) == 1
        end(log, commit=False)
        assert late(log, 2 * LATE_MS) == 0
