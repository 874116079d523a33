"""What goes to one logstore for the credit that it hands out, the line of what waits for more, the next message."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from barnabas.channel.credits import CreditAccount
from barnabas_gateway.core.timing.request_timing import RequestTiming

Waiting = TypeVar("Waiting")
Sent = TypeVar("Sent")
Message = TypeVar("Message")


class CreditedStream(Generic[Waiting, Sent]):
    """Requests of one kind to one peer, each of which spends credit or waits in the queue.

    Nothing overtakes the queue. A request that was sent is in flight until it is answered or the stream is lost; a
    router removes it from there when its answer arrives.
    """

    __slots__ = ("credit", "in_flight", "waiting")

    def __init__(self, credit: CreditAccount | None = None) -> None:
        """`credit` may be shared with requests of other kinds on the same stream."""
        self.credit = CreditAccount() if credit is None else credit
        self.in_flight: dict[int, Sent] = {}
        """Requests that were sent and not answered, by request id."""
        self.waiting: OrderedDict[Waiting, None] = OrderedDict()
        """The queue. An ordered dictionary, since any request may leave it."""

    def try_enter(self, request: Waiting, byte_count: int) -> bool:
        """Spend credit for one request with so many bytes; False: it is in the queue now."""
        if self.waiting or not self.credit.try_spend(1, byte_count):
            self.waiting[request] = None
            return False
        return True

    def leave_line(self, request: Waiting) -> None:
        """The request is not wanted any more. Does nothing if it is not in the queue."""
        self.waiting.pop(request, None)

    def admit(self, bytes_of: Callable[[Waiting], int]) -> Iterator[Waiting]:
        """Remove from the queue the requests that the credit pays for, oldest first; the caller sends each."""
        waiting = self.waiting
        while waiting:
            request = next(iter(waiting))
            if not self.credit.try_spend(1, bytes_of(request)):
                return
            del waiting[request]
            yield request

    def lose(self) -> tuple[list[Sent], list[Waiting]]:
        """The stream is lost: return what was in flight and what was queued, and forget both."""
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
        """The next message, created when there is something to put into it."""
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
    """Return the byte cost of a request that spends only a request of the credit."""
    return 0
