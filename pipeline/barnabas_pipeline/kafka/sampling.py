"""Sample how many bytes an offset has in the log: Kafka does not report it, so a few batches are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.client.kafka_connection import KafkaConnection
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from barnabas.wire.primitives import Buffer
from barnabas.wire.record_batch import HEADER_BYTES, parse_header
from barnabas_pipeline.core.admission import Sample
from barnabas_pipeline.core.errors import TopicMissing
from barnabas_pipeline.core.positions import TopicPartition
from barnabas_pipeline.kafka.batches import whole_batches
from barnabas_pipeline.kafka.cluster_client import ClusterClient

_SAMPLE_BYTES: Final = 32 * 1024
_FETCH_VERSION: Final = 12
_REPORTED_BY_READERS: Final = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def sample(client: ClusterClient, wanted: Mapping[TopicPartition, Sequence[int]]) -> dict[TopicPartition, list[Sample]]:
    """Return for each partition a sample at each of its offsets; one without records is left out.

    A fetch names a partition once, so there is one fetch per leader for all first offsets, then one for all second
    ones.
    """
    samples: dict[TopicPartition, list[Sample]] = {partition: [] for partition in wanted}
    for index in range(max(map(len, wanted.values()), default=0)):
        here = {partition: offsets[index] for partition, offsets in wanted.items() if index < len(offsets)}
        found = client.retrying("Fetch of samples", lambda here=here: _sample_once(client, here))  # type: ignore[misc]
        for partition, one in found.items():
            samples[partition].append(one)
    return samples


def _sample_once(client: ClusterClient, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, Sample]:
    found: dict[TopicPartition, Sample] = {}
    by_leader: dict[KafkaConnection, list[TopicPartition]] = {}
    for partition in sorted(wanted):
        try:
            by_leader.setdefault(client.leader(partition), []).append(partition)
        except TopicMissing:
            continue  # deleted a moment ago: reading it reports the loss
    for connection, partitions in by_leader.items():
        found |= _fetched(client, connection, {each: wanted[each] for each in partitions})
        for partition in partitions:
            # If batches are larger than a sample, a broker returns one only for the first partition of the request.
            if partition not in found and len(partitions) > 1:
                found |= _fetched(client, connection, {partition: wanted[partition]})
    return found


def _fetched(
    client: ClusterClient, connection: KafkaConnection, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Sample]:
    """Fetch with one request. Raises Retry."""
    topics: dict[str, FetchTopic] = {}
    for partition, offset in wanted.items():
        topic = topics.setdefault(partition.topic, FetchTopic(partition.topic, partitions=[]))
        topic.partitions.append(FetchPartition(partition.partition, -1, offset, partition_max_bytes=_SAMPLE_BYTES))
    request = FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=list(topics.values()))
    response = connection.call(request, FetchResponse, _FETCH_VERSION)
    client.check(response.error_code, "Fetch of samples")
    found = {}
    for answer in response.responses:
        for part in answer.partitions:
            partition = TopicPartition(answer.topic, part.partition_index)
            if part.error_code in _REPORTED_BY_READERS:
                continue
            client.check(part.error_code, f"Fetch of samples of {partition}")
            size, since, until = _looked_at(partition, part.records or b"")
            if size:
                offset = wanted[partition]
                # From the first batch on, or from the offset if compaction has left nothing before it.
                found[partition] = Sample(offset, size / max(1, until - min(offset, since)))
    return found


def _looked_at(partition: TopicPartition, data: Buffer) -> tuple[int, int, int]:
    """Return bytes, first offset and the one after the last of complete batches; for a truncated first one, from its
    header.
    """
    headers = [header for _, header in whole_batches(partition, data)]
    if not headers and len(data) >= HEADER_BYTES:
        headers = [parse_header(data)]
    if not headers:
        return 0, 0, 0
    return sum(header.size_bytes for header in headers), headers[0].base_offset, headers[-1].next_offset
