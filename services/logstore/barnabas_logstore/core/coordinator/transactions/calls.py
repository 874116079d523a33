"""The requests of each API key to a transaction coordinator, and their answers.

An answer depends on what is in the log, or will be, and waits until that is committed (`Result.answer`).
Errors of versions that do not have them are those that Kafka's brokers answer instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from barnabas.channel.messages import GroupAnswer, GroupCall
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.internal_topics import OFFSETS_TOPIC, partition_of_group
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Response
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas_logstore.core.coordinator.runtime.shard import Serve
from barnabas_logstore.core.coordinator.runtime.timers import Clock
from barnabas_logstore.core.coordinator.transactions import rules
from barnabas_logstore.core.coordinator.transactions.config import TransactionConfig
from barnabas_logstore.core.coordinator.transactions.listing import describe_transaction
from barnabas_logstore.core.coordinator.transactions.producer_ids import ProducerIds
from barnabas_logstore.core.coordinator.transactions.rules import Fenced, Producer
from barnabas_logstore.core.coordinator.transactions.shard import TransactionShard
from barnabas_logstore.core.coordinator.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    NO_PRODUCER_ID,
    TopicPartition,
    Transaction,
)

_BROKERS_ADD_FROM: Final = 4
"""AddPartitionsToTxn from this version on has several transactions, and comes from brokers."""
_ABORTABLE_FROM: Final = 5
_ANY_VERSION: Final = 2**15 - 1
"""Of which there is a schema: a newer one is not stable yet, and may be asked for by who knows it."""
_RAISES_EPOCH_FROM: Final = 5
"""EndTxn from this version on is of transaction version 2."""
_FENCED_FROM: Final = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
"""The first version that has PRODUCER_FENCED; before, it is INVALID_PRODUCER_EPOCH."""


class TransactionCalls:
    """Serves the calls to one shard, once it is loaded."""

    def __init__(
        self,
        config: TransactionConfig,
        clock: Clock,
        image: ClusterImage,
        producer_ids: ProducerIds,
        shard: TransactionShard,
    ) -> None:
        self._config = config
        self._clock = clock
        self._image = image
        self._producer_ids = producer_ids
        self._shard = shard
        self.by_api_key: Final[dict[int, Serve]] = {
            ApiKey.INIT_PRODUCER_ID: self._serve(self._init_producer_id),
            ApiKey.ADD_PARTITIONS_TO_TXN: self._serve(self._add_partitions),
            ApiKey.ADD_OFFSETS_TO_TXN: self._serve(self._add_offsets),
            ApiKey.END_TXN: self._serve(self._end),
            ApiKey.DESCRIBE_TRANSACTIONS: self._serve(self._describe),
        }

    def _serve(self, respond: Callable[[GroupCall, Any], Response]) -> Serve:
        return Serve(partial(self._answer, respond), _ANY_VERSION)

    def _answer(
        self, respond: Callable[[GroupCall, Any], Response], stream_id: int, call: GroupCall, request: Any
    ) -> None:
        """Answer when what the answer depends on is committed."""
        response = respond(call, request)
        shard = self._shard
        shard.meter.count_response(response)
        shard.result.answer(stream_id, GroupAnswer(call.request_id, body=encode_body(response, call.api_version)))

    # --- each API -----------------------------------------------------------------------------------------------------

    def _init_producer_id(self, call: GroupCall, request: InitProducerIdRequest) -> InitProducerIdResponse:
        outcome = self._initialized(request)
        if isinstance(outcome, ErrorCode):
            return InitProducerIdResponse(error_code=_client_error(outcome, call), producer_epoch=-1)
        return InitProducerIdResponse(producer_id=outcome.producer_id, producer_epoch=outcome.producer_epoch)

    def _initialized(self, request: InitProducerIdRequest) -> Transaction | ErrorCode:
        shard = self._shard
        transactional_id, timeout_ms = request.transactional_id, request.transaction_timeout_ms
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if not 0 < timeout_ms <= self._config.max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        error = shard.check()
        if error:
            return error
        now_ms, fresh_id = self._clock.wall_ms, self._producer_ids.peek()
        known = shard.transactions.get(transactional_id)
        if fresh_id is None and (known is None or known.is_epoch_exhausted):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        fresh_id = NO_PRODUCER_ID if fresh_id is None else fresh_id
        transaction = known or Transaction(transactional_id, fresh_id, timeout_ms, now_ms)
        resumed = request.producer_id != NO_PRODUCER_ID
        expected = Producer(request.producer_id, request.producer_epoch) if resumed else None
        outcome = rules.init_producer_id(transaction, expected, timeout_ms, shard.cluster_version, fresh_id, now_ms)
        if isinstance(outcome, Fenced):
            error = shard.put(outcome.transaction)
            if not error:
                self._producer_ids.use_if_next(outcome.transaction)
            return error or ErrorCode.CONCURRENT_TRANSACTIONS
        if isinstance(outcome, ErrorCode):
            return outcome
        error = shard.put(outcome)
        if error:
            return error
        if outcome.producer_id == fresh_id:
            self._producer_ids.use(fresh_id)
        return outcome

    def _add_partitions(self, call: GroupCall, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        if call.api_version < _BROKERS_ADD_FROM:
            asked = AddPartitionsToTxnTransaction(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                verify_only=False,
                topics=request.v3_and_below_topics,
            )
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=self._added(call, asked, 0))
        results = [
            AddPartitionsToTxnResult(
                asked.transactional_id,
                self._verified(call, asked) if asked.verify_only else self._added(call, asked, EPOCH_BUMP_VERSION),
            )
            for asked in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)

    def _added(
        self, call: GroupCall, asked: AddPartitionsToTxnTransaction, version: int
    ) -> list[AddPartitionsToTxnTopicResult]:
        partitions = _partitions_of(asked)
        unknown = {each for each in partitions if not self._is_known(each)}
        if unknown:
            # As in Kafka: nothing is added unless everything can be.
            errors = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
            errors |= dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return _results(asked.topics, lambda each: errors[each])
        producer = Producer(asked.producer_id, asked.producer_epoch)
        error = _client_error(self._add(asked.transactional_id, producer, partitions, version), call)
        return _results(asked.topics, lambda each: error)

    def _is_known(self, partition: TopicPartition) -> bool:
        topic = self._image.topics_by_name.get(partition.topic)
        return topic is not None and partition.partition in self._image.partitions_by_topic_id[topic.topic_id]

    def _add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        version: int,
    ) -> ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        error = self._shard.check()
        if error:
            return error
        transaction = self._shard.transactions.get(transactional_id)
        if transaction is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        outcome = rules.add_partitions(transaction, producer, partitions, version, self._clock.wall_ms)
        return outcome if isinstance(outcome, ErrorCode) else self._shard.put(outcome)

    def _verified(self, call: GroupCall, asked: AddPartitionsToTxnTransaction) -> list[AddPartitionsToTxnTopicResult]:
        transaction = self._shard.transactions.get(asked.transactional_id)
        if transaction is None:
            error = ErrorCode.INVALID_PRODUCER_ID_MAPPING if asked.transactional_id else ErrorCode.INVALID_REQUEST
            return _results(asked.topics, lambda each: error)
        producer = Producer(asked.producer_id, asked.producer_epoch)
        outcome = rules.verify_partitions(transaction, producer, _partitions_of(asked))
        if isinstance(outcome, ErrorCode):
            refused = _client_error(outcome, call)
            return _results(asked.topics, lambda each: refused)
        verified = outcome
        return _results(asked.topics, lambda each: _client_error(verified[each], call))

    def _add_offsets(self, call: GroupCall, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
        topic = self._image.topics_by_name.get(OFFSETS_TOPIC)
        if not request.group_id:
            return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        if topic is None:
            return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        count = len(self._image.partitions_by_topic_id[topic.topic_id])
        partition = TopicPartition(OFFSETS_TOPIC, partition_of_group(request.group_id, count))
        producer = Producer(request.producer_id, request.producer_epoch)
        error = self._add(request.transactional_id, producer, frozenset((partition,)), 0)
        return AddOffsetsToTxnResponse(error_code=_client_error(error, call))

    def _end(self, call: GroupCall, request: EndTxnRequest) -> EndTxnResponse:
        outcome = self._ended(call, request)
        if isinstance(outcome, ErrorCode):
            return EndTxnResponse(error_code=_client_error(outcome, call))
        return EndTxnResponse(producer_id=outcome.producer_id, producer_epoch=outcome.epoch)

    def _ended(self, call: GroupCall, request: EndTxnRequest) -> Producer | ErrorCode:
        """Return the producer that the next transaction has."""
        if not request.transactional_id:
            return ErrorCode.INVALID_REQUEST
        error = self._shard.check()
        if error:
            return error
        transaction = self._shard.transactions.get(request.transactional_id)
        if transaction is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        version = EPOCH_BUMP_VERSION if call.api_version >= _RAISES_EPOCH_FROM else 0
        fresh_id = NO_PRODUCER_ID
        if version and transaction.is_epoch_exhausted:
            peeked = self._producer_ids.peek()
            if peeked is None:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            fresh_id = peeked
        producer, now_ms = Producer(request.producer_id, request.producer_epoch), self._clock.wall_ms
        outcome = rules.end_transaction(transaction, producer, version, fresh_id, now_ms, commit=request.committed)
        if isinstance(outcome, ErrorCode):
            return outcome or Producer(transaction.producer_id, transaction.producer_epoch)
        error = self._shard.put(outcome)
        if error:
            return error
        self._producer_ids.use_if_next(outcome)
        completed = outcome.completed(now_ms)
        return Producer(completed.producer_id, completed.producer_epoch)

    def _describe(self, call: GroupCall, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        states = [describe_transaction(each, self._shard.transactions.get(each)) for each in request.transactional_ids]
        return DescribeTransactionsResponse(transaction_states=states)


def _partitions_of(asked: AddPartitionsToTxnTransaction) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.name, number) for topic in asked.topics for number in topic.partitions)


def _results(
    topics: list[AddPartitionsToTxnTopic], error_of: Callable[[TopicPartition], ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(number, error_of(TopicPartition(topic.name, number)))
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]


def _client_error(error: ErrorCode, call: GroupCall) -> ErrorCode:
    """Return what the version of the call has in place of a newer error."""
    if error is ErrorCode.PRODUCER_FENCED and call.api_version < _FENCED_FROM[ApiKey(call.api_key)]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and call.api_version < _ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return error
