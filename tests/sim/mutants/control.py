"""What a logstore takes from a controller: rules 11 and 13."""

from __future__ import annotations

from dataclasses import replace

from barnabas.cluster.messages import ControlRequest, PartitionMetadata
from services.logstore.core.control import Control
from services.logstore.core.partition import LeadershipChange, Partition
from tests.sim.mutants.planting import CONTROLLERS, LEADERS, Mutants, replace_in

CONTROL = Mutants("control")


@CONTROL.breaks("11", CONTROLLERS)
def stale_controller_epoch_is_accepted() -> None:
    original = Control._begin

    def begin(self: Control, session_id: int, request: ControlRequest, now_ms: int) -> None:
        self._controller_epoch = -1
        original(self, session_id, request, now_ms)

    replace_in(Control, "_begin", begin)


@CONTROL.breaks("11", LEADERS)
def stale_broker_epoch_is_accepted() -> None:
    original = Control._begin

    def begin(self: Control, session_id: int, request: ControlRequest, now_ms: int) -> None:
        original(self, session_id, replace(request, broker_epoch=self._replicas.broker_epoch), now_ms)

    replace_in(Control, "_begin", begin)


@CONTROL.breaks("11", CONTROLLERS)
def equal_epochs_are_taken_for_newer() -> None:
    original = Partition.apply

    def apply(self: Partition, state: PartitionMetadata, lag_ms_max: int, now_ms: int) -> LeadershipChange:
        if (state.leader_epoch, state.partition_epoch) == (self.leader_epoch, self.partition_epoch):
            self.partition_epoch -= 1
        return original(self, state, lag_ms_max, now_ms)

    replace_in(Partition, "apply", apply)


@CONTROL.breaks("11", CONTROLLERS)
def older_epochs_are_accepted() -> None:
    original = Partition.apply

    def apply(self: Partition, state: PartitionMetadata, lag_ms_max: int, now_ms: int) -> LeadershipChange:
        if state.leader_epoch == self.leader_epoch and state.partition_epoch < self.partition_epoch:
            self.partition_epoch = state.partition_epoch - 1
        return original(self, state, lag_ms_max, now_ms)

    replace_in(Partition, "apply", apply)


@CONTROL.breaks("7", LEADERS)
def a_newer_epoch_of_the_same_leader_is_no_news() -> None:
    """Elected again, it goes on as if nothing had been in between."""
    original = Partition.apply

    def apply(self: Partition, state: PartitionMetadata, lag_ms_max: int, now_ms: int) -> LeadershipChange:
        leads_on = self.leading and state.leader == self.node_id and state.leader_epoch > self.leader_epoch
        change = original(self, state, lag_ms_max, now_ms)
        return LeadershipChange.SAME_LEADER if leads_on else change

    replace_in(Partition, "apply", apply)
