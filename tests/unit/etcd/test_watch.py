"""A watch whose member is at an earlier revision than was seen: does it lag, or has etcd lost its history?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc.aio
import pytest

from barnabas.ports.etcd import Snapshot, WatchBatch
from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.etcd import EtcdClient
from barnabas_protos.etcd.v1 import rpc_pb2 as pb
from barnabas_protos.etcd.v1 import rpc_pb2_grpc as rpc


class Member(rpc.KVServicer, rpc.WatchServicer):
    """Of a cluster at `cluster_revision`, which linearizable reads answer; its own store is at `revision`."""

    def __init__(self) -> None:
        self.cluster_revision = self.revision = 10
        self.started_at: list[int] = []
        self.events: asyncio.Queue[int] = asyncio.Queue()

    async def Range(self, request: pb.RangeRequest, _context: Any) -> pb.RangeResponse:  # noqa: N802
        return pb.RangeResponse(header=pb.ResponseHeader(revision=self.cluster_revision))

    async def Watch(  # noqa: N802
        self, requests: AsyncIterator[pb.WatchRequest], _context: Any
    ) -> AsyncIterator[pb.WatchResponse]:
        create = await anext(requests)
        self.started_at.append(create.create_request.start_revision)
        yield pb.WatchResponse(header=pb.ResponseHeader(revision=self.revision), created=True)
        while True:
            revision = await self.events.get()
            event = pb.Event(kv=pb.KeyValue(key=b"/w/1", create_revision=revision, mod_revision=revision))
            yield pb.WatchResponse(header=pb.ResponseHeader(revision=revision), events=[event])


@pytest.fixture
async def member() -> AsyncIterator[tuple[Member, EtcdClient]]:
    member = Member()
    server = grpc.aio.server()
    rpc.add_KVServicer_to_server(member, server)
    rpc.add_WatchServicer_to_server(member, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    client = EtcdClient([f"127.0.0.1:{port}"], monotonic_ms)
    yield member, client
    await client.close()
    await server.stop(None)


async def test_a_member_that_lags_behind_has_lost_nothing(member: tuple[Member, EtcdClient]) -> None:
    """At each failover of etcd everything was read again, and the active controller closed its control streams."""
    etcd, client = member
    etcd.revision = 7
    async with aclosing(client.watch("/w/")) as changes:
        assert await anext(changes) == Snapshot(10, ())
        etcd.events.put_nowait(11)
        batch = await anext(changes)
        assert isinstance(batch, WatchBatch)
        assert batch.revision == 11
    assert etcd.started_at == [11], "on the one stream"


async def test_a_history_that_is_lost_is_read_again(member: tuple[Member, EtcdClient]) -> None:
    etcd, client = member
    async with aclosing(client.watch("/w/")) as changes:
        assert await anext(changes) == Snapshot(10, ())
        etcd.cluster_revision = etcd.revision = 3
        assert await anext(changes) == Snapshot(3, ())
        etcd.events.put_nowait(4)
        batch = await anext(changes)
        assert isinstance(batch, WatchBatch)
        assert batch.revision == 4
