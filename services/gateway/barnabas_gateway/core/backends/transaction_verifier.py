"""Ask coordinators of transactions whether a partition belongs to a transaction, or have it added (KIP-890).

A transaction of version 2 has its partitions added by their first batch; a producer of an earlier one has added them
itself, and it is only verified. This is an AddPartitionsToTxn of version 5 to the leader of the transactional id's
partition of `__transaction_state`: all that a turn asks of one logstore leaves in one message.

A coordinator that is still ending the producer's transaction before says CONCURRENT_TRANSACTIONS; it is asked again
for up to RETRY_MS_MAX, as by Kafka's brokers (`add.partitions.to.txn.retry.backoff.ms`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas.channel.messages import GroupAnswer, GroupCall
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response_body, encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.primitives import MalformedFrame
from barnabas_gateway.core.backends.coordinator_client import CoordinatorClient, PendingAsk
from barnabas_gateway.core.backends.group_routing import find_coordinator
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.model.deadlines import Clock, Deadlines
from barnabas_gateway.core.timing.request_timing import Untimed

RETRY_MS: Final = 20
RETRY_MS_MAX: Final = 100
_VERSION: Final = 5
_UNANSWERED: Final = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


class VerifiedTransaction(NamedTuple):
    """`adds`: the partition is to be added to it, if it is not yet."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool


def error_of_produce(error: ErrorCode, *, reports_abortable: bool) -> ErrorCode:
    """Return what a producer gets for an error of its transaction's coordinator (`ReplicaManager.handleProduceAppend`):
    one after which each client sends the batch again, where that is right.
    """
    if error in _UNANSWERED:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not reports_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error


class TransactionVerifier:
    __slots__ = ("clock", "config", "coordinators", "deadlines", "image")

    def __init__(
        self,
        config: GatewayConfig,
        clock: Clock,
        deadlines: Deadlines,
        image: ClusterImage,
        coordinators: CoordinatorClient,
    ) -> None:
        self.config = config
        self.clock = clock
        self.deadlines = deadlines
        self.image = image
        self.coordinators = coordinators

    def verify(
        self, transaction: VerifiedTransaction, topic: str, partition: int, answered: Callable[[ErrorCode], None]
    ) -> None:
        """Call `answered` once, perhaps at once: NONE if the partition belongs to the transaction."""
        _Verification(self, transaction, topic, partition, answered).ask()


class _Verification(Untimed):
    __slots__ = (
        "_answered",
        "_ask",
        "_partition",
        "_retry_until_ms",
        "_topic",
        "_transaction",
        "_verifier",
        "deadline_bucket",
    )

    def __init__(
        self,
        verifier: TransactionVerifier,
        transaction: VerifiedTransaction,
        topic: str,
        partition: int,
        answered: Callable[[ErrorCode], None],
    ) -> None:
        self._verifier = verifier
        self._transaction = transaction
        self._topic = topic
        self._partition = partition
        self._answered = answered
        self._ask: PendingAsk | None = None
        self._retry_until_ms = verifier.clock.now_ms + RETRY_MS_MAX
        self.deadline_bucket = -1

    def ask(self) -> None:
        verifier, transaction = self._verifier, self._transaction
        coordinator = find_coordinator(verifier.image, transaction.transactional_id, TRANSACTION_STATE_TOPIC)
        if coordinator is not None:
            asked = AddPartitionsToTxnTransaction(
                transaction.transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                not transaction.adds,
                [AddPartitionsToTxnTopic(self._topic, [self._partition])],
            )
            body = encode_body(AddPartitionsToTxnRequest([asked]), _VERSION)
            call = GroupCall(0, coordinator.partition, int(ApiKey.ADD_PARTITIONS_TO_TXN), _VERSION, "", "", body)
            self._ask = verifier.coordinators.submit_ask(self, coordinator.node_id, call)
        if self._ask is None:
            self._answered(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            verifier.deadlines.schedule(self, verifier.clock.now_ms + verifier.config.group_call_ms_max)

    def group_answered(self, ask: PendingAsk, answer: GroupAnswer) -> None:
        self._ask = None
        error = ErrorCode(answer.error_code) if answer.error_code else _error_in(answer)
        verifier = self._verifier
        now_ms = verifier.clock.now_ms
        if error is ErrorCode.CONCURRENT_TRANSACTIONS and self._transaction.adds and now_ms < self._retry_until_ms:
            verifier.deadlines.schedule(self, now_ms + RETRY_MS)
            return
        verifier.deadlines.unschedule(self)
        self._answered(error)

    def group_lost(self, ask: PendingAsk) -> None:
        self._ask = None
        self._verifier.deadlines.unschedule(self)
        self._answered(ErrorCode.NETWORK_EXCEPTION)

    def expire(self, now_ms: int) -> None:
        """Ask again, or wait no longer."""
        if self._ask is None:
            self.ask()
            return
        self._verifier.coordinators.forget_call(self._ask)
        self._ask = None
        self._answered(ErrorCode.NETWORK_EXCEPTION)


def _error_in(answer: GroupAnswer) -> ErrorCode:
    try:
        response = decode_response_body(ApiKey.ADD_PARTITIONS_TO_TXN, _VERSION, memoryview(answer.body))
    except MalformedFrame:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    assert isinstance(response, AddPartitionsToTxnResponse)
    if response.error_code:
        return ErrorCode(response.error_code)
    for of_transaction in response.results_by_transaction:
        for of_topic in of_transaction.topic_results:
            for result in of_topic.results_by_partition:
                return ErrorCode(result.partition_error_code)
    return ErrorCode.UNKNOWN_SERVER_ERROR
