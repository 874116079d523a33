"""Gateways: rules 27, 28, 30 and 31, what a lost stream may be called, and shares of quotas."""

from __future__ import annotations

from typing import Any

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas_gateway.core.backends.append_router import AppendRouter
from barnabas_gateway.core.backends.partition_appends import PendingAppend
from barnabas_gateway.core.connections.connection import BaseRequest, Connection, PendingRequest, ResponseKind
from barnabas_gateway.core.connections.dispatcher import RequestDispatcher, unsupported_version
from barnabas_gateway.core.connections.responder import Responder
from barnabas_gateway.core.model import gateway_shares, quota_bucket
from barnabas_gateway.core.processor import GatewayCore
from barnabas_gateway.core.requests.fetch_sessions import FetchSession, FetchSessions
from barnabas_gateway.core.requests.produce import PendingProduce
from tests.sim.faults import Fault
from tests.sim.mutants.planting import Mutants, replace_in

GATEWAY = Mutants("gateway")

_SHARES = "tests/unit/gateway/quotas/test_agreement.py::"
_NEVER_MS = 1_000_000_000


@GATEWAY.breaks("27")
def answers_out_of_order() -> None:
    original = Responder.finish

    def answered(self: Responder, pending: PendingRequest, kind: ResponseKind) -> None:
        requests = pending.connection.requests
        requests.remove(pending)
        requests.appendleft(pending)
        original(self, pending, kind)

    replace_in(Responder, "finish", answered)


@GATEWAY.breaks("27")
def nothing_is_a_barrier() -> None:
    def may_start(self: Connection, frame: memoryview) -> bool:
        return True

    replace_in(Connection, "may_start", may_start)


@GATEWAY.breaks("28")
def acks_0_is_answered() -> None:
    original = Responder.finish

    def answered(self: Responder, pending: PendingRequest, kind: ResponseKind) -> None:
        if kind is ResponseKind.NO_OP and isinstance(pending, PendingProduce):
            self.respond(pending, pending.response)
        else:
            original(self, pending, kind)

    replace_in(Responder, "finish", answered)


@GATEWAY.breaks_for(
    "30", "tests/unit/gateway/test_connections.py::test_an_unknown_version_of_api_versions_is_answered_in_v0"
)
def an_unknown_version_of_api_versions_is_answered_in_the_newest() -> None:
    def answer(self: RequestDispatcher, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        newest = RequestHeader(header.api_key, ApiKey.API_VERSIONS.version_max, header.correlation_id, header.client_id)
        pending = BaseRequest(self._handlers[header.api_key], connection, newest, frame_bytes)
        self._open(connection, pending)
        self._responder.respond(pending, unsupported_version())

    replace_in(RequestDispatcher, "_answer_unsupported_api_versions", answer)


@GATEWAY.breaks_for("31", "tests/unit/gateway/sessions/test_sessions.py::test_errors_of_the_session_itself")
def any_epoch_of_a_fetch_session_will_do() -> None:
    original = FetchSessions.resume_session

    def resume_session(self: FetchSessions, session_id: int, epoch: int, *, by_id: bool) -> FetchSession | ErrorCode:
        session = self._by_id.get(session_id)
        return original(self, session_id, epoch if session is None else session.epoch, by_id=by_id)

    replace_in(FetchSessions, "resume_session", resume_session)


@GATEWAY.breaks("7", [Fault.RESET, Fault.CRASH_WRITTEN, Fault.KILL_LOGSTORE, Fault.CUT_ONE_WAY])
def a_lost_stream_means_not_written() -> None:
    """What was sent on a stream that is lost is answered as refused, which it may not be."""
    original = AppendRouter._fail

    def fail(self: AppendRouter, append: PendingAppend, error: ErrorCode) -> Any:
        reported = ErrorCode.NOT_ENOUGH_REPLICAS if error is ErrorCode.REQUEST_TIMED_OUT else error
        return original(self, append, reported)

    replace_in(AppendRouter, "_fail", fail)


@GATEWAY.breaks("I16")
def request_bytes_are_not_given_back() -> None:
    original = GatewayCore.connection_closed

    def connection_closed(self: GatewayCore, connection_id: int, now_ms: int) -> None:
        self.request_memory.held_bytes += 1
        original(self, connection_id, now_ms)

    replace_in(GatewayCore, "connection_closed", connection_closed)


@GATEWAY.breaks_for("quotas", f"{_SHARES}test_a_share_ends_that_is_not_confirmed")
def shares_of_gateways_never_end() -> None:
    replace_in(gateway_shares, "LEASE_MS", _NEVER_MS)


@GATEWAY.breaks_for("quotas", f"{_SHARES}test_a_processors_share_ends_that_is_not_confirmed")
def shares_of_processors_never_end() -> None:
    replace_in(quota_bucket, "LEASE_MS", _NEVER_MS)
