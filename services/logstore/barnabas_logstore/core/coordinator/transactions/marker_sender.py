"""Sends the markers of ended transactions to the leaders of their partitions, until each is written (Kafka's
TransactionMarkerChannelManager).

All markers of a turn for one leader are one WriteTxnMarkers. What is not written is sent again after a pause, to the
leader of that time; a marker that is sent twice changes nothing. A partition is left out only if its deletion is known
(`KnownDeletions`): one that is merely absent from this logstore's metadata waits, and what waits long is a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, Protocol

from barnabas.channel.messages import GroupAnswer, GroupCall
from barnabas.cluster.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.cluster.messages import NO_LEADER
from barnabas.containment import Guard
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response_body, encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.wire.primitives import MalformedFrame
from barnabas_logstore.core.coordinator.transactions.shard import TransactionShard
from barnabas_logstore.core.coordinator.transactions.transaction import TopicPartition, Transaction, TransactionState
from barnabas_logstore.core.replica.containment import COORDINATOR_STATE
from barnabas_logstore.core.replica.replicas import Replicas

RETRY_MS: Final = 50
UNDELIVERED_MS: Final = 60_000
"""A marker that is not written for so long is reported, once."""
MARKERS_PER_STEP: Final = 1_000
MARKERS_PER_CALL: Final = 500
_VERSION: Final = ApiKey.WRITE_TXN_MARKERS.version_max
_OVER: Final = frozenset((ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.NONE))
"""After these the partition gets no marker any more."""
_FENCED: Final = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED))
"""A newer producer or coordinator has been there: this transaction is not to be ended from here."""


class Peers(Protocol):
    """Other logstores, and this one."""

    def call(self, node_id: int, call: GroupCall, answered: Callable[[GroupAnswer | None], None]) -> None:
        """Send a call, and have `answered` called once, later; with None: it may be done or not."""
        ...


class _Ending:
    """The markers of one transaction, under one epoch of its coordinator."""

    __slots__ = ("begun_ms", "errors", "is_forgotten", "is_reported", "left", "sender", "transaction")

    def __init__(self, sender: TransactionShard, transaction: Transaction) -> None:
        self.sender = sender
        self.transaction = transaction
        self.left = set(transaction.partitions)
        """Partitions that have no marker yet."""
        self.begun_ms: int | None = None
        """When its markers were first to be sent."""
        self.errors: dict[TopicPartition, ErrorCode] = {}
        """The last answers of leaders that have not written their markers."""
        self.is_reported = False
        self.is_forgotten = False

    def marker(self, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
        transaction = self.transaction
        topics: dict[str, WritableTxnMarkerTopic] = {}
        for topic, partition in sorted(partitions):
            topics.setdefault(topic, WritableTxnMarkerTopic(topic)).partition_indexes.append(partition)
        return WritableTxnMarker(
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.state is TransactionState.PREPARE_COMMIT,
            list(topics.values()),
            self.sender.leader_epoch,
            transaction.version,
        )


_Part = tuple[_Ending, list[TopicPartition]]
_Errors = dict[tuple[int, TopicPartition], ErrorCode]


class TransactionMarkerSender:
    def __init__(self, replicas: Replicas, peers: Peers) -> None:
        self._replicas = replicas
        self._peers = peers
        self._endings: dict[TransactionShard, dict[_Ending, None]] = {}
        self._queue: dict[_Ending, list[TopicPartition]] = {}
        """To be sent in the next step."""
        self._later: dict[_Ending, list[TopicPartition]] = {}
        """To be sent at `retry_ms`."""
        self.retry_ms: int | None = None
        self.problems: list[str] = []

    # --- see MarkerSender ---------------------------------------------------------------------------------------------

    def send_markers(self, sender: TransactionShard, transaction: Transaction) -> None:
        ending = _Ending(sender, transaction)
        self._endings.setdefault(sender, {})[ending] = None
        # Sorted: the order of the calls must not depend on how a process hashes strings.
        self._queue[ending] = sorted(transaction.partitions)

    def forget_sender(self, sender: TransactionShard) -> None:
        for ending in self._endings.pop(sender, {}):
            ending.is_forgotten = True

    # --- the turn -----------------------------------------------------------------------------------------------------

    @property
    def unwritten(self) -> int:
        """The number of transactions whose markers are not all written."""
        return sum(map(len, self._endings.values()))

    @property
    def has_work(self) -> bool:
        return bool(self._queue)

    def step(self, now_ms: int) -> None:
        """Send what is due, some markers in each step."""
        if self.retry_ms is not None and now_ms >= self.retry_ms:
            self.retry_ms = None
            later, self._later = self._later, {}
            for ending, partitions in later.items():
                self._queue.setdefault(ending, []).extend(partitions)
        if not self._queue:
            return
        by_leader: dict[int, list[_Part]] = {}
        count = 0
        while self._queue and count < MARKERS_PER_STEP:
            ending, partitions = next(iter(self._queue.items()))
            del self._queue[ending]
            if not ending.is_forgotten:
                count += len(partitions)
                with Guard(ending.sender.result, COORDINATOR_STATE):
                    self._route(ending, partitions, by_leader, now_ms)
        for node_id, parts in by_leader.items():
            for some in _calls(parts):
                self._send(node_id, some, now_ms)

    def _route(
        self, ending: _Ending, partitions: list[TopicPartition], by_leader: dict[int, list[_Part]], now_ms: int
    ) -> None:
        led: dict[int, list[TopicPartition]] = {}
        for each in partitions:
            led.setdefault(self._leader_of(each), []).append(each)
        for each in led.pop(NO_LEADER, []):
            if self._is_deleted(ending, each):
                ending.left.discard(each)
            else:
                self._send_later(ending, [each], now_ms)
        for leader_id, some in led.items():
            by_leader.setdefault(leader_id, []).append((ending, some))
        self._report_late(ending, now_ms)
        self._look_whether_written(ending)

    def _leader_of(self, partition: TopicPartition) -> int:
        """Return NO_LEADER while it has none, or this logstore knows of no such partition."""
        replicas = self._replicas
        topic = replicas.image.topics_by_name.get(partition.topic)
        return NO_LEADER if topic is None else replicas.newest_leader(topic.topic_id, partition.partition)[0]

    def _is_deleted(self, ending: _Ending, partition: TopicPartition) -> bool:
        led = (TRANSACTION_STATE_TOPIC, ending.sender.partition)
        return self._replicas.deletions.is_deleted(partition, led, ending.sender.leader_epoch)

    def _report_late(self, ending: _Ending, now_ms: int) -> None:
        if ending.begun_ms is None:
            ending.begun_ms = now_ms
        if ending.is_reported or not ending.left or now_ms - ending.begun_ms < UNDELIVERED_MS:
            return
        ending.is_reported = True
        partition = min(ending.left)
        error = ending.errors.get(partition)
        if self._leader_of(partition) == NO_LEADER:
            reason = "no leader of it is known here, nor that it is deleted"
        else:
            reason = "its leader does not answer" if error is None else f"its leader has answered {error.name}"
        self.problems.append(
            f"the end of a transaction of {ending.transaction.transactional_id} is not written after "
            f"{UNDELIVERED_MS // 1000} s in {len(ending.left)} partitions, one is {partition.topic}-"
            f"{partition.partition}: {reason}"
        )

    def _send(self, node_id: int, parts: list[_Part], now_ms: int) -> None:
        request = WriteTxnMarkersRequest([ending.marker(partitions) for ending, partitions in parts])
        body = encode_body(request, _VERSION)
        call = GroupCall(0, 0, ApiKey.WRITE_TXN_MARKERS, _VERSION, "", "", body)
        self._peers.call(node_id, call, partial(self._answered, parts, now_ms))

    def _answered(self, parts: list[_Part], sent_ms: int, answer: GroupAnswer | None) -> None:
        errors = {} if answer is None or answer.error_code or not answer.body else _errors_of(answer)
        for ending, partitions in parts:
            if ending.is_forgotten:
                continue
            with Guard(ending.sender.result, COORDINATOR_STATE):
                self._note_outcome(ending, partitions, errors, sent_ms)

    def _note_outcome(self, ending: _Ending, partitions: list[TopicPartition], errors: _Errors, sent_ms: int) -> None:
        producer_id = ending.transaction.producer_id
        outcome = {each: errors.get((producer_id, each), ErrorCode.UNKNOWN_SERVER_ERROR) for each in partitions}
        fenced = next((each for each, error in outcome.items() if error in _FENCED), None)
        if fenced is not None:
            self._give_up(ending, fenced, outcome[fenced])
            return
        ending.left.difference_update(each for each, error in outcome.items() if error in _OVER)
        unwritten = [each for each in partitions if each in ending.left]
        if unwritten:
            ending.errors.update({each: outcome[each] for each in unwritten if (producer_id, each) in errors})
            self._send_later(ending, unwritten, sent_ms)
        self._look_whether_written(ending)

    def _send_later(self, ending: _Ending, partitions: list[TopicPartition], now_ms: int) -> None:
        self._later.setdefault(ending, []).extend(partitions)
        if self.retry_ms is None:
            self.retry_ms = now_ms + RETRY_MS

    def _give_up(self, ending: _Ending, partition: TopicPartition, error: ErrorCode) -> None:
        ending.is_forgotten = True
        self._endings[ending.sender].pop(ending)
        self.problems.append(
            f"the end of a transaction of {ending.transaction.transactional_id} is not written: "
            f"{partition.topic}-{partition.partition} has answered {error.name}"
        )

    def _look_whether_written(self, ending: _Ending) -> None:
        if not ending.left and not ending.is_forgotten:
            ending.is_forgotten = True
            of_sender = self._endings[ending.sender]
            del of_sender[ending]
            if not of_sender:
                del self._endings[ending.sender]
            ending.sender.markers_written(ending.transaction)


def _calls(parts: list[_Part]) -> Iterator[list[_Part]]:
    """Distribute the markers for one leader over calls that are not too large."""
    call: list[_Part] = []
    count = 0
    for ending, partitions in parts:
        for first in range(0, len(partitions), MARKERS_PER_CALL):
            some = partitions[first : first + MARKERS_PER_CALL]
            if call and count + len(some) > MARKERS_PER_CALL:
                yield call
                call, count = [], 0
            call.append((ending, some))
            count += len(some)
    yield call


def _errors_of(answer: GroupAnswer) -> _Errors:
    try:
        response = decode_response_body(ApiKey.WRITE_TXN_MARKERS, _VERSION, memoryview(answer.body))
    except MalformedFrame:
        return {}
    assert isinstance(response, WriteTxnMarkersResponse)
    return {
        (of_producer.producer_id, TopicPartition(topic.name, each.partition_index)): ErrorCode(each.error_code)
        for of_producer in response.markers
        for topic in of_producer.topics
        for each in topic.partitions
    }
