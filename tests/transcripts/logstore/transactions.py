"""Commands of transactional producers, and the verification that a gateway asks coordinators for (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.transcripts.logstore.calls import Answered, Calls
from tests.transcripts.logstore.cluster import Cluster
from tests.transcripts.logstore.groups import GroupCommands, offsets_of
from tests.transcripts.logstore.records import OFFSETS_TOPIC, STATE_TOPIC
from tests.transcripts.script import Command, ScriptError, milliseconds, partition_of

_INIT, _ADD, _VERIFY, _ADD_OFFSETS, _DESCRIBE = 5, 3, 5, 4, 0
Verified = Callable[[ErrorCode], None]


@dataclass(slots=True)
class Producer:
    """What a producer remembers between its requests. `transaction_version` is that of the cluster when it began."""

    name: str
    transactional_id: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    transaction_version: int = 2
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def is_transactional(self) -> bool:
        return bool(self.transactional_id)


class TransactionCommands:
    def __init__(self, cluster: Cluster, calls: Calls, groups: GroupCommands) -> None:
        self._cluster = cluster
        self._calls = calls
        self._groups = groups
        self._producers: dict[str, Producer] = {}
        self.verbs: dict[str, Callable[[Command], None]] = {
            "init-producer-id": self._init,
            "add-partitions": self._add_partitions,
            "add-offsets": self._add_offsets,
            "txn-offset-commit": self._txn_offset_commit,
            "end-txn": self._end,
            "describe-transaction": self._describe,
        }

    def producer(self, command: Command) -> Producer:
        """Return the producer that a command is of."""
        name = command.argument()
        return self._producers.setdefault(name, Producer(name))

    def _ask(self, name: str, request: Request, version: int, answered: Answered) -> None:
        kind = type(request).__name__.removesuffix("Request")

        def on_answer(response: Any) -> None:
            if isinstance(response, ErrorCode):
                self._cluster.say(f"{name} {kind} -> {response.name}")
            else:
                answered(response)

        self._calls.call(name, (STATE_TOPIC, 0), request, version, on_answer)

    def _identity(self, command: Command) -> tuple[Producer, int, int]:
        producer = self.producer(command)
        producer_id = command.number("producer-id", producer.producer_id)
        return producer, producer_id, command.number("producer-epoch", producer.producer_epoch)

    def _init(self, command: Command) -> None:
        producer = self.producer(command)
        producer.transactional_id = command.text("transactional.id", producer.transactional_id)
        producer.transaction_version = self._cluster.transaction_version
        goes_on = command.has("keep")
        request = InitProducerIdRequest(
            producer.transactional_id,
            milliseconds(command.text("transaction.timeout.ms", "60s")),
            producer.producer_id if goes_on else -1,
            producer.producer_epoch if goes_on else -1,
        )

        def begun(response: Any) -> None:
            shown = f"{producer.name} InitProducerId -> {ErrorCode(response.error_code).name}"
            if not response.error_code:
                self._goes_on_as(producer, response.producer_id, response.producer_epoch)
                shown += f" producer-id={response.producer_id} producer-epoch={response.producer_epoch}"
            self._cluster.say(shown)

        self._ask(producer.name, request, _INIT, begun)

    def _goes_on_as(self, producer: Producer, producer_id: int, producer_epoch: int) -> None:
        if (producer.producer_id, producer.producer_epoch) != (producer_id, producer_epoch):
            producer.producer_id, producer.producer_epoch = producer_id, producer_epoch
            producer.sequences.clear()

    def _add_partitions(self, command: Command) -> None:
        producer, producer_id, producer_epoch = self._identity(command)
        partitions = [partition_of(each) for each in command.arguments[1:]]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name, [number]) for name, number in partitions],
        )

        def added(response: Any) -> None:
            found = _partition_errors(response.results_by_topic_v3_and_below)
            self._cluster.say(f"{producer.name} AddPartitionsToTxn -> {found}")

        self._ask(producer.name, request, _ADD, added)

    def _add_offsets(self, command: Command) -> None:
        producer, producer_id, producer_epoch = self._identity(command)
        request = AddOffsetsToTxnRequest(producer.transactional_id, producer_id, producer_epoch, command.text("group"))
        say = self._cluster.say
        self._ask(
            producer.name,
            request,
            _ADD_OFFSETS,
            lambda response: say(f"{producer.name} AddOffsetsToTxn -> {ErrorCode(response.error_code).name}"),
        )

    def verify(self, producer: Producer, partition: tuple[str, int], verified: Verified, *, adds: bool) -> None:
        """Ask the coordinator, for the leader of a partition, whether it is part of the transaction, or add it."""
        topics = [AddPartitionsToTxnTopic(partition[0], [partition[1]])]
        asked = AddPartitionsToTxnTransaction(
            producer.transactional_id,
            producer.producer_id,
            producer.producer_epoch,
            verify_only=not adds,
            topics=topics,
        )

        def answered(response: Any) -> None:
            if isinstance(response, ErrorCode):
                error = response
            else:
                (transaction,) = response.results_by_transaction
                error = ErrorCode(transaction.topic_results[0].results_by_partition[0].partition_error_code)
            what = "AddPartitionsToTxn" if adds else "AddPartitionsToTxn verify-only"
            self._cluster.say(f"  leader of {partition[0]}-{partition[1]}: {what} -> {error.name}")
            verified(error)

        self._calls.call("leader", (STATE_TOPIC, 0), AddPartitionsToTxnRequest([asked]), _VERIFY, answered)

    def _txn_offset_commit(self, command: Command) -> None:
        producer, producer_id, producer_epoch = self._identity(command)
        topics = [
            TxnOffsetCommitRequestTopic(name, [TxnOffsetCommitRequestPartition(number, offset, committed_metadata="")])
            for name, number, offset in offsets_of(command)
        ]
        adds = producer.transaction_version >= 2
        member_id, generation_id = "", -1
        if consumer := command.text("consumer"):
            member_id, generation_id = self._groups.ids_of(consumer)
            generation_id = command.number("generation", generation_id)
        request = TxnOffsetCommitRequest(
            producer.transactional_id,
            command.text("group"),
            producer_id,
            producer_epoch,
            generation_id,
            member_id,
            topics=topics,
        )

        def committed(response: Any) -> None:
            if isinstance(response, ErrorCode):
                self._cluster.say(f"{producer.name} TxnOffsetCommit -> {response.name}")
                return
            found = [
                f"{topic.name}-{each.partition_index}:{ErrorCode(each.error_code).name}"
                for topic in response.topics
                for each in topic.partitions
            ]
            self._cluster.say(f"{producer.name} TxnOffsetCommit -> {' '.join(found)}")

        version = 5 if adds else 4
        pending = self._calls.call(producer.name, (OFFSETS_TOPIC, 0), request, version, committed)

        def verify(guard: int) -> None:
            def verified(error: ErrorCode) -> None:
                if error:
                    committed(error)
                else:
                    self._calls.send(pending, guard)

            self.verify(producer, (OFFSETS_TOPIC, 0), verified, adds=adds)

        pending.verify = verify

    def _end(self, command: Command) -> None:
        producer, producer_id, producer_epoch = self._identity(command)
        if command.has("commit") == command.has("abort"):
            raise ScriptError("end-txn needs commit or abort")
        request = EndTxnRequest(producer.transactional_id, producer_id, producer_epoch, command.has("commit"))

        def ended(response: Any) -> None:
            shown = f"{producer.name} EndTxn -> {ErrorCode(response.error_code).name}"
            if not response.error_code and response.producer_id != -1:
                self._goes_on_as(producer, response.producer_id, response.producer_epoch)
                shown += f" producer-id={response.producer_id} producer-epoch={response.producer_epoch}"
            self._cluster.say(shown)

        self._ask(producer.name, request, 5 if producer.transaction_version >= 2 else 4, ended)

    def _describe(self, command: Command) -> None:
        def described(response: Any) -> None:
            (found,) = response.transaction_states
            partitions = ",".join(f"{each.topic}-{number}" for each in found.topics for number in each.partitions)
            shown = f"DescribeTransactions -> {ErrorCode(found.error_code).name}"
            if not found.error_code:
                shown += (
                    f" state={found.transaction_state} producer-id={found.producer_id} "
                    f"producer-epoch={found.producer_epoch} partitions=[{partitions}]"
                )
            self._cluster.say(shown)

        self._ask("admin", DescribeTransactionsRequest([command.argument()]), _DESCRIBE, described)


def _partition_errors(topics: list[Any]) -> str:
    return " ".join(
        f"{topic.name}-{each.partition_index}:{ErrorCode(each.partition_error_code).name}"
        for topic in topics
        for each in topic.results_by_partition
    )
