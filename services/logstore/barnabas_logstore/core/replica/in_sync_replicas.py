"""Who is in sync, as a partition's leader sees it: the committed ISR, and at most one change that is being asked for.

KIP-497: a member that is about to join counts for the high watermark at once, one that is about to leave counts until
the controller has committed that; so the watermark never moves past a record that a member of either set lacks. An
answer that is lost or late leaves the change pending: it is asked for again until the controller says what holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from barnabas.cluster.messages import IsrMember
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.replica.follower_progress import UNKNOWN_BROKER_EPOCH

# The controller has not done it, and will not: what was pending never was (correctness: everything else may have been).
_NOT_DONE = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)


class IsrAnswer(Enum):
    COMMITTED = "the change holds, or the state that came instead"
    RETRY = "nothing is known of it: ask again"
    REVERTED = "the controller refused, and the change is given up"


@dataclass(slots=True, frozen=True)
class PendingIsr:
    """The change that is being asked for. Each try asks for the very same change.

    `broker_epochs`, one per member, are those of the moment at which the change was prepared: what a joiner has fetched
    speaks for that incarnation alone (KIP-903). An incarnation that follows it may have lost records. So the controller
    refuses the change once the member has registered again, and only then, or when the controller tells a newer state,
    does the leader prepare another change: an earlier try may have been accepted.
    """

    members: tuple[int, ...]
    is_expansion: bool
    broker_epochs: tuple[int, ...]

    def to_ask(self) -> list[IsrMember]:
        """The members as AlterPartition names them."""
        return [IsrMember(*member) for member in zip(self.members, self.broker_epochs, strict=True)]


class InSyncReplicas:
    __slots__ = ("committed", "pending")

    def __init__(self) -> None:
        self.committed: tuple[int, ...] = ()
        self.pending: PendingIsr | None = None

    @property
    def maximal(self) -> tuple[int, ...]:
        """The committed ISR and whoever is about to join it."""
        if self.pending is not None and self.pending.is_expansion:
            return self.pending.members
        return self.committed

    def commit(self, members: Sequence[int]) -> None:
        """The controller's word under a newer partition epoch: whatever was pending is decided."""
        self.committed = tuple(members)
        self.pending = None

    def keep_to(self, replicas: Sequence[int]) -> None:
        """Give up a pending change that would have a stranger join: under these replicas the controller never will."""
        if self.pending is not None and not set(self.pending.members) <= set(replicas):
            self.pending = None

    def propose_expansion(self, joining: Sequence[int], broker_epochs: Mapping[int, int]) -> bool:
        """Ask for `joining` to join. False while another change is pending, or when all are members.

        `broker_epochs`, by replica: those of the fetches that made it eligible.
        """
        strangers = [node_id for node_id in joining if node_id not in self.committed]
        if self.pending is not None or not strangers:
            return False
        self._prepare((*self.committed, *strangers), broker_epochs, is_expansion=True)
        return True

    def propose_shrink(self, leaving: Sequence[int], broker_epochs: Mapping[int, int]) -> bool:
        """Ask for `leaving` to leave, which must not be everybody. False while another change is pending."""
        staying = tuple(node_id for node_id in self.committed if node_id not in leaving)
        if self.pending is not None or staying == self.committed:
            return False
        assert staying, "a leader never leaves its own ISR"
        self._prepare(staying, broker_epochs, is_expansion=False)
        return True

    def _prepare(self, members: tuple[int, ...], broker_epochs: Mapping[int, int], *, is_expansion: bool) -> None:
        epochs = [broker_epochs.get(node_id, UNKNOWN_BROKER_EPOCH) for node_id in members]
        self.pending = PendingIsr(members, is_expansion, tuple(epochs))

    def on_error(self, error: ErrorCode) -> IsrAnswer:
        """The controller's refusal of the pending change; a state that it tells goes to `commit` instead."""
        if error in _NOT_DONE:
            self.pending = None
            return IsrAnswer.REVERTED
        return IsrAnswer.RETRY
