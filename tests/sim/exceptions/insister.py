"""A client that has logs with much to undo: it sends each batch more than once, writes records that look expired, and
has a topic come and go all the time.

What its requests come to is no matter.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import MESSAGES, Response
from barnabas.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from barnabas.wire.record_batch import HEADER_BYTES, Record, assemble_batch, build_batch, parse_header
from tests.sim.clients.client import Client, ClientEnvironment
from tests.sim.exceptions.questions import RETAINED, Question
from tests.sim.scheduler import MS

REPEATED: Final = "repeated"
OLD: Final = "old"
KEYED: Final = "keyed"
BRIEF: Final = "brief"
TOPICS: Final = (REPEATED, OLD, KEYED, BRIEF)
PARTITIONS: Final = 3
"""Of the repeated topic: each has one replica, which leads again when its logstore is back."""
INTERVAL_US: Final = 25 * MS
REFUSED_MAX: Final = 20
HOUR_MS: Final = 3_600_000
_CONFIGS: Final = {
    REPEATED: {"flush.messages": "1", "min.insync.replicas": "1"},
    KEYED: {
        "cleanup.policy": "compact",
        "max.compaction.lag.ms": "200",
        "segment.ms": "200",
        "min.insync.replicas": "1",
    },
}


class Insister(Client):
    def __init__(self, name: str, environment: ClientEnvironment) -> None:
        super().__init__(name, environment)
        self.is_stopping = False
        self._has_topics = False
        self._producer_id = -1
        self._sequences = [0] * PARTITIONS
        self._refused = 0
        """Batches in a row: after some of them it begins again, as another producer."""

    def work(self) -> None:
        if self.is_stopping:
            return
        if not self._has_topics:
            self._has_topics = True
            topics = [
                _topic(REPEATED, PARTITIONS, 1),
                CreatableTopic(OLD, 1, 2, configs=RETAINED),
                _topic(KEYED, 1, 2),
            ]
            self._ask(Question(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics, 5_000)))
        elif self._producer_id < 0:
            request = InitProducerIdRequest(None, 1_000)
            self.ask(ApiKey.INIT_PRODUCER_ID, request, 4, InitProducerIdResponse, self._has_producer_id)
        else:
            self.meanwhile(self.scheduler.below(2 * INTERVAL_US) + 1, "insists", self._insist)

    def _has_producer_id(self, response: InitProducerIdResponse | None) -> None:
        if response is not None:
            if not response.error_code:
                self._producer_id = response.producer_id
                self._sequences = [0] * PARTITIONS
            self.meanwhile(INTERVAL_US, "goes on", self.work)

    def _insist(self) -> None:
        match self.scheduler.below(8):
            case 0:
                self._ask(_produce(OLD, 0, self._old_batch()))
            case 1:
                self._ask(_produce(KEYED, 0, build_batch([Record(b"k", b"v", self.wall_ms)])))
            case 2:
                brief = CreatableTopic(BRIEF, 2, 2)
                self._ask(Question(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([brief], 2_000)))
            case 3:
                request = DeleteTopicsRequest([DeleteTopicState(BRIEF)], timeout_ms=2_000)
                self._ask(Question(ApiKey.DELETE_TOPICS, 6, request))
            case _:
                self._repeat(self.scheduler.below(PARTITIONS))

    def _old_batch(self) -> bytes:
        """By its header it has expired; of some the records can't be read, which no leader looks at."""
        batch = build_batch([Record(b"k", b"v", self.wall_ms - HOUR_MS)])
        if self.scheduler.below(2):
            return batch
        return assemble_batch(parse_header(batch), bytes([0xFF]) * (len(batch) - HEADER_BYTES))

    def _repeat(self, partition: int) -> None:
        """Send the next batch twice at once, and the one before it once more."""
        sequence = self._sequences[partition]
        before = [sequence - 1] * (sequence > 0)
        sent = [*before, sequence, sequence]
        left = len(sent)

        def answered(sequence: int, response: ProduceResponse | None) -> None:
            nonlocal left
            left -= 1
            if response is None:
                return
            code = response.responses[0].partition_responses[0].error_code
            if sequence == self._sequences[partition]:
                self._advance(partition, is_taken=code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
            if left == 0:
                self.work()

        for each in sent:
            batch = build_batch(
                [Record(None, b"%d" % each, self.wall_ms)],
                producer_id=self._producer_id,
                producer_epoch=0,
                base_sequence=each,
            )
            question = _produce(REPEATED, partition, batch)
            self.ask(question.api_key, question.request, question.version, ProduceResponse, partial(answered, each))

    def _advance(self, partition: int, *, is_taken: bool) -> None:
        self._refused = 0 if is_taken else self._refused + 1
        if is_taken:
            self._sequences[partition] += 1
        elif self._refused > REFUSED_MAX:
            self._refused = 0
            self._producer_id = -1

    def _ask(self, question: Question) -> None:
        response_type: type[Response] = MESSAGES[question.api_key][1]
        self.ask(question.api_key, question.request, question.version, response_type, self._answered)

    def _answered(self, response: Response | None) -> None:
        if response is not None:
            self.work()


def _topic(name: str, partitions: int, replication_factor: int) -> CreatableTopic:
    configs = [CreatableTopicConfig(key, value) for key, value in _CONFIGS[name].items()]
    return CreatableTopic(name, partitions, replication_factor, configs=configs)


def _produce(topic: str, partition: int, batch: bytes) -> Question:
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])]
    return Question(ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 4_000, data))
