"""EtcdClient: reads, transactions, leases and watches over one of several endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio

from barnabas.ports.etcd import AmbiguousResult, EtcdRefused, KeyValue, Snapshot, Txn, TxnResult, WatchBatch, prefix_end
from barnabas.runtime.etcd import values
from barnabas.runtime.etcd.authentication import EtcdUser, is_overtaken
from barnabas.runtime.etcd.connection import Backoff, Connection, Endpoints, EtcdUnavailable
from barnabas.runtime.etcd.lease import Lease, renewals
from barnabas.runtime.etcd.meter import EtcdMeter
from barnabas.runtime.etcd.watch import follow
from barnabas.runtime.pem_files import TlsFiles
from barnabas_protos.etcd.v1 import rpc_pb2 as pb

if TYPE_CHECKING:
    from barnabas_protos.etcd.v1.rpc_pb2_grpc import AuthAsyncStub

Answer = TypeVar("Answer")

# After these errors a request may have been carried out, or never have arrived.
_AMBIGUOUS = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.ABORTED,
    }
)


class EtcdClient:
    """One client per process and event loop; every method may be used concurrently."""

    def __init__(
        self,
        endpoints: Sequence[str],
        now_ms: Callable[[], int],
        tls: TlsFiles | None = None,
        request_timeout_ms: int = 3000,
        user: EtcdUser | None = None,
    ) -> None:
        """`now_ms` is the monotonic clock of leases; one attempt of a request lasts at most `request_timeout_ms`."""
        self._endpoints = Endpoints(endpoints, tls, user)
        self._now_ms = now_ms
        self._timeout_s = request_timeout_ms / 1000
        self.meter = EtcdMeter()

    async def close(self) -> None:
        await self._endpoints.close()

    async def get(self, key: str, timeout_ms: int = 10_000) -> KeyValue | None:
        """Read one key, linearizable. Raises EtcdUnavailable."""
        request = pb.RangeRequest(key=key.encode())
        response = await self._retried(
            "range", lambda connection: connection.kv.Range(request, timeout=self._timeout_s), timeout_ms
        )
        return values.key_values(response.kvs)[0] if response.kvs else None

    async def get_prefix(self, prefix: str, timeout_ms: int = 10_000) -> Snapshot:
        """Read every key that begins with `prefix`, linearizable, at one revision. Raises EtcdUnavailable."""
        request = pb.RangeRequest(key=prefix.encode(), range_end=prefix_end(prefix).encode())
        response = await self._retried(
            "range", lambda connection: connection.kv.Range(request, timeout=self._timeout_s), timeout_ms
        )
        return Snapshot(response.header.revision, values.key_values(response.kvs))

    async def txn(self, txn: Txn) -> TxnResult:
        """Make one attempt. Raises AmbiguousResult if its answer was lost, EtcdRefused if it certainly did nothing.

        What changes of users have overtaken is sent again, as long as one attempt may last.
        """
        connection = self._endpoints.current()
        backoff, until_ms = Backoff(), self._now_ms() + self._timeout_s * 1000
        try:
            while True:
                call = connection.kv.Txn(values.txn_request(txn), timeout=self._timeout_s)
                try:
                    return values.txn_result(await self.meter.time("txn", call))
                except grpc.aio.AioRpcError as error:
                    if not is_overtaken(error.code(), error.details()) or self._now_ms() >= until_ms:
                        raise
                await backoff.wait()
        except grpc.aio.AioRpcError as error:
            if error.code() not in _AMBIGUOUS:
                raise EtcdRefused(error.details()) from error
            self._endpoints.leave(connection)
            raise AmbiguousResult(error.details()) from error

    async def grant(self, ttl_ms: int, timeout_ms: int = 10_000) -> Lease:
        """Grant a new lease, rounded up to seconds. A grant whose answer is lost expires unused, so it may be
        repeated.
        """
        request = pb.LeaseGrantRequest(TTL=-(-ttl_ms // 1000))
        sent_at_ms = 0

        def attempt(connection: Connection) -> Awaitable[pb.LeaseGrantResponse]:
            nonlocal sent_at_ms
            sent_at_ms = self._now_ms()
            return connection.lease.LeaseGrant(request, timeout=self._timeout_s)

        response = await self._retried("lease_grant", attempt, timeout_ms)
        return Lease(response.ID, response.TTL * 1000, sent_at_ms)

    def renewals(self, lease: Lease) -> AsyncGenerator[None, None]:
        """Renew `lease` until etcd reports it gone; an item per renewal (see `barnabas.runtime.etcd.lease`)."""
        return renewals(self._endpoints, lease, self._now_ms)

    async def revoke(self, lease_id: int, timeout_ms: int = 3000) -> None:
        """End a lease and every key attached to it; one that is already gone is fine. Raises EtcdUnavailable."""
        request = pb.LeaseRevokeRequest(ID=lease_id)
        try:
            await self._retried(
                "lease_revoke",
                lambda connection: connection.lease.LeaseRevoke(request, timeout=self._timeout_s),
                timeout_ms,
            )
        except EtcdRefused as refused:
            if not isinstance(refused.__cause__, grpc.aio.AioRpcError) or (
                refused.__cause__.code() is not grpc.StatusCode.NOT_FOUND
            ):
                raise

    async def time_to_live_ms(self, lease_id: int, timeout_ms: int = 10_000) -> int:
        """Return what remains of a lease, with a precision of seconds; negative if it is gone. Raises
        EtcdUnavailable.
        """
        request = pb.LeaseTimeToLiveRequest(ID=lease_id)
        response = await self._retried(
            "lease_time_to_live",
            lambda connection: connection.lease.LeaseTimeToLive(request, timeout=self._timeout_s),
            timeout_ms,
        )
        return response.TTL * 1000

    async def compact(self, revision: int, timeout_ms: int = 10_000) -> None:
        """Drop the history before `revision`; the newest values stay. EtcdRefused if that is already done."""
        request = pb.CompactionRequest(revision=revision)
        await self._retried(
            "compact", lambda connection: connection.kv.Compact(request, timeout=self._timeout_s), timeout_ms
        )

    async def administer(
        self, operation: Callable[[AuthAsyncStub, float], Awaitable[object]], timeout_ms: int = 10_000
    ) -> None:
        """Change users; `operation` has to be idempotent. Raises EtcdUnavailable, EtcdRefused."""
        await self._retried("auth", lambda connection: operation(connection.auth, self._timeout_s), timeout_ms)

    async def version(self, timeout_ms: int = 3000) -> str:
        """Return the server's version, which proves that a member answers and has a leader. Raises EtcdUnavailable."""
        response = await self._retried(
            "status",
            lambda connection: connection.maintenance.Status(pb.StatusRequest(), timeout=self._timeout_s),
            timeout_ms,
        )
        return response.version

    def watch(self, prefix: str) -> AsyncGenerator[Snapshot | WatchBatch, None]:
        """Follow every key that begins with `prefix`, through outages and compactions (see `watch.follow`)."""
        return follow(
            self._endpoints,
            prefix,
            lambda: _persistently(lambda: self.get_prefix(prefix)),
            lambda: _persistently(lambda: self._revision(prefix)),
            self.meter,
        )

    async def _revision(self, readable: str, timeout_ms: int = 10_000) -> int:
        """Return the cluster's revision, linearizable: no member has returned a later one. Raises EtcdUnavailable.

        `readable` is a key, existing or not, that this client may read.
        """
        request = pb.RangeRequest(key=readable.encode())
        response = await self._retried(
            "range", lambda connection: connection.kv.Range(request, timeout=self._timeout_s), timeout_ms
        )
        return response.header.revision

    async def _retried(
        self, operation: str, attempt: Callable[[Connection], Awaitable[Answer]], timeout_ms: int
    ) -> Answer:
        """Repeat an idempotent request, on one member after the other."""
        backoff = Backoff()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    connection = self._endpoints.current()
                    try:
                        return await self.meter.time(operation, attempt(connection))
                    except grpc.aio.AioRpcError as error:
                        if error.code() in _AMBIGUOUS:
                            self._endpoints.leave(connection)
                        elif not is_overtaken(error.code(), error.details()):
                            raise EtcdRefused(error.details()) from error
                    await backoff.wait()
        except TimeoutError as error:
            raise EtcdUnavailable(f"no etcd member answered within {timeout_ms} ms") from error


async def _persistently(read: Callable[[], Awaitable[Answer]]) -> Answer:
    while True:
        try:
            return await read()
        except EtcdUnavailable:
            continue
