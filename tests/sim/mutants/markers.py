"""Guards and markers: what holds for one state of one log, and what each partition of a transaction has to get."""

from __future__ import annotations

from typing import Any

from barnabas_gateway.core.handlers.api_28_txn_offset_commit import PendingTxnOffsetCommit
from barnabas_logstore.core.coordinator.groups.store import PendingOffsets
from barnabas_logstore.core.replica.known_deletions import KnownDeletions
from barnabas_logstore.core.storage.log.state.verification_guards import VerificationGuards
from tests.sim.faults import Fault
from tests.sim.mutants.planting import Mutants, replace_in

MARKERS = Mutants("markers")

_GUARDS = "tests/regressions/test_guards_of_another_leader.py"
_UNKNOWN = "tests/regressions/test_unknown_is_not_deleted.py"


# --- guards ------------------------------------------------------------------------------------------------------


@MARKERS.breaks_for("18", f"{_GUARDS}::test_a_leader_that_was_deposed_appends_the_next_transaction")
def guards_outlive_their_leader() -> None:
    replace_in(VerificationGuards, "begin_epoch", lambda self, leader_epoch: None)
    replace_in(VerificationGuards, "void_all", lambda self: None)


@MARKERS.breaks_for(
    "18", f"{_GUARDS}::test_a_confirmation_of_a_transaction_that_ended_under_another_leader_is_worth_nothing"
)
def what_a_follower_is_given_voids_no_guard() -> None:
    replace_in(VerificationGuards, "void_all", lambda self: None)


@MARKERS.breaks_for("18", f"{_GUARDS}::test_no_two_logs_hand_out_the_same_guard")
def guards_count_from_one_in_every_log() -> None:
    replace_in(VerificationGuards, "begin_epoch", lambda self, leader_epoch: self.void_all())


@MARKERS.breaks_for("18", f"{_GUARDS}::test_the_guard_of_one_coordinator_is_not_taken_to_the_next_one")
def the_guard_of_one_coordinator_is_taken_to_the_next_one() -> None:
    original = PendingTxnOffsetCommit.call

    def call(self: Any, verification_guard: int = 0) -> None:
        self._coordinator = self.handler.group_routing.coordinator_of(self.asked.group_id)
        original(self, verification_guard)

    replace_in(PendingTxnOffsetCommit, "call", call)


# --- what is unknown ---------------------------------------------------------------------------------------------


@MARKERS.breaks_in_transactions("18", [Fault.LOSE_CONTROLLER_HALFWAY])
def an_image_that_is_empty_is_believed() -> None:
    original = KnownDeletions._has_seen

    def has_seen(self: KnownDeletions, led: tuple[str, int], leader_epoch: int) -> bool:
        return self._image.revision < 0 or original(self, led, leader_epoch)

    replace_in(KnownDeletions, "_has_seen", has_seen)


@MARKERS.breaks_for("18", f"{_UNKNOWN}::test_metadata_of_before_the_election_says_nothing")
def an_image_of_before_the_election_is_believed() -> None:
    replace_in(KnownDeletions, "_has_seen", lambda self, led, leader_epoch: self._image.revision >= 0)


@MARKERS.breaks_for("18", f"{_UNKNOWN}::test_a_topic_that_the_controller_cannot_read_is_not_deleted")
def a_topic_that_cannot_be_read_is_taken_for_deleted() -> None:
    replace_in(KnownDeletions, "on_full_update", lambda self, update: None)


@MARKERS.breaks_for("18", f"{_UNKNOWN}::test_a_topic_that_is_known_to_be_deleted_holds_nothing_up")
def markers_for_deleted_topics_are_waited_for() -> None:
    replace_in(KnownDeletions, "is_deleted", lambda self, partition, led, leader_epoch: False)


# --- offsets -----------------------------------------------------------------------------------------------------


@MARKERS.breaks_for(
    "32",
    "tests/unit/logstore/service/test_order_of_transactional_offsets.py"
    "::test_the_last_committed_record_counts_in_every_order",
)
def transactional_offsets_count_in_the_order_of_their_markers() -> None:
    """What compaction keeps of the log would then say something else."""
    replace_in(PendingOffsets, "overtake", lambda self, group_id, place, record_offset=None: None)
