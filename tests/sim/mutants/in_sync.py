"""Who is in sync, and what that commits: rules 3 to 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import AlterPartitionResponse, IsrChange
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.elections import isr_changes
from barnabas_controller.core.elections.partition_alteration import alter_partition
from barnabas_controller.core.state.partition_changes import Liveness, TopicRules
from barnabas_logstore.core.data.appends import Appends
from barnabas_logstore.core.data.uncommitted_results import UncommittedResults
from barnabas_logstore.core.replica.follower_progress import UNKNOWN_BROKER_EPOCH, FollowerProgress
from barnabas_logstore.core.replica.in_sync_replicas import InSyncReplicas, PendingIsr
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replication.isr_changes import IsrChanges
from barnabas_logstore.core.replication.replication import Replication
from tests.sim.faults import Fault
from tests.sim.mutants.planting import FOLLOWERS, LEADERS, Mutants, replace_in

IN_SYNC = Mutants("in-sync replicas")

# A follower comes back, and the controller goes when it has written so and not said so.
LOST_ANSWERS = [Fault.CRASH_BETWEEN_TXNS, Fault.KILL_CONTROLLER, Fault.KILL_LOGSTORE, Fault.RESET]


@IN_SYNC.breaks("3", FOLLOWERS)
def watermark_of_the_committed_isr_only() -> None:
    replace_in(InSyncReplicas, "_find_maximal", lambda self: self.committed)


@IN_SYNC.breaks("3", FOLLOWERS)
def watermark_of_the_leader_alone() -> None:
    replace_in(InSyncReplicas, "_find_maximal", lambda self: ())
    replace_in(FollowerProgress, "may_join", property(lambda self: False))


@IN_SYNC.breaks("3", LEADERS)
def watermark_moves_under_the_minimum_isr() -> None:
    original = Partition.advance_high_watermark
    at_minimum = Partition.__dict__["in_sync_replicas_at_minimum"]

    def advance(self: Partition, lag_ms_max: int, now_ms: int) -> bool:
        Partition.in_sync_replicas_at_minimum = property(lambda self: True)  # type: ignore[method-assign,assignment]
        try:
            return original(self, lag_ms_max, now_ms)
        finally:
            Partition.in_sync_replicas_at_minimum = at_minimum  # type: ignore[method-assign]

    replace_in(Partition, "advance_high_watermark", advance)


@IN_SYNC.breaks_for(
    "3",
    "tests/unit/logstore/replication/test_isr_changes.py"
    "::test_one_that_was_refused_and_comes_further_is_waited_for_and_joins",
)
def watermark_does_not_wait_for_who_may_join() -> None:
    """KIP-497, and Kafka's `maybeIncrementLeaderHW`: under steady load the mark runs away from who would join."""
    replace_in(FollowerProgress, "is_awaited", property(lambda self: False))


@IN_SYNC.breaks("4", LEADERS)
def joins_before_the_begin_of_the_epoch() -> None:
    def caught_up_outsiders(self: Partition) -> list[int]:
        return [
            node_id
            for node_id, follower in self.followers.items()
            if follower.may_join
            and follower.log_end_offset >= self.high_watermark
            and node_id not in self.isr.committed
        ]

    replace_in(Partition, "caught_up_outsiders", caught_up_outsiders)


@IN_SYNC.breaks("4", FOLLOWERS)
def joins_wherever_it_is() -> None:
    def caught_up_outsiders(self: Partition) -> list[int]:
        strangers = [node_id for node_id in self.followers if node_id not in self.isr.committed]
        return [node_id for node_id in strangers if self.followers[node_id].may_join]

    replace_in(Partition, "caught_up_outsiders", caught_up_outsiders)


@IN_SYNC.breaks("4", [Fault.KILL_LOGSTORE, Fault.POWER_CUT])
def any_incarnation_may_join() -> None:
    """KIP-903: what an older life has fetched brings a replica into the ISR that has restarted since. Both the leader
    and the controller look, and either would do.
    """
    replace_in(Replication, "_is_registered", lambda self, session: True)
    replace_in(FollowerProgress, "may_join", property(lambda self: self.session.replica_id >= 0))
    original = alter_partition

    def alter(
        partition: PartitionRecord, change: IsrChange, broker_id: int, live: Liveness, rules: TopicRules
    ) -> PartitionRecord | ErrorCode:
        members = [replace(each, broker_epoch=live.epoch_of(each.broker_id)) for each in change.in_sync_replicas]
        return original(partition, replace(change, in_sync_replicas=members), broker_id, live, rules)

    replace_in(isr_changes, "alter_partition", alter)


@IN_SYNC.breaks_for(
    "23b",
    "tests/unit/logstore/replication/test_isr_changes.py"
    "::test_a_pending_expansion_never_vouches_for_a_later_incarnation",
)
def a_pending_expansion_vouches_for_a_later_incarnation() -> None:
    """KIP-903: each try takes the broker epoch under which the member fetches by then."""
    original = IsrChanges._change

    def change(self: IsrChanges, partition: Partition, pending: PendingIsr) -> IsrChange:
        epochs = self._broker_epochs(partition)
        present = tuple([epochs.get(node_id, UNKNOWN_BROKER_EPOCH) for node_id in pending.members])
        return original(self, partition, replace(pending, broker_epochs=present))

    replace_in(IsrChanges, "_change", change)


@IN_SYNC.breaks("4")
def no_follower_ever_joins() -> None:
    replace_in(Partition, "caught_up_outsiders", lambda self: [])


@IN_SYNC.breaks("5", FOLLOWERS)
def shrink_takes_effect_at_once() -> None:
    def maximal(self: InSyncReplicas) -> tuple[int, ...]:
        return self.committed if self.pending is None else self.pending.members

    replace_in(InSyncReplicas, "_find_maximal", maximal)


@IN_SYNC.breaks_for(
    "5", "tests/unit/logstore/replication/test_isr_changes.py::test_a_change_is_asked_for_until_it_is_decided"
)
def a_lost_answer_reverts_the_change() -> None:
    original = IsrChanges.on_answer

    def on_answer(self: IsrChanges, response: AlterPartitionResponse | None, now_ms: int) -> None:
        if response is None:
            for partition, _, _ in self._asked:
                partition.isr._set_pending(None)
        original(self, response, now_ms)

    replace_in(IsrChanges, "on_answer", on_answer)


@IN_SYNC.breaks("5", FOLLOWERS)
def an_isr_counts_before_it_is_committed() -> None:
    """What is asked of the controller is taken for granted."""

    original = InSyncReplicas.propose_expansion

    def propose(self: InSyncReplicas, joining: Sequence[int], broker_epochs: Mapping[int, int]) -> bool:
        is_proposed = original(self, joining, broker_epochs)
        if is_proposed and self.pending is not None:
            self.committed = self.pending.members
        return is_proposed

    replace_in(InSyncReplicas, "propose_expansion", propose)


@IN_SYNC.breaks("6", FOLLOWERS)
def minimum_isr_is_not_looked_at_before_the_append() -> None:
    def check_append(self: Partition, leader_epoch: int, acks: int) -> ErrorCode:
        if self.leading and leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if self.online else ErrorCode.KAFKA_STORAGE_ERROR

    replace_in(Partition, "check_append", check_append)


@IN_SYNC.breaks_for(
    "21",
    "tests/unit/logstore/replication/test_isr_changes.py::test_records_are_deleted_when_every_live_replica_has_deleted_them",
)
def records_are_deleted_when_the_leader_has_deleted_them() -> None:
    replace_in(Partition, "low_watermark", lambda self, live: self.log.log_start_offset)


@IN_SYNC.breaks("7", [Fault.SLOW_DISK, Fault.LEASE_ENDS_EARLY, Fault.TERMINATE_LOGSTORE, Fault.ISOLATE])
def leader_change_leaves_appends_waiting() -> None:
    """What is not written when the epoch ends is answered when it is."""
    replace_in(Appends, "fail_pending", lambda self, partition, error: None)


@IN_SYNC.breaks_for(
    "8",
    "tests/unit/logstore/replication/test_uncommitted_results.py"
    "::test_a_leader_that_leads_no_longer_calls_nothing_committed[another leads]",
)
def a_held_result_outlives_its_leadership() -> None:
    """What is held when the leader changes is committed as soon as the watermark is there, under any leader."""
    replace_in(UncommittedResults, "release", lambda self, partition: None)


@IN_SYNC.breaks("8", FOLLOWERS)
def a_result_that_was_held_for_long_is_called_committed() -> None:
    original = UncommittedResults._send_first

    def send_first(self: UncommittedResults, partition: Partition, *, is_committed: bool) -> None:
        original(self, partition, is_committed=True)

    replace_in(UncommittedResults, "_send_first", send_first)


@IN_SYNC.breaks_for(
    "7",
    "tests/unit/logstore/service/test_appends.py"
    "::test_another_leader_epoch_is_refused_with_the_newest_leader_and_epoch",
)
def appends_of_another_epoch_are_taken() -> None:
    """Written under the present one they lose nothing: Kafka's produce requests carry no epoch at all."""

    def check_append(self: Partition, leader_epoch: int, acks: int) -> ErrorCode:
        if self.leading:
            return ErrorCode.NONE if acks != -1 or self.in_sync_replicas_at_minimum else ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if self.online else ErrorCode.KAFKA_STORAGE_ERROR

    replace_in(Partition, "check_append", check_append)
