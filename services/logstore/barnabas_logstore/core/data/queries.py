"""Queries on the Exchange stream: offsets by time (ListOffsets), and the state of a partition.

Errors of an offset query: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE, KAFKA_STORAGE_ERROR. Of a state query: UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from barnabas.channel.messages import OffsetAnswer, OffsetQuery, StateAnswer, StateQuery
from barnabas.containment import CONTAINING
from barnabas.ports.compression import Decompress
from barnabas.ports.disk import DiskError
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.data.reads import READ_COMMITTED
from barnabas_logstore.core.replica.containment import QUERY
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.storage.effect_results import OffsetAtTimestamp, Refusal
from barnabas_logstore.core.storage.effects import (
    FindRecordEffect,
    FindTimestampsEffect,
    OpenSegmentEffect,
    ReadEffect,
)
from barnabas_logstore.core.storage.log.features.timestamp_lookup import (
    LATEST,
    MAX_TIMESTAMP,
    LookupEffect,
    LookupResult,
    TimestampLookup,
)
from barnabas_logstore.core.streams.outbox import Completion, Outbox
from barnabas_logstore.core.streams.streams import ExchangeStream

# Each may hold 64 MiB of an opened batch, and a worker for a long time: writes and reads need workers besides them.
SEARCHES_MAX = 2


@dataclass(slots=True, eq=False)
class _PendingQuery:
    """A query that reads and opens batches to find its answer."""

    stream: ExchangeStream
    query: OffsetQuery
    partition: Partition
    lookup: TimestampLookup
    absent: ErrorCode
    """The answer if nothing is found."""


class Queries:
    def __init__(self, replicas: Replicas, outbox: Outbox, decompress: Decompress) -> None:
        """`decompress` opens the one batch that holds a timestamp; see `first_record_of`."""
        self._replicas = replicas
        self._outbox = outbox
        self._decompress = decompress
        self._pending: dict[LookupEffect, _PendingQuery] = {}
        self._to_search: deque[FindRecordEffect] = deque()
        self._searching = 0

    def query_state(self, stream: ExchangeStream, query: StateQuery) -> None:
        partition = self._replicas.by_key.get((query.topic_id, query.partition))
        if partition is None:
            answer = StateAnswer(query.request_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            holds_append = partition.holds_append(query.leader_epoch, query.required_offset)
            answer = StateAnswer(query.request_id, ErrorCode.NONE, self._replicas.state_of(partition), holds_append)
        self._outbox.exchange_response(stream).state_answers.append(answer)
        stream.requests_handled += 1

    def query_offset(self, stream: ExchangeStream, query: OffsetQuery) -> None:
        """It counts as handled, for its credit, when it is answered: credit bounds how many lookups there are."""
        partition = self._replicas.by_key.get((query.topic_id, query.partition))
        if partition is None:
            self._refuse(stream, query.request_id, self._replicas.error_of_absent(query.topic_id, query.partition))
            return
        error = partition.check_leader_epoch(query.current_leader_epoch)
        is_unknown = not partition.knows_latest_offset()
        if not error and query.timestamp == LATEST and is_unknown:
            error = ErrorCode.OFFSET_NOT_AVAILABLE
        if error:
            self._refuse(stream, query.request_id, error)
            return
        only_stable = query.isolation_level == READ_COMMITTED
        upto_offset = partition.last_stable_offset if only_stable else partition.high_watermark
        lookup = partition.log.lookup_timestamp(query.timestamp, upto_offset, self._decompress)
        # What is not found may still exist, between the high watermark and the start of this epoch.
        is_search = query.timestamp >= 0 or query.timestamp == MAX_TIMESTAMP
        absent = ErrorCode.OFFSET_NOT_AVAILABLE if is_search and is_unknown else ErrorCode.NONE
        self._go_on(_PendingQuery(stream, query, partition, lookup, absent), None)

    def _go_on(self, pending: _PendingQuery, result: LookupResult) -> None:
        """Advance a lookup to its next effect, or to its end. A generator is started by sending it None."""
        try:
            effect = pending.lookup.send(result)
        except StopIteration as end:
            self._answer(pending.stream, _answer_of(pending, end.value))
            return
        except DiskError as error:
            self._replicas.disk_failed(pending.partition.log, error)
            self._refuse(pending.stream, pending.query.request_id, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        self._pending[effect] = pending
        if isinstance(effect, FindRecordEffect):
            self._to_search.append(effect)
            self._search()
        else:
            self._send(pending, effect)

    def _search(self) -> None:
        """Start as many searches as may run at once."""
        while self._to_search and self._searching < SEARCHES_MAX:
            effect = self._to_search.popleft()
            pending = self._pending.get(effect)
            if pending is None or pending.stream.closed:
                self._pending.pop(effect, None)
                continue
            self._searching += 1
            self._send(pending, effect)

    def _send(self, pending: _PendingQuery, effect: LookupEffect) -> None:
        failed = partial(self._replicas.log_effect_failed, pending.partition.log)
        match effect:  # each of them has another type of result
            case ReadEffect():
                self._outbox.add_effect(effect, Completion(lambda data: self._on_done(effect, data), failed))
            case FindTimestampsEffect():
                self._outbox.add_effect(effect, Completion(lambda found: self._on_done(effect, found), failed))
            case OpenSegmentEffect():
                self._outbox.add_effect(effect, Completion(lambda opened: self._on_done(effect, opened), failed))
            case FindRecordEffect():
                self._outbox.add_effect(effect, Completion(lambda record: self._on_done(effect, record), failed))
            case _:
                assert_never(effect)

    def _on_done(self, effect: LookupEffect, result: LookupResult | Refusal) -> None:
        """An effect of a lookup is done; its caller may be gone, or have been answered."""
        if isinstance(effect, FindRecordEffect):
            self._searching -= 1
            self._search()
        pending = self._pending.pop(effect, None)
        if pending is None or pending.stream.closed:
            return
        if isinstance(result, Refusal):
            self._refuse(pending.stream, pending.query.request_id, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        try:
            assert isinstance(result, effect.result.types)
            self._go_on(pending, result)
        except Exception as error:
            with CONTAINING:
                self.contain(pending.stream, pending.query, error)

    def contain(self, stream: ExchangeStream, query: OffsetQuery | StateQuery, error: Exception) -> None:
        """A query was ended by an unexpected exception: answer it, unless it is answered."""
        request: dict[str, str | int] = {"stream_id": stream.stream_id, "request_id": query.request_id}
        which: dict[str, str | int] = {"topic_id": query.topic_id.hex(), "partition": query.partition}
        self._replicas.contained.contain(QUERY, error, request | which)
        for effect in [effect for effect, pending in self._pending.items() if pending.query is query]:
            del self._pending[effect]
        response = self._outbox.exchange_response(stream)
        if isinstance(query, OffsetQuery):
            if not any(each.request_id == query.request_id for each in response.offset_answers):
                self._refuse(stream, query.request_id, ErrorCode.UNKNOWN_SERVER_ERROR)
        elif not any(each.request_id == query.request_id for each in response.state_answers):
            response.state_answers.append(StateAnswer(query.request_id, ErrorCode.UNKNOWN_SERVER_ERROR))
            stream.requests_handled += 1

    def fail_pending(self, partition: Partition, error: ErrorCode) -> None:
        for effect in [effect for effect, pending in self._pending.items() if pending.partition is partition]:
            pending = self._pending.pop(effect)
            self._refuse(pending.stream, pending.query.request_id, error)

    def _refuse(self, stream: ExchangeStream, request_id: int, error: ErrorCode) -> None:
        self._answer(stream, OffsetAnswer(request_id, error))

    def _answer(self, stream: ExchangeStream, answer: OffsetAnswer) -> None:
        self._outbox.exchange_response(stream).offset_answers.append(answer)
        stream.requests_handled += 1


def _answer_of(pending: _PendingQuery, found: OffsetAtTimestamp) -> OffsetAnswer:
    request_id = pending.query.request_id
    if found.offset < 0 and pending.absent:
        return OffsetAnswer(request_id, pending.absent)
    # The next record at the latest offset will be of the present epoch, whatever epoch the previous ones have.
    is_latest = pending.query.timestamp == LATEST
    leader_epoch = pending.partition.leader_epoch if is_latest else found.leader_epoch
    return OffsetAnswer(request_id, ErrorCode.NONE, found.timestamp_ms, found.offset, leader_epoch)
