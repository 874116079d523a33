"""One replica's role in its partition: the leader, the epochs, and how far the records are committed.

The log knows bytes and offsets; this knows leadership. The rules are KRaft's: `leader_epoch` changes when and only
when the leader does, `partition_epoch` with every change, and a state is stale unless its (leader_epoch,
partition_epoch) is newer.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from enum import Enum

from barnabas.channel.messages import PartitionState
from barnabas.cluster.internal_topics import COORDINATED_TOPICS
from barnabas.cluster.messages import EPOCH_DURING_DELETE, NO_EPOCH, NO_LEADER, PartitionMetadata
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.replica.follower_progress import UNKNOWN_OFFSET, FollowerProgress
from barnabas_logstore.core.replica.in_sync_replicas import InSyncReplicas
from barnabas_logstore.core.replica.topic_meters import TopicMeter
from barnabas_logstore.core.storage.log.partition_log import PartitionLog

PartitionKey = tuple[bytes, int]


class LeadershipChange(Enum):
    STALE = "an older state than the known one: refused"
    UNCHANGED = "the known state"
    SAME_LEADER = "a newer state of the same leader epoch: only the ISR or the replicas moved"
    LEADS_ON = "a newer leader epoch, and this logstore still leads: pending requests continue"
    NEW_LEADER = "a newer leader epoch of another leader, or the first of this one: pending requests have failed"


class Partition:
    """A replica on this logstore. Offline means that its log directory failed: the log may not be accessed any more."""

    __slots__ = (
        "awaits_commit",
        "awaits_markers",
        "epoch_start_offset",
        "followers",
        "high_watermark",
        "is_coordinated",
        "is_stopped",
        "isr",
        "key",
        "leader_epoch",
        "leader_id",
        "leader_recovering",
        "leading",
        "led_since_epoch",
        "log",
        "meter",
        "node_id",
        "online",
        "partition",
        "partition_epoch",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(self, node_id: int, topic: str, topic_id: bytes, partition: int, log: PartitionLog) -> None:
        self.node_id = node_id
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.key: PartitionKey = (topic_id, partition)
        self.is_coordinated = topic in COORDINATED_TOPICS
        self.log = log
        self.meter = TopicMeter()
        """The meter of its topic, once it is among the replicas."""
        self.online = True
        self.awaits_commit = False
        """Results of appends are held until the high watermark reaches them: `UncommittedResults`."""
        self.awaits_markers = False
        """Markers of transactions wait to be committed: `TransactionMarkers`."""
        self.leading = False
        self.led_since_epoch = NO_EPOCH
        """The first of the epochs under which it has led without interruption until now, while it leads."""
        self.is_stopped = False
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        # Elected unclean, as the controller still knows (KIP-704).
        self.leader_recovering = False
        self.replicas: tuple[int, ...] = ()
        self.isr = InSyncReplicas()
        self.high_watermark = log.log_start_offset
        # The offset at which the epoch began under which this replica leads.
        self.epoch_start_offset = log.log_start_offset
        # Every other assigned replica, while this one leads.
        self.followers: dict[int, FollowerProgress] = {}

    # --- leadership --------------------------------------------------------------------------------------------------

    def apply(self, state: PartitionMetadata, lag_ms_max: int, now_ms: int) -> LeadershipChange:
        """Apply the controller's state of this partition. The caller fails pending requests if the result is
        NEW_LEADER.
        """
        newer = (state.leader_epoch, state.partition_epoch)
        known = (self.leader_epoch, self.partition_epoch)
        if newer < known or state.leader_epoch < self.log.leader_epochs.latest:
            return LeadershipChange.STALE
        if newer == known and not self.is_stopped:
            return self._learn_replicas(state, lag_ms_max, now_ms)
        self.is_stopped = False
        new_epoch = state.leader_epoch > self.leader_epoch
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = state.replicas
        self.leader_recovering = state.leader_recovering
        self._commit_members(state.in_sync_replicas)
        has_led = self.leading
        self.leading = self.online and state.leader == self.node_id
        if self.leading and not has_led:
            self.led_since_epoch = state.leader_epoch
        self._follow_assignment(state, now_ms, new_epoch=new_epoch)
        if self.leading:
            if new_epoch:
                self.log.begin_leader_epoch(state.leader_epoch)
                self.epoch_start_offset = self.log.next_offset
            self.advance_high_watermark(lag_ms_max, now_ms)
        if not new_epoch:
            return LeadershipChange.SAME_LEADER
        return LeadershipChange.LEADS_ON if has_led and self.leading else LeadershipChange.NEW_LEADER

    def _learn_replicas(self, state: PartitionMetadata, lag_ms_max: int, now_ms: int) -> LeadershipChange:
        """Learn the replicas of a state whose ISR is already known: the answer to AlterPartition that brought it names
        no replicas, and the change may have ended a move (KIP-455). A removed replica is not waited for any longer.
        """
        if state.replicas == self.replicas:
            return LeadershipChange.UNCHANGED
        self.replicas = state.replicas
        self._follow_assignment(state, now_ms, new_epoch=False)
        self.isr.keep_to(state.replicas)
        if self.leading:
            self.advance_high_watermark(lag_ms_max, now_ms)
        return LeadershipChange.SAME_LEADER

    def _follow_assignment(self, state: PartitionMetadata, now_ms: int, *, new_epoch: bool) -> None:
        """Track the other replicas while leading; from scratch in a new epoch."""
        known = {} if new_epoch else self.followers
        self.followers = {}
        for node_id in state.replicas if self.leading else ():
            if node_id != self.node_id:
                self.followers[node_id] = known.get(node_id) or FollowerProgress.of_new_epoch(
                    in_sync=node_id in state.in_sync_replicas,
                    leader_log_end_offset=self.log.log_end_offset,
                    now_ms=now_ms,
                )

    def stop(self) -> None:
        """This logstore is no replica of the partition any more, until a LeaderAndIsr says otherwise."""
        self.leading = False
        self.leader_id = NO_LEADER
        self.is_stopped = True

    def fail(self) -> None:
        """The log directory is offline, and with it this replica until the logstore restarts."""
        self.online = self.leading = False

    @property
    def is_config_known(self) -> bool:
        """Whether the controller has sent the topic's settings. Until then, after a start, the log has the defaults, by
        which nothing may be deleted.
        """
        return self.leader_epoch != NO_EPOCH

    def check_stop(self, leader_epoch: int) -> ErrorCode:
        """Whether a StopReplica of `leader_epoch` still applies: a deletion doesn't raise the epoch, and is marked by
        -2.
        """
        if leader_epoch in (EPOCH_DURING_DELETE, NO_EPOCH) or leader_epoch >= self.leader_epoch:
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH

    # --- followers ---

    def log_end_moved_from(self, old_log_end_offset: int) -> None:
        """This leader has written more: followers that had everything until now were caught up when their stream last
        fetched.
        """
        for follower in self.followers.values():
            if follower.log_end_offset == old_log_end_offset:
                follower.was_at_end()

    def taken_back(self) -> None:
        """What could not be written is in this log no longer: followers that have it from an earlier leader diverge."""
        self.epoch_start_offset = min(self.epoch_start_offset, self.log.next_offset)
        for follower in self.followers.values():
            if follower.log_end_offset > self.log.log_end_offset:
                follower.log_end_offset = UNKNOWN_OFFSET

    def out_of_sync(self, lag_ms_max: int, now_ms: int) -> list[int]:
        """Return members of the ISR that have not been caught up for `replica.lag.time.max.ms`: dead, stuck or too
        slow.
        """
        end = self.log.log_end_offset
        return [
            node_id
            for node_id in self.isr.committed
            if node_id != self.node_id
            and (node_id not in self.followers or not self.followers[node_id].is_caught_up(end, lag_ms_max, now_ms))
        ]

    def caught_up_outsiders(self) -> list[int]:
        """Return replicas that may be proposed for the ISR: they have everything committed, and everything of earlier
        epochs.

        Without the latter, records could be missing that an earlier leader has committed and this one does not know to
        be committed yet (KAFKA-7128). No replica at all, until this leader has written what it had fetched before its
        election: a disk may fail to, and then those who have that have diverged.
        """
        if self.log.log_end_offset < self.epoch_start_offset:
            return []
        needed = max(self.high_watermark, self.epoch_start_offset)
        return [
            node_id
            for node_id, follower in self.followers.items()
            if follower.may_join and follower.log_end_offset >= needed and node_id not in self.isr.committed
        ]

    def commit_isr(self, partition_epoch: int, members: Sequence[int]) -> None:
        """What this leader has requested is committed, or what the controller has decided instead."""
        self.partition_epoch = partition_epoch
        self.leader_recovering = False
        self._commit_members(members)

    def _commit_members(self, members: Sequence[int]) -> None:
        for node_id in {*self.isr.committed, *members} & self.followers.keys():
            self.followers[node_id].is_turned_away = node_id not in members
        self.isr.commit(members)

    def turn_away(self, members: Sequence[int]) -> None:
        """The controller has refused this ISR: one of the replicas that would join may not."""
        for node_id in members:
            if node_id in self.followers and node_id not in self.isr.committed:
                self.followers[node_id].is_turned_away = True

    def low_watermark(self, live: Container[int]) -> int:
        """The earliest log start of the live replicas, as far as this leader knows."""
        starts = [follower.log_start_offset for node_id, follower in self.followers.items() if node_id in live]
        return min([self.log.log_start_offset, *starts])

    # --- commitment --------------------------------------------------------------------------------------------------

    def advance_high_watermark(self, lag_ms_max: int, now_ms: int) -> bool:
        """HW = min log end offset over the maximal ISR; never back, nor forward under the minimum ISR. True: it moved.

        A follower that is caught up and may join is waited for too: if the watermark went past it, it would have to
        catch up with a moving mark to join (Kafka's `maybeIncrementLeaderHW`). A replica that the controller has
        refused is not waited for, since it may be unable to write.
        """
        candidate = log_end_offset = self.log.state.log_end_offset
        if candidate <= self.high_watermark or not self.in_sync_replicas_at_minimum:
            return False
        members = self.isr.maximal
        for node_id, follower in self.followers.items():
            if follower.log_end_offset < candidate and (
                node_id in members
                or (follower.is_awaited and follower.is_caught_up(log_end_offset, lag_ms_max, now_ms))
            ):
                candidate = follower.log_end_offset
        if candidate <= self.high_watermark:
            return False
        self.high_watermark = candidate
        return True

    @property
    def in_sync_replicas_at_minimum(self) -> bool:
        """Whether the ISR has at least `in_sync_replicas_min` members."""
        in_sync = len(self.isr.committed)
        return in_sync >= self.log.state.config.min_insync_replicas or in_sync >= len(self.replicas)

    @property
    def in_sync_replicas_min(self) -> int:
        """Kafka's effective minimum: never more than the number of replicas."""
        return min(self.log.state.config.min_insync_replicas, len(self.replicas))

    @property
    def last_stable_offset(self) -> int:
        """LSO = min(first unstable offset, HW), but at least the log start."""
        transactions = self.log.state.producers.transactions
        if transactions.is_none:
            return self.high_watermark
        high_watermark = self.high_watermark
        log_start_offset = min(self.log.log_start_offset, high_watermark)
        return max(transactions.last_stable_offset(high_watermark), log_start_offset)

    def knows_latest_offset(self) -> bool:
        """Not while the high watermark is below the start of the leader's own epoch: it would seem to go back."""
        return self.high_watermark >= self.epoch_start_offset

    # --- checks ------------------------------------------------------------------------------------------------------

    def check_append(self, leader_epoch: int, acks: int) -> ErrorCode:
        """Whether an append may be tried: this logstore must have led without interruption since `leader_epoch`, under
        which the gateway knew it as the leader (the error has the newer epoch).
        """
        if self.leading and self.led_since_epoch <= leader_epoch <= self.leader_epoch:
            if acks != -1 or self.in_sync_replicas_at_minimum:
                return ErrorCode.NONE
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if self.online else ErrorCode.KAFKA_STORAGE_ERROR

    def check_leader_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """Whether a reader may be answered: KIP-320, where -1 is not checked, then leadership."""
        if self.leading and current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return ErrorCode.NONE
        return self._check_epoch(current_leader_epoch) or ErrorCode.NOT_LEADER_OR_FOLLOWER

    def check_follower_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """Whether a consumer that reads from any replica may be answered (KIP-392). Not while its log is being
        truncated: records below the high watermark may be about to be removed, too.
        """
        is_served = not self.is_stopped and self.leader_epoch != NO_EPOCH and not self.log.is_truncating
        return self._check_epoch(current_leader_epoch) or (
            ErrorCode.NONE if is_served else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )

    def _check_epoch(self, current_leader_epoch: int) -> ErrorCode:
        if not self.online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            fenced = current_leader_epoch < self.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE

    def holds_append(self, leader_epoch: int, required_offset: int) -> bool:
        """Whether the record before `required_offset` is in the log, and was appended under `leader_epoch`.

        Only one leader appends under an epoch, so the same offset and epoch is the same record in every log.
        """
        last_offset = required_offset - 1
        return (
            self.online
            and leader_epoch != NO_EPOCH
            and self.log.log_start_offset <= last_offset < self.log.log_end_offset
            and self.log.leader_epochs.epoch_of(last_offset) == leader_epoch
        )

    # --- what others see ---------------------------------------------------------------------------------------------

    def state(self) -> PartitionState:
        """Return the state for watches and StateQuery. The byte position only grows within one leader epoch."""
        if not self.online:
            return PartitionState(self.topic_id, self.partition, leader_epoch=self.leader_epoch)
        if self.is_stopped:
            return PartitionState(self.topic_id, self.partition, online=True)
        last_stable_offset = self.last_stable_offset
        is_stable = last_stable_offset == self.high_watermark
        return PartitionState(
            topic_id=self.topic_id,
            partition=self.partition,
            leader_epoch=self.leader_epoch,
            high_watermark=self.high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=self.log.log_start_offset,
            high_watermark_position=self.log.byte_position_of(self.high_watermark),
            leading=self.leading,
            online=True,
            # For committed records: a replica that is about to join has them too (Kafka's `maximalIsr`).
            in_sync_replicas_at_minimum=len(self.isr.maximal) >= self.in_sync_replicas_min,
            earlier_epochs_led=self.leader_epoch - self.led_since_epoch if self.leading else 0,
            last_stable_position=0 if is_stable else self.log.byte_position_of(last_stable_offset),
        )
