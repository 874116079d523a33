"""BlockingTokens: tokens of SASL whose answer may wait for files or the network, on the host's worker.

One token of a connection is answered at a time, so that there are never more than connections. The server is the
worker's from `submit` until the answer is back.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.outputs import Turn
from barnabas_gateway.core.sasl.sasl_server import SaslFailure, SaslServer


class _Check:
    """It runs on the worker; all else here on the loop."""

    __slots__ = ("_answer", "_connection", "_failure", "_on_done", "_server", "_token", "fault")

    def __init__(
        self, server: SaslServer, token: bytes, connection: Connection, on_done: Callable[[_Check], None]
    ) -> None:
        self._server = server
        self._token = token
        self._connection = connection
        self._on_done = on_done
        self._answer = b""
        self._failure: SaslFailure | None = None
        self.fault = ""

    def run(self) -> None:
        if self._connection.is_closed:
            return
        try:
            self._answer = self._server.respond(self._token)
        except SaslFailure as failure:
            self._failure = failure

    def ended(self) -> None:
        self._on_done(self)

    def result(self) -> bytes:
        """Return the server's answer. Raises SaslFailure."""
        if self.fault:
            raise SaslFailure("an internal error")
        if self._failure is not None:
            raise self._failure
        return self._answer


class BlockingTokens:
    __slots__ = ("_turn",)

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    def submit(
        self, server: SaslServer, token: bytes, connection: Connection, answered: Callable[[Callable[[], bytes]], None]
    ) -> None:
        """Have the server answer the token, and call `answered` with what returns its answer or raises SaslFailure; the
        connection may be closed then.
        """
        check = _Check(server, token, connection, lambda done: answered(done.result))
        self._turn.rare.token_checks.append(check)
