"""An unexpected exception in a coordinator: its partition is loaded again, what is committed stays, and calls are
answered once.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.containment import Uncontained
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.coordinator.groups.offset_expiry import OffsetExpiry
from barnabas_logstore.core.coordinator.groups.rebalancing import Rebalancing
from barnabas_logstore.core.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from barnabas_logstore.core.coordinator.runtime.inbox import ENDED_MAX
from barnabas_logstore.core.coordinator.runtime.leadership import LOADS_FAILED_MAX, PAUSE_MS_MAX, PAUSE_MS_MIN
from barnabas_logstore.core.coordinator.runtime.led_shard import LedShard
from barnabas_logstore.core.replica.containment import (
    COORDINATOR_CALL,
    COORDINATOR_LOAD,
    COORDINATOR_QUERY,
    COORDINATOR_STATE,
)
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.unit.logstore.service.group_host import OFFSETS_TOPIC, GroupHost, fetch_request, offsets_topic
from tests.unit.logstore.service.support import WALL_MS
from tests.unit.logstore.service.test_containment import Fault, after, offline, raises
from tests.unit.logstore.transactions.support import PARTITION, World

UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.fixture
def host() -> GroupHost:
    host = GroupHost()
    host.lead(offsets_topic(partitions=2))
    return host


def commit(host: GroupHost, offset: int) -> ErrorCode:
    request_id = host.commit(offset)
    host.settle()
    answer = host.answer_of(request_id)
    return answer if isinstance(answer, ErrorCode) else ErrorCode(answer.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("planting", [lambda method: raises, after], ids=["before", "behind"])
def test_a_call_that_may_have_changed_a_group_has_its_partition_read_again(
    host: GroupHost, monkeypatch: pytest.MonkeyPatch, planting: Callable[..., Callable[..., object]]
) -> None:
    assert commit(host, 42) == ErrorCode.NONE
    with monkeypatch.context() as planted:
        planted.setattr(CoordinatorRuntime, "on_call", planting(CoordinatorRuntime.on_call))
        request_id = host.commit(43)
        host.settle()
    assert host.answers[request_id].error_code == UNKNOWN
    assert host.core.contained.counts[COORDINATOR_CALL] == 1
    assert commit(host, 44) == ErrorCode.NOT_COORDINATOR, "clients look for it again"
    host.later(PAUSE_MS_MIN)
    assert host.committed() in (42, 43), "what was acknowledged is there, and nothing else"
    assert commit(host, 45) == ErrorCode.NONE
    assert offline(host) == []


@pytest.mark.parametrize("is_behind", [False, True], ids=["before", "behind"])
def test_a_state_that_could_not_be_let_go_of_at_once_serves_nothing(
    host: GroupHost, monkeypatch: pytest.MonkeyPatch, is_behind: bool
) -> None:
    """Seed 586 with exceptions: a partition was read half-way, and half of its members were served as all of them."""
    on_lost = CoordinatorRuntime.on_lost
    met: list[Fault] = []

    def once(coordinator: CoordinatorRuntime[Any], partition: int, leader_epoch: int, now_ms: int) -> None:
        if is_behind or met:
            on_lost(coordinator, partition, leader_epoch, now_ms)
        if not met:
            met.append(Fault("planted"))
            raise met[0]

    commit(host, 42)
    with monkeypatch.context() as planted:
        planted.setattr(CoordinatorRuntime, "on_call", raises)
        planted.setattr(CoordinatorRuntime, "on_lost", once)
        host.commit(43)
        host.settle()
    assert len(met) == 1
    assert host.core.contained.counts[COORDINATOR_STATE] == 1
    assert commit(host, 44) == ErrorCode.NOT_COORDINATOR
    host.later(PAUSE_MS_MIN)
    assert host.committed() == 42


def test_a_state_that_is_never_let_go_of_ends_the_process(host: GroupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(host, 42)
    monkeypatch.setattr(CoordinatorRuntime, "on_call", raises)
    monkeypatch.setattr(CoordinatorRuntime, "on_lost", raises)
    host.commit(43)
    with pytest.raises(Uncontained):
        host.settle()


def test_a_pause_that_is_over_is_nothing_to_wait_for_once_its_log_is_offline(
    host: GroupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 109 of runs with exceptions: the host woke at once, for something that was due two seconds ago."""
    with monkeypatch.context() as planted:
        planted.setattr(CoordinatorRuntime, "on_call", raises)
        host.commit(42)
        host.settle()
    host.later(20 * PAUSE_MS_MIN)
    assert commit(host, 43) == ErrorCode.NONE
    monkeypatch.setattr(PartitionLog, "begin_write", raises)
    host.commit(44)
    host.core.step(host.now_ms, WALL_MS)
    while host.core.take_outputs().effects:
        pass
    assert len(offline(host)) == 1
    deadline_ms = host.core.next_deadline_ms()
    assert deadline_ms is None or deadline_ms > host.now_ms


def test_a_query_costs_itself(host: GroupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(host, 42)
    with monkeypatch.context() as planted:
        planted.setattr(CoordinatorRuntime, "on_call", raises)
        request_id = host.call(fetch_request(), 8)
        host.settle()
    assert host.answers[request_id].error_code == UNKNOWN
    assert host.core.contained.counts[COORDINATOR_QUERY] == 1
    assert host.committed() == 42, "in no later turn"


def test_a_poisonous_call_costs_its_partition_ever_longer_pauses_and_nothing_grows(
    host: GroupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(host, 42)
    call = CoordinatorRuntime.on_call
    with monkeypatch.context() as planted:
        planted.setattr(CoordinatorRuntime, "on_call", raises)
        sizes = []
        for number in range(2_000):
            request_id = host.commit(43)
            host.settle()
            assert host.answers.pop(request_id).error_code in (UNKNOWN, ErrorCode.NOT_COORDINATOR)
            host._calls.clear()
            if number % 20 == 0:
                host.later(PAUSE_MS_MAX)
            if number == 500:
                gc.collect()
                tracemalloc.start()
            if number in (1_000, 1_999):
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        planted.setattr(CoordinatorRuntime, "on_call", call)
    assert sizes[1] < sizes[0] + 200_000
    assert len(host.core._coordination._inbox._ended) <= ENDED_MAX
    assert host.core.contained.counts[COORDINATOR_CALL] <= 200, "its pauses grow"
    host.later(PAUSE_MS_MAX)
    assert host.committed() == 42


def test_what_comes_due_costs_its_partition_a_reload(host: GroupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as planted:
        planted.setattr(Rebalancing, "_session_is_over", raises)
        host.synced(host.joined())
        host.later(60_000)
    assert host.core.contained.counts[COORDINATOR_STATE] >= 1
    host.later(PAUSE_MS_MAX)
    assert host.committed() == -1, "it is coordinated again"


def test_expiry_costs_its_partition_a_reload(host: GroupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(host, 42)
    with monkeypatch.context() as planted:
        planted.setattr(OffsetExpiry, "step", raises)
        host.later(700_000)
    assert host.core.contained.counts[COORDINATOR_STATE] >= 1
    host.later(PAUSE_MS_MAX)
    assert host.committed() == 42


def test_a_partition_that_can_not_be_loaded_goes_offline_at_last(
    host: GroupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may be able to."""
    commit(host, 42)
    load = LedShard.load

    def failing(led: LedShard[Any]) -> bool:
        if led.partition == 0:
            raise RuntimeError("planted")
        return load(led)

    monkeypatch.setattr(LedShard, "load", failing)
    host.lead(offsets_topic(1, 1, partitions=2))
    for _ in range(LOADS_FAILED_MAX - 1):
        assert offline(host) == []
        host.later(PAUSE_MS_MAX)
    assert offline(host) == [(OFFSETS_TOPIC, 0)]
    assert host.core.contained.counts[COORDINATOR_LOAD] >= LOADS_FAILED_MAX


def test_a_load_that_fails_at_its_very_end_is_begun_again(host: GroupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 88 of runs with exceptions: the next turn went on with that load, of which nothing was left."""
    commit(host, 42)
    load = LedShard.load

    def failing(led: LedShard[Any]) -> bool:
        if load(led):
            raise RuntimeError("planted")
        return False

    with monkeypatch.context() as planted:
        planted.setattr(LedShard, "load", failing)
        host.lead(offsets_topic(1, 1, partitions=2))
        host.settle()
    assert host.core.contained.counts[COORDINATOR_LOAD] == 2, "one of each partition"
    host.later(PAUSE_MS_MIN)
    assert host.committed() == 42
    assert host.core.contained.counts[COORDINATOR_LOAD] == 2


def test_a_load_of_transactions_that_fails_at_its_very_end_is_not_gone_on_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    with monkeypatch.context() as planted:
        planted.setattr(LedShard, "load", after(LedShard.load))
        with pytest.raises(Fault):
            world.coordinator.on_leadership(PARTITION, world.epoch + 1, world.log, world.now_ms)
    monkeypatch.setattr(LedShard, "load", raises)
    world.coordinator.step(world.now_ms)
    assert not world.coordinator.has_work


def test_calls_that_wait_are_answered_when_a_partition_is_in_doubt(
    host: GroupHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that waits for its record is answered with the epoch's end, once."""
    host.lead(offsets_topic(1, 1, partitions=2, replicas=[1, 2], in_sync_replicas=[1, 2]))
    host.settle()
    waiting = host.commit(42)
    host.settle()
    assert waiting not in host.answers
    with monkeypatch.context() as planted:
        planted.setattr(CoordinatorRuntime, "on_call", raises)
        host.commit(43)
        host.settle()
    assert host.answers[waiting].error_code == ErrorCode.NOT_COORDINATOR
