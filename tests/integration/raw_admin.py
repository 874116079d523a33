"""The administrator's part, in raw requests: topics, moves, elections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.client.kafka_connection import KafkaConnection
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

SECONDS_MAX = 60.0
_TIMEOUT_MS = 50_000
_PREFERRED = 0


class Admin:
    """One connection, one request at a time. Every call raises OSError when the peer is gone."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = KafkaConnection(host, port, SECONDS_MAX)

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def create(
        self, topic: str, replicas: Mapping[int, Sequence[int]], configs: Mapping[str, str] | None = None
    ) -> bytes:
        """Returns when the topic is led: its id."""
        assignments = [CreatableReplicaAssignment(partition, list(nodes)) for partition, nodes in replicas.items()]
        settings = [CreatableTopicConfig(name, value) for name, value in (configs or {}).items()]
        request = CreateTopicsRequest([CreatableTopic(topic, -1, -1, assignments, settings)], _TIMEOUT_MS, False)
        response = self._connection.ask(request, 7, CreateTopicsResponse, SECONDS_MAX)
        result = response.topics[0]
        assert result.error_code == ErrorCode.NONE, f"{topic}: {result.error_code} {result.error_message}"
        return result.topic_id

    def delete(self, topic: str) -> int:
        """The error code."""
        request = DeleteTopicsRequest([DeleteTopicState(topic, bytes(16))], [], _TIMEOUT_MS)
        response = self._connection.ask(request, 6, DeleteTopicsResponse, SECONDS_MAX)
        return response.responses[0].error_code

    def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> dict[int, int]:
        """Error codes by partition."""
        partitions = [ReassignablePartition(partition, list(nodes)) for partition, nodes in replicas.items()]
        request = AlterPartitionReassignmentsRequest(_TIMEOUT_MS, True, [ReassignableTopic(topic, partitions)])
        response = self._connection.ask(request, 0, AlterPartitionReassignmentsResponse, SECONDS_MAX)
        assert response.error_code == ErrorCode.NONE, response.error_message
        return {each.partition_index: each.error_code for each in response.responses[0].partitions}

    def elect_preferred(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """Error codes by partition; returns when the leaders lead."""
        request = ElectLeadersRequest(_PREFERRED, [TopicPartitions(topic, list(partitions))], _TIMEOUT_MS)
        response = self._connection.ask(request, 2, ElectLeadersResponse, SECONDS_MAX)
        assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code)
        results = response.replica_election_results[0].partition_result
        return {each.partition_id: each.error_code for each in results}

    def leaders(self, topic: str) -> dict[int, tuple[int, int]]:
        """Leader and leader epoch by partition."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        response = self._connection.ask(request, 12, MetadataResponse, SECONDS_MAX)
        return {each.partition_index: (each.leader_id, each.leader_epoch) for each in response.topics[0].partitions}
