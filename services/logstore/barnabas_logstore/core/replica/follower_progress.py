"""What a leader knows of one follower, by its fetches alone (Kafka's `cluster.Replica`)."""

from __future__ import annotations

from dataclasses import dataclass, field

NEVER_MS = -(2**62)
UNKNOWN_OFFSET = -1
UNKNOWN_BROKER_EPOCH = -1


@dataclass(slots=True)
class FetchSession:
    """The stream that a follower fetches by. A fetch counts for all of its partitions, named in it or not.

    `is_registered`: the follower's registration is the one that the cluster knows (KIP-903), and the stream is open. An
    older incarnation, or one that is gone, may not join an ISR.
    """

    replica_id: int
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    is_registered: bool = False
    last_fetch_ms: int = NEVER_MS


@dataclass(slots=True)
class FollowerProgress:
    """`last_caught_up_ms`: the latest time at which the follower is known to have had all that the leader had then."""

    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_caught_up_ms: int = NEVER_MS
    last_fetch_ms: int = NEVER_MS
    leader_end_at_last_fetch: int = UNKNOWN_OFFSET
    session: FetchSession = field(default_factory=lambda: FetchSession(-1))
    is_turned_away: bool = False
    """The controller has taken it out of the ISR, or has refused to take it in (its disk may be full), and it has not
    come any further since: the watermark waits for it no longer than the ISR does."""

    def fetched(
        self, session: FetchSession, fetch_offset: int, log_start_offset: int, leader_log_end_offset: int, now_ms: int
    ) -> None:
        """A fetch from `fetch_offset` says that the follower has written everything below it.

        A follower that reads to the leader's end is caught up now. One that reaches the end of the time of its last
        fetch was caught up then: under steady load nobody ever reads to the present end.
        """
        if fetch_offset >= leader_log_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_at_last_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        if fetch_offset > self.log_end_offset:
            self.is_turned_away = False
        self.session = session
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_ms = now_ms
        self.leader_end_at_last_fetch = leader_log_end_offset

    def was_at_end(self) -> None:
        """The leader's end is about to move away from where this follower is: until its stream's last fetch it had all.

        A stream names only what changes, so an idle partition's follower is not heard of one by one.
        """
        self.last_caught_up_ms = max(self.last_caught_up_ms, self.session.last_fetch_ms)
        self.last_fetch_ms = max(self.last_fetch_ms, self.session.last_fetch_ms)

    @property
    def may_join(self) -> bool:
        return self.session.is_registered

    @property
    def is_awaited(self) -> bool:
        return self.session.is_registered and not self.is_turned_away

    def is_caught_up(self, leader_log_end_offset: int, lag_ms_max: int, now_ms: int) -> bool:
        """At the leader's end, or there within the last `replica.lag.time.max.ms`."""
        return self.log_end_offset == leader_log_end_offset or now_ms - self.last_caught_up_ms <= lag_ms_max

    @classmethod
    def of_new_epoch(cls, *, in_sync: bool, leader_log_end_offset: int, now_ms: int) -> FollowerProgress:
        """A member of the ISR has `replica.lag.time.max.ms` from the begin of a leader epoch to prove itself."""
        if not in_sync:
            return cls()
        return cls(last_caught_up_ms=now_ms, last_fetch_ms=now_ms, leader_end_at_last_fetch=leader_log_end_offset)
