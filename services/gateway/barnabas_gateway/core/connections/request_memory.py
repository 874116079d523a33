"""How much a processor holds of its clients' requests."""

from __future__ import annotations

from barnabas_gateway.core.connections.connection import Connection


class RequestMemory:
    """Request bytes, of whole requests until they are answered and of frames that are still incomplete.

    Over the limit a connection that sends is paused, all but one: the *privileged* one, whose frame may be completed
    whatever is held. Without it, many half frames could fill the memory and none of them would ever be whole.
    """

    __slots__ = ("_bytes_max", "_paused", "held_bytes", "privileged")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.held_bytes = 0
        self.privileged: Connection | None = None
        self._paused: dict[Connection, None] = {}

    def is_over(self) -> bool:
        return self.held_bytes > self._bytes_max

    def must_pause(self, connection: Connection) -> bool:
        """Asked after `connection` has added bytes; True puts it in the line of those to be resumed."""
        if self.held_bytes <= self._bytes_max or connection is self.privileged:
            return False
        if self.privileged is None and connection.splitter.buffered_bytes:
            self.privileged = connection
            return False
        self._paused[connection] = None
        return True

    def has_waiting(self) -> bool:
        """Whether any connection waits for memory."""
        return len(self._paused) > 0

    def is_waiting(self, connection: Connection) -> bool:
        return connection in self._paused

    def yield_privilege(self, connection: Connection) -> None:
        """Its frame is complete, or it is gone."""
        if self.privileged is connection:
            self.privileged = None

    def forget(self, connection: Connection) -> None:
        self._paused.pop(connection, None)
        self.yield_privilege(connection)

    def take_resumable(self) -> list[Connection]:
        """The connections that may be read again: all once memory is free, the longest paused one to be privileged."""
        if not self._paused:
            return []
        if self.held_bytes <= self._bytes_max:
            resumable = list(self._paused)
            self._paused.clear()
            return resumable
        if self.privileged is None:
            for connection in self._paused:
                if connection.splitter.buffered_bytes:
                    self.privileged = connection
                    del self._paused[connection]
                    return [connection]
        return []
