"""The order in which a connection's appends go, and which results may be returned: what the real producers rely on.

They are looked for in the profile in which leaders move and nothing else goes wrong, seed after seed from the first.
"""

from __future__ import annotations

from dataclasses import replace

from barnabas.channel.messages import AppendResult, StateAnswer
from barnabas.wire.errors import ErrorCode
from barnabas_gateway.core.backends.append_router import AppendRouter
from barnabas_gateway.core.backends.logstores import Logstore
from barnabas_gateway.core.backends.partition_appends import PartitionAppends, PendingAppend
from barnabas_gateway.core.requests.produce import PendingProduce
from tests.sim.mutants.planting import Mutants, replace_in

MOVING = Mutants("leaders that move")


@MOVING.breaks_while_leaders_move("16")
def the_next_batch_overtakes_a_parked_one() -> None:
    """An append is decided when it is answered, committed or not: what comes behind it goes to the next leader."""
    original = AppendRouter.result_received

    def answered(self: AppendRouter, logstore: Logstore, result: AppendResult) -> None:
        append = logstore.appends.in_flight.get(result.request_id)
        original(self, logstore, result)
        if append is not None:
            self.decided(append)

    replace_in(AppendRouter, "result_received", answered)


@MOVING.breaks_while_leaders_move("16")
def what_is_undecided_at_the_old_leader_holds_nothing_back() -> None:
    def may_send_under(self: PartitionAppends, leader_id: int, leader_epoch: int) -> bool:
        return True

    replace_in(PartitionAppends, "may_send_under", may_send_under)


@MOVING.breaks_for(
    "16",
    "tests/regressions/test_sent_behind_a_lost_batch.py"
    "::test_what_was_under_way_behind_a_refused_batch_did_not_skip_a_sequence",
)
def a_gap_behind_a_failed_batch_is_passed_on() -> None:
    def is_fenced(self: PendingProduce, append: PendingAppend) -> bool:
        return False

    replace_in(PendingProduce, "_is_fenced", is_fenced)


@MOVING.breaks_while_leaders_move("16")
def what_comes_behind_a_failed_batch_is_written() -> None:
    def raise_fence(self: PartitionAppends, append: PendingAppend, produce: PendingProduce) -> None:
        return None

    replace_in(PartitionAppends, "raise_fence", raise_fence)


@MOVING.breaks_for(
    "16",
    "tests/regressions/test_sent_behind_a_parked_batch.py"
    "::test_a_producers_first_batch_is_decided_before_the_next_is_sent",
)
def what_comes_behind_a_first_batch_goes_at_once() -> None:
    def may_send_under(self: PartitionAppends, leader_id: int, leader_epoch: int) -> bool:
        return not self.undecided or (self.leader_id, self.leader_epoch) == (leader_id, leader_epoch)

    replace_in(PartitionAppends, "may_send_under", may_send_under)


@MOVING.breaks_while_leaders_move("8")
def the_next_leader_is_taken_to_hold_what_was_parked() -> None:
    original = PendingProduce._judge

    def judge(self: PendingProduce, append: PendingAppend, node_id: int, answer: StateAnswer) -> None:
        original(self, append, node_id, replace(answer, holds_append=True))

    replace_in(PendingProduce, "_judge", judge)


@MOVING.breaks_while_leaders_move("16")
def what_was_parked_is_refused_for_good_when_its_leader_goes() -> None:
    original = PendingProduce._fail

    def fail(self: PendingProduce, append: PendingAppend, error_code: int, message: str | None = None) -> None:
        is_lost = append.is_parked and error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        original(self, append, ErrorCode.INVALID_RECORD if is_lost else error_code, message)

    replace_in(PendingProduce, "_fail", fail)
