"""What a partition knows of its producers (KIP-664): how an operator finds a transaction that hangs.

Only the leader answers. Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from barnabas.cluster.administration import (
    ActiveProducer,
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionProducers,
    TopicIdPartition,
)
from barnabas.cluster.messages import NO_EPOCH
from barnabas_logstore.core.administration.work import Pause, Work
from barnabas_logstore.core.replica.replicas import Replicas

PRODUCERS_PER_PIECE: Final = 64


class Producers:
    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas

    def answer(self, request: DescribeProducersRequest, now_ms: int) -> Work:
        described: list[PartitionProducers] = []
        for asked in request.partitions:
            described.append((yield from self._describe(asked)))
            yield Pause.MORE
        return DescribeProducersResponse(described)

    def _describe(self, asked: TopicIdPartition) -> Generator[Pause, int, PartitionProducers]:
        partition = self._replicas.by_key.get((asked.topic_id, asked.partition))
        if partition is None:
            return PartitionProducers(self._replicas.error_of_absent(asked.topic_id, asked.partition))
        error = partition.check_leader_epoch(NO_EPOCH)
        if error:
            return PartitionProducers(error)
        producers: list[ActiveProducer] = []
        for entry in partition.log.producers.entries():
            producers.append(
                ActiveProducer(
                    entry.producer_id,
                    entry.producer_epoch,
                    entry.last_sequence,
                    entry.last_timestamp_ms,
                    entry.coordinator_epoch,
                    entry.transaction_first_offset,
                )
            )
            if len(producers) % PRODUCERS_PER_PIECE == 0:
                yield Pause.MORE
        return PartitionProducers(error, producers)
