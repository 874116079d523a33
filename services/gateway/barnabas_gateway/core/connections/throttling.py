"""The end of a mute: quotas set its length, KIP-219 its place, after the answer has gone out."""

from __future__ import annotations

from typing import Protocol

from barnabas_gateway.core.connections.connection import Connection, ResponseKind


class ThrottleOwner(Protocol):
    def steer(self, connection: Connection, kind: ResponseKind) -> None: ...


class Throttle:
    __slots__ = ("_connection", "_owner", "deadline_bucket")

    def __init__(self, owner: ThrottleOwner, connection: Connection) -> None:
        self._owner = owner
        self._connection = connection
        self.deadline_bucket = -1

    def expire(self, now_ms: int) -> None:
        self._owner.steer(self._connection, ResponseKind.END_THROTTLING)
