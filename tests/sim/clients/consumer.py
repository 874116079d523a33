"""A consumer of assigned partitions: long polls, every record checked against what all others have seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.markers import ABORT, control_type_of
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from barnabas.wire.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.primitives import Buffer
from barnabas.wire.record_batch import HEADER_BYTES, BatchHeader, crc_is_valid, decode_payload, iterate_headers
from tests.sim.clients.client import UNKNOWN_TOPIC, Client, ClientEnvironment
from tests.sim.clients.offset_lookups import OffsetLookups
from tests.sim.scheduler import MS, InvariantViolation
from tests.sim.transactions.history import Poll

TOPIC_ID_VERSION = 13
LIST_OFFSETS_VERSION = 6
PARTITION_BYTES_MAX = 64 * 1024
LOOKUPS = 0.1
"""Of the fetches, so many are preceded by a question for an offset by time."""
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


@dataclass(slots=True)
class Taste:
    version: int
    max_wait_ms: int
    min_bytes: int
    isolation_level: int
    uses_sessions: bool = False


class Consumer(Client):
    partition_bytes_max = PARTITION_BYTES_MAX

    def __init__(
        self,
        name: str,
        environment: ClientEnvironment,
        topics: dict[str, int],
        taste: Taste,
    ) -> None:
        super().__init__(name, environment)
        self.topics = topics
        self.taste = taste
        self.is_stopping = False
        # By topic and partition: the next offset to read, and the log's end as seen with it.
        self.positions: dict[tuple[str, int], int] = {}
        self.high_watermarks: dict[tuple[str, int], int] = {}
        # The fetch session (KIP-227): its id, the epoch of the next request, and the positions that it has.
        self._session_id = 0
        self._session_epoch = FINAL_EPOCH
        self._in_session: dict[tuple[str, int], int] = {}
        # Who follows transactions: hears of each record that was read_committed, and whether it was given or left out.
        self.transactions = environment.read_committed
        self.polled = environment.polled
        self._lookups = OffsetLookups(self)

    def boot(self) -> None:
        self.positions.clear()
        self.high_watermarks.clear()
        self.leave_session()
        super().boot()

    @property
    def wanted(self) -> list[tuple[str, int]]:
        """The partitions that it reads."""
        return [(topic, partition) for topic, count in self.topics.items() for partition in range(count)]

    def has_read(self, key: tuple[str, int], begin: int, end: int) -> None:
        """These records, as they are in the log."""

    def given(self, key: tuple[str, int], offset: int, value: bytes) -> None:
        """The application gets this record."""

    def leave_session(self) -> None:
        """The next fetch names everything; it closes the session, if there is one."""
        self._session_epoch = INITIAL_EPOCH if self.taste.uses_sessions else FINAL_EPOCH
        self._in_session = {}

    def has_caught_up(self) -> bool:
        """It has read everything that was committed when it last looked, everywhere."""
        return all(
            key in self.high_watermarks and self.positions.get(key, -1) >= self.high_watermarks[key]
            for key in self.wanted
        )

    def work(self) -> None:
        self.learn_topics(list(self.topics), self.read)

    # --- where to begin ----------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Go on reading, if the position is unknown from the log's start; it continues automatically then."""
        unknown = [key for key in self.wanted if key not in self.positions]
        if not unknown:
            if self.scheduler.random.random() < LOOKUPS:
                self._lookups.ask()
            self._fetch()
            return
        topics = [
            ListOffsetsTopic(
                topic, [ListOffsetsPartition(each[1], -1, EARLIEST_TIMESTAMP) for each in unknown if each[0] == topic]
            )
            for topic in sorted({each[0] for each in unknown})
        ]

        def answered(response: ListOffsetsResponse | None) -> None:
            if response is None:
                return
            for topic in response.topics:
                for partition in topic.partitions:
                    if partition.error_code == 0:
                        self.positions[topic.name, partition.partition_index] = partition.offset
            self.meanwhile(20 * MS, "goes on", self.read)

        self.ask(
            ApiKey.LIST_OFFSETS,
            ListOffsetsRequest(-1, self.taste.isolation_level, topics),
            LIST_OFFSETS_VERSION,
            ListOffsetsResponse,
            answered,
        )

    # --- fetching ----------------------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        if self.is_stopping:
            return
        self.history.counts.fetches += 1
        self._ask_for_records(self._fetched)
        if self.scheduler.random.random() < 0.1:
            # The same again right behind it: fetches overlap, their answers keep the order. In a session the second
            # overtakes the first.
            self._ask_for_records(self._look_at)

    def _ask_for_records(self, answered: Callable[[FetchResponse | None], object]) -> None:
        taste = self.taste
        has_ids, bytes_max = taste.version >= TOPIC_ID_VERSION, self.partition_bytes_max
        changed = {key: position for key, position in self.positions.items() if self._in_session.get(key) != position}
        topics = [
            FetchTopic(
                "" if has_ids else topic,
                self.topic_ids[topic] if has_ids else bytes(16),
                [
                    FetchPartition(partition, -1, changed[topic, partition], -1, -1, bytes_max, bytes(16))
                    for partition in range(count)
                    if (topic, partition) in changed
                ],
            )
            for topic, count in self.topics.items()
        ]
        request = FetchRequest(
            max_wait_ms=taste.max_wait_ms,
            min_bytes=taste.min_bytes,
            isolation_level=taste.isolation_level,
            topics=topics,
            replica_id=-1,
            replica_state=None,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            forgotten_topics_data=[],
            rack_id="",
        )
        named = dict(self.positions)

        def on_response(response: FetchResponse | None) -> None:
            """Without room for a session the id is 0, and the next fetch is a full one too."""
            if response is not None and request.session_epoch == INITIAL_EPOCH and response.session_id:
                self._session_id, self._session_epoch = response.session_id, INITIAL_EPOCH + 1
                self._in_session = named
            answered(response)

        if self._session_epoch > INITIAL_EPOCH:
            self._session_epoch += 1
            self._in_session = named
        self.ask(ApiKey.FETCH, request, taste.version, FetchResponse, on_response)

    def connection_lost(self) -> None:
        self.leave_session()

    def _fetched(self, response: FetchResponse | None) -> None:
        if response is not None:
            delay_us = self.scheduler.random.randrange(1, 3 * MS) + (50 * MS if self._look_at(response) else 0)
            self.meanwhile(delay_us, "fetches on", self.read)

    def _look_at(self, response: FetchResponse | None) -> bool:
        """Take what is there; True when some partition failed."""
        if response is None:
            return False
        if response.error_code in SESSION_ERRORS and self.taste.uses_sessions:
            self.leave_session()
            return False
        if self.fails_internally(response.error_code):
            self.leave_session()
            return True
        if response.error_code:
            raise InvariantViolation(f"{self.name}: a whole fetch failed with {ErrorCode(response.error_code).name}")
        has_failed = False
        self.history.counts.operations += any(each.records for topic in response.responses for each in topic.partitions)
        for topic in response.responses:
            topic_name = topic.topic or self.topic_names[topic.topic_id]
            for partition in topic.partitions:
                if (topic_name, partition.partition_index) not in self.positions:
                    continue  # the previous answer made it start over
                if partition.error_code:
                    has_failed = True
                    self._failed(topic_name, partition)
                else:
                    self._take(topic_name, partition)
        return has_failed

    def _failed(self, topic: str, partition: PartitionData) -> None:
        key = (topic, partition.partition_index)
        if partition.error_code in UNKNOWN_TOPIC:
            self.leave_session()
            self.learn_again(list(self.topics))
        elif partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if not self.history.may_jump(*key):
                raise InvariantViolation(f"{self.name}: {topic}-{key[1]} has no offset {self.positions[key]} any more")
            del self.positions[key]

    def topic_is_another(self, topic: str) -> None:
        """It is read from its begin."""
        for key in [key for key in self.positions if key[0] == topic]:
            del self.positions[key]
        self.leave_session()

    def _take(self, topic: str, partition: PartitionData) -> None:
        key = (topic, partition.partition_index)
        position = self.positions[key]
        records = partition.records or b""
        aborted = AbortedTransactions(partition) if self.taste.isolation_level else None
        given: list[tuple[int, bytes]] = []
        for start, header in iterate_headers(records):
            if not crc_is_valid(records, start):
                raise InvariantViolation(f"{topic}-{key[1]} at {header.base_offset}: a wrong CRC reached a consumer")
            batch = records[start + HEADER_BYTES : start + header.size_bytes]
            is_aborted = aborted is not None and aborted.has(header, batch)
            for record in decode_payload(header, batch):
                if record.offset < position:
                    continue
                if record.offset != position and not self.history.may_be_cleaned(*key, position, record.offset):
                    raise InvariantViolation(f"{topic}-{key[1]}: offset {record.offset} follows {position - 1}")
                position = record.offset + 1
                if header.is_control:
                    continue
                assert record.value is not None
                self._lookups.times[key] = record.timestamp_ms
                self.history.consumed(*key, record.offset, record.value)
                if aborted is not None and header.is_transactional:
                    self.transactions(key, record.offset, record.value, is_aborted)
                if not is_aborted:
                    given.append((record.offset, record.value))
                    self.given(key, record.offset, record.value)
            if position < header.next_offset and self.history.may_be_cleaned(*key, position, header.next_offset):
                position = header.next_offset
        if given and aborted is not None:
            self.polled(Poll(self.name, key, self.positions[key], given))
        if position > self.positions[key]:
            self.has_read(key, self.positions[key], position)
        if self.positions[key] < position > partition.high_watermark:
            raise InvariantViolation(
                f"{topic}-{key[1]}: offset {position - 1} was read at a high watermark of {partition.high_watermark}"
            )
        end = partition.last_stable_offset if self.taste.isolation_level else partition.high_watermark
        if self.positions[key] < position > end:
            raise InvariantViolation(
                f"{topic}-{key[1]}: offset {position - 1} was read at a last stable offset of {end}"
            )
        self.positions[key] = position
        self.high_watermarks[key] = end


class AbortedTransactions:
    """Which batches of an answer a read_committed consumer leaves out: Kafka's `CompletedFetch`."""

    def __init__(self, partition: PartitionData) -> None:
        aborted = partition.aborted_transactions or []
        offsets = [each.first_offset for each in aborted]
        if offsets != sorted(offsets):
            # Clients that go through the list once would give aborted records to the application.
            raise InvariantViolation(f"aborted transactions are in the order {offsets}")
        self._later = deque(aborted)
        self._producer_ids: set[int] = set()
        """Of which an aborted transaction is being read."""

    def has(self, header: BatchHeader, payload: Buffer) -> bool:
        """To be asked of every batch, in their order."""
        while self._later and self._later[0].first_offset < header.next_offset:
            self._producer_ids.add(self._later.popleft().producer_id)
        if header.is_control:
            record = next(iter(decode_payload(header, payload)), None)
            if record is not None and control_type_of(record.key) == ABORT:
                self._producer_ids.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._producer_ids
