"""Replication throttles (KIP-73, KIP-113): how many bytes a second go to replicas that are not in sync.

A rate belongs to a broker (`leader.replication.throttled.rate`, `follower.replication.throttled.rate`), the replicas
that it holds for to their topics (`leader.replication.throttled.replicas` and its twin). A listed replica that is in
sync is never held back, but its bytes count: the rate is about the whole of what the listed replicas move. Nothing is
slowed down inside of an answer: over the rate, a partition is left out until the rate is kept again, so the first
answer after a pause may be larger than the rate allows, and is made up for after it.

`replica.alter.log.dirs.io.max.bytes.per.second` holds for every move between log directories.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from barnabas.cluster.broker_config_keys import BROKER_KEYS
from barnabas.cluster.config_description import BrokerValues
from barnabas.cluster.config_values import INT64_MAX, InvalidValue

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"

_ALL: Final = "*"
# Texts of topics that are read at once; one per topic that is being reassigned.
_LISTS_KEPT: Final = 1024


@dataclass(slots=True, frozen=True)
class QuotaWindows:
    """`replication.quota.window.num` and `replication.quota.window.size.seconds`, or their twins for log directories:
    what a rate is measured over.
    """

    count: int = 11
    size_ms: int = 1000


class ReplicationQuota:
    """A rate that may be exceeded, and whether it is: Kafka's `SimpleRate` over windows, with the time injected."""

    __slots__ = ("_byte_count", "_filled", "_windows", "bytes_per_second")

    def __init__(self, windows: QuotaWindows) -> None:
        self.bytes_per_second = INT64_MAX
        self._windows = windows
        # (begin in ms, bytes), the oldest first.
        self._filled: deque[tuple[int, int]] = deque()
        self._byte_count = 0

    @property
    def is_limited(self) -> bool:
        return self.bytes_per_second < INT64_MAX

    def record(self, byte_count: int, now_ms: int) -> None:
        """So much has been moved, whatever the rate."""
        if not byte_count:
            return
        self._forget(now_ms)
        begin_ms, so_far = self._filled[-1] if self._filled else (now_ms, 0)
        if now_ms - begin_ms >= self._windows.size_ms:
            self._filled.append((now_ms, byte_count))
        elif self._filled:
            self._filled[-1] = (begin_ms, so_far + byte_count)
        else:
            self._filled.append((now_ms, byte_count))
        self._byte_count += byte_count

    def is_exceeded(self, now_ms: int) -> bool:
        if not self.is_limited:
            return False
        self._forget(now_ms)
        if not self._filled:
            return False
        elapsed_ms = max(now_ms - self._filled[0][0], self._windows.size_ms)
        return self._byte_count * 1000 > self.bytes_per_second * elapsed_ms

    def _forget(self, now_ms: int) -> None:
        """What was so long ago that it is in none of the windows."""
        kept_ms = self._windows.count * self._windows.size_ms
        while self._filled and now_ms - self._filled[0][0] >= kept_ms:
            self._byte_count -= self._filled.popleft()[1]


class Throttles:
    """The quotas of one logstore, as the cluster sets them while it runs."""

    __slots__ = ("_node_id", "follower", "leader", "log_dirs")

    def __init__(self, node_id: int, windows: QuotaWindows, log_dirs_windows: QuotaWindows) -> None:
        self._node_id = node_id
        self.leader = ReplicationQuota(windows)
        self.follower = ReplicationQuota(windows)
        self.log_dirs = ReplicationQuota(log_dirs_windows)

    def follow(self, values: BrokerValues) -> None:
        """The rates by the newest word on this broker."""
        self.leader.bytes_per_second = _rate(LEADER_RATE, values)
        self.follower.bytes_per_second = _rate(FOLLOWER_RATE, values)
        self.log_dirs.bytes_per_second = _rate(LOG_DIRS_RATE, values)

    def is_listed(self, throttled_replicas: str, partition: int) -> bool:
        """Whether a topic's list names this broker's replica of the partition."""
        if not throttled_replicas:
            return False
        listed = _listed(throttled_replicas, self._node_id)
        return listed is None or partition in listed


def _rate(name: str, values: BrokerValues) -> int:
    """Nobody's number, or one that is none: as if it had not been set."""
    key = BROKER_KEYS[name]
    for _, text, _ in values.sources((name,)):
        try:
            rate = key.parse(text)
        except InvalidValue:
            continue
        assert isinstance(rate, int)
        return rate
    return INT64_MAX


@lru_cache(_LISTS_KEPT)
def _listed(throttled_replicas: str, node_id: int) -> frozenset[int] | None:
    """The partitions of `partition:broker,…` that name the broker; None: all of them."""
    if throttled_replicas == _ALL:
        return None
    pairs = [entry.partition(":") for entry in throttled_replicas.split(",")]
    return frozenset(int(partition) for partition, _, broker in pairs if int(broker) == node_id)
