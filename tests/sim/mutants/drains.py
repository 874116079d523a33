"""Logstores out of service: what a drain may be begun with, and what is kept from who is drained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from msgspec import structs

from barnabas.cluster.keys import PartitionRecord
from barnabas_controller.core.elections import leader_elections, reassignments
from barnabas_controller.core.operations import drains, node_administration
from barnabas_controller.core.operations.drains import Drains
from barnabas_controller.core.state import partition_changes
from barnabas_controller.core.state.chunk_changes import PartitionKey
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.partition_changes import Liveness, TopicRules
from barnabas_controller.core.state.writes import Write
from barnabas_controller.core.topics import placement
from barnabas_controller.core.topics.placement import Placement
from barnabas_controller.core.topics.replica_spread import ReplicaSpread
from tests.sim.faults import Fault
from tests.sim.mutants.planting import Mutants, replace_in
from tests.sim.shapes import AtMost

DRAINS = Mutants("drains")

RULE = "drain"
# A replica that is moved needs a logstore more than there are replicas.
WITH_ROOM = AtMost(logstores=5, gateways=1, purgatories=1, controllers=2, producers=2, consumers=1, groups=0)
# A replica is out of sync, or gone, while another logstore is drained.
OUT_OF_SYNC = [Fault.KILL_LOGSTORE, Fault.CUT, Fault.ISOLATE, Fault.PAUSE_PAST_LEASE]

_MOVES = "tests/unit/controller/test_drain_moves.py"


def _no_broker_is_drained(live: Liveness) -> Liveness:
    return replace(live, drained=frozenset())


@DRAINS.breaks(RULE, OUT_OF_SYNC)
def a_drain_counts_replicas_that_are_out_of_sync() -> None:
    original = Drains._replicas_of

    def replicas_of(self: Drains, node_id: int) -> Iterator[tuple[str, PartitionKey, PartitionRecord]]:
        for name, key, partition in original(self, node_id):
            yield name, key, structs.replace(partition, in_sync_replicas=partition.replicas)

    refusal = Drains.refusal

    def counted(self: Drains, node_id: int, *, move_replicas: bool) -> str:
        Drains._replicas_of = replicas_of  # type: ignore[method-assign]
        try:
            return refusal(self, node_id, move_replicas=move_replicas)
        finally:
            Drains._replicas_of = original  # type: ignore[method-assign]

    replace_in(Drains, "refusal", counted)


@DRAINS.breaks(RULE)
def a_drain_looks_at_no_minimum_isr() -> None:
    replace_in(drains, "_needed", lambda partition, min_insync_replicas: 1)


@DRAINS.breaks(RULE)
def drains_do_not_count_together() -> None:
    refusal = Drains.refusal

    def alone(self: Drains, node_id: int, *, move_replicas: bool) -> str:
        liveness: Any = self._liveness

        class Alone:
            def current(self) -> Liveness:
                return _no_broker_is_drained(liveness.current())

        self._liveness = Alone()  # type: ignore[assignment]
        try:
            return refusal(self, node_id, move_replicas=move_replicas)
        finally:
            self._liveness = liveness

    replace_in(Drains, "refusal", alone)


@DRAINS.breaks(RULE)
def a_drained_logstore_leads_on() -> None:
    original = partition_changes.after_liveness

    def elected(partition: PartitionRecord, live: Liveness, rules: TopicRules) -> PartitionRecord:
        return original(partition, _no_broker_is_drained(live), rules)

    replace_in(leader_elections, "after_liveness", elected)


@DRAINS.breaks(RULE, OUT_OF_SYNC)
def a_drained_logstore_is_elected_like_any_other() -> None:
    """A drained leader still gives up its leadership, but to the first candidate."""

    def with_any_leader(
        partition: PartitionRecord, live: Liveness, rules: TopicRules, *, unclean: bool
    ) -> PartitionRecord:
        return original(partition, _no_broker_is_drained(live), rules, unclean=unclean)

    original = partition_changes._with_any_leader
    replace_in(partition_changes, "_with_any_leader", with_any_leader)


@DRAINS.breaks(RULE)
def a_drained_logstore_is_given_replicas() -> None:
    """By those who make topics, and who move partitions."""
    original = Placement.__init__

    def init(self: Placement, image: ControllerImage, live: Liveness) -> None:
        original(self, image, _no_broker_is_drained(live))

    replace_in(Placement, "__init__", init)
    replace_in(placement, "check_not_drained", lambda live, node_ids: None)
    replace_in(reassignments, "check_not_drained", lambda live, node_ids: None)


@DRAINS.breaks(RULE, at_most=WITH_ROOM)
def moves_go_to_who_is_drained() -> None:
    original = Drains._places

    def places(self: Drains, partition: PartitionRecord, live: Liveness, drained: frozenset[int]) -> list[int]:
        return original(self, partition, live, frozenset())

    replace_in(Drains, "_places", places)
    spread = Drains._spread
    replace_in(Drains, "_spread", lambda self, live: spread(self, _no_broker_is_drained(live)))


@DRAINS.breaks(RULE, at_most=WITH_ROOM)
def a_drain_takes_the_replica_before_another_is_in_sync() -> None:
    """With a replica of one, the last that has the records."""

    def moved(
        self: Drains, node_id: int, key: PartitionKey, partition: PartitionRecord, live: Liveness, spread: ReplicaSpread
    ) -> PartitionRecord | None:
        begun = original(self, node_id, key, partition, live, spread)
        if begun is None or node_id not in begun.removing_replicas:
            return begun
        whole = structs.replace(begun, in_sync_replicas=begun.replicas)
        return partition_changes._committed(partition, partition_changes._completed(whole, live.at(*key)))

    original = Drains._moved
    replace_in(Drains, "_moved", moved)


@DRAINS.breaks_for(RULE, f"{_MOVES}::test_the_next_partitions_are_moved_as_those_before_have_gone")
def no_move_is_ever_begun() -> None:
    def next_moves(self: Drains) -> list[Write]:
        return []

    replace_in(Drains, "next_moves", next_moves)


@DRAINS.breaks_for(RULE, "tests/unit/controller/test_drains.py::test_a_return_calls_off_the_moves_that_are_under_way")
def a_return_leaves_the_moves_under_way() -> None:
    replace_in(node_administration, "reassignment_cancelled", lambda partition, live, rules: None)
