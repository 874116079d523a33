"""A leader's requests to the controller about in-sync replicas (KIP-497): replicas that have caught up join, those that
lag leave.

One request is in progress at a time, for as many partitions as have a change to request; each partition has at most one
pending change. An answer that is lost, or that decides nothing, leaves the change pending, and it is requested again:
the same change twice is answered with the state that it led to. A fetch of an earlier incarnation never brings a later
one into the ISR (KIP-903): every try of a change has the broker epochs of the moment at which the change was prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.cluster.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrChange,
    IsrChangeResult,
)
from barnabas.containment import CONTAINING
from barnabas.metrics.family import Sample
from barnabas.metrics.replica_families import FAILED_ISR_UPDATES, ISR_EXPANDS, ISR_SHRINKS
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.replica.containment import ISR
from barnabas_logstore.core.replica.in_sync_replicas import IsrAnswer, PendingIsr
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas

PARTITIONS_PER_REQUEST_MAX = 1000
RETRY_MS = 100
# A refusal means that the controller knows less, or more, of a replica than we do: that may take a moment to resolve.
REVERTED_RETRY_MS = 500

Moved = Callable[[Partition], None]


class IsrChanges:
    def __init__(self, replicas: Replicas, lag_ms_max: int, moved: Moved) -> None:
        """`lag_ms_max`: `replica.lag.time.max.ms`. `moved` gets partitions whose watermark or ISR has moved."""
        self._replicas = replicas
        self._lag_ms_max = lag_ms_max
        self._moved = moved
        # Partitions with a pending change to be requested; a dict for its order.
        self._to_ask: dict[Partition, None] = {}
        self._asked: list[tuple[Partition, IsrChange, int]] = []
        # Partitions whose followers are checked again, and when.
        self._to_look_at: dict[Partition, int] = {}
        self._retry_ms = 0
        self._shrink_check_ms = 0
        self.shrinks = self.expands = self.failures = 0

    def samples(self) -> Iterator[Sample]:
        yield Sample(ISR_SHRINKS, (), self.shrinks)
        yield Sample(ISR_EXPANDS, (), self.expands)
        yield Sample(FAILED_ISR_UPDATES, (), self.failures)

    # --- what followers do ---

    def follower_moved(self, partition: Partition, now_ms: int) -> None:
        """A follower has fetched from further on: the watermark may move, and it may have caught up."""
        try:
            if partition.advance_high_watermark(self._lag_ms_max, now_ms):
                self._moved(partition)
        except Exception as error:
            # Nothing would say that it has moved until the next move, and who waits for it would wait on.
            with CONTAINING:
                self._replicas.contained.log_in_doubt(ISR, error, partition.log)
            return
        self.look_at(partition)

    def look_at(self, partition: Partition) -> None:
        """Propose followers that have caught up."""
        if partition.leading and partition.isr.pending is None and partition not in self._to_look_at:
            joining = partition.caught_up_outsiders()
            if joining:
                # First: a change that is pending without being requested is never decided, and forbids every other.
                self._to_ask[partition] = None
                partition.isr.propose_expansion(joining, self._broker_epochs(partition))

    def tick(self, now_ms: int) -> None:
        """Twice in `replica.lag.time.max.ms`: remove members that have not been caught up for that long."""
        for partition in [partition for partition, due_ms in self._to_look_at.items() if due_ms <= now_ms]:
            del self._to_look_at[partition]
            try:
                self.look_at(partition)
            except Exception as error:
                with CONTAINING:
                    self._replicas.contained.log_in_doubt(ISR, error, partition.log)
        if now_ms < self._shrink_check_ms:
            return
        self._shrink_check_ms = now_ms + max(1, self._lag_ms_max // 2)
        for partition in self._replicas.by_key.values():
            if not partition.leading or len(partition.isr.committed) < 2:
                continue
            try:
                leaving = partition.out_of_sync(self._lag_ms_max, now_ms)
                if leaving and partition.isr.propose_shrink(leaving, self._broker_epochs(partition)):
                    self._to_ask[partition] = None
            except Exception as error:
                with CONTAINING:
                    self._replicas.contained.log_in_doubt(ISR, error, partition.log)

    @property
    def is_at_rest(self) -> bool:
        """Whether no change is to be requested or decided, nor any partition to be looked at again."""
        return not (self._to_ask or self._asked or self._to_look_at)

    # --- the controller ---

    def has_work(self, now_ms: int) -> bool:
        """Whether a request can be sent."""
        return bool(self._to_ask) and not self._asked and now_ms >= self._retry_ms

    def take_request(self, now_ms: int) -> AlterPartitionRequest | None:
        """Return the next request, unless one is in progress, none is needed, or the last try was just now."""
        if not self.has_work(now_ms):
            return None
        asking, rest = list(self._to_ask), list[Partition]()
        asking, rest = asking[:PARTITIONS_PER_REQUEST_MAX], asking[PARTITIONS_PER_REQUEST_MAX:]
        self._to_ask = dict.fromkeys(rest)
        for partition in asking:
            is_here = self._replicas.by_key.get(partition.key) is partition and partition.leading
            if is_here and partition.isr.pending is not None:
                change = self._change(partition, partition.isr.pending)
                self._asked.append((partition, change, len(partition.isr.committed)))
        if not self._asked:
            return None
        changes = [change for _, change, _ in self._asked]
        return AlterPartitionRequest(self._replicas.node_id, self._replicas.broker_epoch, changes)

    def _change(self, partition: Partition, pending: PendingIsr) -> IsrChange:
        return IsrChange(
            partition.topic_id,
            partition.partition,
            partition.leader_epoch,
            partition.partition_epoch,
            pending.to_ask(),
            recovered=partition.leader_recovering,
        )

    def _broker_epochs(self, partition: Partition) -> dict[int, int]:
        """By replica: the broker epoch of the session whose fetch gave the offset that the leader knows."""
        followers = partition.followers.items()
        return {
            self._replicas.node_id: self._replicas.broker_epoch,
            **{node_id: follower.session.broker_epoch for node_id, follower in followers},
        }

    def on_answer(self, response: AlterPartitionResponse | None, now_ms: int) -> None:
        """The controller's answer; None: there was none, and the outcome is unknown."""
        asked, self._asked = self._asked, []
        results: list[IsrChangeResult] = []
        if response is not None and not response.error_code and len(response.partitions) == len(asked):
            results = response.partitions
        if not results:
            self.failures += len(asked)
            self._retry_ms = now_ms + RETRY_MS
            self._to_ask = dict.fromkeys([partition for partition, _, _ in asked]) | self._to_ask
            return
        for (partition, change, members_before), result in zip(asked, results, strict=True):
            if not result.error_code and result.leader_epoch == change.leader_epoch:
                # The controller's command may have delivered the change before this answer: it still counts.
                self.shrinks += len(result.in_sync_replicas) < members_before
                self.expands += len(result.in_sync_replicas) > members_before
            if self._replicas.by_key.get(partition.key) is partition and partition.leader_epoch == change.leader_epoch:
                try:
                    self._decided(partition, change, result, now_ms)
                except Exception as error:
                    with CONTAINING:
                        self._replicas.contained.log_in_doubt(ISR, error, partition.log)

    def _decided(self, partition: Partition, change: IsrChange, result: IsrChangeResult, now_ms: int) -> None:
        if not partition.leading:
            return
        if result.error_code:
            self.failures += 1
            if partition.isr.on_error(ErrorCode(result.error_code)) is IsrAnswer.RETRY:
                self._ask_again(partition, now_ms)
            else:
                self._to_look_at[partition] = now_ms + REVERTED_RETRY_MS
                if result.error_code == ErrorCode.INELIGIBLE_REPLICA:
                    self._turned_away(partition, change, now_ms)
        elif result.leader_epoch != partition.leader_epoch:
            self._ask_again(partition, now_ms)  # another leader is elected; until we get that state, nothing is decided
        elif result.partition_epoch > partition.partition_epoch:
            partition.commit_isr(result.partition_epoch, result.in_sync_replicas)
            partition.advance_high_watermark(self._lag_ms_max, now_ms)
            self._moved(partition)
            self.look_at(partition)

    def _turned_away(self, partition: Partition, change: IsrChange, now_ms: int) -> None:
        """A replica that would have joined may not; the watermark does not wait for it any more either."""
        partition.turn_away([member.broker_id for member in change.in_sync_replicas])
        if partition.advance_high_watermark(self._lag_ms_max, now_ms):
            self._moved(partition)

    def _ask_again(self, partition: Partition, now_ms: int) -> None:
        if partition.isr.pending is not None:
            self._retry_ms = now_ms + RETRY_MS
            self._to_ask[partition] = None
