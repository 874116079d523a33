"""A Produce request in progress: appended by the leaders, then, with acks=all, parked until its records are committed.

If purgatory can't answer for a partition any more (its pod is gone, has been silent for long, or has seen the leader
epoch end), its leader is asked:

- The leader that appended it still leads, without interruption: committed is success, not committed is parked again, or
  asked again later while no pod is up.
- Another one leads, or the same one after an interruption. If its log contains the append, the append is parked there,
  under the new epoch: it is committed when that leader's high watermark has passed it. If not, it is
  NOT_LEADER_OR_FOLLOWER.
- No leader can be asked: REQUEST_TIMED_OUT ("maybe written") at the deadline, or `route_wait_ms_max` after the leader
  was lost.

So success never results from an entry that was lost, nor from a later leader's watermark alone; and a producer gets
NOT_LEADER_OR_FOLLOWER only for what the new leader does not have. Kafka returns it for everything that waits: Java
finds its batch known at the new leader, while librdkafka treats it as not written, and may send it under another
producer epoch (https://github.com/confluentinc/librdkafka/issues/4953).
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.channel.messages import AppendResult, Completion, Outcome, ProduceCondition, StateAnswer
from barnabas.cluster.messages import NO_LEADER
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.produce import BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, ProduceResponse
from barnabas_gateway.core.backends.append_router import AppendRouter
from barnabas_gateway.core.backends.partition_appends import LOSSES, UNSENT, PendingAppend
from barnabas_gateway.core.backends.pending_query import PendingStateQuery
from barnabas_gateway.core.backends.purgatory_client import Pod, PurgatoryClient
from barnabas_gateway.core.backends.query_router import QueryRouter
from barnabas_gateway.core.backends.record_format_converter import RecordFormatConverter, UpConversion
from barnabas_gateway.core.backends.up_conversion import Refusal, UpConverted, needs_up_conversion
from barnabas_gateway.core.connections.connection import BaseRequest, Connection, ResponseKind
from barnabas_gateway.core.requests.handler import Handler, RequestEnvironment
from barnabas_gateway.core.timing.hops import Hop

ACKS_ALL = -1
ACKS_NONE = 0
_VERSION_WITH_ABORTABLE = 11


class BaseProduceHandler(Handler):
    """What a produce in progress needs of its handler."""

    def __init__(
        self,
        environment: RequestEnvironment,
        appends: AppendRouter,
        queries: QueryRouter,
        purgatory: PurgatoryClient,
        converter: RecordFormatConverter,
    ) -> None:
        super().__init__(environment)
        self.appends = appends
        self.queries = queries
        self.purgatory = purgatory
        self.converter = converter


class PendingProduce(BaseRequest[BaseProduceHandler]):
    __slots__ = (
        "acks",
        "appends",
        "deadline_ms",
        "entry_id",
        "has_failed",
        "is_leader_missing",
        "leader_wait_until_ms",
        "pod",
        "position",
        "response",
        "transactional_id",
        "unanswered",
    )

    def __init__(
        self, handler: BaseProduceHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        connection.produce_requests += 1
        self.position = connection.produce_requests
        """Its number among the produce requests of its connection, from 1."""
        self.acks = 0
        self.deadline_ms = 0
        self.response: ProduceResponse = ProduceResponse()
        self.appends: Sequence[PendingAppend] = ()
        self.unanswered = 0
        """Appends, or state queries, whose answers are outstanding."""
        self.has_failed = False
        self.is_leader_missing = False
        """Whether a partition has no leader that can be asked, as of the last round of queries."""
        self.leader_wait_until_ms = -1
        """Until when the next leader of a partition is looked for; -1 while each has one."""
        self.pod: Pod | None = None
        self.entry_id = 0
        self.transactional_id: str | None = None

    @property
    def reports_abortable(self) -> bool:
        """Whether its client knows TRANSACTION_ABORTABLE."""
        return self.header.api_version >= _VERSION_WITH_ABORTABLE

    def convert(self, appends: Sequence[PendingAppend]) -> None:
        """Submit the appends once those among them that are message sets are converted to batches."""
        to_convert = [append for append in appends if needs_up_conversion(append.records)]
        if not to_convert:
            self.send_appends(appends)
            return
        self.connection.hold_requests()
        self.handler.converter.convert_up(self, appends, to_convert)

    def failed_in_worker(self, fault: str) -> None:
        """A Produce has no error for the whole request: this closes the connection, which holds its requests still."""
        self.handler.responder.failed_in_worker(self, fault)

    def up_converted(self, conversion: UpConversion) -> None:
        """Submit what was converted, and refuse the rest."""
        self.connection.one_waits_less()
        if self.connection.is_closed:
            return
        refused = set()
        for append, outcome in zip(conversion.to_convert, conversion.outcomes, strict=True):
            match outcome:
                case UpConverted():
                    append.records = outcome.records
                case Refusal():
                    refused.add(append)
                    self.refuse(append, outcome.error, outcome.message)
        self.send_appends([append for append in conversion.appends if append not in refused])

    def send_appends(self, appends: Sequence[PendingAppend]) -> None:
        """Send the appends; the response, complete except for their results, is sent when all is known."""
        handler = self.handler
        self.appends = appends
        self.unanswered = len(appends)
        if not appends:
            self._respond()
            return
        handler.deadlines.schedule(
            self, max(self.deadline_ms, handler.clock.now_ms + handler.config.append_wait_ms_min)
        )
        router = handler.appends
        for append in appends:
            router.submit_append(append, self.connection)

    def append_answered(self, append: PendingAppend, result: AppendResult) -> None:
        """A leader's result, or the gateway's own error instead."""
        append.produce = None
        response = append.response
        if result.error_code == 0:
            response.base_offset = result.base_offset
            response.log_append_time_ms = result.log_append_time_ms
            response.log_start_offset = result.log_start_offset
            if result.base_offset < 0:
                # The log contains it already, and does not know its offset any more: a success without an offset.
                response.error_code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
            if self.acks == ACKS_ALL and not result.committed:
                append.is_parked = True
                append.leader_epoch = result.leader_epoch
                append.record_epoch = result.leader_epoch - result.record_epoch_age
                append.required_offset = result.required_offset
        else:
            if result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and result.leader_epoch >= 0:
                self.handler.cluster.adopt_leader(
                    append.topic_id, append.partition, result.leader_id, result.leader_epoch
                )
            error_code = result.error_code
            if error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._is_fenced(append):
                # It was in flight when the one before it failed.
                error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._fail(append, error_code, result.error_message or None)
            response.record_errors = [
                BatchIndexAndErrorMessage(error.batch_index, error.message) for error in result.record_errors
            ]
            response.log_start_offset = result.log_start_offset
        self.unanswered -= 1
        if self.unanswered == 0:
            self._settle()

    def _is_fenced(self, append: PendingAppend) -> bool:
        order = append.order
        return order is not None and order.holds_back(append, self.position)

    def refuse(self, append: PendingAppend, error: ErrorCode, message: str) -> None:
        """Fail it without sending it to a leader."""
        append.produce = None
        self._fail(append, error, message)

    def _fail(self, append: PendingAppend, error_code: int, message: str | None = None) -> None:
        self.has_failed = True
        if error_code in LOSSES and append.order is not None:
            append.order.raise_fence(append, self.position)
        if append.is_parked:
            self._unpark(append)
        response = append.response
        response.error_code = error_code
        response.error_message = message
        response.base_offset = -1
        response.log_append_time_ms = -1
        if error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._name_leader(append)

    def _name_leader(self, append: PendingAppend) -> None:
        """KIP-951: name the leader to try next, as the image has it now, and its address."""
        handler = self.handler
        metadata = handler.image.partition(append.topic_id, append.partition)
        if metadata is None:
            return
        append.response.current_leader = LeaderIdAndEpoch(metadata.leader, metadata.leader_epoch)
        endpoints = self.response.node_endpoints
        address = handler.cluster.address_of(metadata.leader, self.connection.context)
        if address is not None and all(endpoint.node_id != metadata.leader for endpoint in endpoints):
            endpoints.append(NodeEndpoint(metadata.leader, address.host, address.port, address.rack))

    # --- waiting for the commit ---

    def _unpark(self, append: PendingAppend) -> None:
        """It is committed, or has failed."""
        append.is_parked = False
        self.handler.appends.decided(append)

    def _parked(self) -> list[PendingAppend]:
        return [append for append in self.appends if append.is_parked]

    def _settle(self) -> None:
        """All answers have arrived: respond, or wait for what is not committed yet."""
        if self.acks != ACKS_ALL:
            self._respond()
            return
        parked = self._parked()
        if not parked:
            self._respond()
            return
        handler = self.handler
        if handler.clock.now_ms >= self.deadline_ms:
            self._time_out()
            return
        if handler.purgatory.park_produce(self, self.deadline_ms, self.conditions(parked)):
            config = handler.config
            final_ms = self.deadline_ms + config.deadline_grace_ms
            handler.deadlines.schedule(self, min(final_ms, handler.clock.now_ms + config.commit_doubt_ms))
        else:
            self._wait_without_pod()

    def conditions(self, parked: list[PendingAppend]) -> list[ProduceCondition]:
        return [
            ProduceCondition(
                append.topic_id, append.partition, append.leader_id, append.leader_epoch, append.required_offset
            )
            for append in parked
        ]

    def completed(self, completion: Completion) -> None:
        """Purgatory's answer about everything that was parked."""
        self.pod = None
        parked = self._parked()
        codes = completion.error_codes
        if len(codes) != len(parked):
            indeterminate = ErrorCode.NONE if completion.outcome is Outcome.SATISFIED else ErrorCode.REQUEST_TIMED_OUT
            codes = [indeterminate] * len(parked)
        is_leader_lost = False
        for append, code in zip(parked, codes, strict=True):
            if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                is_leader_lost = True
            elif code:
                self._fail(append, code)
            else:
                self._unpark(append)
        if is_leader_lost:
            self._ask_leaders()
        else:
            self._respond()

    def pod_lost(self) -> None:
        self.pod = None
        self._ask_leaders()

    def _ask_leaders(self) -> None:
        handler = self.handler
        parked = self._parked()
        self.unanswered = len(parked)
        self.is_leader_missing = False
        for append in parked:
            append.is_leader_lost = False
            metadata = handler.image.partition(append.topic_id, append.partition)
            if metadata is None:
                self._fail(append, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                self.unanswered -= 1
                continue
            leader_id = metadata.leader if metadata.leader_epoch > append.leader_epoch else append.leader_id
            query = PendingStateQuery(self, append, leader_id)
            if leader_id == NO_LEADER or not handler.queries.submit_query(query, leader_id):
                self._miss_leader(append, is_lost=leader_id != append.leader_id)
                self.unanswered -= 1
        if self.unanswered == 0:
            self._settle_without_pod()
        else:
            handler.deadlines.schedule(self, self.deadline_ms)

    def _miss_leader(self, append: PendingAppend, *, is_lost: bool) -> None:
        """Look for a leader again. `is_lost`: the leader that appended does not lead any more, and the next is not
        known yet.
        """
        self.is_leader_missing = True
        append.is_leader_lost = is_lost
        if is_lost and self.leader_wait_until_ms < 0:
            handler = self.handler
            self.leader_wait_until_ms = handler.clock.now_ms + handler.config.route_wait_ms_max

    def state_answered(self, query: PendingStateQuery, answer: StateAnswer | None) -> None:
        """A leader's state, or None if it could not be asked after all."""
        if self.kind is not None or self.connection.is_closed:
            return
        if answer is None:
            self._miss_leader(query.append, is_lost=query.node_id != query.append.leader_id)
        elif query.append.is_parked:
            self._judge(query.append, query.node_id, answer)
        self.unanswered -= 1
        if self.unanswered > 0:
            return
        if self.is_leader_missing:
            self._settle_without_pod()
        else:
            self.leader_wait_until_ms = -1
            self._settle()

    def _judge(self, append: PendingAppend, node_id: int, answer: StateAnswer) -> None:
        state = answer.state
        is_appender = node_id == append.leader_id
        if state is None:
            self._miss_leader(append, is_lost=True)
        elif is_appender and state.leader_epoch == append.leader_epoch and not state.online:
            self._fail(append, ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            if is_appender and state.leads_since(append.leader_epoch):
                # Parked under its present epoch from now on: purgatory may know only that one.
                append.leader_epoch = state.leader_epoch
            elif not self._follow(append, node_id, answer):
                return
            if state.high_watermark < append.required_offset:
                return
            if state.in_sync_replicas_at_minimum:
                self._unpark(append)
            else:
                self._fail(append, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def _follow(self, append: PendingAppend, node_id: int, answer: StateAnswer) -> bool:
        """Let the append wait for the next leader from now on.

        Return False if there is none yet, or its log lacks the append.
        """
        state = answer.state
        if state is None or not (state.online and state.leading and state.leader_epoch > append.leader_epoch):
            self._miss_leader(append, is_lost=True)
            return False
        if not answer.holds_append:
            self._fail(append, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return False
        append.leader_id, append.leader_epoch = node_id, state.leader_epoch
        return True

    def _settle_without_pod(self) -> None:
        """Some leader could not be asked: try again a little later, until the deadline."""
        if not self._parked():
            self._respond()
        else:
            self._wait_without_pod()

    def _wait_without_pod(self) -> None:
        """Wait for the next look at the leaders."""
        handler = self.handler
        if self.timing is not None:
            self.timing.enter(Hop.PURGATORY)
        handler.deadlines.schedule(self, min(self.deadline_ms, handler.clock.now_ms + handler.config.state_poll_ms))

    # --- the end ---

    def expire(self, now_ms: int) -> None:
        if now_ms >= self.deadline_ms or self.unanswered:
            self._time_out()
            return
        # No pod holds it, or one that may be cut off from the leader.
        self.handler.purgatory.cancel_entry(self)
        if 0 <= self.leader_wait_until_ms <= now_ms:
            self._give_up_lost_leaders()
        self._ask_leaders()

    def _give_up_lost_leaders(self) -> None:
        """Give up partitions that have had no leader for so long that their outcome can't be known; the others wait
        on.
        """
        self.leader_wait_until_ms = -1
        for append in self._parked():
            if append.is_leader_lost:
                self._fail(append, ErrorCode.REQUEST_TIMED_OUT)

    def _time_out(self) -> None:
        """What was sent may have been written; what was parked is written and perhaps not committed."""
        self.handler.purgatory.cancel_entry(self)
        self._let_go()
        for append in self.appends:
            if append.produce is not None or append.is_parked:
                append.produce = None
                self._fail(append, ErrorCode.REQUEST_TIMED_OUT)
        self._respond()

    def cancel(self) -> None:
        self.handler.purgatory.cancel_entry(self)
        self._let_go()
        for append in self.appends:
            append.produce = None

    def _let_go(self) -> None:
        """Withdraw what was not sent."""
        router = self.handler.appends
        for append in self.appends:
            if append.produce is not None and append.request_id == UNSENT:
                router.withdraw(append)

    def _respond(self) -> None:
        handler = self.handler
        # The response may have to wait, and its frame does not count any more: release the records.
        self.appends = ()
        self.connection.produce_answered_ms = handler.clock.now_ms
        if self.acks != ACKS_NONE:
            handler.responder.respond(self, self.response, may_have_failed=self.has_failed)
            return
        handler.responder.charge(self, 0)
        if self.has_failed:
            handler.responder.count_errors(self, self.response)
            handler.responder.finish(self, ResponseKind.CLOSE)
        else:
            handler.responder.finish(self, ResponseKind.NO_OP)
