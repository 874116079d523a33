"""Producer epochs at their end, and after a time-out: who goes on, and with which producer id."""

from __future__ import annotations

from typing import Any

from barnabas.wire.errors import ErrorCode
from barnabas.wire.markers import Marker
from barnabas.wire.record_batch import Record
from barnabas_logstore.core.coordinator.transactions import records, rules, store
from barnabas_logstore.core.coordinator.transactions.rules import Producer
from barnabas_logstore.core.coordinator.transactions.transaction import (
    EPOCH_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
)
from barnabas_logstore.core.storage.log import log_appends
from barnabas_logstore.core.storage.log.state.producer_state import ProducerEntry, check_marker
from barnabas_logstore.core.storage.log.state.transactions import NO_OFFSET
from tests.sim.mutants.planting import Mutants, replace_in
from tests.sim.mutants.transactions import COORDINATORS

EPOCHS = Mutants("epochs")


@EPOCHS.breaks_at_last_epochs("17", [])
def a_timeout_forgets_the_epoch_that_the_client_has() -> None:
    """As if the cluster had version 1: the client's abort is a repetition of nothing."""
    original = rules.end_transaction

    def end_transaction(
        transaction: Transaction, producer: Producer, version: int, fresh_producer_id: int, now_ms: int, *, commit: bool
    ) -> Transaction | ErrorCode:
        is_current = producer == (transaction.producer_id, transaction.producer_epoch)
        if transaction.state is TransactionState.COMPLETE_ABORT and not is_current:
            return ErrorCode.PRODUCER_FENCED
        return original(transaction, producer, version, fresh_producer_id, now_ms, commit=commit)

    replace_in(rules, "end_transaction", end_transaction)


@EPOCHS.breaks_at_last_epochs("17", [])
def a_timeout_raises_the_epoch_twice() -> None:
    original = rules._ended_by_coordinator

    def ended(transaction: Transaction, *rest: Any) -> Transaction:
        return original(transaction.fenced(), *rest)

    replace_in(rules, "_ended_by_coordinator", ended)


@EPOCHS.breaks_at_last_epochs("17", [])
def a_timeout_at_the_last_epoch_names_no_next_producer_id() -> None:
    original = rules._ended_by_coordinator

    def ended(transaction: Transaction, *rest: Any) -> Transaction:
        return original(transaction, *rest)._replace(next_producer_id=NO_PRODUCER_ID)

    replace_in(rules, "_ended_by_coordinator", ended)


@EPOCHS.breaks_at_last_epochs("17", [])
def an_end_at_the_last_epoch_keeps_the_producer_id() -> None:
    original = Transaction.completed

    def completed(self: Transaction, now_ms: int) -> Transaction:
        done = original(self, now_ms)
        return done._replace(producer_id=self.producer_id, producer_epoch=self.producer_epoch)

    replace_in(Transaction, "completed", completed)


@EPOCHS.breaks_at_last_epochs("17", COORDINATORS)
def the_next_producer_id_is_in_no_record() -> None:
    original = store.transaction_record

    def record(transaction: Transaction) -> Record:
        return original(transaction._replace(next_producer_id=NO_PRODUCER_ID))

    replace_in(store, "transaction_record", record)


@EPOCHS.breaks_for(
    "17",
    "tests/regressions/test_last_epoch_of_a_producer_id.py::test_an_end_at_the_last_epoch_may_be_repeated",
)
def an_end_that_comes_again_behind_the_last_epoch_is_refused() -> None:
    """In the simulation its client would have to lose an answer just there."""
    original = rules.end_transaction

    def end_transaction(
        transaction: Transaction, producer: Producer, version: int, fresh_producer_id: int, now_ms: int, *, commit: bool
    ) -> Transaction | ErrorCode:
        if producer.producer_id != transaction.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return original(transaction, producer, version, fresh_producer_id, now_ms, commit=commit)

    replace_in(rules, "end_transaction", end_transaction)


@EPOCHS.breaks_for(
    "17",
    "tests/regressions/test_timed_out_producer_goes_on.py::test_it_asks_for_its_epoch_and_goes_on",
)
def a_new_coordinator_does_not_know_the_epoch_before() -> None:
    """In the simulation a client of version 2 repeats its abort, which needs no such epoch."""
    replace_in(records, "_last_epoch_of", lambda found: NO_PRODUCER_EPOCH)


@EPOCHS.breaks_for(
    "17",
    "tests/regressions/test_last_epoch_of_a_producer_id.py::test_what_an_earlier_release_left_stuck_completes",
)
def a_marker_of_the_last_epoch_is_taken_for_late() -> None:
    """No client of the simulation has that epoch."""

    def check_marker_alone(
        entry: ProducerEntry | None, producer_epoch: int, marker: Marker, transaction_version: int
    ) -> ErrorCode:
        is_same = entry is not None and producer_epoch == entry.producer_epoch == EPOCH_MAX
        if is_same and entry is not None and entry.transaction_first_offset != NO_OFFSET:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return check_marker(entry, producer_epoch, marker, transaction_version)

    replace_in(log_appends, "check_marker", check_marker_alone)
