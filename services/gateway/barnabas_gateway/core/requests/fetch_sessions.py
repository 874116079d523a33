"""Incremental fetch sessions (KIP-227): what a client fetches is kept here, so that it need only name what changes.

The cache is a processor's own. A session outlives the connection that made it, as in Kafka; a client whose next
connection came to another processor finds none there, and begins anew.

Bounded by sessions and by the partitions in all of them. Whoever finds no room fetches without a session. Room is made
as Kafka's `FetchSessionCache` does it: the session that has not been used for longest goes when that is longer than
`eviction_ms`; else the smallest among those older than that, when the new one is larger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchTopic, ForgottenTopic
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.model.fetch_target import FetchKey, FetchTarget
from barnabas_gateway.core.requests.delayed_fetch import DelayedFetch

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
"""Of a request that is a full fetch, and may begin a session."""
FINAL_EPOCH: Final = -1
"""Of a request that is a full fetch, and ends its session."""
_EPOCH_MAX: Final = 0x7FFF_FFFF


class SessionFetch(Protocol):
    """The request of a session that is being answered."""

    def supersede(self) -> None:
        """The session's next request has come."""


class FetchSession:
    __slots__ = (
        "by_id",
        "cached_size",
        "created_ms",
        "epoch",
        "fetch",
        "last_used_ms",
        "partitions",
        "session_id",
        "wait",
    )

    def __init__(self, session_id: int, by_id: bool, partitions: dict[FetchKey, FetchTarget], now_ms: int) -> None:
        self.session_id = session_id
        self.by_id = by_id
        """Whether topics are named by id; a session keeps to what it began with."""
        self.partitions = partitions
        """In the order in which bytes are spent on them."""
        self.epoch = INITIAL_EPOCH + 1
        """That its next request has to have."""
        self.created_ms = self.last_used_ms = now_ms
        self.cached_size = 0
        """Partitions that the cache has counted; 0 once the session is not there any more."""
        self.fetch: SessionFetch | None = None
        """The request that is being answered; a session has one at a time."""
        self.wait: DelayedFetch | None = None
        """What is parked for it, for this request or for the next."""

    @property
    def is_cached(self) -> bool:
        return self.cached_size > 0

    def update(self, topics: Sequence[FetchTopic], forgotten: Sequence[ForgottenTopic]) -> Steps[bool]:
        """Take what a request names; False when that is nothing."""
        yield from add_partitions(topics, self.partitions, by_id=self.by_id)
        is_changed = any(topic.partitions for topic in topics)
        for topic in forgotten:
            name = topic.topic_id if self.by_id else topic.topic
            for partition in topic.partitions:
                is_changed |= self.partitions.pop((name, partition), None) is not None
            yield 1 + len(topic.partitions)
        return is_changed

    def served(self, target: FetchTarget) -> None:
        """Records of this partition are answered: the others come first in the next fetch, so that none starves."""
        key = (target.topic_id if self.by_id else target.topic, target.partition)
        if self.partitions.pop(key, None) is not None:
            self.partitions[key] = target


def add_partitions(topics: Sequence[FetchTopic], targets: dict[FetchKey, FetchTarget], *, by_id: bool) -> Steps[None]:
    """Add what a request names to `targets`, or change it there; what is named twice is as it was named last."""
    for topic in topics:
        name = topic.topic_id if by_id else topic.topic
        for asked in topic.partitions:
            key = (name, asked.partition)
            target = targets.get(key)
            if target is None:
                targets[key] = FetchTarget(topic.topic, topic.topic_id, asked)
            else:
                target.update(asked)
            yield 1
        yield 1


class FetchSessions:
    """The cache."""

    __slots__ = ("_by_id", "_eviction_ms", "_new_session_id", "_partitions", "_partitions_max", "_slots_max")

    def __init__(
        self, slots_max: int, partitions_max: int, eviction_ms: int, new_session_id: Callable[[], int]
    ) -> None:
        """`new_session_id` gives random numbers from 1 to 2^31 − 1; nobody shall guess another's session."""
        self._slots_max = slots_max
        self._partitions_max = partitions_max
        self._eviction_ms = eviction_ms
        self._new_session_id = new_session_id
        self._by_id: dict[int, FetchSession] = {}
        """The least recently used first."""
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def partitions(self) -> int:
        """Of all sessions together."""
        return self._partitions

    def resume(self, session_id: int, epoch: int, *, by_id: bool) -> FetchSession | ErrorCode:
        """The session that a request goes on with, or why it can't."""
        session = self._by_id.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def advance(self, session: FetchSession, now_ms: int) -> bool:
        """A request goes on with the session, as it is now; False when it has grown too large, and is gone."""
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        session.last_used_ms = now_ms
        size = len(session.partitions)
        self._partitions += size - session.cached_size
        session.cached_size = size
        del self._by_id[session.session_id]
        self._by_id[session.session_id] = session
        if self._partitions > self._partitions_max:
            self.remove(session)
        return session.is_cached

    def create(self, partitions: dict[FetchKey, FetchTarget], *, by_id: bool, now_ms: int) -> FetchSession | None:
        """A new session where there is room for it, or room can be made."""
        size = len(partitions)
        if not size or size > self._partitions_max:
            return None
        while len(self._by_id) >= self._slots_max or self._partitions + size > self._partitions_max:
            if not self._evict(size, now_ms):
                return None
        session_id = self._new_session_id()
        while session_id in self._by_id:
            session_id = self._new_session_id()
        assert session_id > NO_SESSION
        session = self._by_id[session_id] = FetchSession(session_id, by_id, partitions, now_ms)
        session.cached_size = size
        self._partitions += size
        return session

    def _evict(self, size: int, now_ms: int) -> bool:
        oldest = next(iter(self._by_id.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > self._eviction_ms:
            self.remove(oldest)
            return True
        settled = [each for each in self._by_id.values() if now_ms - each.created_ms > self._eviction_ms]
        smallest = min(settled, key=lambda each: (each.cached_size, each.session_id), default=None)
        if smallest is None or smallest.cached_size >= size:
            return False
        self.remove(smallest)
        return True

    def close(self, session_id: int) -> None:
        """Its client has no use for it any more."""
        session = self._by_id.get(session_id)
        if session is not None:
            self.remove(session)

    def remove(self, session: FetchSession) -> None:
        """Forget a session; a request that is being answered is answered still."""
        del self._by_id[session.session_id]
        self._partitions -= session.cached_size
        session.cached_size = 0
        if session.wait is not None and session.wait.fetch is None:
            session.wait.cancel()
