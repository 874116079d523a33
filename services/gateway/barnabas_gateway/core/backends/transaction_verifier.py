"""Ask coordinators of transactions whether a partition belongs to a transaction, or have it added (KIP-890).

A transaction of version 2 has its partitions added by their first batch; a producer of an earlier one has added them
itself, and it is only verified. This is an AddPartitionsToTxn of version 5 to the leader of the transactional id's
partition of `__transaction_state`: one call has all partitions of a transaction that a turn asks about, and all calls
of a turn to one logstore leave in one message.

A coordinator that is still ending the producer's transaction before says CONCURRENT_TRANSACTIONS; it is asked again
for up to RETRY_MS_MAX, as by Kafka's brokers (`add.partitions.to.txn.retry.backoff.ms`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from barnabas.channel.messages import GroupAnswer, GroupCall
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.containment import Containment
from barnabas.metrics.family import Sample
from barnabas.metrics.histogram import Histogram
from barnabas.metrics.transaction_families import VERIFICATION_FAILURES, VERIFICATION_TIME
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
from barnabas_gateway.core.model.containment import VERIFICATION, end_by
from barnabas_gateway.core.model.deadlines import Clock, Deadlines
from barnabas_gateway.core.timing.request_timing import Untimed

PARTITIONS_PER_CALL_MAX: Final = 500
"""About 10 µs each in the coordinator's turn."""
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
    __slots__ = ("clock", "config", "contained", "coordinators", "deadlines", "failures", "gathered", "image", "times")

    def __init__(
        self,
        config: GatewayConfig,
        clock: Clock,
        deadlines: Deadlines,
        image: ClusterImage,
        coordinators: CoordinatorClient,
        contained: Containment,
    ) -> None:
        self.config = config
        self.contained = contained
        self.clock = clock
        self.deadlines = deadlines
        self.image = image
        self.coordinators = coordinators
        self.gathered: dict[VerifiedTransaction, _Verification] = {}
        """What is asked in this turn."""
        self.times = Histogram()
        """In microseconds, from the question about a transaction until it needs no answer more."""
        self.failures = 0
        """Partitions that were neither confirmed nor added."""

    def samples(self) -> Iterator[Sample]:
        yield Sample(VERIFICATION_TIME, (), self.times)
        yield Sample(VERIFICATION_FAILURES, (), self.failures)

    def verify(
        self, transaction: VerifiedTransaction, topic: str, partition: int, answered: Callable[[ErrorCode], None]
    ) -> None:
        """Call `answered` once, later: NONE if the partition belongs to the transaction."""
        gathered = self.gathered.get(transaction)
        if gathered is None or gathered.count >= PARTITIONS_PER_CALL_MAX:
            if gathered is not None:
                gathered.ask()
            gathered = self.gathered[transaction] = _Verification(self, transaction)
        gathered.add(topic, partition, answered)

    def send_asks(self) -> None:
        """Ask what was gathered in this turn: one call for each transaction."""
        gathered, self.gathered = self.gathered, {}
        for verification in gathered.values():
            try:
                verification.ask()
            except Exception as error:
                end_by(verification, error)


class _Verification(Untimed):
    """Partitions of one transaction, which are asked about together."""

    __slots__ = (
        "_ask",
        "_began_ms",
        "_retry_until_ms",
        "_transaction",
        "_verifier",
        "_waiting",
        "count",
        "deadline_bucket",
    )

    def __init__(self, verifier: TransactionVerifier, transaction: VerifiedTransaction) -> None:
        self._verifier = verifier
        self._transaction = transaction
        self._waiting: dict[tuple[str, int], list[Callable[[ErrorCode], None]]] = {}
        """By topic and partition."""
        self.count = 0
        """How many wait."""
        self._ask: PendingAsk | None = None
        self._began_ms = verifier.clock.now_ms
        self._retry_until_ms = self._began_ms + RETRY_MS_MAX
        self.deadline_bucket = -1

    def add(self, topic: str, partition: int, answered: Callable[[ErrorCode], None]) -> None:
        self._waiting.setdefault((topic, partition), []).append(answered)
        self.count += 1

    def ask(self) -> None:
        verifier, transaction = self._verifier, self._transaction
        coordinator = find_coordinator(verifier.image, transaction.transactional_id, TRANSACTION_STATE_TOPIC)
        if coordinator is not None:
            topics: dict[str, AddPartitionsToTxnTopic] = {}
            for name, partition in self._waiting:
                topics.setdefault(name, AddPartitionsToTxnTopic(name, [])).partitions.append(partition)
            asked = AddPartitionsToTxnTransaction(
                transaction.transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                not transaction.adds,
                list(topics.values()),
            )
            body = encode_body(AddPartitionsToTxnRequest([asked]), _VERSION)
            call = GroupCall(0, coordinator.partition, int(ApiKey.ADD_PARTITIONS_TO_TXN), _VERSION, "", "", body)
            self._ask = verifier.coordinators.submit_ask(self, coordinator.node_id, call)
        if self._ask is None:
            self._answer_all(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            verifier.deadlines.schedule(self, verifier.clock.now_ms + verifier.config.group_call_ms_max)

    def group_answered(self, ask: PendingAsk, answer: GroupAnswer) -> None:
        self._ask = None
        verifier = self._verifier
        verifier.deadlines.unschedule(self)
        errors, other = _errors_in(answer)
        waiting, self._waiting = self._waiting, {}
        outcomes = [(errors.get(each, other), each, answered) for each, answered in waiting.items()]
        is_refused = any(error not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED) for error, _, _ in outcomes)
        may_retry = self._transaction.adds and verifier.clock.now_ms < self._retry_until_ms
        is_left_out = False
        for error, each, answered in outcomes:
            if error is ErrorCode.CONCURRENT_TRANSACTIONS and may_retry:
                self._waiting[each] = answered
            elif error is ErrorCode.OPERATION_NOT_ATTEMPTED and is_refused:
                # For a partition that the coordinator does not know nothing was added: ask again, without it.
                self._waiting[each] = answered
                is_left_out = True
            else:
                verifier.failures += error is not ErrorCode.NONE
                self._answer(answered, error)
        if is_left_out:
            self.ask()
        elif self._waiting:
            verifier.deadlines.schedule(self, verifier.clock.now_ms + RETRY_MS)
        else:
            self._note_time()

    def failed(self, error: Exception) -> None:
        """Its answer has met an unexpected exception: whether the transaction is open is not known."""
        self._contain(error)
        self._answer_all(ErrorCode.NETWORK_EXCEPTION)
        if self._ask is not None:
            self._verifier.coordinators.forget_call(self._ask)
            self._ask = None
        self._verifier.deadlines.unschedule(self)

    def _contain(self, error: Exception) -> None:
        named: dict[str, str | int] = {"transactional_id": self._transaction.transactional_id}
        self._verifier.contained.contain(VERIFICATION, error, named)

    def group_lost(self, ask: PendingAsk) -> None:
        self._ask = None
        self._verifier.deadlines.unschedule(self)
        self._answer_all(ErrorCode.NETWORK_EXCEPTION)

    def expire(self, now_ms: int) -> None:
        """Ask again, or wait no longer."""
        if self._ask is None:
            self.ask()
            return
        self._verifier.coordinators.forget_call(self._ask)
        self._ask = None
        self._answer_all(ErrorCode.NETWORK_EXCEPTION)

    def _answer_all(self, error: ErrorCode) -> None:
        waiting, self._waiting = self._waiting, {}
        self._verifier.failures += len(waiting)
        self._note_time()
        for answered in waiting.values():
            self._answer(answered, error)

    def _answer(self, waiting: list[Callable[[ErrorCode], None]], error: ErrorCode) -> None:
        """What one request does with its answer costs that request; the others that wait have theirs."""
        for answered in waiting:
            try:
                answered(error)
            except Exception as fault:
                self._contain(fault)

    def _note_time(self) -> None:
        self._verifier.times.add((self._verifier.clock.now_ms - self._began_ms) * 1000)


def _errors_in(answer: GroupAnswer) -> tuple[dict[tuple[str, int], ErrorCode], ErrorCode]:
    """Return the errors by topic and partition, and that of all others."""
    if answer.error_code:
        return {}, ErrorCode(answer.error_code)
    try:
        response = decode_response_body(ApiKey.ADD_PARTITIONS_TO_TXN, _VERSION, memoryview(answer.body))
    except MalformedFrame:
        return {}, ErrorCode.UNKNOWN_SERVER_ERROR
    assert isinstance(response, AddPartitionsToTxnResponse)
    errors = {
        (of_topic.name, result.partition_index): ErrorCode(result.partition_error_code)
        for of_transaction in response.results_by_transaction
        for of_topic in of_transaction.topic_results
        for result in of_topic.results_by_partition
    }
    return errors, ErrorCode(response.error_code) or ErrorCode.UNKNOWN_SERVER_ERROR
