"""Records of operators' calls on their way to a gateway: in which order, to whom, how many wait, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import grpc
import grpc.aio
import pytest

from barnabas.cluster.access.operator_calls import TEXT_LENGTH_MAX, OperatorCall
from barnabas.cluster.keys import ControllerRegistration
from barnabas_controller.shell.membership import add_membership
from barnabas_controller.shell.operators.call_records import (
    BATCH_MAX,
    LINGER_MS,
    WAITING_MAX,
    WAITING_MS_MAX,
    CallRecords,
    send_to_controller,
)
from barnabas_protos.controller.v1 import membership_pb2 as pb

TURN_S = 3 * LINGER_MS / 1000


class Kept(CallRecords):
    """Keeps all of them."""

    def __init__(self, controller_id: str) -> None:
        super().__init__(controller_id)
        self.calls: list[OperatorCall] = []

    def add(self, call: OperatorCall) -> None:
        self.calls.append(call)


@dataclass
class Gateway:
    """The controller's end of a gateway's subscription."""

    pending_bytes: int = 0
    batches: list[list[str]] = field(default_factory=list)

    def send(self, data: bytes) -> None:
        self.batches.append([each.operation for each in pb.SubscribeResponse.FromString(data).operator_calls])

    @property
    def operations(self) -> list[str]:
        return [each for batch in self.batches for each in batch]


@dataclass
class World:
    """One controller; `others` has what it has sent to the active one, which answers `failures` first."""

    now_ms: int = 0
    others: list[tuple[str, list[str]]] = field(default_factory=list)
    failures: list[grpc.StatusCode] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.records = CallRecords("controller-1", self._send, lambda: self.now_ms)

    async def _send(self, address: str, calls: Sequence[OperatorCall]) -> None:
        await asyncio.sleep(0)
        if self.failures:
            raise grpc.aio.AioRpcError(self.failures.pop(0), grpc.aio.Metadata(), grpc.aio.Metadata(), None, None)
        self.others.append((address, [each.operation for each in calls]))

    def gateway(self, subscriber_id: int = 1) -> Gateway:
        gateway: Any = Gateway()
        self.records.add_taker(subscriber_id, gateway)
        return gateway  # type: ignore[no-any-return]

    def record(self, *operations: str) -> None:
        for operation in operations:
            self.records.record("alice", "ipv4:127.0.0.1:4711", operation, "denied", "no role")

    def elect(self, controller_id: str) -> None:
        self.records.elected = lambda: ControllerRegistration(controller_id, "x", f"{controller_id}:9091")

    def counts(self) -> dict[str, int]:
        return {each.labels[0]: int(each.value) for each in self.records.samples()}  # type: ignore[arg-type]


@pytest.fixture
async def world() -> Any:
    at = World()
    yield at
    await at.records.close()


async def test_calls_of_a_moment_are_one_message(world: World) -> None:
    gateway = world.gateway()
    world.record("a", "b")
    assert not gateway.batches
    await asyncio.sleep(TURN_S)
    assert gateway.batches == [["a", "b"]]
    assert world.counts() == {"handed over": 2, "dropped": 0}


async def test_what_is_recorded_is_shortened(world: World) -> None:
    sent: list[bytes] = []
    gateway: Any = Gateway()
    gateway.send = sent.append
    world.records.add_taker(1, gateway)
    world.records.record("p" * 5000, "peer", "operation", "allowed")
    await asyncio.sleep(TURN_S)
    (call,) = pb.SubscribeResponse.FromString(sent[0]).operator_calls
    assert len(call.principal) == TEXT_LENGTH_MAX
    assert (call.controller_id, call.peer, call.operation, call.verdict, call.reason) == (
        *("controller-1", "peer", "operation", "allowed"),
        "",
    )
    assert call.time_ms > 0


async def test_a_time_that_is_no_date_becomes_one(world: World) -> None:
    """As another process may send it: the record of a gateway has a date."""
    sent: list[bytes] = []
    gateway: Any = Gateway()
    gateway.send = sent.append
    world.records.add_taker(1, gateway)
    for time_ms in (-5, 1 << 60):
        world.records.add(OperatorCall(time_ms, "controller-2", "alice", "peer", "operation", "allowed"))
    await asyncio.sleep(TURN_S)
    times = [each.time_ms for each in pb.SubscribeResponse.FromString(sent[0]).operator_calls]
    assert [datetime.fromtimestamp(each / 1000, UTC).year for each in times] == [1970, 9999]


async def test_calls_wait_for_a_gateway(world: World) -> None:
    world.record("a")
    await asyncio.sleep(TURN_S)
    gateway = world.gateway()
    await asyncio.sleep(1.1)
    assert gateway.operations == ["a"]


async def test_gateways_get_batches_in_turn(world: World) -> None:
    first, second = world.gateway(1), world.gateway(2)
    world.record(*map(str, range(2 * BATCH_MAX)))
    await asyncio.sleep(2 * TURN_S)
    assert [len(each.operations) for each in (first, second)] == [BATCH_MAX, BATCH_MAX]
    assert sorted(map(int, first.operations + second.operations)) == list(range(2 * BATCH_MAX))


async def test_a_gateway_that_is_gone_gets_nothing_more(world: World) -> None:
    first, second = world.gateway(1), world.gateway(2)
    world.records.remove_taker(1)
    world.records.remove_taker(1)
    for operation in ("a", "b"):
        world.record(operation)
        await asyncio.sleep(TURN_S)
    assert not first.batches
    assert second.operations == ["a", "b"]


async def test_metadata_comes_before_records(world: World) -> None:
    gateway = world.gateway()
    gateway.pending_bytes = 1 << 20
    world.record("a")
    await asyncio.sleep(TURN_S)
    assert not gateway.batches
    gateway.pending_bytes = 0
    await asyncio.sleep(TURN_S)
    assert gateway.operations == ["a"]


async def test_no_more_wait_than_fit_and_the_first_are_kept(world: World) -> None:
    world.gateway()
    world.records.remove_taker(1)
    world.record(*map(str, range(WAITING_MAX + 5)))
    assert world.counts() == {"handed over": 0, "dropped": 5}
    gateway = world.gateway()
    await asyncio.sleep((WAITING_MAX / BATCH_MAX + 3) * LINGER_MS / 1000)
    assert gateway.operations == [str(each) for each in range(WAITING_MAX)]


async def test_what_no_gateway_takes_is_dropped_after_two_minutes(world: World) -> None:
    world.gateway()
    world.records.remove_taker(1)
    world.record("a")
    world.now_ms += WAITING_MS_MAX + 1
    world.record("b")
    gateway = world.gateway()
    await asyncio.sleep(TURN_S)
    assert gateway.operations == ["b"]
    assert world.counts() == {"handed over": 1, "dropped": 1}


async def test_where_no_gateway_has_ever_taken_any_nothing_is_missed(world: World) -> None:
    world.record(*map(str, range(WAITING_MAX + 5)))
    assert world.counts() == {"handed over": 0, "dropped": 0}


async def test_a_controller_that_is_not_active_sends_them_to_the_one_that_is(world: World) -> None:
    world.elect("controller-2")
    world.record("a", "b")
    await asyncio.sleep(TURN_S)
    assert world.others == [("controller-2:9091", ["a", "b"])]
    assert world.counts() == {"handed over": 2, "dropped": 0}


async def test_its_own_election_is_no_reason_to_send_them(world: World) -> None:
    world.elect("controller-1")
    world.record("a")
    await asyncio.sleep(TURN_S)
    assert not world.others


async def test_what_the_active_one_may_not_have_is_sent_again_in_its_order(world: World) -> None:
    world.elect("controller-2")
    world.failures = [grpc.StatusCode.UNAVAILABLE]
    world.record("a", "b")
    await asyncio.sleep(TURN_S)
    assert not world.others
    world.record("c")
    await asyncio.sleep(1.2)
    assert world.others == [("controller-2:9091", ["a", "b", "c"])]


@pytest.mark.parametrize("status", [grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.PERMISSION_DENIED])
async def test_an_active_one_of_an_earlier_version_is_not_asked_again(world: World, status: grpc.StatusCode) -> None:
    world.elect("controller-2")
    world.failures = [status]
    world.record("a")
    await asyncio.sleep(1.3)
    assert not world.others


async def test_what_one_controller_sends_the_other_one_has() -> None:
    """Over a real connection."""
    records = Kept("controller-2")
    server = grpc.aio.server()
    driver: Any = None
    add_membership(server, driver, records)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    calls = [OperatorCall(1, "controller-1", "alice", "peer", each, "denied", "no role") for each in ("a", "b")]
    try:
        await send_to_controller(f"127.0.0.1:{port}", calls)
    finally:
        await server.stop(0)
    assert records.calls == calls
