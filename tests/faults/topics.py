"""The topics of the cells: made, looked at and steered by requests of our own, to whichever gateway answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from barnabas.cli.kafka_client import KafkaClient, KafkaConnection, KafkaError
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
from tests.faults.machines import GATEWAYS, KAFKA_PORT, LOGSTORES, Layout

REPLICAS: Final = 3

_PROBE_SECONDS_MAX: Final = 3.0
_ADMIN_SECONDS_MAX: Final = 20.0
_PREFERRED: Final = 0
# Versions in which topics are named.
_CREATE_VERSION, _DELETE_VERSION, _ELECT_VERSION, _REASSIGN_VERSION, _OFFSET_FETCH_VERSION = 7, 5, 2, 1, 7

R = TypeVar("R", bound=Response)


class RefusedError(Exception):
    """No gateway answered, or the cluster refused."""


def create_topic(layout: Layout, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Raises RefusedError."""
    new = CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=REPLICAS,
        assignments=[],
        configs=[CreatableTopicConfig(name, value) for name, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[new], timeout_ms=_timeout_ms(), validate_only=False)
    response = _ask(layout, request, _CREATE_VERSION, CreateTopicsResponse)
    _check(response.topics[0].error_code, {ErrorCode.TOPIC_ALREADY_EXISTS})


def delete_topic(layout: Layout, topic: str) -> None:
    """Raises RefusedError."""
    request = DeleteTopicsRequest(topics=[], topic_names=[topic], timeout_ms=_timeout_ms())
    response = _ask(layout, request, _DELETE_VERSION, DeleteTopicsResponse)
    _check(response.responses[0].error_code, {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


def elect_preferred_leaders(layout: Layout, topic: str, partitions: Iterable[int]) -> None:
    """Where the preferred replica leads already, or can't lead now, nothing changes. Raises RefusedError."""
    wanted = [TopicPartitions(topic, list(partitions))]
    request = ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=wanted, timeout_ms=_timeout_ms())
    _check(_ask(layout, request, _ELECT_VERSION, ElectLeadersResponse).error_code, set())


def reassign(layout: Layout, topic: str, replicas: Mapping[int, list[int]]) -> None:
    """New replicas by partition, the first the preferred leader; they move in the background. Raises RefusedError."""
    moves = [ReassignablePartition(partition, brokers) for partition, brokers in replicas.items()]
    request = AlterPartitionReassignmentsRequest(timeout_ms=_timeout_ms(), topics=[ReassignableTopic(topic, moves)])
    response = _ask(layout, request, _REASSIGN_VERSION, AlterPartitionReassignmentsResponse)
    for code in [response.error_code, *(each.error_code for each in response.responses[0].partitions)]:
        _check(code, set())


def committed_offsets(layout: Layout, group_id: str, topic: str, partitions: int) -> dict[int, int]:
    """By partition, 0 where nothing is committed. Raises RefusedError."""
    wanted = [OffsetFetchRequestTopic(topic, list(range(partitions)))]
    request = OffsetFetchRequest(group_id=group_id, topics=wanted)
    response = _ask(layout, request, _OFFSET_FETCH_VERSION, OffsetFetchResponse)
    _check(response.error_code, set())
    for each in response.topics[0].partitions:
        _check(each.error_code, set())
    return {each.partition_index: max(0, each.committed_offset) for each in response.topics[0].partitions}


def partitions_of(layout: Layout, topic: str, gateway: str) -> list[MetadataResponsePartition]:
    """As that gateway knows them; none while it knows no such topic. Raises KafkaError when it does not answer."""
    with KafkaClient(layout.address(gateway), KAFKA_PORT, _PROBE_SECONDS_MAX) as client:
        return client.metadata(topic).topics[0].partitions


def leaders_of(layout: Layout, topic: str) -> dict[int, tuple[int, int]]:
    """(broker id, leader epoch) by partition, as some gateway knows them. Raises RefusedError."""
    for gateway in GATEWAYS:
        try:
            known = partitions_of(layout, topic, gateway)
        except KafkaError:
            continue
        return {each.partition_index: (each.leader_id, each.leader_epoch) for each in known}
    raise RefusedError("no gateway answers")


def ready_to_serve(layout: Layout) -> str | None:
    """Whether every gateway answers and knows every logstore; the reason if not."""
    for gateway in GATEWAYS:
        try:
            with KafkaClient(layout.address(gateway), KAFKA_PORT, _PROBE_SECONDS_MAX) as client:
                known = {broker.node_id for broker in client.metadata().brokers}
        except KafkaError as error:
            return f"{gateway} does not answer: {error}"
        if len(known) < len(LOGSTORES):
            return f"{gateway} knows the logstores {sorted(known)} alone"
    return None


def in_sync(layout: Layout, topic: str, partitions: int) -> str | None:
    """Whether every gateway knows a leader and a full ISR of every partition; the reason if not."""
    for gateway in GATEWAYS:
        try:
            known = partitions_of(layout, topic, gateway)
        except KafkaError as error:
            return f"{gateway} does not answer: {error}"
        if len(known) < partitions:
            return f"{gateway} knows {len(known)} partitions of {topic}"
        for each in known:
            name = f"{topic}-{each.partition_index}"
            if each.error_code != ErrorCode.NONE or each.leader_id < 0:
                return f"{gateway} knows no leader of {name} ({ErrorCode(each.error_code).name})"
            if len(each.isr_nodes) < REPLICAS or len(each.replica_nodes) != REPLICAS:
                return f"{gateway}: {name}, led by {each.leader_id}, in sync {each.isr_nodes} of {each.replica_nodes}"
    return None


def _ask(layout: Layout, request: Request, version: int, response_type: type[R]) -> R:
    refusals = []
    for gateway in GATEWAYS:
        try:
            connection = KafkaConnection(layout.address(gateway), KAFKA_PORT, _PROBE_SECONDS_MAX)
        except OSError as error:
            refusals.append(f"{gateway}: {error}")
            continue
        try:
            return connection.ask(request, version, response_type, _ADMIN_SECONDS_MAX)
        except (OSError, KafkaError) as error:
            refusals.append(f"{gateway}: {error}")
        finally:
            connection.close()
    raise RefusedError("; ".join(refusals))


def _check(code: int, harmless: set[ErrorCode]) -> None:
    if code != ErrorCode.NONE and ErrorCode(code) not in harmless:
        raise RefusedError(ErrorCode(code).name)


def _timeout_ms() -> int:
    return int(_ADMIN_SECONDS_MAX * 1000) - 1000
