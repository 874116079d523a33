"""A consumer asks for offsets by time (`offsetsForTimes`), and each answer is compared with the book.

The answer is the first committed record at or after the time. What was committed as the question was sent has to be
considered: the question names the leader epoch of that moment, so no leader of an earlier epoch may answer it, and a
later one knows everything committed before it or says that it does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_offsets import (
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.sim.scheduler import InvariantViolation

if TYPE_CHECKING:
    from tests.sim.clients.consumer import Consumer

VERSION = 7
"""The first one in which the largest timestamp can be asked for."""
MS_AROUND_MAX = 60


@dataclass(slots=True, frozen=True)
class _Question:
    topic: str
    topic_id: bytes
    partition: int
    timestamp_ms: int
    committed_end: int


class OffsetLookups:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.times: dict[tuple[str, int], int] = {}
        """By topic and partition: the timestamp of a record that was read there."""

    def ask(self) -> None:
        """Ask for one partition, for a time around that of a record that was read, or for the largest timestamp."""
        consumer, random = self._consumer, self._consumer.scheduler.random
        if not self.times:
            return
        key = random.choice(sorted(self.times))
        timestamp_ms = self.times[key] + random.choice((0, 0, 1, -1, random.randint(-MS_AROUND_MAX, MS_AROUND_MAX)))
        timestamp_ms = MAX_TIMESTAMP if random.random() < 0.2 else max(timestamp_ms, 0)
        ids = consumer.history.ids_of(key[0])
        leader_epoch = consumer.history.leader_epoch_of((ids[-1], key[1])) if ids else None
        if leader_epoch is None:
            return
        book = consumer.history.book_of((ids[-1], key[1]))
        question = _Question(key[0], ids[-1], key[1], timestamp_ms, book.end)
        asked = ListOffsetsTopic(key[0], [ListOffsetsPartition(key[1], leader_epoch, timestamp_ms)])

        def answered(response: ListOffsetsResponse | None) -> None:
            if response is not None:
                ((answer,),) = [topic.partitions for topic in response.topics]
                self._check(question, answer)

        request = ListOffsetsRequest(-1, consumer.taste.isolation_level, [asked])
        consumer.ask(ApiKey.LIST_OFFSETS, request, VERSION, ListOffsetsResponse, answered)

    def _check(self, question: _Question, answer: ListOffsetsPartitionResponse) -> None:
        history = self._consumer.history
        if answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR and not history.may_fail_internally:
            raise InvariantViolation(f"{self._consumer.name}: an internal error is the answer to {question}")
        if answer.error_code or history.may_jump(question.topic, question.partition):
            return
        history.counts.looked_up += 1
        partition = (question.topic_id, question.partition)
        book = history.book_of(partition)
        wanted_ms = question.timestamp_ms
        if wanted_ms == MAX_TIMESTAMP:
            # Without an answer: it may be a record that is not committed yet.
            wanted_ms = answer.timestamp if answer.offset >= 0 else 1 << 62
        what = f"{self._consumer.name}: I9: {question.topic}-{question.partition} at {question.timestamp_ms}"
        if answer.offset >= 0:
            timestamp_ms = book.timestamp_at(answer.offset)
            if timestamp_ms != answer.timestamp or timestamp_ms < wanted_ms:
                raise InvariantViolation(
                    f"{what}: offset {answer.offset} is of {timestamp_ms}, said {answer.timestamp}"
                )
        elif self._consumer.taste.isolation_level:
            return  # where the last stable offset is, the book does not say
        end = question.committed_end if answer.offset < 0 else min(answer.offset, book.end)
        for offset in book.offsets_from_time(wanted_ms, end):
            if not history.is_cleaned(partition, offset, offset + 1):
                raise InvariantViolation(f"{what}: offset {answer.offset} is the answer, but {offset} is before it")
