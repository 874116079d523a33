"""How much a processor holds of the logstores' answers to fetches."""

from __future__ import annotations

from typing import Final

from barnabas.channel.credits import STREAM_BYTES_MIN

READ_BYTES_MIN: Final = STREAM_BYTES_MIN
"""A read may bring one batch however few bytes it asks for (KIP-74)."""


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
