"""Between a leader and its followers: rules 1, 2 and 10."""

from __future__ import annotations

from dataclasses import replace

from barnabas.channel.messages import ReplicaData
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replication.fetcher import Fetcher, FollowedPartition, Stage
from barnabas_logstore.core.replication.following import Following
from barnabas_logstore.core.replication.leading import FollowedSlot, Leading
from barnabas_logstore.core.storage.effect_execution import EffectResult
from barnabas_logstore.core.storage.effects import ReadBatchesEffect
from barnabas_logstore.core.storage.log.state.leader_epochs import NO_EPOCH
from tests.sim.faults import Fault
from tests.sim.mutants.planting import FOLLOWERS, LEADERS, SMALL, Mutants, replace_in

REPLICATION = Mutants("replication")

# Leaders that have written what no other replica has, one after the other.
DIVERGING = [Fault.SLOW_LINK, Fault.SLOW, Fault.CUT, Fault.KILL_LOGSTORE, Fault.KILL_ALL_LOGSTORES]
# What a leader says under one epoch arrives under the next, which began as a replica was taken away from it (a move).
LATE_ANSWERS = [Fault.JITTER, Fault.LOSS, Fault.SLOW_LINK]


@REPLICATION.breaks("1", LEADERS)
def truncates_to_its_own_watermark() -> None:
    """Before KIP-101: a follower of another leader first drops what it does not know to be committed."""
    original = Following.follow

    def follow(self: Following, partition: Partition) -> None:
        original(self, partition)
        found = self._find(partition, Stage.TO_TELL)
        if found is not None and partition.high_watermark < partition.log.log_end_offset:
            self._begin_cut(*found, partition.high_watermark, truncate_fully=False)

    replace_in(Following, "follow", follow)


@REPLICATION.breaks("1", DIVERGING, at_most=replace(SMALL, replication_factor=2))
def truncates_in_a_single_round() -> None:
    """KIP-279: a leader that does not know the follower's last epoch answers with the end of an older one, and lets the
    follower read on where that reaches.
    """
    original = Leading._problem

    def problem(
        self: Leading, partition: Partition, followed: FollowedSlot, replica_id: int
    ) -> ErrorCode | ReplicaData | None:
        found = original(self, partition, followed, replica_id)
        if isinstance(found, ReplicaData) and found.diverging_end_offset >= followed.position.fetch_offset:
            return None
        return found

    replace_in(Leading, "_problem", problem)


@REPLICATION.breaks("1", LEADERS)
def logs_that_part_are_not_noticed() -> None:
    """No lastFetchedEpoch: the offset alone says where a follower reads on."""
    original = Leading._problem

    def problem(
        self: Leading, partition: Partition, followed: FollowedSlot, replica_id: int
    ) -> ErrorCode | ReplicaData | None:
        position = followed.position
        followed.position = replace(position, last_fetched_epoch=NO_EPOCH)
        found = original(self, partition, followed, replica_id)
        followed.position = position
        return found

    replace_in(Leading, "_problem", problem)


@REPLICATION.breaks("2", LEADERS)
def leader_does_not_look_at_the_followers_epoch() -> None:
    def check(self: Partition, current_leader_epoch: int) -> ErrorCode:
        return ErrorCode.NONE if self.leading else ErrorCode.NOT_LEADER_OR_FOLLOWER

    replace_in(Partition, "check_leader_epoch", check)


@REPLICATION.breaks("2", LATE_ANSWERS, at_most=replace(SMALL, replication_factor=2))
def follower_takes_answers_of_an_older_epoch() -> None:
    def asked_of(self: Fetcher, slot: int, request_id: int) -> FollowedPartition | None:
        followed = self._by_slot.get(slot)
        is_reported = followed is not None and followed.stage in (Stage.REPORTED, Stage.TO_TELL, Stage.BACKING_OFF)
        return followed if is_reported else None

    replace_in(Fetcher, "asked_of", asked_of)


@REPLICATION.breaks("10", LEADERS)
def follower_takes_no_watermark() -> None:
    def hear(self: Following, fetcher: Fetcher, followed: FollowedPartition) -> None:
        followed.word = (-1, -1)

    replace_in(Following, "_hear", hear)


@REPLICATION.breaks("10", FOLLOWERS)
def follower_counts_before_it_has_written() -> None:
    """The leader takes a follower for as far as it has been sent records."""
    original = Leading._on_bytes

    def on_bytes(self: Leading, effect: ReadBatchesEffect, found: EffectResult) -> None:
        awaited = self._ranges.get(effect)
        original(self, effect, found)
        if awaited is not None and effect not in self._ranges:
            follower = awaited.partition.followers.get(awaited.stream.session.replica_id)
            if follower is not None and awaited.partition.leading:
                follower.log_end_offset = awaited.partition.log.log_end_offset
                self._follower_moved(awaited.partition)

    replace_in(Leading, "_on_bytes", on_bytes)
