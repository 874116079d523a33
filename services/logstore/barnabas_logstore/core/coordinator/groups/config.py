"""What a coordinator of groups is told of its configuration; names as Kafka's keys have them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class GroupConfig:
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms"""
    min_session_timeout_ms: int = 6_000
    """group.min.session.timeout.ms"""
    max_session_timeout_ms: int = 1_800_000
    """group.max.session.timeout.ms"""
    max_size: int = 0x7FFF_FFFF
    """group.max.size"""
    new_member_join_timeout_ms: int = 5 * 60 * 1000
    """As Kafka has it: a new member that waits for its join so long is taken for gone."""
    hold_ms: int = 0
    """How long a join or sync that may soon be answered is held back before its gateway is told to wait; 0: not."""
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    """offsets.retention.minutes"""
    offsets_retention_check_interval_ms: int = 10 * 60 * 1000
    """offsets.retention.check.interval.ms"""
    offset_metadata_max_bytes: int = 4096
    """offset.metadata.max.bytes"""
