"""A logstore that had lost all partitions of `__transaction_state` took a turn every millisecond, for ever: when to
look for timeouts and for ids to forget stayed as it was, in the past, and was never done. A third of the turns of all
logstores in the simulation's seeds with transactions.

So it did after an unexpected exception while the last of them was lost, and where a pause was over after which nothing
could begin again: its log could not be read any more, or the logstore was stopping.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.coordinator.runtime.leadership import PAUSE_MS_MAX
from barnabas_logstore.core.coordinator.transactions.shard import (
    COMPLETION_RETRY_MS,
    TransactionShard,
)
from barnabas_logstore.core.replica.containment import COORDINATOR_STATE
from tests.unit.logstore.coordinator.support import FakeLog
from tests.unit.logstore.service.group_host import OFFSETS_TOPIC, GroupHost, commit_request, offsets_topic
from tests.unit.logstore.transactions.support import FakeMarkers, World


class Fault(Exception):  # noqa: N818 - as what it stands for
    pass


@dataclass
class CountingLog(FakeLog):
    checks: int = 0

    def check_append(self, expected_epoch: int) -> ErrorCode:
        self.checks += 1
        return super().check_append(expected_epoch)


class FaultyMarkers(FakeMarkers):
    """Meets a fault of ours when a coordinator is lost, and reports to that one later."""

    def forget_sender(self, sender: TransactionShard) -> None:
        raise Fault("planted")


def test_a_coordinator_without_partitions_waits_for_nothing() -> None:
    world = World()
    world.begun()
    assert world.coordinator.next_deadline_ms() is not None
    world.lose()
    assert world.coordinator.next_deadline_ms() is None


def test_nor_does_one_whose_last_partition_was_lost_with_an_exception() -> None:
    """Seed 10000102 of runs with exceptions."""
    world = World(sender=FaultyMarkers())
    world.begun()
    assert world.coordinator.next_deadline_ms() is not None
    with pytest.raises(Fault):
        world.lose()
    assert world.coordinator.next_deadline_ms() is None


def test_a_coordinator_that_leads_again_looks_for_timeouts_again() -> None:
    world = World()
    world.begun()
    world.fail_over()
    assert world.coordinator.next_deadline_ms() is not None


@pytest.mark.parametrize("leads_again", [False, True])
def test_completions_of_a_lost_coordinator_are_not_tried_again(leads_again: bool) -> None:
    log, markers = CountingLog(), FaultyMarkers()
    world = World(log, markers)
    world.end(*world.begun())
    ((sender, transaction),) = markers.sent
    with pytest.raises(Fault):
        world.lose()
    if leads_again:
        world.lead()
    log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    log.checks = 0
    sender.markers_written(transaction)
    for _ in range(10):
        world.now_ms += COMPLETION_RETRY_MS
        world.turn()
    deadline_ms = world.coordinator.next_deadline_ms()
    assert deadline_ms is None or deadline_ms > world.now_ms
    assert log.checks == 1


def in_doubt_once() -> GroupHost:
    """Its pause is over, and it is coordinated again."""
    host = GroupHost()
    host.lead(offsets_topic())
    for number in range(20):
        host.ask(commit_request(number))
    doubt(host)
    host.later(PAUSE_MS_MAX)
    assert host.committed() == 19
    return host


def doubt(host: GroupHost) -> None:
    (led,) = host.core._coordination._led._led.values()
    led.state_in_doubt(COORDINATOR_STATE, Fault("planted"))
    host.settle()


def assert_waits(host: GroupHost) -> None:
    deadline_ms = host.core.next_deadline_ms()
    assert deadline_ms is None or deadline_ms > host.now_ms


def test_a_pause_before_a_log_that_can_not_be_read_any_more_is_over_once() -> None:
    host = in_doubt_once()
    path = f"/data0/{OFFSETS_TOPIC}-0/{0:020d}.log"
    host.disk.write_at(host.disk.open(path), 8, [b"\x00\x00\x00\x01"])
    doubt(host)
    host.later(PAUSE_MS_MAX)
    assert host.core._coordination.unreadable_partitions
    assert_waits(host)


def test_a_pause_is_nothing_to_wait_for_while_stopping() -> None:
    host = in_doubt_once()
    host.core.stopping.begin()
    assert host.ask(commit_request(20)) == ErrorCode.NOT_COORDINATOR
    assert_waits(host)
