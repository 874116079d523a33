"""Member ids that were given out to clients that have not joined with them yet (KIP-394), of all groups of a logstore.

A client asks for an id with one small request, and Kafka keeps it for the session timeout, which the client chooses, up
to half an hour. So their number is bounded here: if there are too many, of one host or of all, the oldest is let go as
if its time were over. A join with it is answered UNKNOWN_MEMBER_ID, and its client joins again for another
one. No client is refused: one that means to join does so at once, and thousands of others would have to ask meanwhile.
`group.max.size` is no bound for them: it counts members, in Kafka too, and its answer ends a consumer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from barnabas.containment import StateOwner
from barnabas_logstore.core.coordinator.runtime.timers import Deadline

PENDING_JOINS_MAX: Final = 10_000
PENDING_JOINS_PER_HOST_MAX: Final = 1_000
PENDING_JOIN_BYTES_MAX: Final = 16 << 20
PENDING_JOIN_BYTES: Final = 1_500
"""What one takes beside its names: a group that it alone may keep, its deadline, its places in tables."""


class PendingJoin(Deadline):
    """It ends by its deadline, by a join with its id, or by `PendingJoins.find_excess`."""

    __slots__ = ("byte_count", "client_host")

    def __init__(
        self,
        group_id: str,
        member_id: str,
        client_host: str,
        on_due: Callable[[], None],
        owner: StateOwner | None = None,
    ) -> None:
        super().__init__(on_due, owner)
        self.client_host = client_host
        self.byte_count = PENDING_JOIN_BYTES + len(group_id) + len(member_id)


class PendingJoins:
    __slots__ = ("_all", "_by_host", "byte_count")

    def __init__(self) -> None:
        self._all: OrderedDict[PendingJoin, None] = OrderedDict()
        self._by_host: dict[str, OrderedDict[PendingJoin, None]] = {}
        self.byte_count = 0

    def __len__(self) -> int:
        return len(self._all)

    def add(self, join: PendingJoin) -> None:
        self._all[join] = None
        self._by_host.setdefault(join.client_host, OrderedDict())[join] = None
        self.byte_count += join.byte_count

    def remove(self, join: PendingJoin) -> None:
        """It has ended. Does nothing if it is not there any more."""
        if join not in self._all:
            return
        del self._all[join]
        of_host = self._by_host[join.client_host]
        del of_host[join]
        if not of_host:
            del self._by_host[join.client_host]
        self.byte_count -= join.byte_count

    def find_excess(self, client_host: str) -> PendingJoin | None:
        """Return the one to let go, after one of this host was added; None: there are not too many."""
        of_host = self._by_host[client_host]
        if len(of_host) > PENDING_JOINS_PER_HOST_MAX:
            return next(iter(of_host))
        if len(self._all) > PENDING_JOINS_MAX or self.byte_count > PENDING_JOIN_BYTES_MAX:
            return next(iter(self._all))
        return None
