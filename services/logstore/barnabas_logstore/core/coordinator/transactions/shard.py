"""One partition of `__transaction_state`: its transactions, and what follows from them.

What a request makes of a transaction counts at once for the requests behind it, and all of them are answered when it is
committed: if it is lost, so are they, and the partition is loaded again. Markers are sent only for what is committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from barnabas.cluster.features import NEW_CLUSTER_LEVELS, TRANSACTION_VERSION
from barnabas.cluster.image import ClusterImage
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.coordinator.runtime.shard import Effect, Result, Shard
from barnabas_logstore.core.coordinator.runtime.timers import Clock
from barnabas_logstore.core.coordinator.transactions.config import TransactionConfig
from barnabas_logstore.core.coordinator.transactions.meter import TransactionMeter
from barnabas_logstore.core.coordinator.transactions.producer_ids import ProducerIds
from barnabas_logstore.core.coordinator.transactions.rules import abort_timed_out
from barnabas_logstore.core.coordinator.transactions.store import TransactionStore, forgotten, put_of
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


class MarkerSender(Protocol):
    """Writes the markers of a transaction that is decided."""

    def send_markers(self, sender: TransactionShard, transaction: Transaction) -> None:
        """Call `sender.markers_written(transaction)` once every partition has its marker, later."""
        ...

    def forget_sender(self, sender: TransactionShard) -> None:
        """Send no more of its markers, and report nothing to it."""
        ...


class CoordinatorParts(NamedTuple):
    """What the shards of one logstore share."""

    markers: MarkerSender
    config: TransactionConfig
    clock: Clock
    meter: TransactionMeter
    image: ClusterImage
    producer_ids: ProducerIds
    due: dict[TransactionShard, int]
    """Shards with completions that the log has refused: when they are tried again."""


class TransactionShard(Shard):
    def __init__(
        self, partition: int, leader_epoch: int, store: TransactionStore, result: Result, parts: CoordinatorParts
    ) -> None:
        super().__init__(partition, leader_epoch, store, result)
        self.transactions: Mapping[str, Transaction] = store.transactions
        """By transactional id."""
        self._parts = parts
        self._clock = parts.clock
        self.meter = parts.meter
        self.ongoing: dict[str, None] = {}
        """Ids whose transaction may take too long."""
        self._checks: deque[Iterator[None]] = deque()
        self._to_complete: dict[str, Transaction] = {}
        """Whose markers are written, and whose record was refused."""
        self._is_stopped = False

    # --- loading, and the end -----------------------------------------------------------------------------------------

    def loaded(self) -> Iterator[None]:
        """Go on with the markers of what is decided; in one piece, since their answers may come from then on."""
        for transaction in self.transactions.values():
            self._follow(transaction)
        yield

    def stop(self) -> None:
        """What is decided is ended by the next coordinator."""
        self._is_stopped = True
        self._checks.clear()
        self._parts.due.pop(self, None)
        self._parts.markers.forget_sender(self)

    # --- changes ------------------------------------------------------------------------------------------------------

    @property
    def cluster_version(self) -> int:
        """The transaction version by which the coordinator ends transactions on its own: that of the cluster, or, while
        nothing is known of this one, of any that is new.
        """
        image = self._parts.image
        levels = NEW_CLUSTER_LEVELS if image.revision < 0 else image.finalized_features.levels()
        return levels.get(TRANSACTION_VERSION, 0)

    def check(self) -> ErrorCode:
        """Return why nothing can be written in this turn, as Kafka's TransactionStateManager does."""
        match self.result.check():
            case ErrorCode.NONE:
                return ErrorCode.NONE
            case ErrorCode.NOT_ENOUGH_REPLICAS:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            case _:
                return ErrorCode.NOT_COORDINATOR

    def put(self, transaction: Transaction) -> ErrorCode:
        """Put what `check` allows; from now on it counts. UNKNOWN_SERVER_ERROR: its record is too large."""
        if not self.result.put_if_fits(put_of(transaction)):
            return ErrorCode.UNKNOWN_SERVER_ERROR
        self.meter.count_change(transaction)
        self._follow(transaction)
        return ErrorCode.NONE

    def _follow(self, transaction: Transaction) -> None:
        if transaction.state is TransactionState.ONGOING:
            self.ongoing[transaction.transactional_id] = None
            return
        self.ongoing.pop(transaction.transactional_id, None)
        if transaction.state in ENDING:
            self.result.then(Effect(partial(self._parts.markers.send_markers, self, transaction)))

    def markers_written(self, transaction: Transaction) -> None:
        """Every partition of the transaction has its marker: write that it is complete, now or when the log allows."""
        if self.transactions.get(transaction.transactional_id) is not transaction:
            return
        if (self.check() or self.put(transaction.completed(self._clock.wall_ms))) and not self._is_stopped:
            self._to_complete[transaction.transactional_id] = transaction
            self._parts.due[self] = self._clock.now_ms + COMPLETION_RETRY_MS

    @property
    def refused_completions(self) -> int:
        """The number of transactions whose markers are written, and whose completion the log has refused."""
        return len(self._to_complete)

    def step_due(self) -> None:
        """Write the completions that the log has refused."""
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
        if self.transactions:
            self._checks.append(self._remove_expired(list(self.transactions)))

    @property
    def has_piece(self) -> bool:
        return bool(self._checks)

    def step_piece(self) -> bool:
        for _ in range(CHECKS_PER_STEP):
            if not self._checks:
                return True
            if next(self._checks[0], self) is self:
                self._checks.popleft()
        return not self._checks

    def _abort_timed_out(self, transactional_ids: list[str]) -> Iterator[None]:
        for transactional_id in transactional_ids:
            transaction = self.transactions.get(transactional_id)
            if transaction is not None:
                self._abort_if_timed_out(transaction)
            yield

    def _abort_if_timed_out(self, transaction: Transaction) -> None:
        producer_ids = self._parts.producer_ids
        fresh_id = producer_ids.peek() if transaction.is_epoch_exhausted else NO_PRODUCER_ID
        if fresh_id is None:
            # The next look finds one, or asks again.
            return
        aborted = abort_timed_out(transaction, self.cluster_version, fresh_id, self._clock.wall_ms)
        if aborted is None or self.check() or self.put(aborted):
            return
        producer_ids.use_if_next(aborted)
        self.meter.count_timeout()

    def _remove_expired(self, transactional_ids: list[str]) -> Iterator[None]:
        for transactional_id in transactional_ids:
            transaction, now_ms = self.transactions.get(transactional_id), self._clock.wall_ms
            if (
                transaction is not None
                and transaction.state in OVER
                and transaction.last_update_ms + self._parts.config.id_expiration_ms <= now_ms
                and not self.check()
            ):
                self.result.put(forgotten(transactional_id, now_ms))
            yield
