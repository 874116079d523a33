"""What is known of transactions only by looking at all of them: those of a coordinator, and those that hang in logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from barnabas.metrics.family import Sample
from barnabas.metrics.transaction_families import LATE_TRANSACTIONS, ONGOING_TIME_MAX, TRANSACTIONAL_IDS
from barnabas_logstore.core.coordinator.runtime.led_shard import LedShard
from barnabas_logstore.core.coordinator.transactions.listing import state_name
from barnabas_logstore.core.coordinator.transactions.shard import TransactionShard
from barnabas_logstore.core.coordinator.transactions.transaction import TransactionState
from barnabas_logstore.core.storage.log.partition_log import PartitionLog

LATE_BUFFER_MS: Final = 5 * 60 * 1000
"""After the longest timeout a transaction has this time to be aborted by its coordinator (KIP-664)."""
_REPORTED: Final = [each for each in TransactionState if each is not TransactionState.PREPARE_EPOCH_FENCE]


class TransactionScan:
    """The states are those of the moment at which each id is looked at."""

    def __init__(self, coordinated: Sequence[LedShard[TransactionShard]], wall_ms: int, late_ms: int) -> None:
        """`late_ms`: a log's open transaction without a record for longer hangs."""
        self._left = [each for led in coordinated for each in led.shard.transactions.values()]
        self._wall_ms = wall_ms
        self._late_ms = late_ms
        self._states: Counter[TransactionState] = Counter()
        self._ongoing_since_ms = wall_ms
        self._late = 0

    def step(self, count_max: int) -> bool:
        """Look at the next `count_max` ids. Return True when all have been looked at."""
        for transaction in self._left[-count_max:]:
            self._states[transaction.state] += 1
            if transaction.state is TransactionState.ONGOING:
                self._ongoing_since_ms = min(self._ongoing_since_ms, transaction.start_ms)
        del self._left[-count_max:]
        return not self._left

    def look_at_log(self, log: PartitionLog) -> None:
        """A partition that is led here: the first open transaction holds up all records behind it."""
        producers = log.producers
        if producers.transactions.open:
            _, producer_id = producers.transactions.open[0]
            entry = producers.entry_of(producer_id)
            self._late += entry is not None and 0 < entry.last_timestamp_ms < self._wall_ms - self._late_ms

    def samples(self) -> Iterator[Sample]:
        for state in _REPORTED:
            yield Sample(TRANSACTIONAL_IDS, (state_name(state),), self._states[state])
        yield Sample(ONGOING_TIME_MAX, (), self._wall_ms - self._ongoing_since_ms)
        yield Sample(LATE_TRANSACTIONS, (), self._late)
