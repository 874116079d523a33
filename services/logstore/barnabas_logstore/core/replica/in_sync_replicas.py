"""The in-sync replicas as a partition's leader sees them: the committed ISR, and at most one pending change.

KIP-497: a member that is about to join counts for the high watermark at once, one that is about to leave counts until
the controller has committed that; so the watermark never moves past a record that a member of either set lacks. An
answer that is lost or late leaves the change pending: it is requested again until the controller answers with the
state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from barnabas.cluster.messages import IsrMember
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.replica.follower_progress import UNKNOWN_BROKER_EPOCH

# The controller has not done it, and will not: the pending change was never applied (with any other error it may have
# been).
_NOT_DONE = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)


class IsrAnswer(Enum):
    COMMITTED = "the change, or another newer state, is committed"
    RETRY = "the outcome is unknown: retry"
    REVERTED = "the controller refused, and the change is dropped"


@dataclass(slots=True, frozen=True)
class PendingIsr:
    """The pending change. Each try requests the same change.

    `broker_epochs`, one per member, are those of the moment at which the change was prepared: what a joining replica
    has fetched applies to that incarnation alone (KIP-903). A later incarnation may have lost records. So the
    controller refuses the change once the member has registered again, and only then, or when the controller sends a
    newer state, does the leader prepare another change: an earlier try may have been accepted.
    """

    members: tuple[int, ...]
    is_expansion: bool
    broker_epochs: tuple[int, ...]

    def to_ask(self) -> list[IsrMember]:
        """Return the members as AlterPartition names them."""
        return [IsrMember(*member) for member in zip(self.members, self.broker_epochs, strict=True)]


class InSyncReplicas:
    """All fields are for reading."""

    __slots__ = ("committed", "maximal", "pending")

    def __init__(self) -> None:
        self.committed: tuple[int, ...] = ()
        self.pending: PendingIsr | None = None
        self.maximal: tuple[int, ...] = ()
        """The committed ISR and the members that are about to join it."""

    def commit(self, members: Sequence[int]) -> None:
        """Apply the controller's state under a newer partition epoch: a pending change is decided."""
        self.committed = tuple(members)
        self._set_pending(None)

    def _set_pending(self, pending: PendingIsr | None) -> None:
        self.pending = pending
        self.maximal = self._find_maximal()

    def _find_maximal(self) -> tuple[int, ...]:
        if self.pending is not None and self.pending.is_expansion:
            return self.pending.members
        return self.committed

    def keep_to(self, replicas: Sequence[int]) -> None:
        """Drop a pending change that would add a node that is not a replica: the controller will never accept it."""
        if self.pending is not None and not set(self.pending.members) <= set(replicas):
            self._set_pending(None)

    def propose_expansion(self, joining: Sequence[int], broker_epochs: Mapping[int, int]) -> bool:
        """Request that `joining` join. Return False while another change is pending, or if all are members.

        `broker_epochs`, by replica: those of the fetches that made it eligible.
        """
        strangers = [node_id for node_id in joining if node_id not in self.committed]
        if self.pending is not None or not strangers:
            return False
        self._prepare((*self.committed, *strangers), broker_epochs, is_expansion=True)
        return True

    def propose_shrink(self, leaving: Sequence[int], broker_epochs: Mapping[int, int]) -> bool:
        """Request that `leaving` leave, which must not be all. Return False while another change is pending."""
        staying = tuple(node_id for node_id in self.committed if node_id not in leaving)
        if self.pending is not None or staying == self.committed:
            return False
        assert staying, "a leader never leaves its own ISR"
        self._prepare(staying, broker_epochs, is_expansion=False)
        return True

    def _prepare(self, members: tuple[int, ...], broker_epochs: Mapping[int, int], *, is_expansion: bool) -> None:
        epochs = [broker_epochs.get(node_id, UNKNOWN_BROKER_EPOCH) for node_id in members]
        self._set_pending(PendingIsr(members, is_expansion, tuple(epochs)))

    def on_error(self, error: ErrorCode) -> IsrAnswer:
        """The controller has refused the pending change; a state in its answer goes to `commit` instead."""
        if error in _NOT_DONE:
            self._set_pending(None)
            return IsrAnswer.REVERTED
        return IsrAnswer.RETRY
