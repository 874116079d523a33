"""The end of a mute: quotas set its length, KIP-219 its place, after the answer has gone out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from services.gateway.core.slots import ResponseKind

if TYPE_CHECKING:
    from services.gateway.core.connection import Connection
    from services.gateway.core.requests import RequestRoom


class Throttle:
    __slots__ = ("_connection", "_requests", "deadline_bucket")

    def __init__(self, requests: RequestRoom, connection: Connection) -> None:
        self._requests = requests
        self._connection = connection
        self.deadline_bucket = -1

    def expire(self, now_ms: int) -> None:
        self._requests.steer(self._connection, ResponseKind.END_THROTTLING)
