"""Ten thousand idle logs, each looked at ten times a second for a flush that was never due, took a quarter of a core of
every logstore, and more than half of what a failover cost it. A log that leaves its flushes to the kernel is looked at
after writes, and now and then besides, since its topic may get another flush.ms.
"""

from __future__ import annotations

import pytest

from barnabas_logstore.core.storage.effects import FlushEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from tests.unit.logstore.service.support import EXCHANGE, Host, topic

PARTITIONS = 50


def new_host() -> Host:
    host = Host()
    host.greet(EXCHANGE)
    host.lead(topic(partitions=PARTITIONS))
    for partition in range(PARTITIONS):
        host.append(partition=partition)
    return host


def test_idle_logs_are_looked_at_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    host = new_host()
    looked_at = 0
    begin_due_flush = PartitionLog.begin_due_flush

    def counted(log: PartitionLog, now_ms: int) -> FlushEffect | None:
        nonlocal looked_at
        looked_at += 1
        return begin_due_flush(log, now_ms)

    monkeypatch.setattr(PartitionLog, "begin_due_flush", counted)
    for now_ms in range(0, 20_000, 100):
        host.core.tick(now_ms)
    assert looked_at <= 5 * PARTITIONS, "of 200 ticks"


def test_a_log_at_rest_learns_of_another_flush_ms() -> None:
    host = new_host()
    for now_ms in range(0, 1000, 100):
        host.core.tick(now_ms)
    host.run_effects()
    host.lead(topic(1, 0, partitions=PARTITIONS, configs={"flush.ms": "1000"}))
    flushed = set()
    for now_ms in range(1000, 13_000, 100):
        host.core.tick(now_ms)
        effects = host.core.take_effects()
        flushed |= {effect.directory for effect in effects if isinstance(effect, FlushEffect)}
    assert len(flushed) == PARTITIONS
