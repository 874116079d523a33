"""One partition of `__transaction_state` that this logstore leads: it is loaded, then serves its transactional ids.

What a request makes of a transaction counts at once for the requests behind it, and all of them are answered when it is
committed: if it is lost, so are they, and the partition is loaded again. Markers are sent only for what is committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple, Protocol

from barnabas.cluster.features import NEW_CLUSTER_LEVELS, TRANSACTION_VERSION
from barnabas.cluster.image import ClusterImage
from barnabas.ports.compression import Decompress
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import BatchHeader, Record
from barnabas_logstore.core.coordinator.runtime.coordinator_log_writer import CoordinatorLogWriter, Deferred, do_all
from barnabas_logstore.core.coordinator.runtime.loading import LogLoader
from barnabas_logstore.core.coordinator.runtime.timers import Clock
from barnabas_logstore.core.coordinator.transactions.config import TransactionConfig
from barnabas_logstore.core.coordinator.transactions.meter import TransactionMeter
from barnabas_logstore.core.coordinator.transactions.producer_ids import ProducerIds
from barnabas_logstore.core.coordinator.transactions.records import read_record, tombstone, transaction_record
from barnabas_logstore.core.coordinator.transactions.rules import abort_timed_out
from barnabas_logstore.core.coordinator.transactions.transaction import (
    ENDING,
    NO_PRODUCER_ID,
    OVER,
    Transaction,
    TransactionState,
)

CHECKS_PER_STEP: Final = 500
"""Transactions that are looked at in one step, for a timeout or their expiry."""
COMPLETION_RETRY_MS: Final = 100
"""The pause before a completion is written again that the log has refused."""


class TransactionLoader(LogLoader):
    """Applies a log's records to `transactions`, by transactional id: its last record counts."""

    def __init__(self, transactions: dict[str, Transaction], decompress: Decompress, end_offset: int) -> None:
        super().__init__(decompress, end_offset)
        self._transactions = transactions

    def apply(self, header: BatchHeader, record: Record) -> None:
        """Raises MalformedFrame for what Kafka never writes."""
        entry = None if header.is_control else read_record(record.key, record.value)
        if entry is None:
            return
        transactional_id, transaction = entry
        if transaction is None:
            self._transactions.pop(transactional_id, None)
        else:
            self._transactions[transactional_id] = transaction


class MarkerSender(Protocol):
    """Writes the markers of a transaction that is decided."""

    def send_markers(self, sender: TransactionPartition, transaction: Transaction) -> None:
        """Call `sender.markers_written(transaction)` once every partition has its marker, later."""
        ...

    def forget_sender(self, sender: TransactionPartition) -> None:
        """Send no more of its markers, and report nothing to it."""
        ...


class CoordinatorParts(NamedTuple):
    """What the partitions of one coordinator share."""

    markers: MarkerSender
    config: TransactionConfig
    clock: Clock
    meter: TransactionMeter
    image: ClusterImage
    producer_ids: ProducerIds
    refused: dict[TransactionPartition, None]
    """Those with completions that the log has refused, so that a turn need not look at all partitions."""


class TransactionPartition:
    """The state of one leader epoch; under the next one all of it is loaded from the log again."""

    def __init__(
        self,
        partition: int,
        log_writer: CoordinatorLogWriter,
        transactions: dict[str, Transaction],
        loader: TransactionLoader,
        parts: CoordinatorParts,
    ) -> None:
        self.partition = partition
        self.leader_epoch = log_writer.leader_epoch
        self.log_writer = log_writer
        self.transactions = transactions
        """By transactional id."""
        self.loader: TransactionLoader | None = loader
        self._markers = parts.markers
        self._config = parts.config
        self._clock = parts.clock
        self.meter = parts.meter
        self._image = parts.image
        self._producer_ids = parts.producer_ids
        self._refused = parts.refused
        self.ongoing: dict[str, None] = {}
        """Ids whose transaction may take too long."""
        self.unreadable_records = 0
        self._checks: deque[Iterator[None]] = deque()
        self._to_complete: dict[str, Transaction] = {}
        """Whose markers are written, and whose record was refused."""
        self.complete_at_ms = 0
        """When these are tried again, if there are any."""

    # --- loading, and the end -----------------------------------------------------------------------------------------

    def load(self) -> bool:
        """Process a piece of the log, or request more of it. Return whether it has been read completely."""
        loader = self.loader
        assert loader is not None
        if not loader.advance(self.log_writer.log, self.leader_epoch):
            return False
        self.loader = None
        self.unreadable_records = loader.unreadable_records
        for transaction in self.transactions.values():
            self._follow(transaction)
        return True

    def lose(self) -> None:
        """The epoch is over here, or the state is lost."""
        self._checks.clear()
        self._refused.pop(self, None)
        do_all([partial(self._markers.forget_sender, self), self.log_writer.lose])

    # --- changes ------------------------------------------------------------------------------------------------------

    @property
    def cluster_version(self) -> int:
        """The transaction version by which the coordinator ends transactions on its own: that of the cluster, or, while
        nothing is known of this one, of any that is new.
        """
        levels = NEW_CLUSTER_LEVELS if self._image.revision < 0 else self._image.finalized_features.levels()
        return levels.get(TRANSACTION_VERSION, 0)

    def check(self) -> ErrorCode:
        """Return why nothing can be written in this turn, as Kafka's TransactionStateManager does."""
        match self.log_writer.check():
            case ErrorCode.NONE:
                return ErrorCode.NONE
            case ErrorCode.NOT_ENOUGH_REPLICAS:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            case _:
                return ErrorCode.NOT_COORDINATOR

    def put(self, transaction: Transaction) -> ErrorCode:
        """Write what `check` allows; from now on it counts. UNKNOWN_SERVER_ERROR: its record is too large."""
        if not self.log_writer.write_if_fits(transaction_record(transaction)):
            return ErrorCode.UNKNOWN_SERVER_ERROR
        self.transactions[transaction.transactional_id] = transaction
        self.meter.count_change(transaction)
        self._follow(transaction)
        return ErrorCode.NONE

    def _follow(self, transaction: Transaction) -> None:
        if transaction.state is TransactionState.ONGOING:
            self.ongoing[transaction.transactional_id] = None
            return
        self.ongoing.pop(transaction.transactional_id, None)
        if transaction.state in ENDING:
            self.log_writer.defer(Deferred(partial(self._markers.send_markers, self, transaction)))

    def markers_written(self, transaction: Transaction) -> None:
        """Every partition of the transaction has its marker: write that it is complete, now or when the log allows."""
        if self.transactions.get(transaction.transactional_id) is not transaction:
            return
        if self.check() or self.put(transaction.completed(self._clock.wall_ms)):
            self._to_complete[transaction.transactional_id] = transaction
            self._refused[self] = None
            self.complete_at_ms = self._clock.now_ms + COMPLETION_RETRY_MS

    @property
    def refused_completions(self) -> int:
        """The number of transactions whose markers are written, and whose completion the log has refused."""
        return len(self._to_complete)

    def complete_again(self) -> None:
        """Write the completions that the log has refused."""
        del self._refused[self]
        refused, self._to_complete = self._to_complete, {}
        for transaction in refused.values():
            self.markers_written(transaction)

    # --- what is due --------------------------------------------------------------------------------------------------

    def begin_timeouts(self) -> None:
        """Abort the transactions that have taken longer than their producers allowed, some in each step."""
        if self.ongoing:
            self._checks.append(self._abort_timed_out(list(self.ongoing)))

    def begin_expiry(self) -> None:
        """Forget the ids that were not used for long, some in each step."""
        if self.transactions and self.loader is None:
            self._checks.append(self._remove_expired(list(self.transactions)))

    @property
    def is_checking(self) -> bool:
        return bool(self._checks)

    def step_checks(self) -> None:
        for _ in range(CHECKS_PER_STEP):
            if not self._checks:
                return
            if next(self._checks[0], self) is self:
                self._checks.popleft()

    def _abort_timed_out(self, transactional_ids: list[str]) -> Iterator[None]:
        for transactional_id in transactional_ids:
            transaction = self.transactions.get(transactional_id)
            if transaction is not None:
                self._abort_if_timed_out(transaction)
            yield

    def _abort_if_timed_out(self, transaction: Transaction) -> None:
        fresh_id = self._producer_ids.peek() if transaction.is_epoch_exhausted else NO_PRODUCER_ID
        if fresh_id is None:
            # The next look finds one, or asks again.
            return
        aborted = abort_timed_out(transaction, self.cluster_version, fresh_id, self._clock.wall_ms)
        if aborted is None or self.check() or self.put(aborted):
            return
        self._producer_ids.use_if_next(aborted)
        self.meter.count_timeout()

    def _remove_expired(self, transactional_ids: list[str]) -> Iterator[None]:
        for transactional_id in transactional_ids:
            transaction, now_ms = self.transactions.get(transactional_id), self._clock.wall_ms
            if (
                transaction is not None
                and transaction.state in OVER
                and transaction.last_update_ms + self._config.id_expiration_ms <= now_ms
                and not self.check()
            ):
                self.log_writer.write(tombstone(transactional_id, now_ms))
                del self.transactions[transactional_id]
            yield
