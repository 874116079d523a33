"""AlterPartition requests: those of all leaders share one Txn, and each is answered when its own changes are committed.

They wait only for the Txn in flight and for elections; requests about topics and configs wait for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.cluster.controller_calls.table import ALTER_PARTITION
from barnabas.cluster.messages import AlterPartitionRequest, AlterPartitionResponse, IsrChangeResult
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.elections.partition_alteration import alter_partition, present_state
from barnabas_controller.core.state.chunk_changes import ChunkChanges
from barnabas_controller.core.state.effects import Effect, Reject, Respond
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.partition_changes import Liveness
from barnabas_controller.core.state.topic_rules import TopicRulesTable
from barnabas_controller.core.state.writes import Write

# Each leader has one or two outstanding; more come from a broken peer.
REQUESTS_MAX = 1000


@dataclass(slots=True)
class _Pending:
    request_id: int
    request: AlterPartitionRequest
    deadline_ms: int
    # One per partition decided, in order.
    results: list[IsrChangeResult] = field(default_factory=list)
    # Some of them are in the Txn in flight.
    is_in_flight: bool = False

    @property
    def is_decided(self) -> bool:
        return len(self.results) == len(self.request.partitions)


class IsrChanges:
    def __init__(self, image: ControllerImage, rules: TopicRulesTable) -> None:
        self._image = image
        self._rules = rules
        self._pending: dict[int, _Pending] = {}

    def enqueue(self, request_id: int, request: AlterPartitionRequest, now_ms: int) -> list[Effect]:
        """Add a request, or answer at once that it was not done."""
        if len(self._pending) >= REQUESTS_MAX:
            return [Respond(request_id, AlterPartitionResponse(ErrorCode.REQUEST_TIMED_OUT))]
        self._pending[request_id] = _Pending(request_id, request, now_ms + ALTER_PARTITION.timeout_ms)
        return []

    def next_writes(self, live: Liveness) -> tuple[list[Write], list[Effect]]:
        """Return one Txn's worth of changes, which may be empty, and the answers that need no write."""
        changes = ChunkChanges(self._image)
        for pending in self._pending.values():
            if not self._decide(pending, changes, live):
                break
        return changes.writes(), self._answers()

    def _decide(self, pending: _Pending, changes: ChunkChanges, live: Liveness) -> bool:
        """Continue with one request. Return False if the Txn is full."""
        request = pending.request
        if live.broker_epochs.get(request.broker_id) != request.broker_epoch:
            stale = IsrChangeResult(ErrorCode.STALE_BROKER_EPOCH)
            pending.results += [stale] * (len(request.partitions) - len(pending.results))
        while not pending.is_decided:
            change = request.partitions[len(pending.results)]
            key = (change.topic_id, change.partition)
            partition = changes.find(key) if change.topic_id in self._image.topics_by_id else None
            if partition is None:
                pending.results.append(IsrChangeResult(ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            rules = self._rules.of(change.topic_id)
            altered = alter_partition(partition, change, request.broker_id, live.at(*key), rules)
            if isinstance(altered, ErrorCode):
                pending.results.append(IsrChangeResult(altered))
                continue
            if altered is not partition and not changes.put(key, altered):
                return False
            # Also if another request of this Txn changed it: an answer describes only committed state.
            pending.is_in_flight |= changes.has_changed(key)
            pending.results.append(present_state(altered))
        return True

    def on_committed(self) -> list[Effect]:
        """The Txn that `next_writes` returned is in the image."""
        for pending in self._pending.values():
            pending.is_in_flight = False
        return self._answers()

    def expire(self, now_ms: int) -> list[Effect]:
        """Answer requests whose deadline passed before all was decided, or known to be committed."""
        expired = [pending for pending in self._pending.values() if now_ms >= pending.deadline_ms]
        for pending in expired:
            del self._pending[pending.request_id]
        return [Respond(each.request_id, AlterPartitionResponse(ErrorCode.REQUEST_TIMED_OUT)) for each in expired]

    def abandon(self) -> list[Effect]:
        """Answer nothing any more; only requests that were not begun have certainly changed nothing."""
        effects: list[Effect] = [Reject(each.request_id, not each.results) for each in self._pending.values()]
        self._pending.clear()
        return effects

    def due_ms(self) -> int | None:
        """The next deadline."""
        return min([pending.deadline_ms for pending in self._pending.values()], default=None)

    def _answers(self) -> list[Effect]:
        done = [pending for pending in self._pending.values() if pending.is_decided and not pending.is_in_flight]
        for pending in done:
            del self._pending[pending.request_id]
        return [Respond(each.request_id, _response(each)) for each in done]


def _response(pending: _Pending) -> AlterPartitionResponse:
    """STALE_BROKER_EPOCH is the error of the whole request, even if parts of it were already done."""
    if any(result.error_code == ErrorCode.STALE_BROKER_EPOCH for result in pending.results):
        return AlterPartitionResponse(ErrorCode.STALE_BROKER_EPOCH)
    return AlterPartitionResponse(ErrorCode.NONE, pending.results)
