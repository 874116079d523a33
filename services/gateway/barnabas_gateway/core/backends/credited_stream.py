"""CreditedStream: what goes to one peer for the credit that it hands out, and the line of what waits for more."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from barnabas.channel.credits import CreditAccount

Waiting = TypeVar("Waiting")
Sent = TypeVar("Sent")


class CreditedStream(Generic[Waiting, Sent]):
    """Requests of one kind to one peer, each of which spends credit or stands in line.

    Nothing overtakes what stands in line. A request that was sent is in flight until it is answered or the stream is
    lost; a router removes it there when its answer comes.
    """

    __slots__ = ("credit", "in_flight", "waiting")

    def __init__(self, credit: CreditAccount | None = None) -> None:
        """`credit` may be shared with requests of other kinds on the same stream."""
        self.credit = CreditAccount() if credit is None else credit
        self.in_flight: dict[int, Sent] = {}
        """Sent and not answered, by request id."""
        self.waiting: OrderedDict[Waiting, None] = OrderedDict()
        """The line. An ordered dictionary, since any of them may leave it."""

    def try_enter(self, request: Waiting, byte_count: int) -> bool:
        """Spend credit for one request with so many bytes; False: it stands in line now."""
        if self.waiting or not self.credit.try_spend(1, byte_count):
            self.waiting[request] = None
            return False
        return True

    def leave_line(self, request: Waiting) -> None:
        """It is not wanted any more. Nothing happens when it is not in line."""
        self.waiting.pop(request, None)

    def admit(self, bytes_of: Callable[[Waiting], int]) -> Iterator[Waiting]:
        """Take the requests out of the line that the credit pays for, the first one first; the caller sends each."""
        waiting = self.waiting
        while waiting:
            request = next(iter(waiting))
            if not self.credit.try_spend(1, bytes_of(request)):
                return
            del waiting[request]
            yield request

    def lose(self) -> tuple[list[Sent], list[Waiting]]:
        """The stream is lost: return what was in flight and what stood in line, and forget both."""
        lost = list(self.in_flight.values()), list(self.waiting)
        self.in_flight.clear()
        self.waiting.clear()
        return lost


def no_bytes(_: object) -> int:
    """Return the bytes of a request that is paid for by its number alone."""
    return 0
