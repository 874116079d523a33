"""What coordinators have stored, and what their logs say: I17."""

from __future__ import annotations

from dataclasses import replace

from barnabas.wire.record_batch import Record
from barnabas_logstore.core.coordinator.groups.store import GroupStore, GroupStored, OffsetsCommitted
from barnabas_logstore.core.coordinator.runtime.shard import NOT_WRITTEN, Change
from barnabas_logstore.core.coordinator.transactions import store
from barnabas_logstore.core.coordinator.transactions.transaction import Transaction
from tests.sim.mutants.groups import MEMBERS, SMALL
from tests.sim.mutants.planting import Mutants, replace_in

STORED = Mutants("stored")


@STORED.breaks("I17", MEMBERS, at_most=SMALL)
def the_record_of_a_group_is_not_replayed_where_it_is_written() -> None:
    """Its members know what is in it; the next coordinator alone would have asked for it."""
    original = GroupStore.replay

    def replay(self: GroupStore, change: Change, offset: int) -> None:
        if not isinstance(change, GroupStored) or offset != NOT_WRITTEN:
            original(self, change, offset)

    replace_in(GroupStore, "replay", replay)


@STORED.breaks("I17", MEMBERS, at_most=SMALL)
def a_commit_is_replayed_without_its_time() -> None:
    """Then it expires when it has hardly been made, and under the next coordinator when it is due."""
    original = GroupStore.replay

    def replay(self: GroupStore, change: Change, offset: int) -> None:
        if isinstance(change, OffsetsCommitted) and offset == NOT_WRITTEN:
            topics = [
                (topic, {each: replace(value, commit_timestamp=0) for each, value in values.items()})
                for topic, values in change.topics
            ]
            change = OffsetsCommitted(change.group_id, topics, change.records, change.byte_count)
        original(self, change, offset)

    replace_in(GroupStore, "replay", replay)


@STORED.breaks_in_transactions("I17", [])
def the_record_of_a_transaction_has_another_timeout() -> None:
    original = store.transaction_record

    def record(transaction: Transaction) -> Record:
        return original(transaction._replace(timeout_ms=transaction.timeout_ms + 1))

    replace_in(store, "transaction_record", record)
