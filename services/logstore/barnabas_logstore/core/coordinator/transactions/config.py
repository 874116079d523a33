"""The configuration of a transaction coordinator; names as Kafka's keys have them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class TransactionConfig:
    max_timeout_ms: int = 15 * 60 * 1000
    """transaction.max.timeout.ms"""
    abort_timed_out_interval_ms: int = 10_000
    """transaction.abort.timed.out.transaction.cleanup.interval.ms"""
    id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    """transactional.id.expiration.ms"""
    remove_expired_interval_ms: int = 60 * 60 * 1000
    """transaction.remove.expired.transaction.cleanup.interval.ms"""
