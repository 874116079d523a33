"""Follow a prefix: everything once, then every change, indefinitely."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import grpc.aio

from barnabas.ports.etcd import Snapshot, WatchBatch, prefix_end
from barnabas.runtime.etcd import values
from barnabas.runtime.etcd.connection import Backoff, Connection, Endpoints
from barnabas.runtime.etcd.meter import EtcdMeter
from barnabas_protos.etcd.v1 import rpc_pb2 as pb

# A member without a leader ends the watch instead of staying silent.
_REQUIRE_LEADER = (("hasleader", "true"),)


async def follow(
    endpoints: Endpoints,
    prefix: str,
    read_all: Callable[[], Awaitable[Snapshot]],
    read_revision: Callable[[], Awaitable[int]],
    meter: EtcdMeter,
) -> AsyncGenerator[Snapshot | WatchBatch, None]:
    """Yield a Snapshot, then a WatchBatch per answer of etcd's, resumed at the last revision + 1 whenever a connection
    fails.

    If that revision is compacted (or etcd has lost it, restored from a backup) a Snapshot is yielded again. A member
    that is at an earlier revision than was seen only lags behind the others, because it was cut off, or has just
    started: its watch stays open, and delivers what comes after. `read_revision`, a linearizable read, distinguishes
    the two: a quorum of members has every revision that was ever seen.
    """
    backoff = Backoff()
    while True:
        snapshot = await read_all()
        yield snapshot
        revision = snapshot.revision
        resumable = True
        while resumable:
            connection = endpoints.current()
            try:
                async with aclosing(_watch_on(connection, prefix, revision + 1)) as responses:
                    is_lagging = False
                    async for response in responses:
                        if response.compact_revision:
                            resumable = False
                            break
                        if response.header.revision < revision and not is_lagging:
                            if await read_revision() < revision:
                                resumable = False
                                break
                            is_lagging = True
                        backoff.reset()
                        if response.canceled:
                            connection.forget_token()
                            break
                        if response.events:
                            events = tuple(values.watch_event(event) for event in response.events)
                            meter.watch_events += len(events)
                            revision = events[-1].key_value.mod_revision
                            yield WatchBatch(revision, events)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                # The last error is a write to a call that has already ended.
                endpoints.leave(connection)
            meter.watch_restarts += 1
            await backoff.wait()


async def _watch_on(connection: Connection, prefix: str, start_revision: int) -> AsyncGenerator[pb.WatchResponse, None]:
    metadata = (*_REQUIRE_LEADER, *await connection.stream_metadata())
    call = connection.watch.Watch(metadata=metadata)  # type: ignore[call-arg]  # requests are written below
    try:
        create = pb.WatchCreateRequest(
            key=prefix.encode(), range_end=prefix_end(prefix).encode(), start_revision=start_revision
        )
        await call.write(pb.WatchRequest(create_request=create))
        while isinstance(response := await call.read(), pb.WatchResponse):
            yield response
    finally:
        call.cancel()
