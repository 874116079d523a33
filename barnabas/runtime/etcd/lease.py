"""A lease and its renewal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import grpc.aio

from barnabas.runtime.etcd.connection import Backoff, Connection, Endpoints
from barnabas.runtime.loop.beat import wait_to_beat
from barnabas_protos.etcd.v1 import rpc_pb2 as pb


class Lease:
    """A lease of this process, with its local view of how long it certainly lasts.

    The local deadline counts from the moment a renewal was SENT, so it is never later than etcd's own. A lease that is
    past it may still be alive in etcd (and become valid here again): other processes may only act on it once etcd has
    ended it.
    """

    __slots__ = ("deadline_ms", "lease_id", "ttl_ms")

    def __init__(self, lease_id: int, ttl_ms: int, granted_at_ms: int) -> None:
        """`granted_at_ms` is when the grant was sent, on the clock that `alive` uses."""
        self.lease_id = lease_id
        self.ttl_ms = ttl_ms
        self.deadline_ms = granted_at_ms + ttl_ms

    def alive(self, now_ms: int) -> bool:
        return now_ms < self.deadline_ms

    def renewed(self, sent_at_ms: int, ttl_ms: int) -> None:
        self.deadline_ms = sent_at_ms + ttl_ms


async def renewals(endpoints: Endpoints, lease: Lease, now_ms: Callable[[], int]) -> AsyncGenerator[None, None]:
    """Renew the lease three times per TTL, yielding after each renewal; ends when etcd reports that the lease is gone.

    While no member answers it keeps trying: the lease may outlive the outage. But a process that can't receive must not
    be renewed: a member is first sent a query, and the renewal only after it has answered. In a network that is cut in
    one direction only, renewals would otherwise keep a process registered that can't be reached.
    """
    interval_ms = lease.ttl_ms / 3
    backoff = Backoff()
    while True:
        connection = endpoints.current()
        try:
            async with aclosing(_renew_on(connection, lease, now_ms, interval_ms)) as ttls_ms:
                async for ttl_ms in ttls_ms:
                    if ttl_ms <= 0:
                        return
                    backoff.reset()
                    yield
        except (grpc.aio.AioRpcError, TimeoutError, asyncio.InvalidStateError):
            # The last error is a write to a call that ended while this slept between two renewals.
            endpoints.leave(connection)
        await backoff.wait()


async def _renew_on(
    connection: Connection, lease: Lease, now_ms: Callable[[], int], interval_ms: float
) -> AsyncGenerator[int, None]:
    metadata = await connection.stream_metadata()
    call = connection.lease.LeaseKeepAlive(metadata=metadata)  # type: ignore[call-arg]  # requests are written one by one
    question = pb.LeaseTimeToLiveRequest(ID=lease.lease_id)
    try:
        while True:
            async with asyncio.timeout(interval_ms / 1000):
                await connection.lease.LeaseTimeToLive(question)
                sent_at_ms = now_ms()
                await call.write(pb.LeaseKeepAliveRequest(ID=lease.lease_id))
                response = await call.read()
            if not isinstance(response, pb.LeaseKeepAliveResponse):
                return
            if response.TTL > 0:
                lease.renewed(sent_at_ms, response.TTL * 1000)
            yield response.TTL * 1000
            # At a beat: the process wakes up then anyway, and etcd hears from all processes of a host at once.
            await asyncio.sleep(wait_to_beat(asyncio.get_running_loop().time(), interval_ms / 1000))
    finally:
        call.cancel()
