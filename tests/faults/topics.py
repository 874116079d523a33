"""The topics of the cells: made, looked at and steered by requests of our own, to whichever gateway answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol, TypeVar

from barnabas.client.kafka_connection import KafkaConnection
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from barnabas.wire.messages.metadata import MetadataResponsePartition
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from barnabas_cli.record_client import KafkaError, RecordClient

REPLICAS: Final = 3

_PROBE_SECONDS_MAX: Final = 3.0
_ADMIN_SECONDS_MAX: Final = 20.0
_PREFERRED: Final = 0
# Versions in which topics are named.
_CREATE_VERSION, _DELETE_VERSION, _ELECT_VERSION, _REASSIGN_VERSION, _OFFSET_FETCH_VERSION = 7, 5, 2, 1, 7

R = TypeVar("R", bound=Response)


class RefusedError(Exception):
    """No gateway answered, or the cluster refused."""


class Servers(Protocol):
    """A cluster, by what answers requests there: gateways, or brokers of Apache Kafka."""

    @property
    def servers(self) -> Mapping[str, tuple[str, int]]:
        """Host and port of each, by name."""


def create_topic(cluster: Servers, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Raises RefusedError."""
    new = CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=REPLICAS,
        assignments=[],
        configs=[CreatableTopicConfig(name, value) for name, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[new], timeout_ms=_timeout_ms(), validate_only=False)
    response = _ask(cluster, request, _CREATE_VERSION, CreateTopicsResponse)
    _check(response.topics[0].error_code, {ErrorCode.TOPIC_ALREADY_EXISTS})


def delete_topic(cluster: Servers, topic: str) -> None:
    """Raises RefusedError."""
    request = DeleteTopicsRequest(topics=[], topic_names=[topic], timeout_ms=_timeout_ms())
    response = _ask(cluster, request, _DELETE_VERSION, DeleteTopicsResponse)
    _check(response.responses[0].error_code, {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


def elect_preferred_leaders(cluster: Servers, topic: str, partitions: Iterable[int]) -> None:
    """Where the preferred replica leads already, or can't lead now, nothing changes. Raises RefusedError."""
    wanted = [TopicPartitions(topic, list(partitions))]
    request = ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=wanted, timeout_ms=_timeout_ms())
    _check(_ask(cluster, request, _ELECT_VERSION, ElectLeadersResponse).error_code, set())


def reassign(cluster: Servers, topic: str, replicas: Mapping[int, list[int]]) -> None:
    """New replicas by partition, the first the preferred leader; they move in the background. Raises RefusedError."""
    moves = [ReassignablePartition(partition, brokers) for partition, brokers in replicas.items()]
    request = AlterPartitionReassignmentsRequest(timeout_ms=_timeout_ms(), topics=[ReassignableTopic(topic, moves)])
    response = _ask(cluster, request, _REASSIGN_VERSION, AlterPartitionReassignmentsResponse)
    for code in [response.error_code, *(each.error_code for each in response.responses[0].partitions)]:
        _check(code, set())


def committed_offsets(cluster: Servers, group_id: str, topic: str, partitions: int) -> dict[int, int]:
    """By partition, 0 where nothing is committed. Raises RefusedError."""
    wanted = [OffsetFetchRequestTopic(topic, list(range(partitions)))]
    request = OffsetFetchRequest(group_id=group_id, topics=wanted)
    response = _ask(cluster, request, _OFFSET_FETCH_VERSION, OffsetFetchResponse)
    _check(response.error_code, set())
    for each in response.topics[0].partitions:
        _check(each.error_code, set())
    return {each.partition_index: max(0, each.committed_offset) for each in response.topics[0].partitions}


def partitions_of(cluster: Servers, topic: str, server: str) -> list[MetadataResponsePartition]:
    """As that server knows them; none while it knows no such topic. Raises KafkaError when it does not answer."""
    with RecordClient(*cluster.servers[server], _PROBE_SECONDS_MAX) as client:
        return client.metadata(topic).topics[0].partitions


def leaders_of(cluster: Servers, topic: str) -> dict[int, tuple[int, int]]:
    """(broker id, leader epoch) by partition, as some server knows them. Raises RefusedError."""
    return {each.partition_index: (each.leader_id, each.leader_epoch) for each in _known(cluster, topic)}


def replicas_of(cluster: Servers, topic: str) -> dict[int, list[int]]:
    """Broker ids by partition, the preferred leader first, as some server knows them. Raises RefusedError."""
    return {each.partition_index: list(each.replica_nodes) for each in _known(cluster, topic)}


def brokers_known(cluster: Servers, brokers: int) -> str | None:
    """Whether every server answers and knows so many brokers; the reason if not."""
    for server, address in cluster.servers.items():
        try:
            with RecordClient(*address, _PROBE_SECONDS_MAX) as client:
                known = {broker.node_id for broker in client.metadata().brokers}
        except KafkaError as error:
            return f"{server} does not answer: {error}"
        if len(known) < brokers:
            return f"{server} knows the brokers {sorted(known)} alone"
    return None


def in_sync(cluster: Servers, topic: str, partitions: int) -> str | None:
    """Whether every server knows a leader and a full ISR of every partition; the reason if not."""
    for server in cluster.servers:
        try:
            known = partitions_of(cluster, topic, server)
        except KafkaError as error:
            return f"{server} does not answer: {error}"
        if len(known) < partitions:
            return f"{server} knows {len(known)} partitions of {topic}"
        for each in known:
            name = f"{topic}-{each.partition_index}"
            if each.error_code != ErrorCode.NONE or each.leader_id < 0:
                return f"{server} knows no leader of {name} ({ErrorCode(each.error_code).name})"
            if len(each.isr_nodes) < REPLICAS or len(each.replica_nodes) != REPLICAS:
                return f"{server}: {name}, led by {each.leader_id}, in sync {each.isr_nodes} of {each.replica_nodes}"
    return None


def _known(cluster: Servers, topic: str) -> list[MetadataResponsePartition]:
    """By the first server that answers. Raises RefusedError."""
    for server in cluster.servers:
        try:
            return partitions_of(cluster, topic, server)
        except KafkaError:
            continue
    raise RefusedError(f"{', '.join(cluster.servers)}: nothing answers")


def _ask(cluster: Servers, request: Request, version: int, response_type: type[R]) -> R:
    refusals = []
    for server in cluster.servers:
        try:
            connection = KafkaConnection(*cluster.servers[server], _PROBE_SECONDS_MAX)
        except OSError as error:
            refusals.append(f"{server}: {error}")
            continue
        try:
            return connection.ask(request, version, response_type, _ADMIN_SECONDS_MAX)
        except OSError as error:
            refusals.append(f"{server}: {error}")
        finally:
            connection.close()
    raise RefusedError("; ".join(refusals))


def _check(code: int, harmless: set[ErrorCode]) -> None:
    if code != ErrorCode.NONE and ErrorCode(code) not in harmless:
        raise RefusedError(ErrorCode(code).name)


def _timeout_ms() -> int:
    return int(_ADMIN_SECONDS_MAX * 1000) - 1000
