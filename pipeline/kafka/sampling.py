"""How many bytes an offset has in the log, here and there: Kafka tells it nowhere, so a few batches are looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from pipeline.core.admission import Sample
from pipeline.core.positions import TopicPartition
from pipeline.kafka.batches import whole_batches
from pipeline.kafka.client import KafkaClient
from pipeline.kafka.connection import Connection

_SAMPLE_BYTES: Final = 32 * 1024
_FETCH_VERSION: Final = 12


def sample(client: KafkaClient, wanted: Mapping[TopicPartition, Sequence[int]]) -> dict[TopicPartition, list[Sample]]:
    """Of each partition a sample at each of its offsets; where a log has none, it is left out.

    A fetch names a partition once, so there is one per leader for all first offsets, then one for all second ones.
    """
    samples: dict[TopicPartition, list[Sample]] = {partition: [] for partition in wanted}
    for index in range(max(map(len, wanted.values()), default=0)):
        here = {partition: offsets[index] for partition, offsets in wanted.items() if index < len(offsets)}
        found = client.retrying("Fetch of samples", lambda here=here: _sample_once(client, here))  # type: ignore[misc]
        for partition, one in found.items():
            samples[partition].append(one)
    return samples


def _sample_once(client: KafkaClient, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, Sample]:
    found: dict[TopicPartition, Sample] = {}
    by_leader: dict[Connection, list[TopicPartition]] = {}
    for partition in sorted(wanted):
        by_leader.setdefault(client.leader(partition), []).append(partition)
    for connection, partitions in by_leader.items():
        topics: dict[str, FetchTopic] = {}
        for partition in partitions:
            topic = topics.setdefault(partition.topic, FetchTopic(partition.topic, partitions=[]))
            topic.partitions.append(
                FetchPartition(partition.partition, -1, wanted[partition], partition_max_bytes=_SAMPLE_BYTES)
            )
        request = FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=list(topics.values()))
        response = connection.call(request, FetchResponse, _FETCH_VERSION)
        for answer in response.responses:
            for part in answer.partitions:
                if part.error_code != ErrorCode.NONE or not part.records:
                    continue
                partition = TopicPartition(answer.topic, part.partition_index)
                batches = whole_batches(partition, part.records)
                if batches:
                    size = sum(header.size_bytes for _, header in batches)
                    offset = wanted[partition]
                    # From the first batch on, or from the offset where compaction has left nothing before it.
                    since = min(offset, batches[0][1].base_offset)
                    found[partition] = Sample(offset, size / max(1, batches[-1][1].next_offset - since))
    return found
