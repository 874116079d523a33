"""Guards and markers: what holds for one state of one log, and what each partition of a transaction has to get."""

from __future__ import annotations

from typing import Any

from barnabas_gateway.core.handlers.api_28_txn_offset_commit import PendingTxnOffsetCommit
from barnabas_logstore.core.storage.log.state.verification_guards import VerificationGuards
from tests.sim.mutants.planting import Mutants, replace_in

MARKERS = Mutants("markers")

_GUARDS = "tests/regressions/test_guards_of_another_leader.py"


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
