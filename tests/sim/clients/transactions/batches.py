"""The batches of a producer's transaction: sent in the order of their sequences, up to five of a partition in flight,
and sent again behind errors that pass. A Java client sends batches of several partitions in one request, librdkafka
each in one of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from barnabas.wire.record_batch import Record, build_batch
from tests.sim.clients.client import UNKNOWN_TOPIC
from tests.sim.clients.producers.java_transactions import RETRIABLE
from tests.sim.history import History
from tests.sim.scheduler import MS
from tests.sim.transactions.history import TopicPartition
from tests.sim.transactions.shape import Kind, TransactionHabits

if TYPE_CHECKING:
    from tests.sim.clients.client import Client
    from tests.sim.clients.transactions.transaction_manager import TransactionManager

IN_FLIGHT_MAX = 5
PRODUCE_TIMEOUT_MS = 3_000
TOPIC_ID_VERSION = 13
_RETRIED = RETRIABLE | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


@dataclass(slots=True, eq=False)
class Batch:
    """`sequence` is given when it is first sent."""

    partition: TopicPartition
    values: list[bytes]
    sequence: int = -1
    is_in_flight: bool = False
    is_over: bool = False


def sends_to(partition: TopicPartition) -> str:
    """What an owner is asking for while a partition's batches wait before they are sent again."""
    return f"sends to {partition}"


class OpenBatches:
    """Those of the transaction that is open; sequences go on through all transactions of an epoch."""

    def __init__(self, owner: TransactionManager, client: Client, habits: TransactionHabits, history: History) -> None:
        self._owner = owner
        self._client = client
        self._habits = habits
        self._history = history
        self._batches: dict[TopicPartition, list[Batch]] = {}
        self._sequences: dict[TopicPartition, int] = {}

    def __bool__(self) -> bool:
        """Something is to be sent, or not answered."""
        return any(self._batches.values())

    @property
    def partitions(self) -> list[TopicPartition]:
        """Those with batches that are not over."""
        return [partition for partition, batches in self._batches.items() if batches]

    def forget(self) -> None:
        """The next transaction has nothing of the one before."""
        self._batches = {}

    def begin_epoch(self) -> None:
        self._sequences.clear()

    def add(self, partition: TopicPartition, values: list[bytes]) -> None:
        batch = Batch(partition, values)
        self._batches.setdefault(partition, []).append(batch)
        self._client.after(self._habits.delivery_timeout_ms * MS, "gives up a batch", lambda: self._expire(batch))

    def drop_unsent(self) -> None:
        """What was never sent never is."""
        for batches in self._batches.values():
            batches[:] = [each for each in batches if each.sequence >= 0]

    def send(self, added: Iterable[TopicPartition]) -> None:
        """Of each of these partitions what may go: behind an error only when nothing is in flight there, in the same
        order.
        """
        ready: list[Batch] = []
        for partition in added:
            batches = self._batches.get(partition, [])
            if self._owner.is_asking(sends_to(partition)):
                continue
            is_repeating = any(each.sequence >= 0 and not each.is_in_flight for each in batches)
            if is_repeating and any(each.is_in_flight for each in batches):
                continue
            room = IN_FLIGHT_MAX - sum(each.is_in_flight for each in batches)
            ready += [each for each in batches if not each.is_in_flight][:room]
        if self._habits.kind is Kind.LIBRDKAFKA:
            for each in ready:
                self._produce([each])
        else:
            # One batch of a partition in each request.
            while ready:
                first = {each.partition: each for each in reversed(ready)}
                self._produce(list(first.values()))
                ready = [each for each in ready if first[each.partition] is not each]

    def _produce(self, batches: list[Batch]) -> None:
        owner, client = self._owner, self._client
        owner.is_begun = True
        version = 13 if owner.is_version_2 else 11
        has_ids = version >= TOPIC_ID_VERSION
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            topic, partition = batch.partition
            if batch.sequence < 0:
                batch.sequence = self._sequences.get(batch.partition, 0)
                self._sequences[batch.partition] = batch.sequence + len(batch.values)
            batch.is_in_flight = True
            topic_id = client.topic_ids[topic] if has_ids else bytes(16)
            data = topics.setdefault(topic, TopicProduceData("" if has_ids else topic, topic_id, []))
            encoded = build_batch(
                [Record(value, value, client.wall_ms) for value in batch.values],
                producer_id=owner.producer[0],
                producer_epoch=owner.producer[1],
                base_sequence=batch.sequence,
                is_transactional=True,
            )
            data.partition_data.append(PartitionProduceData(partition, encoded))
        request = ProduceRequest(owner.transactional_id, -1, PRODUCE_TIMEOUT_MS, list(topics.values()))

        def answered(response: ProduceResponse | None) -> None:
            codes: dict[TopicPartition, tuple[int, int]] = {}
            for topic in response.responses if response is not None else ():
                topic_name = topic.name or client.topic_names[topic.topic_id]
                for each in topic.partition_responses:
                    codes[topic_name, each.index] = (each.error_code, each.base_offset)
            for batch in batches:
                batch.is_in_flight = False
                if response is not None and not batch.is_over:
                    self._batch_answered(batch, *codes[batch.partition])
            self._owner.pump()

        client.ask(ApiKey.PRODUCE, request, version, ProduceResponse, answered)

    def _batch_answered(self, batch: Batch, code: int, base_offset: int) -> None:
        self._history.counts.operations += 1
        open_batches = self._batches[batch.partition]
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            for index, value in enumerate(batch.values):
                offset = base_offset + index if base_offset >= 0 else -1
                self._history.acknowledged(*batch.partition, offset, value, -1)
            self._settle(batch)
        elif code in UNKNOWN_TOPIC:
            self._client.learn_again([batch.partition[0]])
            self._owner.ask_again(sends_to(batch.partition), ErrorCode.NONE)
        elif code in _RETRIED or (
            code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and open_batches and open_batches[0] is not batch
        ):
            self._owner.ask_again(sends_to(batch.partition), ErrorCode.NONE)
        elif code == ErrorCode.PRODUCER_FENCED:
            self._owner.fatal()
        else:
            self._fail_batch(batch)

    def _settle(self, batch: Batch) -> None:
        batch.is_over = True
        self._batches[batch.partition].remove(batch)

    def _expire(self, batch: Batch) -> None:
        """Its delivery timeout: what has become of it is not known."""
        if not batch.is_over and batch in self._batches.get(batch.partition, ()):
            self._fail_batch(batch)
            self._owner.pump()

    def _fail_batch(self, batch: Batch) -> None:
        self._history.counts.unknown += len(batch.values)
        self._settle(batch)
        self._owner.fail(needs_bump=True)
