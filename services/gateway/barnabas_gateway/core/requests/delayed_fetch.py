"""What is parked for a Fetch with too little to answer: for one request, or for a session across requests.

A consumer that has read everything polls each of its partitions every half second. If each of these polls were parked
separately, a consumer of 1,000 idle partitions would have 1,000 partitions read, 1,000 conditions parked and 1,000
watches begun and ended with each. So a session's wait persists: when a poll is over, its conditions stay parked, and
the next poll that changes nothing reuses them. While they are parked, nothing of what the session fetches has moved.

A wait persists only if any byte ends it (`min_bytes` 1), as long as the image has not changed since, and for
`fetch_wait_ms_max` at most: changes without a condition (a log start that moves below the fetch offset) are returned by
then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from barnabas.channel.messages import Completion, FetchCondition, Outcome
from barnabas_gateway.core.backends.purgatory_client import Pod, PurgatoryClient
from barnabas_gateway.core.model.containment import end_by
from barnabas_gateway.core.model.fetch_target import FetchTarget
from barnabas_gateway.core.timing.request_timing import RequestTiming


class WaitingFetch(Protocol):
    """The Fetch request that waits."""

    wait: DelayedFetch | None

    @property
    def deadline_ms(self) -> int: ...

    @property
    def isolation_level(self) -> int: ...

    @property
    def min_bytes(self) -> int: ...

    @property
    def refused(self) -> Sequence[FetchTarget]: ...

    @property
    def targets(self) -> Sequence[FetchTarget]: ...

    @property
    def timing(self) -> RequestTiming | None: ...

    def wait_over(self, *, is_expired: bool) -> None: ...

    def wait_lost(self) -> None: ...

    def failed(self, error: Exception) -> None: ...


class WaitingSession(Protocol):
    """The fetch session that keeps a wait between two of its requests."""

    wait: DelayedFetch | None


class DelayedFetch:
    """An entry in purgatory. It ends once: completed, lost with its pod, or cancelled."""

    __slots__ = (
        "_purgatory",
        "entry_id",
        "fetch",
        "image_revision",
        "is_standing",
        "isolation_level",
        "pod",
        "refused",
        "session",
        "topics",
        "until_ms",
    )

    def __init__(
        self, purgatory: PurgatoryClient, fetch: WaitingFetch, until_ms: int, image_revision: int, *, is_standing: bool
    ) -> None:
        self._purgatory = purgatory
        self.fetch: WaitingFetch | None = fetch
        """The request that waits; None between two polls of a session."""
        self.until_ms = until_ms
        self.is_standing = is_standing
        """Whether it may outlive the request."""
        self.image_revision = image_revision
        self.isolation_level = fetch.isolation_level
        self.refused = fetch.refused
        """Partitions that are not waited for: each response names them, with their error."""
        self.topics = list(dict.fromkeys(target.topic for target in fetch.targets))
        self.session: WaitingSession | None = None
        self.pod: Pod | None = None
        self.entry_id = 0

    @property
    def timing(self) -> RequestTiming | None:
        """The timing of the request that waits."""
        return None if self.fetch is None else self.fetch.timing

    def may_serve(self, fetch: WaitingFetch, image_revision: int) -> bool:
        """Whether this is what a poll that changes nothing would park."""
        return (
            self.is_standing
            and fetch.min_bytes == 1
            and fetch.isolation_level == self.isolation_level
            and fetch.deadline_ms <= self.until_ms
            and image_revision == self.image_revision
        )

    def conditions(self, targets: Sequence[FetchTarget]) -> list[FetchCondition]:
        return [
            FetchCondition(
                target.topic_id,
                target.partition,
                target.leader_id,
                target.leader_epoch,
                target.fetch_offset,
                target.fetch_position,
                self.isolation_level,
                target.from_follower,
            )
            for target in targets
        ]

    def completed(self, completion: Completion) -> None:
        """Purgatory's answer."""
        fetch = self._ended()
        if fetch is not None:
            try:
                fetch.wait_over(is_expired=completion.outcome is Outcome.EXPIRED)
            except Exception as error:
                end_by(fetch, error)

    def pod_lost(self) -> None:
        fetch = self._ended()
        if fetch is not None:
            try:
                fetch.wait_lost()
            except Exception as error:
                end_by(fetch, error)

    def failed(self, error: Exception) -> None:
        """Its end has met an unexpected exception, apart from that of the request: the session is in doubt."""
        raise error

    def cancel(self) -> None:
        """No request or session needs it any more."""
        self._purgatory.cancel_entry(self)
        self._ended()

    def _ended(self) -> WaitingFetch | None:
        """Detach it from its session and request; return the request that had it."""
        self.pod = None
        if self.session is not None:
            self.session.wait = None
            self.session = None
        fetch, self.fetch = self.fetch, None
        if fetch is not None:
            fetch.wait = None
        return fetch
