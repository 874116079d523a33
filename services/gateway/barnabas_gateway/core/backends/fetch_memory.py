"""The memory that a processor holds for the logstores' replies to fetches."""

from __future__ import annotations

from typing import Final, Protocol

from barnabas.channel.credits import STREAM_BYTES_MIN

READ_BYTES_MIN: Final = STREAM_BYTES_MIN
"""A read may return one batch even if it exceeds the bytes requested (KIP-74)."""


class MemoryHolder(Protocol):
    """What a reservation is for: a read, then the request that it is of."""

    reserved_bytes: int


class FetchMemory:
    """The budget for fetch replies: reserved before a read is sent, held until the client has read the bytes.

    What a holder has reserved changes here, together with the sum, so that both are right whatever ends its request.
    """

    __slots__ = ("_bytes_max", "reserved_bytes", "unsent_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.reserved_bytes = 0
        """The largest possible replies of the reads in flight, and the replies that wait for others of their fetch."""
        self.unsent_bytes = 0
        """Responses, of any kind, that clients have not read."""

    def share(self) -> int:
        """The maximum that one read should request now: a quarter of what is free, so that many fit although few
        wait.
        """
        return max(READ_BYTES_MIN, (self._bytes_max - self.reserved_bytes - self.unsent_bytes) // 4)

    def is_scarce(self) -> bool:
        return 2 * (self.reserved_bytes + self.unsent_bytes) > self._bytes_max

    def try_reserve(self, holder: MemoryHolder, size: int) -> bool:
        """Reserve memory; a read larger than the whole budget is sent alone."""
        if self.reserved_bytes and self.reserved_bytes + self.unsent_bytes + size > self._bytes_max:
            return False
        if self.unsent_bytes > self._bytes_max:
            return False
        self.resize(holder, size)
        return True

    def resize(self, holder: MemoryHolder, size: int) -> None:
        """Reserve `size` instead of what is reserved, even above the budget: for one read at a time (`ReadRouter`), and
        for a reply, which is smaller than what was reserved for it, unless its first batch is larger (KIP-74).
        """
        self.reserved_bytes += size - holder.reserved_bytes
        holder.reserved_bytes = size

    def release(self, holder: MemoryHolder) -> None:
        """Release what is reserved for it. Repeating this changes nothing."""
        size, holder.reserved_bytes = holder.reserved_bytes, 0
        self.reserved_bytes -= size
        assert self.reserved_bytes >= 0, "more was released than reserved"
