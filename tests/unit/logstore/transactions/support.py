"""A transaction coordinator between a scripted log, scripted leaders, and clients controlled by a test."""

from __future__ import annotations

from typing import Any, TypeVar

from barnabas.channel.messages import GroupAnswer, GroupCall
from barnabas.cluster.features import TRANSACTION_VERSION, finalized_features
from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import Broker, PartitionMetadata, TopicMetadata, UpdateMetadata
from barnabas.runtime.compression import decompress
from barnabas.wire.codec import decode_response_body, encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response, api_key_of
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.record_batch import decode_records
from barnabas_logstore.core.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from barnabas_logstore.core.coordinator.transactions.config import TransactionConfig
from barnabas_logstore.core.coordinator.transactions.kind import TransactionKind
from barnabas_logstore.core.coordinator.transactions.records import read_record
from barnabas_logstore.core.coordinator.transactions.shard import MarkerSender, TransactionShard
from barnabas_logstore.core.coordinator.transactions.transaction import Transaction, TransactionState
from tests.unit.logstore.coordinator.support import FakeLog

PARTITION = 3
STREAM = 1
WALL_AT_START_MS = 1_700_000_000_000
ID = "shop"
TOPIC = "carts"
TOPIC_ID = b"carts of a shop."
OFFSETS_TOPIC_ID = b"offsets of group"
STATE_TOPIC_ID = b"states of transa"
TIMEOUT_MS = 60_000
FIRST_ID, BLOCK = 1000, 1000

R = TypeVar("R", bound=Response)


def image_of(*brokers: int, leader: int = 1, revision: int = 1, topics: bool = True) -> ClusterImage:
    """Two partitions of TOPIC and of __consumer_offsets, led by `leader`."""
    image = ClusterImage()
    image.apply(update_of(*brokers, leader=leader, revision=revision, topics=topics))
    return image


def update_of(*brokers: int, leader: int, revision: int, topics: bool = True, level: int = 2) -> UpdateMetadata:
    """`level` is that of transaction.version."""

    def partitions() -> list[PartitionMetadata]:
        members = tuple(sorted({*brokers, leader} - {-1}))
        return [PartitionMetadata(number, leader, revision, revision, members, members) for number in range(2)]

    named = ((TOPIC, TOPIC_ID), ("__consumer_offsets", OFFSETS_TOPIC_ID)) if topics else ()
    return UpdateMetadata(
        revision,
        full=True,
        cluster_id="cluster",
        controller_epoch=1,
        brokers=[Broker(each, f"host{each}:1", 1) for each in brokers],
        purgatories=[],
        topics=[TopicMetadata(name, topic_id, {}, partitions()) for name, topic_id in named],
        finalized_features=finalized_features(1, {TRANSACTION_VERSION: level}),
    )


def state_topic(leader_epoch: int) -> TopicMetadata:
    """__transaction_state, whose partition PARTITION is led under this epoch."""
    led = PartitionMetadata(PARTITION, 1, leader_epoch, leader_epoch, (1,), (1,))
    return TopicMetadata("__transaction_state", STATE_TOPIC_ID, {}, [led])


class FakeMarkers:
    """Holds what is to be written until the test says that it is."""

    def __init__(self) -> None:
        self.sent: list[tuple[TransactionShard, Transaction]] = []

    def send_markers(self, sender: TransactionShard, transaction: Transaction) -> None:
        self.sent.append((sender, transaction))

    def forget_sender(self, sender: TransactionShard) -> None:
        self.sent = [each for each in self.sent if each[0] is not sender]

    def write(self) -> None:
        """All partitions have answered."""
        sent, self.sent = self.sent, []
        for sender, transaction in sent:
            sender.markers_written(transaction)


class World:
    """One coordinator, one partition, and time. `turn` is one turn of the host."""

    def __init__(self, log: FakeLog | None = None, sender: MarkerSender | None = None, **config: Any) -> None:
        """`sender` in place of `markers`."""
        self.now_ms = 0
        self.epoch = 0
        self.log = log or FakeLog()
        self.markers = FakeMarkers()
        self.image = image_of(1)
        self.answers: dict[int, GroupAnswer] = {}
        self.last_id = 0
        self.reported_committed = 0
        self.kind = TransactionKind(TransactionConfig(**config), self.image, sender or self.markers)
        self.coordinator: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(self.kind, decompress)
        self.lead()
        assert self.kind.producer_ids.take_request()
        self.kind.producer_ids.block_received(FIRST_ID, BLOCK)

    @property
    def wall_ms(self) -> int:
        return WALL_AT_START_MS + self.now_ms

    def lead(self, *, loads: bool = True) -> None:
        self.epoch += 1
        self.reported_committed = self.log.committed_upto
        self.log.reads.clear()
        self.coordinator.begin_turn(self.now_ms, self.wall_ms)
        self.coordinator.on_leadership(PARTITION, self.epoch, self.log, self.now_ms)
        while loads and (self.log.reads or self.coordinator.has_work):
            if self.log.reads and not self.coordinator.has_work:
                data, next_offset = self.log.data_from(self.log.reads.pop(), 1)
                self.coordinator.on_read(PARTITION, self.epoch, memoryview(data), next_offset, self.now_ms)
            self.coordinator.step(self.now_ms)
        self.turn()

    def lose(self) -> None:
        self.coordinator.on_lost(PARTITION, self.epoch, self.now_ms)
        self.take()

    def fail_over(self) -> None:
        """Another life begins with what was committed."""
        self.lose()
        self.log.truncate()
        self.lead()

    def commit(self) -> None:
        self.log.committed_upto = self.log.next_offset
        self.turn()

    def turn(self) -> None:
        self.coordinator.begin_turn(self.now_ms, self.wall_ms)
        self.coordinator.step(self.now_ms)
        if self.log.committed_upto > self.reported_committed:
            self.reported_committed = self.log.committed_upto
            self.coordinator.on_committed(PARTITION, self.epoch, self.reported_committed, self.now_ms)
        self.take()

    def take(self) -> None:
        for stream_id, answer in self.coordinator.take_answers():
            assert stream_id == STREAM
            assert answer.request_id not in self.answers, "a request is answered once"
            self.answers[answer.request_id] = answer

    def advance(self, ms: int) -> None:
        """To every deadline on the way, and then to the end of it."""
        end_ms = self.now_ms + ms
        while (next_ms := self.coordinator.next_deadline_ms()) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self.turn()
        self.now_ms = end_ms
        self.turn()

    # --- requests ---

    def send(self, request: Request, version: int) -> int:
        self.last_id += 1
        self.coordinator.begin_turn(self.now_ms, self.wall_ms)
        body = encode_body(request, version)
        call = GroupCall(self.last_id, PARTITION, int(api_key_of(type(request))), version, "", "", body)
        self.coordinator.on_call(STREAM, call)
        self.turn()
        return self.last_id

    def error_of(self, request_id: int) -> ErrorCode:
        """Of the whole call: there is no body."""
        assert not self.answers[request_id].body
        return ErrorCode(self.answers[request_id].error_code)

    def body_of(self, request_id: int, request: Request, version: int, kind: type[R]) -> R:
        answer = self.answers[request_id]
        assert answer.error_code == ErrorCode.NONE
        response = decode_response_body(int(api_key_of(type(request))), version, memoryview(answer.body))
        assert isinstance(response, kind)
        return response

    def ask(self, request: Request, version: int, kind: type[R]) -> R:
        return self.body_of(self.send(request, version), request, version, kind)

    def init(self, transactional_id: str = ID, *, version: int = 5, **changes: Any) -> InitProducerIdResponse:
        request = InitProducerIdRequest(transactional_id, changes.pop("timeout_ms", TIMEOUT_MS), **changes)
        return self.ask(request, version, InitProducerIdResponse)

    def add(self, producer_id: int, epoch: int, *partitions: int, topic: str = TOPIC, version: int = 3) -> ErrorCode:
        topics = [AddPartitionsToTxnTopic(topic, list(partitions))]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
        response = self.ask(request, version, AddPartitionsToTxnResponse)
        (error,) = {
            each.partition_error_code
            for topic_result in response.results_by_topic_v3_and_below
            for each in topic_result.results_by_partition
        }
        return ErrorCode(error)

    def add_by_broker(self, producer_id: int, epoch: int, *partitions: int) -> ErrorCode:
        """As a partition's leader or gateway adds them for a client of version 2."""
        topics = [AddPartitionsToTxnTopic(TOPIC, list(partitions))]
        asked = AddPartitionsToTxnTransaction(ID, producer_id, epoch, verify_only=False, topics=topics)
        response = self.ask(AddPartitionsToTxnRequest([asked]), 5, AddPartitionsToTxnResponse)
        (result,) = response.results_by_transaction
        (error,) = {each.partition_error_code for topic in result.topic_results for each in topic.results_by_partition}
        return ErrorCode(error)

    def end(self, producer_id: int, epoch: int, *, commit: bool = True, version: int = 4) -> EndTxnResponse:
        return self.ask(EndTxnRequest(ID, producer_id, epoch, commit), version, EndTxnResponse)

    def begun(self, *partitions: int) -> tuple[int, int]:
        """Return the id and epoch of a producer that has a transaction open."""
        found = self.init()
        assert found.error_code == ErrorCode.NONE
        assert self.add(found.producer_id, found.producer_epoch, *(partitions or (0,))) == ErrorCode.NONE
        return found.producer_id, found.producer_epoch

    # --- what is known ---

    def transaction(self, transactional_id: str = ID) -> Transaction:
        (led,) = self.coordinator.shards
        return led.shard.transactions[transactional_id]

    def state(self) -> TransactionState:
        return self.transaction().state

    def logged_states(self) -> list[TransactionState | None]:
        """What the log's records say, in order; None for a tombstone."""
        records = [record for batch in self.log.batches for record in decode_records(batch)]
        entries = [entry for record in records if (entry := read_record(record.key, record.value)) is not None]
        return [transaction and transaction.state for _, transaction in entries]
