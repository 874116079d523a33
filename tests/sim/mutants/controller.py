"""Controllers: rules 5, 11, 12, 14 and 15."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import IsrChange
from barnabas.ports.etcd import Txn
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.elections import elections_on_demand, isr_changes, leader_elections
from barnabas_controller.core.elections.isr_changes import IsrChanges
from barnabas_controller.core.elections.partition_alteration import alter_partition
from barnabas_controller.core.members import control_links, liveness
from barnabas_controller.core.state import partition_changes
from barnabas_controller.core.state.effects import SubmitTxn
from barnabas_controller.core.state.etcd_txn_pipeline import EtcdTxnPipeline
from barnabas_controller.core.state.partition_changes import Liveness, TopicRules
from barnabas_controller.core.state.writes import Write
from tests.sim.mutants.planting import (
    CONTROLLERS,
    DISKS,
    LEADERS,
    SLOW_LEADERS,
    SMALL,
    TWO_CONTROLLERS,
    Mutants,
    replace_in,
)

CONTROLLER = Mutants("controller")

_ALL_COMPARES = (
    "tests/unit/controller/test_fencing.py::test_every_write_compares_the_election_key_and_all_that_it_changes"
)


def _with_compares(kept: Any) -> None:
    """A Txn compares only those things of which `kept(compare, keys)` is true."""
    original = EtcdTxnPipeline.submit

    def submit(self: EtcdTxnPipeline, writes: Sequence[Write], elected_at: int) -> SubmitTxn:
        effect = original(self, writes, elected_at)
        flight = self._flight
        assert flight is not None
        keys = self._image.keys
        flight.txn = Txn(
            tuple([each for each in effect.txn.compares if kept(each, keys)]), effect.txn.success, effect.txn.failure
        )
        return SubmitTxn(effect.txn_id, flight.txn)

    replace_in(EtcdTxnPipeline, "submit", submit)


@CONTROLLER.breaks("12", TWO_CONTROLLERS)
def txn_does_not_compare_its_own_election_key() -> None:
    """Nor the key that all controllers chain their Txns by, which would do as well."""
    _with_compares(lambda compare, keys: compare.key not in (keys.election, keys.controller_epoch))


@CONTROLLER.breaks("12", TWO_CONTROLLERS)
def txn_compares_nothing_but_the_election_key() -> None:
    _with_compares(lambda compare, keys: compare.key == keys.election)
    _repeat_blindly()


@CONTROLLER.breaks_for("12", _ALL_COMPARES)
def txn_does_not_compare_what_it_changes() -> None:
    """It compares the own election key, and the one by which all controllers chain their Txns."""
    _with_compares(lambda compare, keys: compare.key in (keys.election, keys.controller_epoch))


@CONTROLLER.breaks_for("12", _ALL_COMPARES)
def txn_is_not_chained_to_the_one_before() -> None:
    _with_compares(lambda compare, keys: compare.key != keys.controller_epoch)


@CONTROLLER.breaks("12", TWO_CONTROLLERS)
def txn_is_repeated_blindly_and_not_fenced() -> None:
    _with_compares(lambda compare, keys: False)
    _repeat_blindly()


def _repeat_blindly() -> None:
    """A lost answer is not read back: the Txn goes out again."""
    original = EtcdTxnPipeline.on_ambiguous

    def on_ambiguous(self: EtcdTxnPipeline, txn_id: int, now_ms: int) -> None:
        original(self, txn_id, now_ms)
        flight = self._flight
        if flight is not None and flight.txn_id == txn_id:
            flight.step = type(flight.step).REPEAT_DUE

    replace_in(EtcdTxnPipeline, "on_ambiguous", on_ambiguous)


@CONTROLLER.breaks("14", LEADERS)
def elected_from_outside_the_isr() -> None:
    original = partition_changes._with_any_leader

    def elect(partition: PartitionRecord, live: Liveness, rules: TopicRules, *, unclean: bool) -> PartitionRecord:
        first = next((each for each in partition.replicas if live.is_live(each) and each != partition.leader), None)
        if first is None:
            return original(partition, live, rules, unclean=unclean)
        members = tuple({*partition.in_sync_replicas, first})
        return partition_changes._led_by(structs.replace(partition, in_sync_replicas=members), first, live)

    replace_in(partition_changes, "_with_any_leader", elect)


@CONTROLLER.breaks("14", LEADERS, at_most=replace(SMALL, replication_factor=1))
def elected_though_it_is_dead() -> None:
    original = partition_changes._with_any_leader

    def elect(partition: PartitionRecord, live: Liveness, rules: TopicRules, *, unclean: bool) -> PartitionRecord:
        everybody = Liveness({node_id: live.epoch_of(node_id) for node_id in partition.replicas})
        return original(partition, everybody, rules, unclean=unclean)

    replace_in(partition_changes, "_with_any_leader", elect)


@CONTROLLER.breaks("14", LEADERS)
def always_elected_unclean() -> None:
    original = partition_changes.after_liveness

    def elected(partition: PartitionRecord, live: Liveness, rules: TopicRules) -> PartitionRecord:
        return original(partition, live, replace(rules, unclean_election=True))

    replace_in(leader_elections, "after_liveness", elected)


@CONTROLLER.breaks("14", LEADERS)
def restart_keeps_the_epoch() -> None:
    original = partition_changes.after_liveness

    def elected(partition: PartitionRecord, live: Liveness, rules: TopicRules) -> PartitionRecord:
        new = original(partition, live, rules)
        if new is not partition and new.leader in (partition.leader, -1):
            return structs.replace(new, leader_epoch=partition.leader_epoch)
        return new

    replace_in(leader_elections, "after_liveness", elected)


@CONTROLLER.breaks_for(
    "13",
    "tests/unit/controller/test_unknown_state.py"
    "::test_a_replica_whose_chunk_is_unreadable_is_no_stray_and_goes_on_when_it_is_mended",
)
def what_cannot_be_read_is_taken_for_deleted() -> None:
    replace_in(control_links, "unknown_partitions", lambda image: iter(()))


@CONTROLLER.breaks_for(
    "15",
    "tests/unit/controller/test_unknown_state.py"
    "::test_a_logstore_that_may_lack_records_stays_under_suspicion_while_partitions_are_unknown",
)
def suspicion_ends_though_partitions_are_unknown() -> None:
    replace_in(liveness, "knows_all_partitions", lambda image: True)


@CONTROLLER.breaks("15", DISKS)
def lost_power_keeps_its_place_in_the_isr() -> None:
    replace_in(liveness, "suspects", lambda image: frozenset())


@CONTROLLER.breaks_for(
    "15",
    "tests/unit/controller/test_replication.py"
    "::test_no_replica_becomes_eligible_beside_a_leader_that_is_cut_off_and_has_not_heard_of_a_higher_minimum",
)
def a_leader_that_is_cut_off_is_taken_to_know_the_minimum() -> None:
    replace_in(control_links.ControlLinks, "unaware", lambda self: frozenset())


@CONTROLLER.breaks_for(
    "15",
    "tests/unit/controller/test_replication.py"
    "::test_a_new_controller_makes_no_replica_eligible_beside_a_leader_that_it_does_not_reach",
)
def topics_that_wait_for_a_leader_are_not_looked_at_again() -> None:
    replace_in(leader_elections.LeaderElections, "add_waiting", lambda self: None)


@CONTROLLER.breaks_for(
    "15",
    "tests/scenarios/test_takeover_before_anyone_answers.py"
    "::test_a_leader_that_restarts_beside_a_follower_without_power_may_lead_again",
)
def a_leader_that_is_just_elected_is_taken_not_to_know_the_minimum() -> None:
    original = partition_changes._with_members

    def with_members(
        partition: PartitionRecord, members: tuple[int, ...], live: Liveness, rules: TopicRules
    ) -> PartitionRecord:
        changed = original(partition, members, live, rules)
        if not live.unaware.intersection(members):
            return changed
        stay = [each for each in changed.eligible_leader_replicas if each in partition.eligible_leader_replicas]
        return structs.replace(changed, eligible_leader_replicas=tuple(stay))

    replace_in(partition_changes, "_with_members", with_members)


@CONTROLLER.breaks("15", LEADERS)
def eligible_replicas_are_never_forgotten() -> None:
    """KIP-966 the other way round: who once could lead may do so for ever."""
    original = partition_changes._with_members

    def with_members(
        partition: PartitionRecord, members: tuple[int, ...], live: Liveness, rules: TopicRules
    ) -> PartitionRecord:
        changed = original(partition, members, live, rules)
        left = {*partition.eligible_leader_replicas, *partition.in_sync_replicas} - set(members)
        return structs.replace(changed, eligible_leader_replicas=tuple(sorted(left)))

    replace_in(partition_changes, "_with_members", with_members)


@CONTROLLER.breaks("5", SLOW_LEADERS)
def isr_of_an_older_leader_epoch_is_accepted() -> None:
    original = alter_partition

    def alter(
        partition: PartitionRecord, change: IsrChange, broker_id: int, live: Liveness, rules: TopicRules
    ) -> PartitionRecord | ErrorCode:
        latest = replace(change, leader_epoch=partition.leader_epoch, partition_epoch=partition.partition_epoch)
        return original(partition, latest, partition.leader, live, rules)

    replace_in(isr_changes, "alter_partition", alter)


@CONTROLLER.breaks("5", CONTROLLERS)
def isr_is_answered_before_it_is_committed() -> None:
    original = IsrChanges._answers

    def answers(self: IsrChanges) -> Any:
        for pending in self._pending.values():
            pending.is_in_flight = False
        return original(self)

    replace_in(IsrChanges, "_answers", answers)


@CONTROLLER.breaks("14", LEADERS)
def preferred_leader_need_not_be_in_sync() -> None:
    def led_by_preferred(partition: PartitionRecord, live: Liveness) -> PartitionRecord | None:
        preferred = partition.replicas[0]
        members = tuple({preferred, *partition.in_sync_replicas})
        changed = structs.replace(partition, in_sync_replicas=members)
        return partition_changes._committed(partition, partition_changes._led_by(changed, preferred, live))

    replace_in(elections_on_demand, "led_by_preferred", led_by_preferred)


@CONTROLLER.breaks("KIP-455")
def a_move_ends_before_its_targets_are_in_sync() -> None:
    original = partition_changes._completed

    def completed(partition: PartitionRecord, live: Liveness) -> PartitionRecord:
        target = [each for each in partition.replicas if each not in partition.removing_replicas]
        if partition.adding_replicas and live.is_live(target[0]):
            partition = structs.replace(partition, in_sync_replicas=tuple({*partition.in_sync_replicas, *target}))
        return original(partition, live)

    replace_in(partition_changes, "_completed", completed)
