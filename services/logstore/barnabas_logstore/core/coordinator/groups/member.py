"""One member of a classic group."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse
from barnabas_logstore.core.coordinator.runtime.timers import Deadline


@dataclass(slots=True, eq=False)
class Member:
    """`protocols` is name → metadata, in the order of the member's preference.

    A member that waits for its join or sync gets the answer in `joined` or `synced`, kept until its next one.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: dict[str, bytes]
    assignment: bytes = b""
    is_new: bool = False
    """Whether it has not joined a generation yet: unlike others it may expire while it waits for its join."""
    awaits_join: bool = False
    awaits_sync: bool = False
    joined: JoinGroupResponse | None = None
    synced: SyncGroupResponse | None = None
    session: Deadline | None = None
    """When it is removed, unless it is heard from."""
    held_bytes: int = 0
    """What counts for it in `MemberBytes`."""

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether it needs no heartbeat, because it waits for the coordinator."""
        return not self.is_new and (self.awaits_join or self.awaits_sync)

    def matches(self, protocols: dict[str, bytes]) -> bool:
        """Whether it has the same protocols with the same metadata in the same order."""
        return list(self.protocols.items()) == list(protocols.items())

    def vote(self, candidates: set[str]) -> str:
        """Return the candidate that it prefers; it supports at least one."""
        return next(name for name in self.protocols if name in candidates)
