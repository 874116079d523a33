"""What goes to one logstore for the credit that it hands out, the line of what waits for more, the next message."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from barnabas.channel.credits import CreditAccount
from services.gateway.core.timing.request_timing import RequestTiming

Waiting = TypeVar("Waiting")
Sent = TypeVar("Sent")
Message = TypeVar("Message")


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


class MessageStream(CreditedStream[Waiting, Sent], Generic[Waiting, Sent, Message]):
    """A stream with credit of its own, and what leaves on it next: one message a turn at most."""

    __slots__ = ("is_up", "leaving", "message", "node_id")

    def __init__(self, node_id: int) -> None:
        super().__init__()
        self.node_id = node_id
        self.is_up = False
        self.message: Message | None = None
        """The next message, made when there is something to put into it."""
        self.leaving: list[RequestTiming] = []
        """Timed requests in it, once for each part."""

    def take_message(self) -> Message | None:
        """Return the next message, which leaves now."""
        message, self.message = self.message, None
        for timing in self.leaving:
            timing.sent()
        self.leaving.clear()
        return message

    def lose(self) -> tuple[list[Sent], list[Waiting]]:
        self.is_up = False
        self.credit.reset()
        self.message = None
        self.leaving.clear()
        return super().lose()


def no_bytes(_: object) -> int:
    """Return the bytes of a request that is paid for by its number alone."""
    return 0
