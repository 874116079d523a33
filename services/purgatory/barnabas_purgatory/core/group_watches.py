"""Group members that wait for their group's next step, by the group watched at its coordinator.

Steps are rare, and end the waits of nearly all members: they are not ordered, and all are checked.
"""

from __future__ import annotations

from barnabas.channel.messages import GroupState, Outcome
from barnabas_purgatory.core.timing_wheel import TimerTask

GroupKey = tuple[bytes, int, str]
"""Topic id and partition of `__consumer_offsets`, group id."""


class GroupWatch:
    """One group at one logstore: its newest known state (None: unknown), and the members that wait."""

    __slots__ = ("key", "node_id", "state", "waits")

    def __init__(self, node_id: int, key: GroupKey) -> None:
        self.node_id = node_id
        self.key = key
        self.state: GroupState | None = None
        self.waits: dict[ParkedGroup, None] = {}

    @property
    def live(self) -> int:
        return len(self.waits)

    def lose_sight(self) -> None:
        self.state = None


class ParkedGroup(TimerTask):
    """A member that waits for `step` under one epoch of its coordinator."""

    __slots__ = ("conditions", "coordinator_epoch", "entry_id", "has_ended", "step", "stream_id", "watch")

    def __init__(
        self, stream_id: int, entry_id: int, deadline_ms: int, watch: GroupWatch, coordinator_epoch: int, step: int
    ) -> None:
        super().__init__(deadline_ms)
        self.stream_id = stream_id
        self.entry_id = entry_id
        self.watch = watch
        self.conditions = 1
        self.has_ended = False
        self.coordinator_epoch = coordinator_epoch
        self.step = step

    def outcome(self) -> Outcome | None:
        """Return how it ends given the present state, or None while it has to wait."""
        state = self.watch.state
        if state is None:
            return None
        if state.coordinator_epoch != self.coordinator_epoch:
            # The known state is older than the wait, and a newer one is on its way; or there is another coordinator, or
            # none.
            is_older = -1 < state.coordinator_epoch < self.coordinator_epoch
            return None if is_older else Outcome.FENCED
        return Outcome.SATISFIED if state.step >= self.step else None
