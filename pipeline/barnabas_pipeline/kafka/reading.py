"""Read one range of one partition from its leader into Arrow.

The next fetch is in flight while the previous one is processed: its offset is known from the headers of the batches.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

from barnabas.client.kafka_connection import ConnectionBroken, KafkaConnection
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from barnabas.wire.record_batch import BatchHeader
from barnabas_pipeline.core.cluster import topic_id_bytes
from barnabas_pipeline.core.errors import CorruptBatch, TopicMissing
from barnabas_pipeline.core.losses import Loss, LossReason
from barnabas_pipeline.core.ranges import OffsetRange
from barnabas_pipeline.core.settings import Isolation
from barnabas_pipeline.kafka.batches import AbortedProducers, open_batches, whole_batches
from barnabas_pipeline.kafka.cluster_client import EARLIEST, ClusterClient, Retry
from barnabas_pipeline.kafka.columns import to_record_batches

log = logging.getLogger(__name__)

OnLoss = Callable[[Loss], None]
"""Called when records of the range are gone: raise, or return and have the rest read."""

_VERSION_WITH_NAMES: Final = 12
_VERSION_WITH_IDS: Final = 17
_NO_SESSION: Final = -1
_GONE_AFTER: Final = 5
"""This many answers in a row without the topic: a single one may come from a broker that does not know it yet."""
_OTHER_TOPIC: Final = (
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


def read_range(
    client: ClusterClient, wanted: OffsetRange, on_loss: OnLoss, *, with_headers: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range in order, each once, in one or more record batches per fetch, none of them empty.

    Raises what `on_loss` raises, CorruptBatch, ClusterUnreachable, RequestRefused. Control records and aborted ones are
    left out, and compacted ones are missing: the range is done when offset `end` is reached, however few records there
    were.
    """
    reader = _RangeReader(client, wanted, on_loss)
    while (fetched := reader.next()) is not None:
        for payloads in open_batches(
            wanted.topic_partition,
            fetched.data,
            fetched.batches,
            fetched.aborted,
            check_crcs=client.settings.check_crcs,
        ):
            yield from to_record_batches(
                wanted.topic_partition, payloads, fetched.start, wanted.end, with_headers=with_headers
            )


class _Fetched:
    """Complete batches of one answer; records before `start` in the first of them were not requested."""

    __slots__ = ("aborted", "batches", "data", "start")

    def __init__(self, start: int, part: PartitionData, batches: list[tuple[int, BatchHeader]]) -> None:
        assert part.records is not None
        self.start = start
        self.data = part.records
        self.batches = batches
        self.aborted = AbortedProducers(part.aborted_transactions)


class _RangeReader:
    """Fetches along a range, one request ahead of its reader."""

    def __init__(self, client: ClusterClient, wanted: OffsetRange, on_loss: OnLoss) -> None:
        self._client = client
        self._range = wanted
        self._on_loss = on_loss
        self._position = wanted.start
        self._asked: KafkaConnection | None = None
        self._waiting_since: float | None = None
        self._absent = 0
        self._bytes_max = client.settings.fetch_bytes_max

    def next(self) -> _Fetched | None:
        """Return the next batches; None at the end of the range."""
        while self._position < self._range.end:
            try:
                part = self._client.retrying(f"Fetch of {self._range.topic_partition}", self._attempt)
            except TopicMissing:
                self._meet_absence()
                continue
            match part.error_code:
                case ErrorCode.NONE:
                    fetched = self._take(part)
                    if fetched is not None:
                        return fetched
                case ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._skip_what_is_gone(part)
                case _:
                    self._look_for_another_topic()
        return None

    def _attempt(self) -> PartitionData:
        """Get one answer; an error in it that is not temporary is passed on."""
        try:
            if self._asked is None:
                self._ask()
            assert self._asked is not None
            response = self._asked.receive(FetchResponse)
        finally:
            self._asked = None
        self._client.check(response.error_code, "Fetch")
        if not response.responses:
            time.sleep(response.throttle_time_ms / 1000)
            raise Retry("the cluster answers with no partition, as it does to a client over its quota")
        part = response.responses[0].partitions[0]
        if part.error_code in _OTHER_TOPIC:
            self._look_for_topic()
        elif part.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            self._client.check(part.error_code, f"Fetch of {self._range.topic_partition}")
        return part

    def _ask(self) -> None:
        settings = self._client.settings
        wanted = self._range
        connection = self._client.leader(wanted.topic_partition)
        is_by_id = bool(wanted.topic_id) and connection.version_of(ApiKey.FETCH) > _VERSION_WITH_NAMES
        partition = FetchPartition(wanted.partition, -1, self._position, partition_max_bytes=self._bytes_max)
        topic = FetchTopic(wanted.topic, topic_id_bytes(wanted.topic_id), [partition])
        request = FetchRequest(
            max_wait_ms=settings.fetch_wait_ms_max,
            min_bytes=1,
            max_bytes=self._bytes_max,
            isolation_level=settings.isolation,
            session_epoch=_NO_SESSION,
            topics=[topic],
        )
        connection.send(request, _VERSION_WITH_IDS if is_by_id else _VERSION_WITH_NAMES)
        self._asked = connection

    def _take(self, part: PartitionData) -> _Fetched | None:
        """Return what the answer contains, if anything; advance, and request what follows."""
        start = self._position
        batches = whole_batches(self._range.topic_partition, part.records or b"")
        if not batches:
            if part.records:
                raise CorruptBatch(
                    f"{self._range.topic_partition}: the batch at offset {start} is longer than what the cluster sends "
                    f"of it, {len(part.records)} bytes"
                )
            self._wait_for_more(part)
            return None
        self._position = self._check_order(start, [header for _, header in batches])
        self._waiting_since, self._absent = None, 0
        if self._position < self._range.end:
            try:
                self._ask()
            except (Retry, ConnectionBroken, TopicMissing):
                # The next attempt repeats the request, and handles it.
                self._asked = None
        return _Fetched(start, part, [each for each in batches if each[1].base_offset < self._range.end])

    def _check_order(self, start: int, headers: list[BatchHeader]) -> int:
        """Return the offset after the last batch. The CRC does not cover a base offset: a corrupt one shows only in the
        order of the batches. The first one may begin before `start`."""
        expected = start
        for index, header in enumerate(headers):
            if header.last_offset < expected or (index and header.base_offset < expected):
                raise CorruptBatch(
                    f"{self._range.topic_partition}: a batch of offsets {header.base_offset} to {header.last_offset} "
                    f"lies where offset {expected} or a later one has to follow"
                )
            expected = header.next_offset
        return expected

    def _skip_what_is_gone(self, part: PartitionData) -> None:
        partition = self._range.topic_partition
        earliest = self._client.offsets({partition: EARLIEST})[partition].offset
        if earliest > self._position:
            self._lose_up_to(min(earliest, self._range.end), LossReason.RETENTION)
        else:
            time.sleep(self._client.settings.retry_backoff_ms / 1000)
            self._wait_for_more(part)

    def _wait_for_more(self, part: PartitionData) -> None:
        """The log ends before the range does. At a failover that is temporary, since a new leader's high watermark
        lags; what an unclean election has removed never comes back."""
        now = time.monotonic()
        if self._waiting_since is None:
            log.info("%s ends before the range %s for now", self._range.topic_partition, self._range)
            self._waiting_since = now
        if now - self._waiting_since <= self._client.settings.api_timeout_ms / 1000:
            return
        if part.error_code == ErrorCode.NONE and self._readable_end(part) >= self._range.end:
            # The log reaches that far, and has no record there: compaction has left a gap at its end.
            self._position = self._range.end
        else:
            self._lose_up_to(self._range.end, LossReason.TRUNCATED)

    def _readable_end(self, part: PartitionData) -> int:
        is_committed_only = self._client.settings.isolation is Isolation.READ_COMMITTED
        return part.last_stable_offset if is_committed_only else part.high_watermark

    def _look_for_another_topic(self) -> None:
        topic = self._client.topics([self._range.topic]).get(self._range.topic)
        if topic is None:
            self._meet_absence()
        elif topic.topic_id != self._range.topic_id or self._range.partition not in topic.leaders:
            self._lose_up_to(self._range.end, LossReason.RECREATED)
        # Otherwise it exists: the broker that answered before did not know it yet.

    def _meet_absence(self) -> None:
        """One answer says that the topic does not exist."""
        self._absent += 1
        if self._absent >= _GONE_AFTER:
            self._lose_up_to(self._range.end, LossReason.DELETED)
        else:
            self._client.ask_another()
            time.sleep(self._client.settings.retry_backoff_max_ms / 1000)

    def _lose_up_to(self, end: int, reason: LossReason) -> None:
        self._on_loss(Loss(self._range.topic, self._range.topic_id, self._range.partition, self._position, end, reason))
        self._position, self._waiting_since = end, None

    def _look_for_topic(self) -> None:
        """Raises Retry while the topic with the range's id exists: then its leader does not know it yet."""
        self._client.forget(self._range.topic)
        topic = self._client.topics([self._range.topic]).get(self._range.topic)
        if topic is not None and topic.topic_id == self._range.topic_id and self._range.partition in topic.leaders:
            raise Retry(f"{self._range.topic_partition} is unknown to its leader yet")
