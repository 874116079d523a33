"""Calls to a logstore through gRPC: the gateway's end and the logstore's, with cores that are scripted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from barnabas.cluster import administration as contract
from barnabas.cluster.administration import AdministrationRequest, AdministrationResponse
from barnabas.runtime.rpc import create_server, stop_server
from barnabas_gateway.core.model.outputs import LogstoreCall
from barnabas_gateway.shell.logstore_calls import LogstoreCalls
from barnabas_logstore.core.streams.outbox import Outputs
from barnabas_logstore.shell.administration import AdministrationListener

ID = bytes(range(16))
EXCHANGES: list[tuple[AdministrationRequest, AdministrationResponse]] = [
    (
        contract.EndOffsetsRequest([contract.EndOffsetQuery(ID, 3, -1, 7)]),
        contract.EndOffsetsResponse([contract.EndOffsetAnswer(0, 7, 1 << 40)]),
    ),
    (
        contract.DeleteRecordsRequest(1000, [contract.DeleteRecordsPartition(ID, 3, -1)]),
        contract.DeleteRecordsResponse([contract.DeletedRecords(0, 1 << 40)]),
    ),
    (
        contract.DescribeProducersRequest([contract.TopicIdPartition(ID, 3)]),
        contract.DescribeProducersResponse(
            [contract.PartitionProducers(0, [contract.ActiveProducer(1, 2, 3, 4, -1, -1)])]
        ),
    ),
    (
        contract.DescribeLogDirsRequest(False, [contract.TopicIdPartition(ID, 3)]),
        contract.DescribeLogDirsResponse(
            [contract.LogDirDescription(0, "/a", 9, 8, [contract.LogDirReplica("t", 3, 7, 6, True)])]
        ),
    ),
    (
        contract.AlterReplicaLogDirsRequest([contract.ReplicaMove("t", 3, "/a")]),
        contract.AlterReplicaLogDirsResponse([56]),
    ),
    (
        contract.DescribeConfigsRequest([contract.ConfigResource(2, "t", True, [])], True, False),
        contract.DescribeConfigsResponse([contract.DescribedResource(0, "", [])]),
    ),
    (
        contract.AlterBrokerLoggersRequest(3, [contract.LoggerChange("logstore", 0, "DEBUG")], True),
        contract.AlterBrokerLoggersResponse(40, "Why."),
    ),
]


class ScriptedLoop:
    """Stands in for the logstore's loop and core."""

    def __init__(self) -> None:
        self.core = self
        self.calls: dict[int, AdministrationRequest] = {}
        self.ended: list[int] = []
        self.takes_calls = True
        self.woken = asyncio.Event()

    def on_administration(self, call_id: int, request: AdministrationRequest) -> bool:
        if self.takes_calls:
            self.calls[call_id] = request
        return self.takes_calls

    def on_administration_cancelled(self, call_id: int) -> None:
        self.ended.append(call_id)
        self.woken.set()

    def wake(self) -> None:
        self.woken.set()

    async def next_call(self) -> int:
        """The id of the only call that is under way."""
        await self.woken.wait()
        self.woken.clear()
        (call_id,) = self.calls
        return call_id


class ConnectedLogstore:
    """A logstore's listener and a gateway's calls to it."""

    def __init__(self) -> None:
        self.server, port = create_server("127.0.0.1:0")
        self.listener = AdministrationListener(self.server)
        self.loop = ScriptedLoop()
        self.answers: asyncio.Queue[tuple[int, AdministrationResponse | None]] = asyncio.Queue()
        self.calls = LogstoreCalls(1, f"127.0.0.1:{port}", lambda *answer: self.answers.put_nowait(answer))

    def serve(self) -> None:
        self.listener.serve(cast("Any", self.loop))

    def ask(self, call_id: int, request: AdministrationRequest, timeout_ms: int = 30_000) -> None:
        self.calls.send(LogstoreCall(call_id, 1, request, timeout_ms))

    def answer(self, call_id: int, response: AdministrationResponse) -> None:
        outputs = Outputs()
        outputs.administration.append((call_id, response))
        self.listener.send(outputs)


@pytest.fixture
async def connected() -> AsyncIterator[ConnectedLogstore]:
    connected = ConnectedLogstore()
    await connected.server.start()
    connected.serve()
    yield connected
    await connected.calls.close()
    await stop_server(connected.server, 0)


@pytest.mark.parametrize(("request_", "response"), EXCHANGES, ids=lambda each: type(each).__name__)
async def test_a_call_is_answered(
    connected: ConnectedLogstore, request_: AdministrationRequest, response: AdministrationResponse
) -> None:
    connected.ask(7, request_)
    call_id = await connected.loop.next_call()
    assert connected.loop.calls[call_id] == request_
    connected.answer(call_id, response)
    assert await connected.answers.get() == (7, response)
    assert connected.loop.ended == [call_id]


async def test_a_call_that_is_not_taken_is_not_answered(connected: ConnectedLogstore) -> None:
    connected.loop.takes_calls = False
    connected.ask(7, EXCHANGES[0][0])
    assert await connected.answers.get() == (7, None)


async def test_a_call_ends_with_its_time(connected: ConnectedLogstore) -> None:
    connected.ask(7, EXCHANGES[0][0], timeout_ms=100)
    call_id = await connected.loop.next_call()
    assert await connected.answers.get() == (7, None)
    await connected.loop.woken.wait()
    assert connected.loop.ended == [call_id]
    connected.answer(call_id, EXCHANGES[0][1])
    assert connected.answers.empty()


async def test_a_cancelled_call_ends_at_the_logstore_too(connected: ConnectedLogstore) -> None:
    connected.ask(7, EXCHANGES[0][0])
    call_id = await connected.loop.next_call()
    connected.calls.cancel(7)
    connected.calls.cancel(7)
    await connected.loop.woken.wait()
    assert connected.loop.ended == [call_id]
    assert connected.answers.empty()


async def test_calls_under_way_end_with_the_logstore(connected: ConnectedLogstore) -> None:
    connected.ask(7, EXCHANGES[0][0])
    await connected.loop.next_call()
    await stop_server(connected.server, 0)
    assert await connected.answers.get() == (7, None)
    connected.ask(8, EXCHANGES[0][0], timeout_ms=200)
    assert await connected.answers.get() == (8, None)


async def test_before_the_logs_are_loaded_no_call_is_taken() -> None:
    connected = ConnectedLogstore()
    await connected.server.start()
    connected.ask(7, EXCHANGES[0][0])
    assert await connected.answers.get() == (7, None)
    await connected.calls.close()
    await stop_server(connected.server, 0)
