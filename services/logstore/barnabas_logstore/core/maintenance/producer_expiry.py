"""Remove producers that have been idle for `producer.id.expiration.ms`, as in Kafka.

By the timestamp of their last batch, checked every `producer.id.expiration.check.interval.ms`. A later batch of a
removed producer is one of an unknown producer.
"""

from __future__ import annotations

from collections import deque

from barnabas.containment import CONTAINING
from barnabas_logstore.core.replica.containment import PRODUCER_EXPIRY
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replica.replicas import Replicas

# Checking a producer takes a fraction of a microsecond, a partition about one.
PRODUCERS_PER_TICK = 5_000
PARTITION_COST = 5
FIRST_CHECK_MS_MAX = 30_000


class ProducerExpiry:
    def __init__(self, replicas: Replicas, expiration_ms: int, check_interval_ms: int) -> None:
        self._replicas = replicas
        self._expiration_ms = expiration_ms
        self._check_interval_ms = check_interval_ms
        self._due_ms = -1
        self._to_check: deque[Partition] = deque()

    @property
    def is_at_rest(self) -> bool:
        return not self._to_check

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """`wall_ms` is the clock that timestamps are compared with."""
        if self._due_ms < 0:
            # Producers loaded from snapshots may be older than any check would have kept.
            self._due_ms = now_ms + min(self._check_interval_ms, FIRST_CHECK_MS_MAX)
        if now_ms >= self._due_ms and not self._to_check:
            self._due_ms = now_ms + self._check_interval_ms
            self._to_check.extend(self._replicas.by_key.values())
        producers_left = PRODUCERS_PER_TICK
        while self._to_check and producers_left > 0:
            log = self._to_check.popleft().log
            state = log.state
            producers = state.producers
            producers_left -= len(producers) + PARTITION_COST
            try:
                producers.remove_expired(wall_ms, self._expiration_ms)
                state.verification_guards.remove_expired(wall_ms, self._expiration_ms)
            except Exception as error:
                with CONTAINING:
                    self._replicas.contained.log_in_doubt(PRODUCER_EXPIRY, error, log)
