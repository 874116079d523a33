"""Results of appends with acks=all that are written and not committed yet: held here for a moment.

Followers in sync have a batch within a millisecond or so. If its result left before, the gateway would park the request
in purgatory, which would watch the partition here: four messages between three processes, for a wait that is over
before the first of them arrives. So a result is held until the high watermark reaches it, for `hold_ms` at most; then
it leaves as it is, and purgatory has the wait. It leaves at once if this logstore ceases to lead.

What is held is bounded in number, and takes no credit of its stream: the request is handled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from barnabas.channel.credits import STREAM_REQUESTS_MIN
from barnabas.channel.messages import AppendResult
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.streams.outbox import Outbox
from barnabas_logstore.core.streams.streams import ExchangeStream
from barnabas_logstore.core.streams.watches import Watches

HELD_MAX: Final = 4096
"""Results of all partitions; the others leave uncommitted."""


@dataclass(slots=True, eq=False)
class PendingAppend:
    """An append whose write is in progress (the log returns it once it is written), or whose result is held."""

    stream: ExchangeStream
    partition: Partition
    result: AppendResult
    byte_count: int
    awaits_commit: bool
    """It has acks=all."""
    answered: bool = False
    is_held: bool = False
    held_until_ms: int = 0


class UncommittedResults:
    __slots__ = ("_begun", "_by_partition", "_count", "_hold_ms", "_in_order", "_outbox", "_watches")

    def __init__(self, outbox: Outbox, watches: Watches, hold_ms: int) -> None:
        """`hold_ms` is 0 where nothing is held."""
        self._outbox = outbox
        self._watches = watches
        self._hold_ms = hold_ms
        self._by_partition: dict[Partition, deque[PendingAppend]] = {}
        """In the order of their appends."""
        self._begun: list[PendingAppend] = []
        """Held since the last `settle`."""
        self._in_order: deque[PendingAppend] = deque()
        """In the order of their deadlines; those that are not held any more stay until they are the first."""
        self._count = 0

    def hold(self, pending: PendingAppend) -> bool:
        """Hold the result of a written append. Return False if it has to leave now."""
        partition = pending.partition
        if not self._hold_ms or self._count >= HELD_MAX or not partition.in_sync_replicas_at_minimum:
            return False
        held = self._by_partition.get(partition)
        if held is None:
            held = self._by_partition[partition] = deque()
            partition.awaits_commit = True
        held.append(pending)
        self._begun.append(pending)
        self._count += 1
        pending.is_held = True
        stream = pending.stream
        if stream.timed:
            self._outbox.times.held(stream.timed, pending.result.request_id)
        if stream.requests_handled >= STREAM_REQUESTS_MIN:
            # A message with the credit alone: the gateway may have no other left.
            self._outbox.exchange_response(stream)
        return True

    def held_of(self, partition: Partition) -> Iterable[PendingAppend]:
        """What is held of a partition; read only."""
        return self._by_partition.get(partition, ())

    def settle(self, now_ms: int) -> None:
        """Send what is committed by now; once in a turn, when its writes have begun and the small ones are over."""
        if not self._by_partition:
            self._begun.clear()
            return
        for partition in self._watches.take_awaited():
            self._send_committed(partition)
        for pending in self._begun:
            if pending.is_held:
                pending.held_until_ms = now_ms + self._hold_ms
                self._in_order.append(pending)
        self._begun.clear()

    def expire(self, now_ms: int) -> None:
        """Send what was held for long enough, uncommitted."""
        in_order = self._in_order
        while in_order and (not in_order[0].is_held or in_order[0].held_until_ms <= now_ms):
            pending = in_order.popleft()
            while pending.is_held:
                self._send_first(pending.partition, is_committed=False)

    def next_deadline_ms(self) -> int | None:
        in_order = self._in_order
        while in_order and not in_order[0].is_held:
            in_order.popleft()
        return in_order[0].held_until_ms if in_order else None

    def release(self, partition: Partition) -> None:
        """Send what is held of a partition, uncommitted: whether it will be is not for this leader to say any more."""
        while partition in self._by_partition:
            self._send_first(partition, is_committed=False)

    def stop(self) -> None:
        """Send everything, and hold nothing any more."""
        self._hold_ms = 0
        for partition in list(self._by_partition):
            self.release(partition)

    def _send_committed(self, partition: Partition) -> None:
        while held := self._by_partition.get(partition):
            if held[0].result.required_offset > partition.high_watermark:
                return
            self._send_first(partition, is_committed=True)

    def _send_first(self, partition: Partition, *, is_committed: bool) -> None:
        held = self._by_partition[partition]
        pending = held.popleft()
        if not held:
            del self._by_partition[partition]
            partition.awaits_commit = False
        self._count -= 1
        pending.is_held = False
        pending.result.committed = is_committed
        self._outbox.exchange_response(pending.stream).append_results.append(pending.result)
