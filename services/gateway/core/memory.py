"""How much a processor holds of its clients' requests, and of the logstores' answers to fetches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.channel.credits import STREAM_BYTES_MIN

if TYPE_CHECKING:
    from services.gateway.core.connection import Connection


READ_BYTES_MIN: Final = STREAM_BYTES_MIN
"""A read may bring one batch however few bytes it asks for (KIP-74)."""


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


class FetchMemory:
    """The budget for answers to fetches: reserved before a read is sent, held until the client has taken the bytes."""

    __slots__ = ("_bytes_max", "reserved_bytes", "unsent_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.reserved_bytes = 0
        """The largest replies of the reads that are under way, and the replies that wait for others of their fetch."""
        self.unsent_bytes = 0
        """Answers, of any kind, that clients have not taken."""

    def share(self) -> int:
        """The most that one read should ask for now: a quarter of what is free, so that many fit however few wait."""
        return max(READ_BYTES_MIN, (self._bytes_max - self.reserved_bytes - self.unsent_bytes) // 4)

    def is_scarce(self) -> bool:
        return 2 * (self.reserved_bytes + self.unsent_bytes) > self._bytes_max

    def try_reserve(self, size: int) -> bool:
        """A read larger than all there is goes alone."""
        if self.reserved_bytes and self.reserved_bytes + self.unsent_bytes + size > self._bytes_max:
            return False
        if self.unsent_bytes > self._bytes_max:
            return False
        self.reserved_bytes += size
        return True

    def overdraw(self, size: int) -> None:
        """Reserve whatever is held: for one read at a time (`ReadRouter`), so the budget is passed by one batch."""
        self.reserved_bytes += size

    def resize(self, reserved_bytes: int, held_bytes: int) -> None:
        """A reply has come, smaller than what was reserved for it, unless its first batch is larger (KIP-74)."""
        self.reserved_bytes += held_bytes - reserved_bytes

    def release(self, size: int) -> None:
        self.reserved_bytes -= size
        assert self.reserved_bytes >= 0, "more was released than reserved"
