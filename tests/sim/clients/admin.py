"""Makes topics, and repeats itself until they are there."""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.sim.clients.client import Client, ClientEnvironment
from tests.sim.scheduler import MS, InvariantViolation
from tests.sim.topology import TopicShape

TIMEOUT_MS = 5_000


def creatable(topic: str, shape: TopicShape) -> CreatableTopic:
    configs = [CreatableTopicConfig(key, value) for key, value in shape.configs.items()]
    return CreatableTopic(topic, shape.partitions, shape.replication_factor, [], configs)


class Admin(Client):
    def __init__(
        self,
        name: str,
        environment: ClientEnvironment,
        topics: dict[str, TopicShape],
    ) -> None:
        super().__init__(name, environment)
        self._wanted = dict(topics)

    @property
    def is_done(self) -> bool:
        return not self._wanted

    def work(self) -> None:
        if self.is_done:
            return
        topics = [creatable(topic, shape) for topic, shape in self._wanted.items()]
        request = CreateTopicsRequest(topics, TIMEOUT_MS)
        self.ask(ApiKey.CREATE_TOPICS, request, 7, CreateTopicsResponse, self._answered)

    def _answered(self, response: CreateTopicsResponse | None) -> None:
        if response is None:
            return
        for topic in response.topics:
            match topic.error_code:
                case ErrorCode.NONE | ErrorCode.TOPIC_ALREADY_EXISTS:
                    if self._wanted.pop(topic.name, None) is not None:
                        self.history.counts.admin += 1
                case ErrorCode.REQUEST_TIMED_OUT | ErrorCode.INVALID_REPLICATION_FACTOR | ErrorCode.NOT_CONTROLLER:
                    pass  # No logstore yet, or no controller: asked again.
                case _:
                    raise InvariantViolation(f"{topic.name}: {ErrorCode(topic.error_code).name} {topic.error_message}")
        self.meanwhile(200 * MS, "asks again", self.work)
