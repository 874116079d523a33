"""A Produce request under way: appended by the leaders, then, with acks=all, parked until its records are committed.

A partition that purgatory can't speak for any more (its pod is gone, or has said nothing for long) is asked of the
leader that appended it: the same epoch and satisfied is success; the same and not is parked again, or asked again later
while no pod is up; another epoch is NOT_LEADER_OR_FOLLOWER; a leader that can't be reached by the deadline is
REQUEST_TIMED_OUT. Success never comes from an entry that was lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.channel.messages import AppendResult, Completion, Outcome, ProduceCondition, StateAnswer
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.produce import BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, ProduceResponse
from services.gateway.core.appends import UNSENT, PendingAppend
from services.gateway.core.lost_sequences import LOSSES, LostSequences
from services.gateway.core.queries import PendingStateQuery
from services.gateway.core.request_timing import Hop
from services.gateway.core.slots import ResponseKind, Slot

if TYPE_CHECKING:
    from services.gateway.core.connection import Connection
    from services.gateway.core.parking import Pod

ACKS_ALL = -1
ACKS_NONE = 0


class PendingProduce(Slot):
    __slots__ = ("acks", "appends", "deadline_ms", "entry_id", "has_failed", "pod", "response", "unanswered")

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self.acks = 0
        self.deadline_ms = 0
        self.response: ProduceResponse = ProduceResponse()
        self.appends: Sequence[PendingAppend] = ()
        self.unanswered = 0
        """Appends, or state queries, whose answers are still to come."""
        self.has_failed = False
        self.pod: Pod | None = None
        self.entry_id = 0

    def submit(self, appends: Sequence[PendingAppend]) -> None:
        """Send the appends; the response, already complete but for them, goes out when all is known."""
        processor = self.connection.processor
        self.appends = appends
        self.unanswered = len(appends)
        if not appends:
            self._respond()
            return
        processor.deadlines.add(self, max(self.deadline_ms, processor.now_ms + processor.config.append_wait_ms_min))
        router = processor.appends
        for append in appends:
            router.submit(append, self.connection)

    def append_answered(self, append: PendingAppend, result: AppendResult) -> None:
        """A leader's result, or our own error in its place."""
        append.produce = None
        response = append.response
        if result.error_code == 0:
            response.base_offset = result.base_offset
            response.log_append_time_ms = result.log_append_time_ms
            response.log_start_offset = result.log_start_offset
            if self.acks == ACKS_ALL and not result.committed:
                append.is_parked = True
                append.leader_epoch = result.leader_epoch
                append.required_offset = result.required_offset
        else:
            if result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and result.leader_epoch >= 0:
                self.connection.processor.adopt_leader(
                    append.topic_id, append.partition, result.leader_id, result.leader_epoch
                )
            error_code = result.error_code
            if error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._is_behind_a_lost_one(append):
                error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._fail(append, error_code, result.error_message or None)
            response.record_errors = [
                BatchIndexAndErrorMessage(error.batch_index, error.message) for error in result.record_errors
            ]
            response.log_start_offset = result.log_start_offset
        self.unanswered -= 1
        if self.unanswered == 0:
            self._settle()

    def _is_behind_a_lost_one(self, append: PendingAppend) -> bool:
        """It was under way when that one was refused."""
        connection = self.connection
        lost = connection.lost_sequences
        return lost is not None and lost.hold_back(append.key, append.records, connection.processor.now_ms)

    def refuse(self, append: PendingAppend, error: ErrorCode, message: str) -> None:
        """It goes to no leader."""
        append.produce = None
        self._fail(append, error, message)

    def _fail(self, append: PendingAppend, error_code: int, message: str | None = None) -> None:
        append.is_parked = False
        self.has_failed = True
        if error_code in LOSSES:
            connection = self.connection
            if connection.lost_sequences is None:
                connection.lost_sequences = LostSequences()
            connection.lost_sequences.lost(append.key, append.records, self)
        response = append.response
        response.error_code = error_code
        response.error_message = message
        response.base_offset = -1
        response.log_append_time_ms = -1
        if error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._name_leader(append)

    def _name_leader(self, append: PendingAppend) -> None:
        """KIP-951: the leader to try next, as the image has it now, and where it lives."""
        processor = self.connection.processor
        metadata = processor.image.partition(append.topic_id, append.partition)
        if metadata is None:
            return
        append.response.current_leader = LeaderIdAndEpoch(metadata.leader, metadata.leader_epoch)
        endpoints = self.response.node_endpoints
        address = processor.address_of(metadata.leader, self.connection.context)
        if address is not None and all(endpoint.node_id != metadata.leader for endpoint in endpoints):
            endpoints.append(NodeEndpoint(metadata.leader, address.host, address.port, address.rack))

    # --- waiting for the commit ---

    def _parked(self) -> list[PendingAppend]:
        return [append for append in self.appends if append.is_parked]

    def _settle(self) -> None:
        """All answers are in: respond, or wait for what is not committed yet."""
        if self.acks != ACKS_ALL:
            self._respond()
            return
        parked = self._parked()
        if not parked:
            self._respond()
            return
        processor = self.connection.processor
        if processor.now_ms >= self.deadline_ms:
            self._time_out()
            return
        if processor.parking.park_produce(self, parked):
            config = processor.config
            final_ms = self.deadline_ms + config.deadline_grace_ms
            processor.deadlines.add(self, min(final_ms, processor.now_ms + config.commit_doubt_ms))
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
        """Purgatory's word on everything that was parked."""
        self.pod = None
        parked = self._parked()
        codes = completion.error_codes
        if len(codes) != len(parked):
            indeterminate = ErrorCode.NONE if completion.outcome is Outcome.SATISFIED else ErrorCode.REQUEST_TIMED_OUT
            codes = [indeterminate] * len(parked)
        for append, code in zip(parked, codes, strict=True):
            append.is_parked = False
            if code:
                self._fail(append, code)
        self._respond()

    def pod_lost(self) -> None:
        self.pod = None
        self._ask_leaders()

    def _ask_leaders(self) -> None:
        processor = self.connection.processor
        parked = self._parked()
        self.unanswered = len(parked)
        for append in parked:
            metadata = processor.image.partition(append.topic_id, append.partition)
            if metadata is None or metadata.leader_epoch > append.leader_epoch:
                self._fail(append, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                self.unanswered -= 1
            elif not processor.queries.submit(PendingStateQuery(self, append), append.leader_id):
                self.unanswered -= 1
        if self.unanswered == 0:
            self._settle_without_pod()
        else:
            processor.deadlines.add(self, self.deadline_ms)

    def state_answered(self, append: PendingAppend, answer: StateAnswer | None) -> None:
        """The leader's state, or None where it could not be asked after all."""
        if self.kind is not None or self.connection.is_closed:
            return
        if answer is not None:
            self._judge(append, answer)
        self.unanswered -= 1
        if self.unanswered > 0:
            return
        if answer is None:
            self._settle_without_pod()
        else:
            self._settle()

    def _judge(self, append: PendingAppend, answer: StateAnswer) -> None:
        state = answer.state
        if state is None or not state.leading or state.leader_epoch != append.leader_epoch:
            self._fail(append, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif not state.online:
            self._fail(append, ErrorCode.KAFKA_STORAGE_ERROR)
        elif state.high_watermark >= append.required_offset:
            append.is_parked = False
            if not state.in_sync_replicas_at_minimum:
                self._fail(append, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def _settle_without_pod(self) -> None:
        """Some leader could not be asked: try again a little later, until the deadline."""
        if not self._parked():
            self._respond()
        else:
            self._wait_without_pod()

    def _wait_without_pod(self) -> None:
        """For the next look at the leaders."""
        processor = self.connection.processor
        if self.timing is not None:
            self.timing.enter(Hop.PURGATORY)
        processor.deadlines.add(self, min(self.deadline_ms, processor.now_ms + processor.config.state_poll_ms))

    # --- the end ---

    def expire(self, now_ms: int) -> None:
        if now_ms < self.deadline_ms and self.unanswered == 0:
            # Nobody holds it, or a pod that may be cut off the leader.
            self.connection.processor.parking.cancel(self)
            self._ask_leaders()
        else:
            self._time_out()

    def _time_out(self) -> None:
        """What was sent may have been written, what was parked is written and perhaps not committed."""
        self.connection.processor.parking.cancel(self)
        self._let_go()
        for append in self.appends:
            if append.produce is not None or append.is_parked:
                append.produce = None
                self._fail(append, ErrorCode.REQUEST_TIMED_OUT)
        self._respond()

    def cancel(self) -> None:
        self.connection.processor.parking.cancel(self)
        self._let_go()
        for append in self.appends:
            append.produce = None

    def _let_go(self) -> None:
        """Withdraw what was not sent."""
        router = self.connection.processor.appends
        for append in self.appends:
            if append.produce is not None and append.request_id == UNSENT:
                router.withdraw(append)

    def _respond(self) -> None:
        processor = self.connection.processor
        if self.acks != ACKS_NONE:
            processor.requests.respond(self, self.response, may_have_failed=self.has_failed)
        elif self.has_failed:
            processor.metrics.response_failed(self.header.api_key, self.response)
            processor.requests.answered(self, ResponseKind.CLOSE)
        else:
            processor.requests.answered(self, ResponseKind.NO_OP)
