"""A Fetch request in progress: read from the leaders, parked while there is too little, then read again and answered.

As Kafka's `ReplicaManager.fetchMessages`: the response is sent at once with enough bytes, with any error of a leader,
with no time to wait, or after one wait in purgatory whatever that resulted in. Nothing of a first read that was too
small is kept. A session's fetch that changes nothing may find its wait already parked, and then reads nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barnabas.channel.assembly import ReadResult
from barnabas.channel.messages import ReadPartitionResult
from barnabas.cluster.acls import Operation, ResourceType
from barnabas.cluster.messages import TopicMetadata
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.message_set import MAGIC_0, MAGIC_1
from barnabas.wire.messages.fetch import FetchResponse, LeaderIdAndEpoch
from barnabas.wire.primitives import SHORT_ELEMENTS_MAX, Steps
from barnabas_gateway.core.backends.down_conversion import DownConverted
from barnabas_gateway.core.backends.read_router import PendingRead, ReadLane
from barnabas_gateway.core.backends.record_format_converter import DownConversion
from barnabas_gateway.core.connections.connection import BaseRequest, Connection
from barnabas_gateway.core.model.containment import end_by
from barnabas_gateway.core.model.fetch_target import FetchKey, FetchTarget, find_topic, make_response
from barnabas_gateway.core.requests.delayed_fetch import DelayedFetch
from barnabas_gateway.core.requests.fetch_handling import BaseFetchHandler
from barnabas_gateway.core.requests.fetch_sessions import FetchSession
from barnabas_gateway.core.timing.hops import Hop

_VERSION_WITH_MAGIC_1 = 2
_VERSION_WITH_BATCHES = 4
"""Of magic 2: what earlier versions fetch is converted."""

_NAMES_LEADER = (int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.FENCED_LEADER_EPOCH))
"""Errors that carry the current leader (KIP-951)."""


class PendingFetch(BaseRequest[BaseFetchHandler]):
    __slots__ = (
        "begins_session",
        "by_id",
        "deadline_ms",
        "has_error",
        "has_preferred",
        "is_final",
        "is_redirected",
        "is_replica",
        "isolation_level",
        "max_bytes",
        "min_bytes",
        "partitions",
        "rack_id",
        "reads",
        "reads_unanswered",
        "refused",
        "session",
        "targets",
        "wait",
    )

    def __init__(
        self, handler: BaseFetchHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.min_bytes = 0
        self.max_bytes = 0
        self.isolation_level = 0
        self.rack_id = ""
        """The client's rack, if it gives one."""
        self.deadline_ms = 0
        """The end of `max_wait_ms`."""
        self.by_id = False
        """Whether the request names topics by id."""
        self.is_replica = False
        """Whether it claims to come from a replica. Replicas fetch from each other, not through gateways."""
        self.session: FetchSession | None = None
        """The session that the request continues."""
        self.begins_session = False
        self.partitions: dict[FetchKey, FetchTarget] = {}
        """All that is fetched: named by the request, or kept in the session."""
        self.refused: Sequence[FetchTarget] = ()
        """Those among them that no leader is asked for; their errors don't end a long poll."""
        self.targets: Sequence[FetchTarget] = ()
        """The others."""
        self.reads: list[PendingRead] = []
        self.reads_unanswered = 0
        self.has_error = False
        self.has_preferred = False
        """Whether another replica is named to the client for any partition."""
        self.is_redirected = False
        """Whether another replica has to be read for any partition."""
        self.is_final = False
        """Whether the present reads are answered whatever they return."""
        self.wait: DelayedFetch | None = None

    def read_partitions(self, partitions: dict[FetchKey, FetchTarget]) -> None:
        """Read these; the response is sent when all is known."""
        self.partitions = partitions
        self._read()

    def resume_session(self, session: FetchSession, *, is_changed: bool) -> None:
        """Fetch what the session has, whether or not the request has changed it."""
        self.session = session
        session.fetch = self
        wait = session.wait
        if wait is not None:
            if (
                not is_changed
                and wait.may_serve(self, self.handler.image.revision)
                and all(self._may_read(topic, log_denied=False) for topic in wait.topics)
            ):
                self._adopt_wait(wait)
                return
            wait.cancel()
        self.read_partitions(session.partitions)

    def _may_read(self, topic: str, *, log_denied: bool = True) -> bool:
        authorizer, resource = self.handler.authorizer, (ResourceType.TOPIC, topic)
        return not self.is_replica and authorizer.authorize(self, Operation.READ, resource, log_denied=log_denied)

    # --- reading ---

    def _read(self) -> None:
        if self.connection.quotas is not None and self._is_throttled():
            return
        handler = self.handler
        steps = self._read_in_steps()
        if len(self.partitions) > SHORT_ELEMENTS_MAX:
            self.is_long = True
            handler.deadlines.unschedule(self)
            handler.responder.begin_steps(self, steps)
        else:
            for _ in steps:
                pass

    def _is_throttled(self) -> bool:
        """Answer without reading if the client has used up its quota."""
        throttle_ms, self.max_bytes = self.handler.limit(self, self.max_bytes)
        self.min_bytes = min(self.min_bytes, self.max_bytes)
        return self._answer_throttled(throttle_ms)

    def _answer_throttled(self, throttle_ms: int) -> bool:
        """Answer as Kafka (`FetchContext.getThrottledResponse`): no partitions, and no session that is not there yet.
        Return False if the client need not wait.
        """
        if not throttle_ms:
            return False
        session_id = 0 if self.session is None else self.session.session_id
        self._leave_session()
        self._drop_reads()
        response = FetchResponse(throttle_time_ms=throttle_ms, session_id=session_id)
        self.handler.responder.respond(self, response, may_have_failed=False)
        return True

    def _read_in_steps(self) -> Steps[None]:
        handler = self.handler
        self.is_final = self.is_final or handler.clock.now_ms >= self.deadline_ms
        self.has_error = self.has_preferred = self.is_redirected = False
        by_lane = yield from self._group_by_lane()
        self.reads = []
        for (lane, rack_id), targets in by_lane.items():
            if lane.is_up:
                bytes_max = self._bytes_max(targets)
                accepts_ranges = lane.accepts_ranges and self.header.api_version >= _VERSION_WITH_BATCHES
                self.reads.append(
                    PendingRead(
                        self, lane, bytes_max, self.isolation_level, targets, rack_id, accepts_ranges=accepts_ranges
                    )
                )
            else:
                # It has been lost since it was chosen.
                for target in targets:
                    self._fail(target, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.reads_unanswered = len(self.reads)
        if not self.reads:
            self._settle()
            return
        handler.deadlines.schedule(self, handler.clock.now_ms + handler.config.read_wait_ms_max)
        for read in self.reads:
            handler.reads.submit_read(read)

    def _group_by_lane(self) -> Steps[dict[tuple[ReadLane, str], list[FetchTarget]]]:
        """Decide what to read from which logstore, and with which rack; note those partitions that can't be read
        anywhere, or that this client may not read."""
        handler = self.handler
        image, lanes = handler.image, handler.reads.lanes
        topics: dict[str | bytes, TopicMetadata | ErrorCode] = {}
        by_lane: dict[tuple[ReadLane, str], list[FetchTarget]] = {}
        refused: list[FetchTarget] = []
        targets: list[FetchTarget] = []
        for (name, number), target in list(self.partitions.items()):
            yield 1
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = self._find_topic(target)
            if isinstance(topic, ErrorCode):
                target.refuse(topic)
                refused.append(target)
                continue
            target.topic, target.topic_id = topic.topic, topic.topic_id
            metadata = image.partition(topic.topic_id, number)
            if metadata is None:
                target.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                refused.append(target)
                continue
            targets.append(target)
            node_id, rack_id = metadata.leader, ""
            if self.rack_id:
                context = self.connection.context
                node_id, rack_id = handler.read_replicas.place_of(context, self.rack_id, topic.topic_id, metadata)
            target.leader_id = node_id
            lane = lanes.get(node_id)
            if lane is None or not lane.is_up:
                self._fail(target, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                by_lane.setdefault((lane, rack_id), []).append(target)
        self.refused, self.targets = refused, targets
        return by_lane

    def _find_topic(self, target: FetchTarget) -> TopicMetadata | ErrorCode:
        topic = find_topic(self.handler.image, target, by_id=self.by_id)
        name = target.topic if isinstance(topic, ErrorCode) else topic.topic
        # An unknown id belongs to no name that could be protected from being read.
        return topic if not name or self._may_read(name) else ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def _bytes_max(self, targets: list[FetchTarget]) -> int:
        return min(self.max_bytes, sum([target.partition_bytes_max for target in targets]))

    def read_answered(self, read: PendingRead, result: ReadResult | None) -> None:
        """A logstore's result, or None if its stream was lost; repeating a read is harmless, so the client may."""
        read.fetch = None
        if result is None:
            for target in read.targets:
                self._fail(target, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                target.from_follower = False
                if read.rack_id:
                    self._look_for_replica(target)
        else:
            targets = read.targets
            for partition in result.partitions:
                if 0 <= partition.index < len(targets):
                    target = targets[partition.index]
                    target.set_result(partition)
                    target.from_follower = bool(read.rack_id) and partition.leader_id != target.leader_id
                    if read.rack_id:
                        self._look_for_replica(target)
                    if partition.error_code:
                        self._note_error(target, partition)
        self.reads_unanswered -= 1
        if self.reads_unanswered == 0:
            self._settle()

    def holds_back_answers(self) -> bool:
        """Whether other responses of its connection wait for this request's, and hold memory meanwhile."""
        connection = self.connection
        return connection.requests[0] is self and len(connection.requests) > connection.unanswered

    def _look_for_replica(self, target: FetchTarget) -> None:
        """If any replica may answer: decide whether another one should be asked, by the client or by the gateway."""
        handler = self.handler
        replicas, preferred = handler.read_replicas, target.preferred_read_replica
        if not replicas.is_own_choice:
            self.has_preferred |= preferred is not None
        elif preferred is not None:
            replicas.prefer(self.rack_id, target.topic_id, target.partition, preferred)
            self.is_redirected = True
        elif target.error_code:
            metadata = handler.image.partition(target.topic_id, target.partition)
            if metadata is not None and metadata.leader != target.leader_id:
                replicas.avoid(self.rack_id, target.topic_id, target.partition)
                self.is_redirected = True

    def _note_error(self, target: FetchTarget, result: ReadPartitionResult) -> None:
        self.has_error = True
        target.records = b""
        if result.leader_epoch >= 0:
            self.handler.cluster.adopt_leader(target.topic_id, target.partition, result.leader_id, result.leader_epoch)
        self._name_leader(target)

    def _fail(self, target: FetchTarget, error_code: ErrorCode) -> None:
        self.has_error = True
        target.refuse(error_code)
        self._name_leader(target)

    def _name_leader(self, target: FetchTarget) -> None:
        """KIP-951: name the leader to try next, as the image has it now."""
        if target.error_code in _NAMES_LEADER:
            metadata = self.handler.image.partition(target.topic_id, target.partition)
            if metadata is not None:
                target.current_leader = LeaderIdAndEpoch(metadata.leader, metadata.leader_epoch)

    # --- waiting ---

    def _settle(self) -> None:
        """All reads are answered: respond, or wait for more."""
        handler = self.handler
        if self.timing is not None:
            self.timing.enter(Hop.GATEWAY)
        if self.is_redirected:
            self._drop_reads()
            self._read()
            return
        byte_count = sum([len(target.records) for target in self.targets])
        is_answer = self.has_error or self.has_preferred or not self.targets
        is_over = self.is_final or is_answer or handler.clock.now_ms >= self.deadline_ms
        if is_over or byte_count >= self.min_bytes:
            self._respond(self.partitions.values())
        else:
            self._drop_reads()
            self._park()

    def _park(self) -> None:
        handler, deadline_ms = self.handler, self.deadline_ms
        is_standing = self.min_bytes == 1 and (self.begins_session or self.session is not None)
        until_ms = max(deadline_ms, handler.clock.now_ms + handler.config.fetch_wait_ms_max)
        wait_until_ms = until_ms if is_standing else deadline_ms
        wait = DelayedFetch(handler.purgatory, self, wait_until_ms, handler.image.revision, is_standing=is_standing)
        self.wait = wait
        if not handler.purgatory.park_fetch(wait, wait_until_ms, self.min_bytes, wait.conditions(self.targets)):
            self.wait = None
            if self.timing is not None:
                self.timing.enter(Hop.PURGATORY)
            handler.deadlines.schedule(self, min(deadline_ms, handler.clock.now_ms + handler.config.state_poll_ms))
            return
        if self.session is not None:
            self.session.wait, wait.session = wait, self.session
        # Purgatory does not end a persistent wait when this request's time is over.
        handler.deadlines.schedule(self, deadline_ms if is_standing else deadline_ms + handler.config.deadline_grace_ms)

    def _adopt_wait(self, wait: DelayedFetch) -> None:
        """Nothing has moved since the session's last poll, and the conditions that would show it are parked."""
        handler = self.handler
        self.partitions, self.refused, self.wait, wait.fetch = {}, wait.refused, wait, self
        self.is_long = len(wait.refused) > SHORT_ELEMENTS_MAX
        if self.timing is not None:
            self.timing.enter(Hop.PURGATORY)
        if handler.clock.now_ms >= self.deadline_ms:
            self._respond(wait.refused)
        else:
            handler.deadlines.schedule(self, self.deadline_ms)

    def wait_over(self, *, is_expired: bool) -> None:
        """Purgatory's answer. If nothing arrived at all, the first answer is still right."""
        if is_expired and self.min_bytes <= 1:
            self._respond_unmoved()
        else:
            self.is_final = True
            self.wait_lost()

    def wait_lost(self) -> None:
        """No pod watches any more: read."""
        if self.session is not None:
            self.partitions = self.session.partitions
        self._read()

    def _respond_unmoved(self) -> None:
        self._respond(self.partitions.values() if self.partitions else self.refused)

    # --- the end ---

    def expire(self, now_ms: int) -> None:
        """The time of a persistent wait is over, purgatory is silent, a poll without purgatory is due, or a logstore
        takes too long."""
        if self.reads_unanswered:
            for read in self.reads:
                if read.fetch is not None:
                    self.handler.reads.cancel_read(read)
                    for target in read.targets:
                        self._fail(target, ErrorCode.REQUEST_TIMED_OUT)
            self._respond(self.partitions.values())
        elif self.wait is not None and self.wait.is_standing:
            self._respond_unmoved()
        else:
            if self.wait is not None:
                self.wait.cancel()
            self._read()

    def cancel(self) -> None:
        self._leave_session()
        self._drop_reads()

    def supersede(self) -> None:
        """The session's next request has arrived, so the client would take this one's response for the other's."""
        session = self.session
        assert session is not None, "only a session's requests follow one another"
        try:
            self.cancel()
            code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
            self.handler.responder.respond(self, FetchResponse(error_code=code, session_id=session.session_id))
        except Exception as error:
            end_by(self, error)  # it would be taken for one about the next request

    def _leave_session(self) -> None:
        """A persistent wait belongs to the session, if there is one; any other is not needed any more."""
        wait, session = self.wait, self.session
        self.wait = None
        if session is not None:
            session.fetch = None
        if wait is not None:
            wait.fetch = None
            if session is None or not (session.is_cached and wait.is_standing):
                wait.cancel()

    def _drop_reads(self) -> None:
        """Release what the reads returned and what they hold."""
        for read in self.reads:
            self.handler.reads.cancel_read(read)
        self.reads = []
        self.reads_unanswered = 0
        for target in self.targets:
            target.records = b""

    def _spend_max_bytes(self) -> None:
        """Several logstores were each asked for `max_bytes`: keep what fits, in the order of the request (KIP-74)."""
        bytes_left = self.max_bytes
        is_first = True
        for target in self.targets:
            size = len(target.records)
            if size > bytes_left and not is_first:
                target.records = b""
            elif size:
                bytes_left -= size
                is_first = False

    def _respond(self, candidates: Iterable[FetchTarget]) -> None:
        """Respond with those of the candidates that must be sent to the client."""
        handler = self.handler
        if len(self.reads) > 1:
            self._spend_max_bytes()
        for read in self.reads:
            self.reserved_bytes += read.reserved_bytes
            read.reserved_bytes = 0
        self.reads = []
        version = self.header.api_version
        if version < _VERSION_WITH_BATCHES:
            magic = MAGIC_1 if version >= _VERSION_WITH_MAGIC_1 else MAGIC_0
            targets = [target for target in self.targets if len(target.records)]
            if targets:
                handler.deadlines.unschedule(self)
                handler.converter.convert_down(self, magic, targets)
                return
        self._answer(candidates)

    def failed_in_worker(self, fault: str) -> None:
        self.handler.responder.failed_in_worker(self, fault)

    def down_converted(self, conversion: DownConversion) -> None:
        """What was read is in the client's format now, or can't be converted."""
        if self.connection.is_closed:
            return
        for target, outcome in zip(conversion.targets, conversion.outcomes, strict=True):
            if isinstance(outcome, DownConverted):
                target.records = outcome.records
            else:
                self._fail(target, outcome)
        self._answer(self.partitions.values())

    def _answer(self, candidates: Iterable[FetchTarget]) -> None:
        steps = self._answer_in_steps(candidates)
        if self.is_long:
            handler = self.handler
            handler.deadlines.unschedule(self)
            handler.responder.begin_steps(self, steps)
        else:
            for _ in steps:
                pass

    def _answer_in_steps(self, candidates: Iterable[FetchTarget]) -> Steps[None]:
        if self.connection.quotas is not None:
            records_bytes = sum([len(target.records) for target in self.targets])
            if self._answer_throttled(self.handler.charge(self, records_bytes)):
                return
        handler, session = self.handler, self.session
        if self.begins_session:
            sessions = handler.fetch_sessions
            session = sessions.create_session(self.partitions, by_id=self.by_id, now_ms=handler.clock.now_ms)
            if session is not None and self.wait is not None:
                session.wait, self.wait.session = self.wait, session
            self.session = session
        is_incremental = session is not None and not self.begins_session
        returned = [target for target in candidates if target.has_news()] if is_incremental else list(candidates)
        if session is not None or self.wait is not None:
            self._leave_session()
        response = yield from make_response(handler.cluster, self.connection.context, returned, self.isolation_level)
        if session is not None:
            response.session_id = session.session_id
            for target in returned:
                target.note_sent()
                if len(target.records):
                    session.served(target)
                yield 1
        has_failed = self.has_error or len(self.refused) > 0
        handler.responder.respond(self, response, may_have_failed=has_failed)
        for target in returned:
            target.records = b""
