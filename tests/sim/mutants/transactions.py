"""Transactions: rules 17 to 19, their coordinator, their markers, and offsets within them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from barnabas.channel.messages import GroupAnswer, Read
from barnabas.wire.errors import ErrorCode
from barnabas.wire.markers import Marker
from barnabas.wire.record_batch import BatchHeader, Record, empty_batch
from barnabas_logstore.core.coordinator.groups import calls as group_calls
from barnabas_logstore.core.coordinator.groups import fetching
from barnabas_logstore.core.coordinator.groups.kind import GroupKind
from barnabas_logstore.core.coordinator.groups.records import OffsetCommitValue
from barnabas_logstore.core.coordinator.groups.store import PendingOffsets, TopicPartition, put_offsets
from barnabas_logstore.core.coordinator.runtime.loading import LogLoader
from barnabas_logstore.core.coordinator.transactions import rules, shard
from barnabas_logstore.core.coordinator.transactions.kind import TransactionKind
from barnabas_logstore.core.coordinator.transactions.marker_sender import TransactionMarkerSender
from barnabas_logstore.core.coordinator.transactions.rules import Producer
from barnabas_logstore.core.coordinator.transactions.shard import TransactionShard
from barnabas_logstore.core.coordinator.transactions.store import TransactionStore, forgotten
from barnabas_logstore.core.coordinator.transactions.transaction import (
    ENDING,
    NO_PRODUCER_ID,
    OVER,
    Transaction,
    TransactionState,
)
from barnabas_logstore.core.data.reads import Reads
from barnabas_logstore.core.storage.compaction.batch_filter import BatchFilter
from barnabas_logstore.core.storage.compaction.transactions import TransactionRetention
from barnabas_logstore.core.storage.effect_results import AbortedTransaction
from barnabas_logstore.core.storage.log import log_appends
from barnabas_logstore.core.storage.log.features import aborted_lookup
from barnabas_logstore.core.storage.log.log_view import LogView
from barnabas_logstore.core.storage.log.state.producer_state import ProducerEntry, ProducerState, check_marker
from barnabas_logstore.core.storage.log.state.transactions import NO_OFFSET, EndedTransaction, Transactions
from barnabas_logstore.core.storage.log.state.verification_guards import VerificationGuards
from barnabas_logstore.core.storage.segment.transaction_index import AbortedInSegment
from tests.sim.faults import Fault
from tests.sim.mutants.planting import DISKS, LEADERS, Mutants, replace_in

TRANSACTIONS = Mutants("transactions")

ZOMBIES = [Fault.ZOMBIE_TRANSACTION, Fault.KILL_CLIENT, Fault.RETRY_STORM]
COORDINATORS = [Fault.KILL_TRANSACTION_COORDINATOR, Fault.KILL_LOGSTORE, Fault.PAUSE_PAST_LEASE, Fault.KILL_CLIENT]
MEMBERS = [Fault.KILL_CLIENT, Fault.ZOMBIE_MEMBER, Fault.KILL_COORDINATOR]


# --- what is stable ----------------------------------------------------------------------------------------------


@TRANSACTIONS.breaks_in_transactions("19", [])
def the_last_stable_offset_is_one_too_high() -> None:
    original = Transactions.last_stable_offset

    def last_stable_offset(self: Transactions, high_watermark: int) -> int:
        return min(original(self, high_watermark) + 1, high_watermark)

    replace_in(Transactions, "last_stable_offset", last_stable_offset)


@TRANSACTIONS.breaks_in_transactions("19", [])
def a_marker_counts_before_it_is_replicated() -> None:
    def last_stable_offset(self: Transactions, high_watermark: int) -> int:
        return min(high_watermark, self.open[0][0]) if self.open else high_watermark

    replace_in(Transactions, "last_stable_offset", last_stable_offset)


@TRANSACTIONS.breaks_in_transactions("19", DISKS)
def a_log_that_is_opened_knows_no_open_transactions() -> None:
    def restart(
        self: Transactions, open_transactions: Iterable[tuple[int, int]], end_offset: int | None = None
    ) -> None:
        self.open = []
        self.is_none = True

    replace_in(Transactions, "restart", restart)


@TRANSACTIONS.breaks_in_transactions("I12", [*DISKS, *LEADERS])
def snapshots_lack_open_transactions() -> None:
    original = ProducerState.snapshot

    def snapshot(self: ProducerState) -> bytes:
        known = [(each, each.transaction_first_offset) for each in self.entries()]
        for each, _ in known:
            each.transaction_first_offset = NO_OFFSET
        content = original(self)
        for each, first_offset in known:
            each.transaction_first_offset = first_offset
        return content

    replace_in(ProducerState, "snapshot", snapshot)


@TRANSACTIONS.breaks_in_transactions("19", [])
def read_committed_reads_up_to_the_watermark() -> None:
    original = Reads._plan_partition

    def plan(self: Reads, pending: Any, result: Any, asked: Any) -> ErrorCode:
        pending.read = _uncommitted(pending.read)
        return original(self, pending, result, asked)

    replace_in(Reads, "_plan_partition", plan)


def _uncommitted(read: Read) -> Read:
    read.isolation_level = 0
    return read


# --- what was aborted --------------------------------------------------------------------------------------------


@TRANSACTIONS.breaks_in_transactions("19", [])
def the_aborted_index_is_off_by_one() -> None:
    """The first record of an aborted transaction is left out of it."""
    original = AbortedInSegment.add

    def add(self: AbortedInSegment, aborted: AbortedTransaction) -> None:
        original(self, aborted._replace(first_offset=aborted.first_offset + 1))

    replace_in(AbortedInSegment, "add", add)


@TRANSACTIONS.breaks_in_transactions("19", [])
def a_fetch_names_no_aborted_transactions() -> None:
    replace_in(LogView, "aborted_transactions", lambda self, plan, records: [])


@TRANSACTIONS.breaks_in_transactions("19", [])
def aborted_transactions_are_in_the_order_of_their_markers() -> None:
    """Clients that go through the list once give aborted records to the application."""
    replace_in(aborted_lookup, "_first_offset_of", lambda aborted: aborted.last_offset)


@TRANSACTIONS.breaks_in_transactions("19", [*LEADERS, Fault.CRASH_TRUNCATED, Fault.CUT_ONE_WAY])
def a_truncation_empties_the_aborted_index() -> None:
    replace_in(AbortedInSegment, "content_below", lambda self, offset: b"")
    replace_in(AbortedInSegment, "cut", lambda self, entries_max: setattr(self, "index", None))


@TRANSACTIONS.breaks_in_transactions(
    "19", [Fault.RETRY_STORM, Fault.CUT, Fault.RESET, Fault.KILL_LOGSTORE, Fault.JITTER]
)
def a_marker_that_comes_again_aborts_again() -> None:
    """What its producer has written since the log's beginning is named as aborted."""
    original = ProducerState.end_transaction

    def end_transaction(self: ProducerState, header: BatchHeader, marker: Marker) -> EndedTransaction | None:
        ended = original(self, header, marker)
        if ended is None and not marker.is_commit:
            return EndedTransaction(header.producer_id, 0, header.base_offset, header.base_offset + 1, True)
        return ended

    replace_in(ProducerState, "end_transaction", end_transaction)


@TRANSACTIONS.breaks_in_transactions("22", MEMBERS)
def aborted_records_replace_others_of_their_key() -> None:
    replace_in(TransactionRetention, "on_batch", lambda self, header: False)


@TRANSACTIONS.breaks_in_transactions("22", MEMBERS)
def the_cleaner_removes_markers() -> None:
    original = BatchFilter.keep

    def keep(self: BatchFilter, data: bytes, index: int, header: BatchHeader, *, ends_segment: bool) -> bytes | None:
        kept = original(self, data, index, header, ends_segment=ends_segment)
        return empty_batch(header) if header.is_control else kept

    replace_in(BatchFilter, "keep", keep)


@TRANSACTIONS.breaks_in_transactions("22", MEMBERS)
def the_cleaner_keeps_no_batch_of_which_a_record_is_replaced() -> None:
    replace_in(BatchFilter, "_keep_places", lambda self, header, payload, places, has_tombstones: b"")


# --- markers -----------------------------------------------------------------------------------------------------


@TRANSACTIONS.breaks_for(
    "17",
    "tests/unit/logstore/storage/test_transactions.py::test_a_marker_of_an_older_epoch_or_coordinator_is_refused",
)
def a_marker_of_an_older_coordinator_is_written() -> None:
    """In the simulation the older coordinator's markers say what the newer one's do."""

    def check_marker_alone(
        entry: ProducerEntry | None, producer_epoch: int, marker: Marker, transaction_version: int
    ) -> ErrorCode:
        error = check_marker(entry, producer_epoch, marker, transaction_version)
        return ErrorCode.NONE if error is ErrorCode.TRANSACTION_COORDINATOR_FENCED else error

    replace_in(log_appends, "check_marker", check_marker_alone)


@TRANSACTIONS.breaks_in_transactions("18", COORDINATORS)
def markers_are_sent_before_the_decision_is_committed() -> None:
    def follow(self: TransactionShard, transaction: Transaction) -> None:
        self.ongoing.pop(transaction.transactional_id, None)
        if transaction.state is TransactionState.ONGOING:
            self.ongoing[transaction.transactional_id] = None
        elif transaction.state in ENDING:
            self._parts.markers.send_markers(self, transaction)

    replace_in(TransactionShard, "_follow", follow)


@TRANSACTIONS.breaks_in_transactions("18", LEADERS)
def a_transaction_is_complete_with_its_first_answer() -> None:
    original = TransactionMarkerSender._answered

    def answered(self: TransactionMarkerSender, parts: Any, sent_ms: int, answer: GroupAnswer | None) -> None:
        for ending, _ in parts:
            ending.left.clear()
        original(self, parts, sent_ms, answer)
        for ending, _ in parts:
            self._look_whether_written(ending)

    replace_in(TransactionMarkerSender, "_answered", answered)


@TRANSACTIONS.breaks_in_transactions("18", LEADERS)
def markers_are_sent_once() -> None:
    """What a leader that died did not write is written by none."""
    replace_in(TransactionMarkerSender, "_send_later", lambda self, ending, partitions, now_ms: None)


@TRANSACTIONS.breaks_in_transactions("18", COORDINATORS)
def a_new_coordinator_leaves_decisions_where_they_are() -> None:
    def loaded(self: TransactionShard) -> None:
        for transaction in self.transactions.values():
            if transaction.state is TransactionState.ONGOING:
                self._follow(transaction)

    replace_in(TransactionShard, "loaded", loaded)


@TRANSACTIONS.breaks_in_transactions("18", [])
def a_partition_that_is_added_replaces_the_others() -> None:
    original = Transaction.with_partitions

    def with_partitions(self: Transaction, added: Any, version: int, now_ms: int) -> Transaction:
        return original(self, added, version, now_ms)._replace(partitions=frozenset(added))

    replace_in(Transaction, "with_partitions", with_partitions)


# --- who may write -----------------------------------------------------------------------------------------------


@TRANSACTIONS.breaks_for(
    "18",
    "tests/unit/logstore/storage/test_transactions.py::test_only_a_confirmed_producer_begins_a_transaction",
)
def no_transaction_is_verified() -> None:
    """The clients of the simulation resolve every batch before they end, or raise their epoch."""
    replace_in(VerificationGuards, "check", lambda self, entry, header, guard: ErrorCode.NONE)


@TRANSACTIONS.breaks_for(
    "18",
    "tests/unit/logstore/storage/test_transactions.py::test_a_confirmation_that_is_older_than_a_marker_is_worth_nothing",
)
def a_marker_voids_no_guard() -> None:
    replace_in(VerificationGuards, "void", lambda self, producer_id: None)


@TRANSACTIONS.breaks_for(
    "17",
    "tests/unit/logstore/storage/test_transactions.py::test_a_marker_of_version_2_begins_the_next_epoch",
)
def a_marker_begins_no_epoch() -> None:
    """The producer that its coordinator has fenced may write on; the coordinator refuses it before it comes to that."""
    original = ProducerState.end_transaction

    def end_transaction(self: ProducerState, header: BatchHeader, marker: Marker) -> EndedTransaction | None:
        entry = self.entry_of(header.producer_id)
        known = header.producer_epoch if entry is None else entry.producer_epoch
        return original(self, header._replace(producer_epoch=known), marker)

    replace_in(ProducerState, "end_transaction", end_transaction)


# --- the coordinator ---------------------------------------------------------------------------------------------


@TRANSACTIONS.breaks_in_transactions("19", [])
def transactions_never_time_out() -> None:
    replace_in(shard, "abort_timed_out", lambda *arguments: None)


@TRANSACTIONS.breaks_in_transactions("18", [])
def an_id_expires_while_it_is_in_use() -> None:
    """Ids that have no open transaction are forgotten, whenever they were used."""

    def remove_expired(self: TransactionShard, transactional_ids: list[str]) -> Iterator[None]:
        for transactional_id in transactional_ids:
            transaction = self.transactions.get(transactional_id)
            if transaction is not None and transaction.state in OVER and not self.check():
                self.result.put(forgotten(transactional_id, transaction.last_update_ms))
            yield

    replace_in(TransactionShard, "_remove_expired", remove_expired)


@TRANSACTIONS.breaks_in_transactions("17", [*ZOMBIES])
def a_timeout_raises_no_epoch() -> None:
    def ended(transaction: Transaction, cluster_version: int, fresh_producer_id: int, now_ms: int) -> Transaction:
        return transaction.prepared(commit=False, version=0, next_producer_id=NO_PRODUCER_ID, now_ms=now_ms)

    replace_in(rules, "_ended_by_coordinator", ended)


@TRANSACTIONS.breaks_in_transactions("17", ZOMBIES)
def a_zombie_may_end_a_transaction() -> None:
    original = rules.end_transaction

    def end_transaction(
        transaction: Transaction, producer: Producer, version: int, fresh_producer_id: int, now_ms: int, *, commit: bool
    ) -> Transaction | ErrorCode:
        current = Producer(producer.producer_id, transaction.producer_epoch)
        return original(transaction, current, version, fresh_producer_id, now_ms, commit=commit)

    replace_in(rules, "end_transaction", end_transaction)


@TRANSACTIONS.breaks_in_transactions("17", ZOMBIES)
def a_producer_that_begins_fences_none() -> None:
    original = Transaction.initialized

    def initialized(
        self: Transaction, producer_epoch: int, last_producer_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        return original(self, max(0, self.producer_epoch), last_producer_epoch, timeout_ms, now_ms)

    replace_in(Transaction, "initialized", initialized)


@TRANSACTIONS.breaks_in_transactions("17", ZOMBIES)
def a_producer_that_begins_leaves_what_is_open() -> None:
    original = rules.init_producer_id

    def init_producer_id(transaction: Transaction, *rest: Any) -> Any:
        if transaction.state is TransactionState.ONGOING:
            transaction = transaction._replace(state=TransactionState.COMPLETE_ABORT)
        return original(transaction, *rest)

    replace_in(rules, "init_producer_id", init_producer_id)


@TRANSACTIONS.breaks_in_transactions("I12", COORDINATORS)
def a_new_coordinator_knows_no_transactions() -> None:
    replace_in(TransactionKind, "decode", lambda self, header, record: None)


@TRANSACTIONS.breaks_in_transactions("17", COORDINATORS)
def a_new_coordinator_reads_its_log_halfway() -> None:
    original = LogLoader.__init__

    def init(self: LogLoader, decode: Any, store: Any, decompress: Any, end_offset: int) -> None:
        def decode_half(header: BatchHeader, record: Record) -> Any:
            return decode(header, record) if record.offset * 2 < end_offset or end_offset < 4 else None

        is_of_transactions = isinstance(store, TransactionStore)
        original(self, decode_half if is_of_transactions else decode, store, decompress, end_offset)

    replace_in(LogLoader, "__init__", init)


# --- offsets -----------------------------------------------------------------------------------------------------


@TRANSACTIONS.breaks_in_transactions("32", MEMBERS)
def offsets_count_before_their_transaction_commits() -> None:
    original = PendingOffsets.add

    def add(
        self: PendingOffsets,
        producer_id: int,
        group_id: str,
        place: TopicPartition,
        value: OffsetCommitValue,
        record_offset: int,
    ) -> None:
        topic, partition = place
        put_offsets(self._groups.get_or_add(group_id, 0), topic, {partition: value})
        original(self, producer_id, group_id, place, value, record_offset)

    replace_in(PendingOffsets, "add", add)


@TRANSACTIONS.breaks_in_transactions("32", [*MEMBERS, *COORDINATORS])
def pending_offsets_are_lost_with_their_coordinator() -> None:
    original = GroupKind.decode

    def decode(self: GroupKind, header: BatchHeader, record: Record) -> Any:
        return None if header.is_transactional else original(self, header, record)

    replace_in(GroupKind, "decode", decode)


@TRANSACTIONS.breaks_in_transactions("32", [*MEMBERS, Fault.PAUSE])
def undecided_offsets_are_taken_for_stable() -> None:
    def places_of(unstable: PendingOffsets | None, group_id: str) -> Collection[TopicPartition]:
        return ()

    replace_in(fetching, "_places_of", places_of)


@TRANSACTIONS.breaks_in_transactions("32", MEMBERS)
def a_member_of_an_old_generation_commits_in_a_transaction() -> None:
    replace_in(group_calls, "check_transactional_commit", lambda group, request: ErrorCode.NONE)


@TRANSACTIONS.breaks_in_transactions("32", [])
def an_abort_commits_the_offsets() -> None:
    original = PendingOffsets.end

    def end(self: PendingOffsets, producer_id: int, wall_ms: int, *, is_commit: bool) -> None:
        original(self, producer_id, wall_ms, is_commit=True)

    replace_in(PendingOffsets, "end", end)
