"""Markers of transactions (WriteTxnMarkers) for the partitions that this logstore leads.

A coordinator of transactions sends them, or an operator who ends a hanging transaction. Each is appended behind what
its partition has, and a call is answered when all its markers are committed, or have failed. A marker on
`__consumer_offsets` also ends what its producer has pending there, so it goes through the coordinator of groups, whose
records stay in the order of their log.

Some markers are appended per step, those of one call after those of the other. A sender that was not answered sends its
markers again: one more in a log changes nothing.

Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR,
INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED. After NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR and
UNKNOWN_SERVER_ERROR the marker may be in the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from barnabas.channel.messages import GroupAnswer, GroupCall
from barnabas.cluster.internal_topics import OFFSETS_TOPIC
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import UnsupportedVersion, decode_request, encode_body
from barnabas.wire.errors import ErrorCode, Refused
from barnabas.wire.markers import Marker, TransactionEnd
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.wire.primitives import MalformedFrame
from barnabas_logstore.core.data.appends import Appends
from barnabas_logstore.core.replica.containment import MARKER
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.streams.watches import Watches

MARKERS_PER_STEP: Final = 200
_ALL_REPLICAS: Final = -1


class OffsetTransactions(Protocol):
    """The coordinator of groups, which has the pending offsets of transactions."""

    def append_marker(self, partition: int, ended: TransactionEnd) -> int | Refused:
        """Append the marker to that partition of `__consumer_offsets`, and commit or drop what is pending; return the
        high watermark that commits it.
        """
        ...


class _Call:
    """A call of which not everything is known yet."""

    __slots__ = ("answer", "api_version", "open_markers", "request_id", "stream_id")

    def __init__(self, stream_id: int, call: GroupCall) -> None:
        self.stream_id = stream_id
        self.request_id = call.request_id
        self.api_version = call.api_version
        self.answer = WriteTxnMarkersResponse()
        self.open_markers = 1
        """Markers that are not committed, and one until all are appended."""


class _Appended:
    """A marker in the log, waiting to be committed."""

    __slots__ = ("call", "leader_epoch", "required_offset", "result")

    def __init__(
        self, call: _Call, result: WritableTxnMarkerPartitionResult, leader_epoch: int, required_offset: int
    ) -> None:
        self.call = call
        self.result = result
        self.leader_epoch = leader_epoch
        self.required_offset = required_offset


class TransactionMarkers:
    def __init__(self, replicas: Replicas, appends: Appends, watches: Watches, offsets: OffsetTransactions) -> None:
        self._replicas = replicas
        self._appends = appends
        self._watches = watches
        self._offsets = offsets
        self._to_append: deque[Iterator[None]] = deque()
        self._appended: dict[Partition, deque[_Appended]] = {}
        """In the order of their offsets."""
        self._answers: list[tuple[int, GroupAnswer]] = []
        self._wall_ms = 0

    def on_call(self, stream_id: int, call: GroupCall) -> None:
        """Process a WriteTxnMarkers, whose partition field says nothing."""
        try:
            request = decode_request(call.api_key, call.api_version, memoryview(call.body), 0)
        except (MalformedFrame, UnsupportedVersion):
            self._answers.append((stream_id, GroupAnswer(call.request_id, ErrorCode.INVALID_REQUEST)))
            return
        assert isinstance(request, WriteTxnMarkersRequest), f"{ApiKey(call.api_key).name} is for a coordinator"
        self._to_append.append(self._append_all(_Call(stream_id, call), request))

    @property
    def has_work(self) -> bool:
        """Whether markers wait to be appended."""
        return bool(self._to_append)

    def step(self, wall_ms: int) -> None:
        """Append some markers. Leadership and disks are looked at first: no later append is taken for one that was
        rolled back.
        """
        self._wall_ms = wall_ms
        self.settle()
        for _ in range(MARKERS_PER_STEP):
            if not self._to_append:
                return
            if next(self._to_append[0], self) is self:
                self._to_append.popleft()

    def _append_all(self, call: _Call, request: WriteTxnMarkersRequest) -> Iterator[None]:
        for marker in request.markers:
            ended = TransactionEnd(
                marker.producer_id,
                marker.producer_epoch,
                Marker(marker.transaction_result, marker.coordinator_epoch),
                marker.transaction_version,
            )
            of_producer = WritableTxnMarkerResult(marker.producer_id)
            call.answer.markers.append(of_producer)
            for topic in marker.topics:
                of_topic = WritableTxnMarkerTopicResult(topic.name)
                of_producer.topics.append(of_topic)
                for index in topic.partition_indexes:
                    of_topic.partitions.append(self._append(call, topic.name, index, ended))
                    yield
        self._closed(call)

    def _append(self, call: _Call, topic: str, index: int, ended: TransactionEnd) -> WritableTxnMarkerPartitionResult:
        result = WritableTxnMarkerPartitionResult(index)
        partition = self._replicas.by_name.get((topic, index))
        if partition is None:
            result.error_code = self._error_of_absent(topic, index)
            return result
        try:
            outcome = self._append_to(partition, ended)
        except Exception as error:
            # The sender sends it again: one more in a log changes nothing.
            outcome = Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
            self._replicas.contained.contain(MARKER, error, {"topic": topic, "partition": index})
        if isinstance(outcome, Refused):
            result.error_code = outcome.error_code
        elif outcome > partition.high_watermark:
            appended = _Appended(call, result, partition.leader_epoch, outcome)
            self._appended.setdefault(partition, deque()).append(appended)
            partition.awaits_markers = True
            call.open_markers += 1
        return result

    def _error_of_absent(self, topic: str, index: int) -> ErrorCode:
        metadata = self._replicas.image.topics_by_name.get(topic)
        if metadata is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self._replicas.error_of_absent(metadata.topic_id, index)

    def _append_to(self, partition: Partition, ended: TransactionEnd) -> int | Refused:
        if partition.topic == OFFSETS_TOPIC:
            return self._offsets.append_marker(partition.partition, ended)
        error = partition.check_append(partition.leader_epoch, _ALL_REPLICAS)
        if error:
            return Refused(error)
        return self._appends.append_marker(partition, ended, self._wall_ms)

    @property
    def is_awaited(self) -> bool:
        """Whether a coordinator waits for an answer about markers that have been appended, or could not be."""
        return bool(self._appended or self._answers)

    def settle(self) -> None:
        """Answer what is committed by now, and what will not be here."""
        changed = self._watches.take_marked()
        for partition in changed:
            self._settle(partition)

    def _settle(self, partition: Partition) -> None:
        waiting = self._appended.get(partition)
        while waiting:
            error = _fate_of(partition, waiting[0])
            if error is None:
                return
            appended = waiting.popleft()
            appended.result.error_code = error
            self._closed(appended.call)
        partition.awaits_markers = False
        self._appended.pop(partition, None)

    def _closed(self, call: _Call) -> None:
        call.open_markers -= 1
        if not call.open_markers:
            body = encode_body(call.answer, call.api_version)
            self._answers.append((call.stream_id, GroupAnswer(call.request_id, body=body)))

    def take_answers(self) -> list[tuple[int, GroupAnswer]]:
        """Return the answers by stream id."""
        answers, self._answers = self._answers, []
        return answers


def _fate_of(partition: Partition, appended: _Appended) -> ErrorCode | None:
    """Return NONE for a marker that is committed, None while it is not known."""
    if not partition.online:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if not partition.leading or partition.led_since_epoch > appended.leader_epoch:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if partition.log.next_offset < appended.required_offset:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE if partition.high_watermark >= appended.required_offset else None
