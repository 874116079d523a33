"""What a fetch in progress needs of the handler that serves it: the backends that it reads from, waits in, and keeps
its session in; the quota of its client.
"""

from __future__ import annotations

from barnabas_gateway.core.backends.purgatory_client import PurgatoryClient
from barnabas_gateway.core.backends.read_replicas import ReadReplicas
from barnabas_gateway.core.backends.read_router import ReadRouter
from barnabas_gateway.core.backends.record_format_converter import RecordFormatConverter
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.requests.fetch_sessions import FetchSessions
from barnabas_gateway.core.requests.handler import Handler, RequestEnvironment


class BaseFetchHandler(Handler):
    """The base of the handler of Fetch; a request refers to it, and not to its subclass, which starts requests."""

    def __init__(
        self,
        environment: RequestEnvironment,
        reads: ReadRouter,
        read_replicas: ReadReplicas,
        fetch_sessions: FetchSessions,
        purgatory: PurgatoryClient,
        converter: RecordFormatConverter,
    ) -> None:
        super().__init__(environment)
        self.reads = reads
        self.read_replicas = read_replicas
        self.fetch_sessions = fetch_sessions
        self.purgatory = purgatory
        self.converter = converter

    def limit(self, pending: PendingRequest, bytes_max: int) -> tuple[int, int]:
        """Return how long the client has to wait before it gets records, in ms, and the bytes that one answer may have:
        no more than fit into the window of its quota.
        """
        quotas, context, client_id = pending.connection.quotas, pending.connection.context, pending.header.client_id
        if quotas is None:
            return 0, bytes_max
        throttle_ms = quotas.fetch_wait_ms(context, client_id)
        return throttle_ms, quotas.fetch_bytes_max(context, client_id, bytes_max)

    def charge(self, pending: PendingRequest, records_bytes: int) -> int:
        """Count what was read to the client's quota, unless others of its fetches have used that up meanwhile: then
        return how long it has to wait.
        """
        quotas, context, client_id = pending.connection.quotas, pending.connection.context, pending.header.client_id
        if quotas is None or not records_bytes:
            return 0
        throttle_ms = quotas.fetch_wait_ms(context, client_id)
        if not throttle_ms:
            quotas.fetched(context, client_id, records_bytes)
        return throttle_ms
