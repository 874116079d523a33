"""Send appends to the leaders' logstores, in order for each (connection, partition).

- An append goes to the leader that the image names. It is sent once and never again: only the producer may retry, since
  only its sequence numbers make a second copy harmless.
- On a broker's own port an append goes to that broker or fails with NOT_LEADER_OR_FOLLOWER, as in Kafka: the client has
  chosen the leader, and only that choice orders what it sends to other leaders meanwhile.
- Everything undecided of one (connection, partition) is under one leader and epoch: see `partition_appends`.
- Without credit or a route, or behind others of the same partition, it waits, and its connection starts no further
  request.
- When a stream is lost, what was sent on it is answered with REQUEST_TIMED_OUT, "maybe written". What was not sent
  waits for the stream to come back and ends as NOT_LEADER_OR_FOLLOWER, "not written".

What a decision or another leader makes sendable is sent at the end of the turn (`send_freed`), never from within the
call that decided: no order is drained while another is.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from functools import partial
from typing import assert_never

from barnabas.channel.messages import AppendResult
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import NO_LEADER
from barnabas.wire.errors import ErrorCode
from barnabas_gateway.core.backends.logstores import Logstore, Logstores
from barnabas_gateway.core.backends.partition_appends import (
    AppendingConnection,
    AppendOwner,
    PartitionAppends,
    PendingAppend,
    producer_of,
)
from barnabas_gateway.core.backends.transaction_verifier import (
    TransactionVerifier,
    VerifiedTransaction,
    error_of_produce,
)
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.model.containment import end_by
from barnabas_gateway.core.model.deadlines import Clock, Deadlines
from barnabas_gateway.core.model.request_context import ANY_NODE


class _Attempt(Enum):
    DONE = auto()
    """Called when it was sent, or has failed for good."""
    NO_CREDIT = auto()
    """The stream that `PartitionAppends.stream` refers to."""
    BLOCKED = auto()
    """Appends held up by a missing stream, or by undecided appends of the partition at another leader."""


class AppendRouter:
    __slots__ = (
        "_config",
        "_deadlines",
        "_free",
        "_image",
        "_logstores",
        "_routes_changed",
        "_unrouted",
        "_verifier",
        "clock",
    )

    def __init__(
        self,
        config: GatewayConfig,
        clock: Clock,
        deadlines: Deadlines,
        image: ClusterImage,
        logstores: Logstores,
        verifier: TransactionVerifier,
    ) -> None:
        self._config = config
        self._verifier = verifier
        self.clock = clock
        self._deadlines = deadlines
        self._image = image
        self._logstores = logstores
        self._unrouted: dict[PartitionAppends, None] = {}
        self._free: dict[PartitionAppends, None] = {}
        """Those whose last undecided append was decided in this turn."""
        self._routes_changed = False
        """Whether leaders or streams have changed in this turn."""

    def submit_append(self, append: PendingAppend, connection: AppendingConnection) -> None:
        """Send it, or queue it; it may also fail at once."""
        orders = connection.append_orders
        order = orders.get(append.key)
        if order is None:
            order = orders[append.key] = PartitionAppends(self, connection, append.key)
        append.order = order
        if order.waiting is None:
            attempt = self._attempt(order, append, in_turn=False)
            if attempt is _Attempt.DONE:
                if order.undecided == 0:
                    self._finish(order)
                return
            order.waiting = deque()
            if attempt is _Attempt.NO_CREDIT:
                self._stand_in_line(order)
        order.waiting.append(append)
        connection.hold_requests()

    def _attempt(self, order: PartitionAppends, append: PendingAppend, *, in_turn: bool) -> _Attempt:
        """Send the append if it may go now. `in_turn`: its order was the first in its logstore's queue."""
        produce = append.produce
        if produce is not None and order.fences and order.holds_back(append, produce.position):
            return self._fail(append, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        metadata = self._image.partition(append.topic_id, append.partition)
        if metadata is None:
            return self._fail(append, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        leader_id = metadata.leader
        if leader_id == NO_LEADER:
            return self._fail(append, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if order.connection.context.node_id not in (ANY_NODE, leader_id):
            return self._fail(append, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        logstore = self._logstores.find_logstore(leader_id)
        if logstore is None or not logstore.exchange_is_up:
            self._unrouted[order] = None
            if order.deadline_bucket < 0:
                self._deadlines.schedule(order, self.clock.now_ms + self._config.route_wait_ms_max)
            return _Attempt.BLOCKED
        if order.deadline_bucket >= 0:
            self._deadlines.unschedule(order)
        if not order.may_send_under(leader_id, metadata.leader_epoch):
            return _Attempt.BLOCKED
        order.stream = stream = logstore.appends
        if (stream.waiting and not in_turn) or not stream.credit.try_spend(1, len(append.records)):
            return _Attempt.NO_CREDIT
        order.sent(append, leader_id, metadata.leader_epoch)
        append.request_id = request_id = next(self._logstores.request_ids)
        stream.in_flight[request_id] = append
        exchange = logstore.exchange or self._logstores.exchange_of(logstore)
        exchange.appends.append(append)
        if produce is not None and produce.timing is not None:
            logstore.time_request(exchange, request_id, produce.timing)
        logstore.gathered_bytes += len(append.records)
        return _Attempt.DONE

    def _fail(self, append: PendingAppend, error: ErrorCode) -> _Attempt:
        produce = append.produce
        if produce is not None:
            try:
                produce.append_answered(append, AppendResult(append.request_id, error))
            except Exception as fault:
                end_by(produce, fault)
        return _Attempt.DONE

    def _stand_in_line(self, order: PartitionAppends) -> None:
        assert order.stream is not None
        if order.line is None:
            order.line = order.stream
            order.stream.waiting[order] = None

    def _drain_or_fail(self, order: PartitionAppends) -> None:
        try:
            self._drain(order)
        except Exception as error:
            end_by(order, error)

    def _drain(self, order: PartitionAppends) -> None:
        """Send what waits, as far as possible."""
        if order.unverified and not order.resume():
            return
        waiting = order.waiting
        while waiting:
            match self._attempt(order, waiting[0], in_turn=False):
                case _Attempt.DONE:
                    waiting.popleft()
                    order.connection.one_waits_less()
                case _Attempt.NO_CREDIT:
                    self._stand_in_line(order)
                    return
                case _Attempt.BLOCKED:
                    return
                case unknown:
                    assert_never(unknown)
        self._finish(order)

    def _finish(self, order: PartitionAppends) -> None:
        """Nothing of it waits; if nothing is undecided or fenced either, remove it."""
        order.waiting = None
        self._unrouted.pop(order, None)
        if order.deadline_bucket >= 0:
            self._deadlines.unschedule(order)
        orders = order.connection.append_orders
        if order.is_idle() and orders.get(order.key) is order:
            del orders[order.key]

    def decided(self, append: PendingAppend) -> None:
        """An append is answered and committed, or has failed. Repeating the call for the same append changes
        nothing.
        """
        order = append.order
        if order is None or not append.is_undecided:
            return
        order.decided(append)
        if order.undecided == 0:
            if order.waiting is None and not order.fences:
                self._finish(order)
            else:
                self._free[order] = None

    def has_more(self) -> bool:
        """Whether `send_freed` has something to do."""
        return self._routes_changed or len(self._free) > 0

    def send_freed(self) -> None:
        """Send what the inputs of this turn have made sendable. Failures may make more sendable, which is sent as
        well.
        """
        while self._routes_changed or self._free:
            if self._routes_changed:
                self._routes_changed = False
                self._reroute()
            free, self._free = self._free, {}
            for order in free:
                if order.undecided == 0:
                    self._drain_or_fail(order)

    # --- what the streams and the image bring ---

    def result_received(self, logstore: Logstore, result: AppendResult) -> None:
        append = logstore.appends.in_flight.pop(result.request_id, None)
        if append is None:
            return
        produce, order = append.produce, append.order
        try:
            if produce is not None:
                if result.verification_guard:
                    self._verify(append, produce, result.verification_guard)
                    return
                produce.append_answered(append, result)
            if not append.is_parked:
                self.decided(append)
        except Exception as error:
            if produce is not None:
                end_by(produce, error)
            elif order is not None:
                end_by(order, error)
            else:
                raise

    def _verify(self, append: PendingAppend, produce: AppendOwner, guard: int) -> None:
        """The leader has sent back the beginning of a transaction, or what followed it: ask its coordinator."""
        order = append.order
        topic = self._image.topics_by_id.get(append.topic_id)
        if order is None or topic is None or produce.transactional_id is None:
            self._fail(append, ErrorCode.INVALID_TXN_STATE)
            self.decided(append)
            return
        order.sent_back(append, guard)
        self.decided(append)
        producer_id, producer_epoch = producer_of(append.records)
        transaction = VerifiedTransaction(
            produce.transactional_id, producer_id, producer_epoch, adds=append.supports_epoch_bump
        )
        self._verifier.verify(transaction, topic.topic, append.partition, partial(self._verified, append))

    def _verified(self, append: PendingAppend, error: ErrorCode) -> None:
        """The coordinator has answered, or can't be asked."""
        order, produce = append.order, append.produce
        assert order is not None, "it was sent"
        try:
            order.verified(append, is_confirmed=not error and produce is not None)
            if error and produce is not None:
                self._fail(append, error_of_produce(error, reports_abortable=produce.reports_abortable))
            self._free[order] = None
        except Exception as fault:
            end_by(order, fault)

    def credit_granted(self, logstore: Logstore) -> None:
        """Advance this logstore's queue, each order one append at a time."""
        stream = logstore.appends
        line = stream.waiting
        while line:
            order, _ = line.popitem(last=False)
            order.line = None
            waiting = order.waiting
            if not waiting:
                continue
            try:
                attempt = self._attempt(order, waiting[0], in_turn=True)
            except Exception as error:
                end_by(order, error)
                continue
            match attempt:
                case _Attempt.DONE:
                    waiting.popleft()
                    order.connection.one_waits_less()
                    self._drain_or_fail(order)
                case _Attempt.NO_CREDIT if order.stream is stream:
                    order.line = stream
                    line[order] = None
                    line.move_to_end(order, last=False)
                    return
                case _Attempt.NO_CREDIT:
                    self._stand_in_line(order)
                case _Attempt.BLOCKED:
                    pass
                case unknown:
                    assert_never(unknown)

    def stream_lost(self, logstore: Logstore) -> None:
        """The stream is lost: appends that were sent and not answered may have been written; the others look for
        another route.
        """
        in_flight = logstore.appends.in_flight
        lost = list(in_flight.values())
        in_flight.clear()
        if logstore.exchange is not None:
            logstore.exchange.appends.clear()
            logstore.exchange.timed.clear()
            logstore.leaving_exchange.clear()
            logstore.gathered_bytes = 0
        for append in lost:
            self._fail(append, ErrorCode.REQUEST_TIMED_OUT)
            self.decided(append)
        self.routes_changed()

    def has_unrouted(self) -> bool:
        """Whether any append waits for a leader's stream."""
        return len(self._unrouted) > 0

    def routes_changed(self) -> None:
        """Leaders or streams have changed: what waits is routed again at the end of the turn."""
        self._routes_changed = True

    def _reroute(self) -> None:
        orders = list(self._unrouted)
        self._unrouted.clear()
        for logstore in self._logstores.all_logstores():
            for order in logstore.appends.waiting:
                order.line = None
                orders.append(order)
            logstore.appends.waiting.clear()
        for order in orders:
            self._drain_or_fail(order)

    def give_up_routing(self, order: PartitionAppends) -> None:
        """The leader's stream did not come back in time: nothing of this was written."""
        waiting = order.waiting
        while waiting:
            self._fail(waiting.popleft(), ErrorCode.NOT_LEADER_OR_FOLLOWER)
            order.connection.one_waits_less()
        if not order.unverified:
            self._finish(order)

    def withdraw(self, append: PendingAppend) -> None:
        """Remove an append that was not sent and is not wanted any more. (An internal error may have left it outside of
        any queue.)
        """
        order = append.order
        if order is None or order.waiting is None or append not in order.waiting:
            return
        order.waiting.remove(append)
        order.connection.one_waits_less()
        if not order.waiting and not order.unverified:
            self._finish(order)
