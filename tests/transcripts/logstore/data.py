"""Commands of producers and consumers of records: Produce, Fetch, ListOffsets, with what waits in purgatory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from barnabas.channel.assembly import ReadAssembler
from barnabas.channel.messages import (
    ABORTED_TRANSACTION,
    Append,
    AppendResult,
    ExchangeRequest,
    OffsetAnswer,
    OffsetQuery,
    PartitionState,
    Read,
    ReadPartition,
    ReadPiece,
    ReadRequest,
    WatchedPartition,
    WatchRequest,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.file_range import FileRange
from barnabas.wire.record_batch import Record, build_batch, decode_records, iterate_headers
from tests.transcripts.logstore.cluster import Cluster
from tests.transcripts.logstore.node import EXCHANGE, READ, WALL_AT_START_MS, WATCH, Node
from tests.transcripts.logstore.records import STATE_TOPIC, TransactionLogValue, TransactionStatus, encode_transaction
from tests.transcripts.logstore.transactions import Producer, TransactionCommands
from tests.transcripts.script import Command, ScriptError, partition_of

_FETCH_BYTES_MAX = 1 << 20
_TIMESTAMPS = {"latest": -1, "earliest": -2}


@dataclass(slots=True)
class PendingProduce:
    """`result` is set while an acks=all produce waits for the high watermark."""

    producer: Producer
    partition: tuple[str, int]
    node: Node
    append: Append
    result: AppendResult | None = None


class DataCommands:
    def __init__(self, cluster: Cluster, transactions: TransactionCommands) -> None:
        self._cluster = cluster
        self._transactions = transactions
        self._ids = count(1)
        self._produces: dict[int, PendingProduce] = {}
        self._parked: list[PendingProduce] = []
        self._states: dict[tuple[int, bytes, int], PartitionState] = {}
        self._reads: dict[int, Callable[[str], None]] = {}
        self._queries: dict[int, str] = {}
        self._assembler = ReadAssembler()
        self.verbs: dict[str, Callable[[Command], None]] = {
            "produce": self._produce,
            "fetch": self._fetch,
            "list-offsets": self._list_offsets,
            "transaction-log": self._append_to_transaction_log,
        }

    # --- requests -----------------------------------------------------------------------------------------------------

    def _node(self, command: Command, partition: tuple[str, int]) -> Node:
        node_id = command.number("at", 0)
        return self._cluster.node(node_id) if node_id else self._cluster.leader(*partition)

    def _produce(self, command: Command) -> None:
        producer = self._transactions.producer(command)
        partition = partition_of(command.argument(1))
        values = command.texts("values")
        if not values:
            raise ScriptError("produce needs values=[a,b]")
        producer_id = command.number("producer-id", producer.producer_id)
        epoch = command.number("producer-epoch", producer.producer_epoch)
        sequence = -1 if producer_id == -1 else command.number("sequence", producer.sequences.get(partition, 0))
        if producer_id != -1:
            producer.sequences[partition] = sequence + len(values)
        wall_ms = WALL_AT_START_MS + self._cluster.now_ms
        batch = build_batch(
            [Record(None, value.encode(), wall_ms) for value in values],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=producer.is_transactional,
        )
        acks = {"all": -1, "1": 1, "0": 0}[command.text("acks", "all")]
        leader_epoch = command.number("leader-epoch", self._cluster.partition(*partition).leader_epoch)
        append = Append(
            next(self._ids),
            self._cluster.topics[partition[0]].topic_id,
            partition[1],
            leader_epoch,
            acks,
            batch,
            supports_epoch_bump=producer.is_transactional and producer.transaction_version >= 2,
        )
        self._send(PendingProduce(producer, partition, self._node(command, partition), append))

    def _append_to_transaction_log(self, command: Command) -> None:
        """Have a transactional id in the state that a long life would have led to; its coordinator reads it at load."""
        name, node = command.argument(), self._cluster.leader(STATE_TOPIC, 0)
        wall_ms = WALL_AT_START_MS + self._cluster.now_ms
        value = TransactionLogValue(
            producer_id=command.number("producer-id", -1),
            producer_epoch=command.number("producer-epoch", 0),
            transaction_timeout_ms=60_000,
            transaction_status=TransactionStatus[command.text("state", "Empty")].value,
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=wall_ms,
            transaction_start_timestamp_ms=-1,
            client_transaction_version=self._cluster.transaction_version,
        )
        epoch = self._cluster.partition(STATE_TOPIC, 0).leader_epoch
        topic_id = self._cluster.topics[STATE_TOPIC].topic_id
        append = Append(next(self._ids), topic_id, 0, epoch, -1, build_batch([encode_transaction(name, value)]))
        self._send(PendingProduce(Producer(name), (STATE_TOPIC, 0), node, append))

    def _send(self, produce: PendingProduce) -> None:
        self._produces[produce.append.request_id] = produce
        produce.node.core.on_exchange(EXCHANGE, ExchangeRequest(appends=[produce.append]))
        self._cluster.arrived()

    def _fetch(self, command: Command) -> None:
        name = command.argument(0)
        partition = partition_of(command.argument(1))
        is_committed = command.text("isolation.level", "read_uncommitted") == "read_committed"
        topic_id = self._cluster.topics[partition[0]].topic_id
        asked = ReadPartition(
            topic_id,
            partition[1],
            command.number("leader-epoch", -1),
            command.number("offset", 0),
            _FETCH_BYTES_MAX,
        )
        request_id = next(self._ids)
        self._reads[request_id] = lambda found: self._cluster.say(f"{name} Fetch -> {found}")
        read = Read(request_id, _FETCH_BYTES_MAX, int(is_committed), [asked])
        self._node(command, partition).core.on_read(READ, ReadRequest(reads=[read]))

    def _list_offsets(self, command: Command) -> None:
        name = command.argument(0)
        partition = partition_of(command.argument(1))
        query = OffsetQuery(
            next(self._ids),
            self._cluster.topics[partition[0]].topic_id,
            partition[1],
            command.number("leader-epoch", -1),
            int(command.text("isolation.level", "read_uncommitted") == "read_committed"),
            _TIMESTAMPS[command.argument(2)],
        )
        self._queries[query.request_id] = name
        self._node(command, partition).core.on_exchange(EXCHANGE, ExchangeRequest(offset_queries=[query]))

    # --- answers ------------------------------------------------------------------------------------------------------

    def results(self, results: Sequence[AppendResult]) -> None:
        for result in results:
            produce = self._produces.pop(result.request_id)
            if result.verification_guard:
                self._verify(produce, result.verification_guard)
            elif result.error_code or result.committed or produce.append.acks != -1:
                self._answer(produce, ErrorCode(result.error_code), result.base_offset)
            else:
                produce.result = result
                self._parked.append(produce)
                topic_id, number = produce.append.topic_id, produce.append.partition
                produce.node.core.on_watch(WATCH, WatchRequest(watches=[WatchedPartition(topic_id, number)]))
                self._cluster.arrived()

    def _verify(self, produce: PendingProduce, guard: int) -> None:
        def verified(error: ErrorCode) -> None:
            if error:
                self._answer(produce, error, -1)
                return
            produce.append.verification_guard = guard
            produce.append.request_id = next(self._ids)
            self._send(produce)

        self._transactions.verify(
            produce.producer, produce.partition, verified, adds=produce.append.supports_epoch_bump
        )

    def _answer(self, produce: PendingProduce, error: ErrorCode, base_offset: int) -> None:
        shown = f"{produce.producer.name} Produce -> {error.name}"
        self._cluster.say(shown if error else f"{shown} offset={base_offset}")

    def states(self, node: Node, states: Sequence[PartitionState]) -> None:
        """Answer what waits for the high watermark of these partitions, as purgatory does."""
        for state in states:
            self._states[node.node_id, state.topic_id, state.partition] = state
        for produce in list(self._parked):
            key = (produce.node.node_id, produce.append.topic_id, produce.append.partition)
            found, result = self._states.get(key), produce.result
            assert result is not None
            if produce.node is not node or found is None:
                continue
            if not found.leads_since(produce.append.leader_epoch):
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif found.high_watermark < result.required_offset:
                continue
            else:
                error = ErrorCode.NONE
                if not found.in_sync_replicas_at_minimum:
                    error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            self._parked.remove(produce)
            self._answer(produce, error, result.base_offset)

    def pieces(self, pieces: Sequence[ReadPiece]) -> None:
        for piece in pieces:
            result = self._assembler.add_piece(piece)
            if result is None:
                continue
            (found,) = result.partitions
            shown = ErrorCode(found.error_code).name
            if not found.error_code:
                assert not isinstance(found.records, FileRange)
                values = ",".join(fetched_values(bytes(found.records)))
                shown += f" [{values}] high-watermark={found.high_watermark}"
                if found.last_stable_offset != found.high_watermark:
                    shown += f" last-stable-offset={found.last_stable_offset}"
                if found.aborted_transactions:
                    aborted = ABORTED_TRANSACTION.iter_unpack(found.aborted_transactions)
                    shown += f" aborted=[{','.join(f'{producer_id}@{first}' for producer_id, first in aborted)}]"
            self._reads.pop(result.request_id)(shown)

    def offsets(self, answers: Sequence[OffsetAnswer]) -> None:
        for answer in answers:
            error = ErrorCode(answer.error_code)
            found = "" if error else f" offset={answer.offset} leader-epoch={answer.leader_epoch}"
            self._cluster.say(f"{self._queries.pop(answer.request_id)} ListOffsets -> {error.name}{found}")


def fetched_values(data: bytes) -> list[str]:
    """Return the values of all records, and a word for each marker."""
    found: list[str] = []
    for position, header in iterate_headers(data):
        if header.is_control:
            found.append("<marker>")
        else:
            batch = data[position : position + header.size_bytes]
            found += [(each.value or b"").decode() for each in decode_records(batch)]
    return found
