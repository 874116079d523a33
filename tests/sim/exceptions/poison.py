"""A poisonous request: a place raises at everything that has to do with it, and clients send it again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages import MESSAGES, Response
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.record_batch import Record, build_batch
from tests.sim.clients.client import Client, ClientEnvironment
from tests.sim.exceptions.questions import Question
from tests.sim.process import WALL_START_MS
from tests.sim.scheduler import MS

POISON = "poison"
"""The topic, and the prefix of the clients' names."""
CLIENTS = 3
INTERVAL_US = 30 * MS
# Where a request, or what becomes of it, says whose it is.
_TELLING = (
    "client_id",
    "header",
    "topic",
    "name",
    "topic_id",
    "topic_name",
    "request",
    "append",
    "partitions",
    "conditions",
)
_DEPTH_MAX = 3


class Poisoner(Client):
    def __init__(self, name: str, environment: ClientEnvironment) -> None:
        super().__init__(name, environment)
        self.is_stopping = False
        self.asked = 0
        self._has_topic = False

    def work(self) -> None:
        if self.is_stopping:
            return
        if not self._has_topic:
            self._has_topic = True
            self._ask(Question(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(POISON, 1, 3)], 5_000)))
        else:
            self.meanwhile(self.scheduler.below(2 * INTERVAL_US) + 1, "poisons", self._poison)

    def _poison(self) -> None:
        self.asked += 1
        self._ask(self.scheduler.random.choice(_REQUESTS))

    def _ask(self, question: Question) -> None:
        response_type: type[Response] = MESSAGES[question.api_key][1]
        self.ask(question.api_key, question.request, question.version, response_type, self._answered)

    def _answered(self, response: Response | None) -> None:
        if response is not None:
            self.work()


_BATCH = build_batch([Record(None, b"poison", WALL_START_MS)])
_REQUESTS = (
    Question(
        ApiKey.PRODUCE,
        9,
        ProduceRequest(None, -1, 4_000, [TopicProduceData(POISON, partition_data=[PartitionProduceData(0, _BATCH)])]),
    ),
    Question(
        ApiKey.FETCH,
        12,
        FetchRequest(
            max_wait_ms=50,
            min_bytes=1 << 20,
            max_bytes=1 << 20,
            topics=[FetchTopic(POISON, partitions=[FetchPartition(0)])],
        ),
    ),
    Question(
        ApiKey.LIST_OFFSETS,
        7,
        ListOffsetsRequest(-1, 0, [ListOffsetsTopic(POISON, [ListOffsetsPartition(0, timestamp=0)])]),
    ),
)


def poisoned_by(topic_ids: Callable[[], list[bytes]]) -> Callable[[tuple[Any, ...]], bool]:
    """Return whether the arguments of a call have to do with poison. `topic_ids` are those of its topic."""

    def is_poison(value: object, depth: int) -> bool:
        if isinstance(value, str):
            return value.startswith(POISON)
        if isinstance(value, bytes):
            return len(value) == 16 and value in topic_ids()
        if depth == 0 or value is None or isinstance(value, (int, memoryview)):
            return False
        if isinstance(value, (list, tuple)):
            return any(is_poison(each, depth - 1) for each in value[:4])
        return any(is_poison(getattr(value, name, None), depth - 1) for name in _TELLING)

    return lambda arguments: any(is_poison(each, _DEPTH_MAX) for each in arguments[1:])
