"""Appends on their way to the leaders' logstores, each (connection, partition) in order.

- An append goes to the leader that the image names. It is sent once and never again: only the producer may retry, since
  only its sequence numbers make a second copy harmless.
- All unanswered appends of one (connection, partition) are on one stream; after a change of leader the next one waits
  until the last of them is answered.
- No credit, no route, or others of the same partition in front: it waits, and its connection starts nothing new.
- A stream that is lost answers what was sent on it with REQUEST_TIMED_OUT, "maybe written". What was not sent waits for
  the stream to come back and ends as NOT_LEADER_OR_FOLLOWER, "not written".
- What an idempotent producer sent behind a batch that it has to send again is not written: see `lost_sequences`.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeAlias, assert_never

from barnabas.channel.messages import Append, AppendResult
from barnabas.cluster.messages import NO_LEADER
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.produce import PartitionProduceResponse
from barnabas.wire.primitives import Buffer
from services.gateway.core.logstores import Logstore

if TYPE_CHECKING:
    from services.gateway.core.connection import Connection
    from services.gateway.core.processor import Processor
    from services.gateway.core.produce import PendingProduce

PartitionKey: TypeAlias = tuple[bytes, int]
"""Topic id and partition."""

UNSENT = 0


class PendingAppend(Append):
    """One partition of a Produce: the message to the logstore, and where its result belongs."""

    __slots__ = ("is_parked", "key", "leader_id", "order", "produce", "required_offset", "response")

    def __init__(
        self, produce: PendingProduce, key: PartitionKey, records: Buffer, response: PartitionProduceResponse
    ) -> None:
        self.request_id = UNSENT
        self.topic_id, self.partition = self.key = key
        self.leader_epoch = -1
        self.acks = produce.acks
        self.records = records
        self.produce: PendingProduce | None = produce
        """None once the request was answered without it."""
        self.response = response
        self.order: AppendOrder | None = None
        self.leader_id = NO_LEADER
        self.required_offset = -1
        self.is_parked = False

    __hash__ = object.__hash__
    __eq__ = object.__eq__


class AppendOrder:
    """What keeps the appends of one (connection, partition) in order; it lives as long as any of them is unanswered."""

    __slots__ = ("connection", "deadline_bucket", "in_flight", "key", "line", "logstore", "waiting")

    def __init__(self, connection: Connection, key: PartitionKey) -> None:
        self.connection = connection
        self.key = key
        self.logstore: Logstore | None = None
        """Where those in flight are, or for whose credit the first of `waiting` waits."""
        self.in_flight = 0
        self.waiting: deque[PendingAppend] | None = None
        self.line: Logstore | None = None
        """Where it stands in `waiting_orders`."""
        self.deadline_bucket = -1
        """Set while the leader's stream is down."""

    def expire(self, now_ms: int) -> None:
        self.connection.processor.appends.give_up_routing(self)


class _Attempt(Enum):
    DONE = auto()
    """Sent, or failed for good."""
    NO_CREDIT = auto()
    """At `AppendOrder.logstore`."""
    BLOCKED = auto()
    """By a missing stream, or by appends of the partition that are in flight elsewhere."""


class AppendRouter:
    __slots__ = ("_image", "_logstores", "_processor", "_unrouted")

    def __init__(self, processor: Processor) -> None:
        self._processor = processor
        self._image = processor.image
        self._logstores = processor.logstores
        self._unrouted: dict[AppendOrder, None] = {}

    def submit(self, append: PendingAppend, connection: Connection) -> None:
        """Send it, or let it wait its turn; it may also fail at once."""
        orders = connection.append_orders
        order = orders.get(append.key)
        if order is None:
            order = orders[append.key] = AppendOrder(connection, append.key)
        append.order = order
        if order.waiting is None:
            attempt = self._attempt(order, append, in_turn=False)
            if attempt is _Attempt.DONE:
                if order.in_flight == 0:
                    self._finish(order)
                return
            order.waiting = deque()
            if attempt is _Attempt.NO_CREDIT:
                self._stand_in_line(order)
        order.waiting.append(append)
        connection.waiting_appends += 1

    def _attempt(self, order: AppendOrder, append: PendingAppend, *, in_turn: bool) -> _Attempt:
        """Send the append if it may go now. `in_turn`: its order was the first in its logstore's line."""
        lost = order.connection.lost_sequences
        if lost is not None and lost.hold_back(append.key, append.records, self._processor.now_ms):
            return self._fail(append, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        metadata = self._image.partition(append.topic_id, append.partition)
        if metadata is None:
            return self._fail(append, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if metadata.leader == NO_LEADER:
            return self._fail(append, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        logstore = self._logstores.get(metadata.leader)
        if logstore is None or not logstore.exchange_is_up:
            self._unrouted[order] = None
            if order.deadline_bucket < 0:
                processor = self._processor
                processor.deadlines.add(order, processor.now_ms + processor.config.route_wait_ms_max)
            return _Attempt.BLOCKED
        if order.in_flight and order.logstore is not logstore:
            return _Attempt.BLOCKED
        order.logstore = logstore
        has_others_first = not in_turn and len(logstore.waiting_orders) > 0
        if has_others_first or not logstore.exchange_credit.try_spend(1, len(append.records)):
            return _Attempt.NO_CREDIT
        order.in_flight += 1
        append.leader_id = metadata.leader
        append.leader_epoch = metadata.leader_epoch
        append.request_id = request_id = self._logstores.take_request_id()
        logstore.appends_in_flight[request_id] = append
        exchange = logstore.exchange or self._logstores.exchange_of(logstore)
        exchange.appends.append(append)
        produce = append.produce
        if produce is not None and produce.timing is not None:
            logstore.time(exchange, request_id, produce.timing)
        logstore.gathered_bytes += len(append.records)
        return _Attempt.DONE

    def _fail(self, append: PendingAppend, error: ErrorCode) -> _Attempt:
        if append.produce is not None:
            append.produce.append_answered(append, AppendResult(append.request_id, error))
        return _Attempt.DONE

    def _stand_in_line(self, order: AppendOrder) -> None:
        assert order.logstore is not None
        if order.line is None:
            order.line = order.logstore
            order.logstore.waiting_orders.append(order)

    def _drain(self, order: AppendOrder) -> None:
        """Send what waits, as far as that goes."""
        waiting = order.waiting
        while waiting:
            match self._attempt(order, waiting[0], in_turn=False):
                case _Attempt.DONE:
                    waiting.popleft()
                    self.one_waits_less(order.connection)
                case _Attempt.NO_CREDIT:
                    self._stand_in_line(order)
                    return
                case _Attempt.BLOCKED:
                    return
                case unknown:
                    assert_never(unknown)
        self._finish(order)

    def _finish(self, order: AppendOrder) -> None:
        """Nothing of it waits; without anything in flight either it is done with."""
        order.waiting = None
        self._unrouted.pop(order, None)
        if order.deadline_bucket >= 0:
            self._processor.deadlines.remove(order)
        orders = order.connection.append_orders
        if order.in_flight == 0 and orders.get(order.key) is order:
            del orders[order.key]

    def one_waits_less(self, connection: Connection) -> None:
        """With the last that waited its connection may go on."""
        connection.waiting_appends -= 1
        if connection.waiting_appends == 0:
            self._processor.clients.run_later(connection)

    # --- what the streams and the image bring ---

    def answered(self, logstore: Logstore, result: AppendResult) -> None:
        append = logstore.appends_in_flight.pop(result.request_id, None)
        if append is None:
            return
        order = append.order
        assert order is not None
        order.in_flight -= 1
        if append.produce is not None:
            append.produce.append_answered(append, result)
        if order.in_flight == 0:
            self._drain(order)

    def credit_granted(self, logstore: Logstore) -> None:
        """Let the line at this logstore move on, each order one append at a time."""
        line = logstore.waiting_orders
        while line:
            order = line.popleft()
            order.line = None
            waiting = order.waiting
            if not waiting:
                continue
            match self._attempt(order, waiting[0], in_turn=True):
                case _Attempt.DONE:
                    waiting.popleft()
                    self.one_waits_less(order.connection)
                    self._drain(order)
                case _Attempt.NO_CREDIT if order.logstore is logstore:
                    order.line = logstore
                    line.appendleft(order)
                    return
                case _Attempt.NO_CREDIT:
                    self._stand_in_line(order)
                case _Attempt.BLOCKED:
                    pass
                case unknown:
                    assert_never(unknown)

    def stream_lost(self, logstore: Logstore) -> None:
        """What was sent and not answered may have been written or not; what was not sent looks for another way."""
        lost = list(logstore.appends_in_flight.values())
        logstore.appends_in_flight.clear()
        if logstore.exchange is not None:
            logstore.exchange.appends.clear()
            logstore.exchange.timed.clear()
            logstore.leaving_exchange.clear()
            logstore.gathered_bytes = 0
        for append in lost:
            assert append.order is not None
            append.order.in_flight -= 1
            self._fail(append, ErrorCode.REQUEST_TIMED_OUT)
        for append in lost:
            assert append.order is not None
            if append.order.in_flight == 0:
                self._drain(append.order)
        self.reroute()

    def has_unrouted(self) -> bool:
        """Whether anything waits for a leader's stream."""
        return len(self._unrouted) > 0

    def reroute(self) -> None:
        """Leaders or streams have changed: whatever waits looks for its way anew."""
        orders = list(self._unrouted)
        self._unrouted.clear()
        for logstore in self._logstores.all():
            for order in logstore.waiting_orders:
                order.line = None
                orders.append(order)
            logstore.waiting_orders.clear()
        for order in orders:
            self._drain(order)

    def give_up_routing(self, order: AppendOrder) -> None:
        """The leader's stream did not come back in time: nothing of this was written."""
        waiting = order.waiting
        while waiting:
            self._fail(waiting.popleft(), ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.one_waits_less(order.connection)
        self._finish(order)

    def withdraw(self, append: PendingAppend) -> None:
        """Not sent and no longer wanted. (A fault of ours may have left it outside of any line.)"""
        order = append.order
        if order is None or order.waiting is None or append not in order.waiting:
            return
        order.waiting.remove(append)
        self.one_waits_less(order.connection)
        if not order.waiting:
            self._finish(order)
