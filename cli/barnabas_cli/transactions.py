"""Transactions of a cluster by Kafka's protocol (KIP-664): what coordinators know, what leaders have open, and an
operator's abort. Any broker answers for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from barnabas.client.kafka_connection import ConnectionBroken, KafkaConnection
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from barnabas.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from barnabas.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from barnabas.wire.messages.list_transactions import TransactionState as ListedTransaction
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas_cli.record_client import RETRY_SECONDS, KafkaError

MAX_TRANSACTION_TIMEOUT_MINUTES: Final = 15
"""The default of `transaction.max.timeout.ms`: a coordinator has ended a transaction by then."""
_PARTITIONS_PER_REQUEST: Final = 500
_IDS_PER_REQUEST: Final = 500
_METADATA_VERSION: Final = 12
_LIST_VERSION: Final = 1
_MARKERS_VERSION: Final = 1

R = TypeVar("R", bound=Response)


@dataclass(slots=True, frozen=True)
class OpenTransaction:
    """What the leader of a partition knows of a transaction that has no marker there yet."""

    topic: str
    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """-1 as long as no coordinator has sent a marker of this producer."""
    last_timestamp_ms: int
    transactional_id: str | None = None
    """None if no coordinator knows the producer."""


class TransactionsClient:
    """Each method may raise KafkaError: the cluster refuses, or does not answer in time."""

    def __init__(self, connection: KafkaConnection, timeout_seconds: float) -> None:
        self._connection = connection
        self._timeout_seconds = timeout_seconds

    def list_transactions(
        self, states: Sequence[str] = (), producer_ids: Sequence[int] = (), longer_than_ms: int = -1
    ) -> list[ListedTransaction]:
        """Return the transactional ids that all filters select, sorted; an empty filter selects all."""
        request = ListTransactionsRequest(list(states), list(producer_ids), longer_than_ms)
        answer = self._ask(
            request, _LIST_VERSION, ListTransactionsResponse, lambda found: [found.error_code], "transactions"
        )
        if answer.unknown_state_filters:
            raise KafkaError(f"there is no state {', '.join(answer.unknown_state_filters)}")
        return sorted(answer.transaction_states, key=lambda each: each.transactional_id)

    def describe_transactions(self, transactional_ids: Sequence[str]) -> list[TransactionState]:
        """Return what the coordinators know of these ids. An id that none knows has TRANSACTIONAL_ID_NOT_FOUND."""
        found: list[TransactionState] = []
        for first in range(0, len(transactional_ids), _IDS_PER_REQUEST):
            request = DescribeTransactionsRequest(list(transactional_ids[first : first + _IDS_PER_REQUEST]))
            answer = self._ask(
                request,
                0,
                DescribeTransactionsResponse,
                lambda answer: [
                    each.error_code
                    for each in answer.transaction_states
                    if each.error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
                ],
                "transactional ids",
            )
            found += answer.transaction_states
        return found

    def open_transactions(self, topic: str | None = None) -> Iterator[OpenTransaction]:
        """Yield the transactions that are open at the leaders of the topic's partitions, or of all partitions.
        Partitions without a leader are left out: they can't be asked.
        """
        topics = None if topic is None else [MetadataRequestTopic(name=topic)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        metadata = self._ask(
            request,
            _METADATA_VERSION,
            MetadataResponse,
            lambda found: [each.error_code for each in found.topics if topic is not None],
            f"topic {topic}",
        )
        led = [
            (each.name or "", partition.partition_index)
            for each in metadata.topics
            for partition in each.partitions
            if partition.leader_id >= 0
        ]
        for first in range(0, len(led), _PARTITIONS_PER_REQUEST):
            yield from self._open_in(led[first : first + _PARTITIONS_PER_REQUEST])

    def _open_in(self, partitions: Sequence[tuple[str, int]]) -> list[OpenTransaction]:
        topics: dict[str, TopicRequest] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, TopicRequest(topic)).partition_indexes.append(partition)
        answer = self._ask(
            DescribeProducersRequest(list(topics.values())),
            0,
            DescribeProducersResponse,
            lambda found: [each.error_code for topic in found.topics for each in topic.partitions],
            "producers",
        )
        return [
            OpenTransaction(
                topic.name,
                partition.partition_index,
                producer.current_txn_start_offset,
                producer.producer_id,
                producer.producer_epoch,
                producer.coordinator_epoch,
                producer.last_timestamp,
            )
            for topic in answer.topics
            for partition in topic.partitions
            for producer in partition.active_producers
            if producer.current_txn_start_offset >= 0
        ]

    def find_hanging(self, topic: str | None, silent_ms: int, now_ms: int) -> list[OpenTransaction]:
        """Return the open transactions that got no record for `silent_ms` and that no coordinator will end: none knows
        the producer, or its transaction does not have the partition. As Kafka's TransactionsCommand decides it.
        """
        late = [each for each in self.open_transactions(topic) if now_ms - each.last_timestamp_ms > silent_ms]
        if not late:
            return []
        producer_ids = sorted({each.producer_id for each in late})
        id_of = {each.producer_id: each.transactional_id for each in self.list_transactions(producer_ids=producer_ids)}
        described = {each.transactional_id: each for each in self.describe_transactions(sorted(set(id_of.values())))}
        known = [replace(each, transactional_id=id_of.get(each.producer_id)) for each in late]
        return [
            each
            for each in known
            if each.transactional_id is None or not _has_partition(described[each.transactional_id], each)
        ]

    def abort(self, topic: str, partition: int, start_offset: int) -> OpenTransaction:
        """Write the marker that aborts the transaction which begins at this offset."""
        found = [each for each in self.open_transactions(topic) if each.partition == partition]
        transaction = next((each for each in found if each.start_offset == start_offset), None)
        if transaction is None:
            raise KafkaError(f"no open transaction of {topic}-{partition} begins at offset {start_offset}")
        marker = WritableTxnMarker(
            transaction.producer_id,
            transaction.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(topic, [partition])],
            coordinator_epoch=max(0, transaction.coordinator_epoch),
        )
        self._ask(
            WriteTxnMarkersRequest([marker]),
            _MARKERS_VERSION,
            WriteTxnMarkersResponse,
            lambda answer: [
                each.error_code for of in answer.markers for topic in of.topics for each in topic.partitions
            ],
            f"a marker of {topic}-{partition}",
        )
        return transaction

    def _ask(
        self,
        request: Request,
        version: int,
        response_type: type[R],
        errors_of: Callable[[R], Sequence[int]],
        what: str,
    ) -> R:
        """Ask until no error is one after which clients ask again."""
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            try:
                answer = self._connection.ask(request, version, response_type)
            except ConnectionBroken as error:
                raise KafkaError(str(error)) from None
            errors = [ErrorCode(each) for each in errors_of(answer) if each]
            refused = next((each for each in errors if not each.retriable), None)
            if refused is None and errors and time.monotonic() > deadline:
                refused = errors[0]
            if refused is not None:
                raise KafkaError(f"{what}: {refused.name}: {refused.message}")
            if not errors:
                return answer
            time.sleep(RETRY_SECONDS)


def _has_partition(described: TransactionState, transaction: OpenTransaction) -> bool:
    """Whether the coordinator will end this transaction in this partition."""
    return described.producer_id == transaction.producer_id and any(
        each.topic == transaction.topic and transaction.partition in each.partitions for each in described.topics
    )
