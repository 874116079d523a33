"""What a logstore takes from a controller: rules 7, 11 and 13."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from barnabas.cluster.messages import ControlRequest, PartitionMetadata, TopicMetadata
from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.control.control import Control
from barnabas_logstore.core.replica.partition import LeadershipChange, Partition
from tests.sim.mutants.planting import LATE_LEADERS, LATE_WORDS, LEADERS, Mutants, replace_in

CONTROL = Mutants("control")


@CONTROL.breaks("11", LATE_LEADERS)
def stale_controller_epoch_is_accepted() -> None:
    original = Control._begin

    def begin(self: Control, session_id: int, request: ControlRequest) -> None:
        self._controller_epoch = -1
        original(self, session_id, request)

    replace_in(Control, "_begin", begin)


@CONTROL.breaks("11", LEADERS)
def stale_broker_epoch_is_accepted() -> None:
    original = Control._begin

    def begin(self: Control, session_id: int, request: ControlRequest) -> None:
        original(self, session_id, replace(request, broker_epoch=self._replicas.broker_epoch))

    replace_in(Control, "_begin", begin)


@CONTROL.breaks_for(
    "15",
    "tests/scenarios/test_raised_minimum.py"
    "::test_a_leader_that_restarts_goes_by_the_raised_minimum_before_its_first_metadata",
)
def a_restarted_leader_goes_by_its_static_minimum() -> None:
    """Until the first UpdateMetadata is there it commits alone, beside a replica that is eligible to lead."""
    replace_in(Control, "_learn_broker_configs", lambda self, controller_epoch, command: None)


@CONTROL.breaks_for(
    "11",
    "tests/unit/logstore/replication/test_isr_changes.py"
    "::test_a_state_that_is_repeated_takes_nothing_back_that_is_asked_for",
)
def equal_epochs_are_taken_for_newer() -> None:
    """What the leader is asking for is forgotten, though the controller may have done it."""
    original = Partition.apply

    def apply(self: Partition, state: PartitionMetadata, lag_ms_max: int, now_ms: int) -> LeadershipChange:
        if (state.leader_epoch, state.partition_epoch) == (self.leader_epoch, self.partition_epoch):
            self.partition_epoch -= 1
        return original(self, state, lag_ms_max, now_ms)

    replace_in(Partition, "apply", apply)


@CONTROL.breaks("11", LATE_WORDS)
def older_epochs_are_accepted() -> None:
    original = Partition.apply

    def apply(self: Partition, state: PartitionMetadata, lag_ms_max: int, now_ms: int) -> LeadershipChange:
        if state.leader_epoch == self.leader_epoch and state.partition_epoch < self.partition_epoch:
            self.partition_epoch = state.partition_epoch - 1
        return original(self, state, lag_ms_max, now_ms)

    replace_in(Partition, "apply", apply)


@CONTROL.breaks_for(
    "8",
    "tests/unit/logstore/service/test_appends.py"
    "::test_another_leader_epoch_is_refused_with_the_newest_leader_and_epoch",
)
def a_leader_counts_as_unbroken_whatever_was_in_between() -> None:
    """Elected again, it vouches for what it appended before it followed another."""
    original = Partition.apply

    def apply(self: Partition, state: PartitionMetadata, lag_ms_max: int, now_ms: int) -> LeadershipChange:
        led_since_epoch = self.led_since_epoch
        change = original(self, state, lag_ms_max, now_ms)
        if self.leading and led_since_epoch >= 0:
            self.led_since_epoch = led_since_epoch
        return change

    replace_in(Partition, "apply", apply)


@CONTROL.breaks_for(
    "7", "tests/unit/logstore/service/test_appends.py::test_another_epoch_of_the_same_leader_fails_nothing"
)
def another_epoch_of_the_same_leader_fails_what_is_pending() -> None:
    original = Partition.apply

    def apply(self: Partition, state: PartitionMetadata, lag_ms_max: int, now_ms: int) -> LeadershipChange:
        change = original(self, state, lag_ms_max, now_ms)
        return LeadershipChange.NEW_LEADER if change is LeadershipChange.LEADS_ON else change

    replace_in(Partition, "apply", apply)


@CONTROL.breaks("13")
def a_topic_made_again_takes_the_old_log() -> None:
    original = Control._apply

    def apply(self: Control, topic: TopicMetadata, state: PartitionMetadata, config: TopicConfig) -> Any:
        found = self._replicas.by_name.get((topic.topic, state.partition))
        if found is not None and found.topic_id != topic.topic_id:
            self._replicas.remove(found)
            found.topic_id, found.key = topic.topic_id, (topic.topic_id, state.partition)
            self._replicas.add(found)
        return (yield from original(self, topic, state, config))

    replace_in(Control, "_apply", apply)


@CONTROL.breaks("13")
def stop_replica_is_dropped() -> None:
    replace_in(Control, "_stop", lambda self, asked, taken_away: ErrorCode.NONE)


@CONTROL.breaks("13")
def deletion_is_stale_without_a_new_epoch() -> None:
    def check_stop(self: Partition, leader_epoch: int) -> ErrorCode:
        return ErrorCode.NONE if leader_epoch > self.leader_epoch else ErrorCode.FENCED_LEADER_EPOCH

    replace_in(Partition, "check_stop", check_stop)
