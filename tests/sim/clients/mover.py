"""An administrator that moves leaders: it rotates the replicas of every partition by one, and has the preferred ones
elected.

Replicas stay where they are; each turn another one comes first, and leads. One request at a time, whatever becomes of
it.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.sim.clients.admin import TIMEOUT_MS
from tests.sim.clients.client import METADATA_VERSION, Client, ClientEnvironment

_PREFERRED = 0


class Mover(Client):
    """`interval_us` 0: it only watches."""

    def __init__(
        self,
        name: str,
        environment: ClientEnvironment,
        topics: dict[str, int],
        interval_us: int,
    ) -> None:
        super().__init__(name, environment)
        self._topics = topics
        self._interval_us = interval_us
        self.is_stopping = False

    @property
    def is_idle(self) -> bool:
        return not self.unanswered

    def work(self) -> None:
        if self._interval_us and not self.is_stopping:
            self.meanwhile(
                self._interval_us // 2 + self.scheduler.below(self._interval_us), "moves leaders", self._look
            )

    def _look(self) -> None:
        if self.is_stopping:
            return
        topics = [MetadataRequestTopic(bytes(16), topic) for topic in self._topics]
        self.ask(ApiKey.METADATA, MetadataRequest(topics, False), METADATA_VERSION, MetadataResponse, self._rotate)

    def _rotate(self, response: MetadataResponse | None) -> None:
        if response is None:
            return
        topics = [
            ReassignableTopic(
                topic.name or "",
                [
                    ReassignablePartition(each.partition_index, [*each.replica_nodes[1:], each.replica_nodes[0]])
                    for each in topic.partitions
                    if each.replica_nodes
                ],
            )
            for topic in response.topics
            if topic.error_code == ErrorCode.NONE
        ]
        self.ask(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            AlterPartitionReassignmentsRequest(TIMEOUT_MS, True, topics),
            1,
            AlterPartitionReassignmentsResponse,
            self._elect,
        )

    def _elect(self, response: AlterPartitionReassignmentsResponse | None) -> None:
        if response is None:
            return
        topics = [TopicPartitions(topic, list(range(count))) for topic, count in self._topics.items()]
        self.ask(
            ApiKey.ELECT_LEADERS,
            ElectLeadersRequest(_PREFERRED, topics, TIMEOUT_MS),
            2,
            ElectLeadersResponse,
            self._elected,
        )

    def _elected(self, response: ElectLeadersResponse | None) -> None:
        if response is None:
            return
        elected = [each for one in response.replica_election_results for each in one.partition_result]
        self.history.counts.administered["a leader is moved"] += sum(
            each.error_code == ErrorCode.NONE for each in elected
        )
        self.work()
