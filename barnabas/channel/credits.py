"""Credit on the data channel: how many requests and bytes a stream's opener may have outstanding at a logstore.

An account can pay for a request that fits its balance; and while it holds at least the stream's minimum it can pay for
any request, going into debt. So a request larger than every share still passes, because an idle account holds at least
its minimum, and no request waits for a grant that never comes. Debt stops sending until it is paid off: a stream
exceeds its share by one request at most, and only by one larger than the minimum.

The logstore's pool divides its totals by dynamic thresholds (Choudhury and Hahne, 1998, for shared switch buffers): a
stream may hold as much as is left free. With k busy streams each gets 1/(k+1) of the total, and the rest is left for
new ones. A stream that holds more than that gets back less than it spent until it is even; one that uses half of what
it holds gets more; an idle one keeps what it has. Only the minimums may exceed the totals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from barnabas.channel.messages import Credit

# The minimum of every open stream. The largest record batch of Kafka's defaults (message.max.bytes) fits.
STREAM_REQUESTS_MIN: Final = 8
STREAM_BYTES_MIN: Final = 1_048_588

# A new stream starts with at most this part of the totals and grows with use: an idle one must not hold a large share.
_OPENING_PARTS: Final = 16


class CreditAccount:
    """What the opener of a stream may still send; debts are negative balances."""

    __slots__ = ("bytes", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.bytes = 0

    def try_spend(self, requests: int, byte_count: int) -> bool:
        """Pay for `requests` with `byte_count` bytes of records in all. Without enough credit, return False and pay
        nothing.
        """
        if requests > self.requests < STREAM_REQUESTS_MIN or byte_count > self.bytes < STREAM_BYTES_MIN:
            return False
        self.requests -= requests
        self.bytes -= byte_count
        return True

    def grant(self, credit: Credit) -> None:
        """Add what the logstore grants."""
        self.requests += credit.requests
        self.bytes += credit.bytes

    def reset(self) -> None:
        """The stream is down: a new one starts from zero."""
        self.requests = 0
        self.bytes = 0


@dataclass(slots=True)
class _Share:
    """One stream's part of one resource: held = balance of the opener + outstanding + handled."""

    held: int
    # Received and not handled.
    outstanding: int = 0
    # The maximum that was outstanding or not granted back since the last grant.
    outstanding_max: int = 0
    # Handled and not granted back.
    handled: int = 0

    def receive(self, count: int) -> bool:
        """Record what arrived. Return whether the opener had any credit left before it."""
        unreturned = self.outstanding + self.handled
        self.outstanding += count
        if unreturned + count > self.outstanding_max:
            self.outstanding_max = unreturned + count
        return self.held > unreturned

    def handle(self, count: int) -> None:
        assert count <= self.outstanding, "more was handled than received"
        self.outstanding -= count
        self.handled += count


class _Resource:
    """One resource, requests or bytes, shared by all streams."""

    __slots__ = ("free", "minimum", "total")

    def __init__(self, total: int, minimum: int) -> None:
        self.total = total
        self.minimum = minimum
        # What no stream holds; negative while minimums exceed the total.
        self.free = total

    def open(self) -> _Share:
        held = max(self.minimum, min(self.free // 2, self.total // _OPENING_PARTS))
        self.free -= held
        return _Share(held)

    def due(self, share: _Share) -> int:
        """Return what to grant now: what was handled, minus what the stream holds too much or plus what it may have in
        addition.
        """
        room = max(self.minimum, (self.free + share.held) // 2) - share.held
        if room > 0 and 2 * share.outstanding_max < share.held:
            room = 0
        change = max(room, -share.handled)
        granted = share.handled + change
        share.held += change
        self.free -= change
        share.handled = 0
        share.outstanding_max = share.outstanding
        return granted

    def close(self, share: _Share) -> None:
        self.free += share.held


class CreditPool:
    """The logstore's side: one pool for all of its data streams."""

    __slots__ = ("_bytes", "_requests", "_streams")

    def __init__(self, requests_total: int, bytes_total: int) -> None:
        self._requests = _Resource(requests_total, STREAM_REQUESTS_MIN)
        self._bytes = _Resource(bytes_total, STREAM_BYTES_MIN)
        self._streams: dict[int, tuple[_Share, _Share]] = {}

    def open_stream(self, stream_id: int) -> Credit:
        """Return a stream's first credit, for its welcome."""
        assert stream_id not in self._streams, f"stream {stream_id} is open already"
        requests, byte_share = self._requests.open(), self._bytes.open()
        self._streams[stream_id] = requests, byte_share
        return Credit(requests.held, byte_share.held)

    def received(self, stream_id: int, requests: int, byte_count: int) -> bool:
        """Record what arrived. Return False if the opener had no credit left: it violates the protocol, close the
        stream.
        """
        request_share, byte_share = self._streams[stream_id]
        has_room = request_share.receive(requests)
        has_byte_room = byte_share.receive(byte_count) if byte_count else True
        return (has_room and has_byte_room) or not requests

    def handled(self, stream_id: int, requests: int, byte_count: int) -> None:
        """Record what does not occupy the queue or memory any more; unknown streams are closed ones."""
        shares = self._streams.get(stream_id)
        if shares is None:
            return
        shares[0].handle(requests)
        if byte_count:
            shares[1].handle(byte_count)

    def grants_due(self, stream_id: int) -> Credit | None:
        """Return what to send with the stream's next response, counted as sent; None if there is nothing."""
        shares = self._streams.get(stream_id)
        if shares is None or not (shares[0].handled or shares[1].handled):
            return None
        requests, byte_count = self._requests.due(shares[0]), self._bytes.due(shares[1])
        return Credit(requests, byte_count) if requests or byte_count else None

    def close_stream(self, stream_id: int) -> None:
        """The stream is closed: its share is free, even if some of it is still being handled."""
        shares = self._streams.pop(stream_id, None)
        if shares is not None:
            self._requests.close(shares[0])
            self._bytes.close(shares[1])
