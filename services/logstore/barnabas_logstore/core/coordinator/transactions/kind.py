"""The kind of coordinator that has transactions (Kafka's TransactionCoordinator)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from barnabas.wire.record_batch import BatchHeader, Record
from barnabas_logstore.core.coordinator.runtime.shard import FROM_LOG, Change, Periodic, Result, ShardKind, Store
from barnabas_logstore.core.coordinator.transactions.calls import TransactionCalls
from barnabas_logstore.core.coordinator.transactions.config import TransactionConfig
from barnabas_logstore.core.coordinator.transactions.listing import list_matching
from barnabas_logstore.core.coordinator.transactions.meter import TransactionMeter
from barnabas_logstore.core.coordinator.transactions.producer_ids import ProducerIds
from barnabas_logstore.core.coordinator.transactions.records import read_record
from barnabas_logstore.core.coordinator.transactions.shard import CoordinatorParts, MarkerSender, TransactionShard
from barnabas_logstore.core.coordinator.transactions.store import IdForgotten, TransactionPut, TransactionStore


class TransactionKind(ShardKind[TransactionShard]):
    """Lists have what is not committed yet, as Kafka's have. Without transactional ids there is no deadline."""

    def __init__(self, config: TransactionConfig, image: ClusterImage, markers: MarkerSender) -> None:
        super().__init__(TRANSACTION_STATE_TOPIC, ApiKey.LIST_TRANSACTIONS, lists_first=True, lists_uncommitted=True)
        self._config = config
        self._image = image
        self.producer_ids = ProducerIds()
        self.meter = TransactionMeter()
        self._parts = CoordinatorParts(markers, config, self.clock, self.meter, image, self.producer_ids, self.due)
        self.periodic = [
            Periodic(config.abort_timed_out_interval_ms, _begin_timeouts, _has_ongoing),
            Periodic(config.remove_expired_interval_ms, _begin_expiry, _has_transactions),
        ]

    @property
    def unreadable(self) -> str:
        return "the transactions in them are not known"

    def new_store(self) -> TransactionStore:
        return TransactionStore()

    def open(self, partition: int, leader_epoch: int, store: Store, result: Result) -> TransactionShard:
        assert isinstance(store, TransactionStore)
        self.producer_ids.peek()  # a client's first request finds a block
        shard = TransactionShard(partition, leader_epoch, store, result, self._parts)
        calls = TransactionCalls(self._config, self.clock, self._image, self.producer_ids, shard)
        shard.by_api_key = calls.by_api_key
        return shard

    def decode(self, header: BatchHeader, record: Record) -> Change | None:
        entry = None if header.is_control else read_record(record.key, record.value)
        if entry is None:
            return None
        transactional_id, transaction = entry
        if transaction is None:
            return IdForgotten(transactional_id, FROM_LOG, 0)
        return TransactionPut(transaction, FROM_LOG, 0)

    def new_list(self) -> Response:
        return ListTransactionsResponse()

    def list_in_steps(self, request: Request, shards: Sequence[TransactionShard], response: Response) -> Iterator[None]:
        assert isinstance(request, ListTransactionsRequest)
        assert isinstance(response, ListTransactionsResponse)
        transactions = [transaction for shard in shards for transaction in shard.transactions.values()]
        for listed in list_matching(request, transactions, self.clock.wall_ms):
            if listed is not None:
                response.transaction_states.append(listed)
            yield


def _begin_timeouts(shard: TransactionShard) -> None:
    shard.begin_timeouts()


def _begin_expiry(shard: TransactionShard) -> None:
    shard.begin_expiry()


def _has_ongoing(shard: TransactionShard) -> bool:
    return len(shard.ongoing) > 0


def _has_transactions(shard: TransactionShard) -> bool:
    return len(shard.transactions) > 0
