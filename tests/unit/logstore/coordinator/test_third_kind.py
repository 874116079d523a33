"""What a further kind of coordinator has from its runtime: leadership, loading, appends, what waits for the commit,
lists, timers, containment. The kind is made up (`tally`), and no file of the runtime knows of it, nor of any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from barnabas.channel.messages import GroupAnswer, GroupCall
from barnabas.containment import Place
from barnabas.runtime.compression import decompress
from barnabas.wire.codec import decode_response_body, encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, api_key_of
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.record_batch import Record, build_batch, decode_records, iterate_headers
from barnabas_logstore.core.coordinator import runtime as package
from barnabas_logstore.core.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from barnabas_logstore.core.coordinator.runtime.led_shard import LedShard
from barnabas_logstore.core.replica.containment import COORDINATOR_LOAD, COORDINATOR_STATE
from tests.compiled import interpreted_only
from tests.unit.logstore.coordinator.support import FakeLog
from tests.unit.logstore.coordinator.tally import (
    DROP_MS,
    LATER_MS,
    REST_MS,
    TOPIC,
    TallyKind,
    TallyShard,
    TallyStore,
)

pytestmark = interpreted_only("has shards of its own, which can't derive from compiled classes")

PARTITION = 2
STREAM = 1
EPOCH = 5


class Planted(Exception):  # noqa: N818 - as what it stands for
    pass


def raises(*arguments: object) -> None:
    raise Planted


@dataclass
class DoubtedLog(FakeLog):
    doubts: list[Place] = field(default_factory=list)

    def state_in_doubt(self, place: Place, error: Exception) -> None:
        assert isinstance(error, Planted)
        self.doubts.append(place)


class World:
    def __init__(self) -> None:
        self.kind = TallyKind()
        self.runtime: CoordinatorRuntime[TallyShard] = CoordinatorRuntime(self.kind, decompress)
        self.log = DoubtedLog()
        self.now_ms = 0
        self.answers: dict[int, GroupAnswer] = {}
        self.lead()

    def lead(self) -> None:
        self.log.reads.clear()
        self.runtime.begin_turn(self.now_ms, self.now_ms)
        self.runtime.on_leadership(PARTITION, EPOCH, self.log, self.now_ms)
        self.read()

    def read(self) -> None:
        while self.log.reads:
            data, next_offset = self.log.data_from(self.log.reads.pop(), 1)
            self.runtime.on_read(PARTITION, EPOCH, memoryview(data), next_offset, self.now_ms)
            self.turn()

    def turn(self, later_ms: int = 0) -> None:
        self.now_ms += later_ms
        self.runtime.begin_turn(self.now_ms, self.now_ms)
        self.runtime.step(self.now_ms)
        while self.runtime.has_work:
            self.runtime.step(self.now_ms)
        self.runtime.on_committed(PARTITION, EPOCH, self.log.committed_upto, self.now_ms)
        for _, answer in self.runtime.take_answers():
            assert answer.request_id not in self.answers, "a request is answered once"
            self.answers[answer.request_id] = answer

    def ask(self, request: Request) -> int:
        request_id, api_key = len(self.answers) + 1, int(api_key_of(type(request)))
        body = encode_body(request, 2)
        self.runtime.on_call(STREAM, GroupCall(request_id, PARTITION, api_key, 2, "", "", body))
        self.turn()
        return request_id

    def count(self, *names: str) -> int:
        return self.ask(DeleteGroupsRequest(list(names)))

    def counts_of(self, *names: str) -> list[int]:
        request_id = self.ask(DescribeGroupsRequest(list(names)))
        response: Any = decode_response_body(15, 2, memoryview(self.answers[request_id].body))
        return [int(each.group_state) for each in response.groups]

    @property
    def led(self) -> LedShard[TallyShard]:
        led = self.runtime.find(PARTITION)
        assert led is not None
        return led

    @property
    def shard(self) -> TallyShard:
        return self.led.shard

    def replayed(self) -> object:
        """What its log says to another store."""
        store = self.kind.new_store()
        for batch in self.log.batches:
            _, header = next(iter(iterate_headers(batch)))
            for record in decode_records(batch):
                change = self.kind.decode(header, record)
                assert change is not None
                store.replay(change, record.offset)
        return store.stored()


@pytest.fixture
def world() -> World:
    return World()


def test_what_is_put_is_seen_at_once_and_answered_when_it_is_committed(world: World) -> None:
    world.log.commits_at_once = False
    waiting = world.count("apples", "pears", "apples")
    assert world.shard.counts == {"apples": 2, "pears": 1}
    assert waiting not in world.answers
    assert world.shard.committed == 0
    world.log.committed_upto = world.log.next_offset
    world.turn()
    assert world.answers[waiting].error_code == ErrorCode.NONE
    assert world.shard.committed == 1
    assert len(world.log.batches) == 1, "one batch in a turn"


def test_the_next_leader_knows_what_the_log_says(world: World) -> None:
    world.count("apples", "pears")
    world.count("apples")
    known = world.shard.store.stored()
    assert world.replayed() == known == {"apples": 2, "pears": 1}
    world.runtime.on_lost(PARTITION, EPOCH, world.now_ms)
    world.lead()
    assert world.shard.store.stored() == known
    assert not world.shard.is_at_rest, "`loaded` has seen it"
    assert world.counts_of("apples", "plums") == [2, 0]


def test_while_it_is_loaded_nothing_is_served(world: World) -> None:
    world.count("apples")
    world.runtime.on_lost(PARTITION, EPOCH, world.now_ms)
    assert world.answers[world.count("apples")].error_code == ErrorCode.NOT_COORDINATOR
    world.runtime.on_leadership(PARTITION, EPOCH, world.log, world.now_ms)
    assert world.answers[world.count("apples")].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.answers[world.ask(ListGroupsRequest())].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.read()
    assert world.counts_of("apples") == [1]


def test_an_append_that_is_lost_loses_what_was_replayed(world: World) -> None:
    world.count("apples")
    world.log.fails_appends = True
    lost = world.count("apples", "pears")
    assert world.answers[lost].error_code == ErrorCode.NOT_COORDINATOR
    world.log.fails_appends = False
    world.read()
    assert world.counts_of("apples", "pears") == [1, 0]
    assert world.shard.store.stored() == world.replayed()


def test_a_record_that_is_too_large_is_not_put(world: World) -> None:
    world.log.bytes_max = 200
    world.count("x" * 200)
    assert world.shard.counts == {}
    assert not world.log.batches


def test_all_shards_are_listed(world: World) -> None:
    world.count("apples", "pears")
    answer = world.answers[world.ask(ListGroupsRequest())]
    response: Any = decode_response_body(16, 2, memoryview(answer.body))
    assert [each.group_id for each in response.groups] == ["apples", "pears"]


def test_what_is_due_comes_at_its_time(world: World) -> None:
    assert world.runtime.next_deadline_ms() is None, "there is nothing to look at"
    world.count("apples", "pears")
    assert world.runtime.next_deadline_ms() == LATER_MS
    world.turn(LATER_MS)
    assert world.shard.done_later == 1
    assert world.runtime.next_deadline_ms() == REST_MS
    world.turn(REST_MS)
    assert world.shard.is_at_rest
    world.turn(DROP_MS)
    assert world.shard.counts == world.replayed() == {}


def test_nothing_of_a_shard_is_left_when_it_is_lost(world: World) -> None:
    world.count("apples")
    world.runtime.on_lost(PARTITION, EPOCH, world.now_ms)
    assert world.runtime.next_deadline_ms() is None
    assert len(world.kind.timers) == 0
    assert not world.kind.due
    assert not world.runtime.has_work


# --- what fails ------------------------------------------------------------------------------------------------------

AFTER_A_COUNT: list[tuple[type, str, Callable[[World], None]]] = [
    (TallyShard, "_rest", lambda world: world.turn(REST_MS)),
    (TallyShard, "step_due", lambda world: world.turn(LATER_MS)),
    (TallyShard, "begin_to_drop", lambda world: world.turn(DROP_MS)),
    (TallyShard, "step_piece", lambda world: world.turn(DROP_MS)),
    (DoubtedLog, "append", lambda world: _count_again(world)),
]


def _count_again(world: World) -> None:
    world.count("apples")


@pytest.mark.parametrize(("owner", "method", "act"), AFTER_A_COUNT, ids=[method for _, method, _ in AFTER_A_COUNT])
def test_what_fails_by_the_clock_costs_the_shard(
    world: World, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, act: Callable[[World], None]
) -> None:
    monkeypatch.setattr(owner, method, raises)  # before the count: a deadline keeps the method that it was made with
    world.lead()
    if owner is TallyShard:
        world.count("apples")
    act(world)
    assert world.log.doubts == [COORDINATOR_STATE]


@pytest.mark.parametrize(("owner", "method"), [(TallyKind, "decode"), (TallyStore, "replay"), (TallyShard, "loaded")])
def test_what_fails_as_it_is_loaded_costs_the_load(
    world: World, monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    world.count("apples")
    world.runtime.on_lost(PARTITION, EPOCH, world.now_ms)
    with monkeypatch.context() as planted:
        planted.setattr(owner, method, raises)
        world.runtime.on_leadership(PARTITION, EPOCH, world.log, world.now_ms)
        data, next_offset = world.log.data_from(world.log.reads.pop(), 1)
        led = world.led
        assert led.loader is not None
        led.loader.feed(memoryview(data), next_offset)
        world.turn()
    assert world.log.doubts == [COORDINATOR_LOAD]
    assert not world.runtime.has_work, "it is not gone on with"
    world.lead()
    assert world.counts_of("apples") == [1]


def test_a_record_that_no_coordinator_writes_is_counted(world: World) -> None:
    world.log.add(build_batch([Record(None, b"", 0)]), 1)
    world.log.add(build_batch([Record(b"apples", None, 0)]), 1)
    world.lead()
    (problem,) = world.runtime.problems
    assert problem.startswith(f"records of {TOPIC}-{PARTITION} that can't be read: 1; the counts in them")


@pytest.mark.parametrize(("owner", "method"), [(TallyShard, "_count"), (TallyStore, "replay")])
def test_a_call_that_fails_is_its_callers_to_end(
    world: World, monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    """`Coordination` ends it, and has its shard loaded again: nothing of the turn is appended."""
    monkeypatch.setattr(owner, method, raises)
    world.lead()
    with pytest.raises(Planted):
        world.count("apples")


def test_whatever_fails_as_a_shard_is_lost_its_callers_are_answered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.log.commits_at_once = False
    waiting = world.count("apples")
    monkeypatch.setattr(TallyShard, "stop", raises)
    with pytest.raises(Planted):
        world.runtime.on_lost(PARTITION, EPOCH, world.now_ms)
    world.turn()
    assert world.answers[waiting].error_code == ErrorCode.NOT_COORDINATOR


# --- the runtime -----------------------------------------------------------------------------------------------------


def test_no_file_of_the_runtime_knows_a_kind() -> None:
    (folder,) = map(Path, package.__path__)
    kinds = [each.name for each in folder.parent.iterdir() if (each / "kind.py").exists()]
    assert {"groups", "transactions"} <= set(kinds)
    imports = [line for each in folder.glob("*.py") for line in each.read_text().splitlines() if "import" in line]
    assert imports
    assert not [line for line in imports for kind in kinds if f"coordinator.{kind}" in line]
