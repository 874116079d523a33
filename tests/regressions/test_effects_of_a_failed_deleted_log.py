"""A topic is made again only when no effect of the deleted log of its name is under way any more.

A flush of the deleted log did not find its files, the log failed, and counted as idle with a write of it still under
way. That write made a segment of the old log in the directory of the new one.
"""

from __future__ import annotations

from barnabas.cluster.messages import LeaderAndIsr, StopReplica
from barnabas_logstore.core.storage.effects import FlushEffect, ReplaceEffect, WriteEffect
from tests.unit.logstore.service.support import EXCHANGE, TOPIC_ID, WALL_MS, Host, batch, topic

CONFIGS = {"segment.ms": "500", "flush.ms": "0"}


def test_a_write_that_is_under_way_is_waited_for() -> None:
    host = Host()
    host.greet(EXCHANGE)
    host.lead(topic(configs=CONFIGS))
    host.append()
    host.holds_effects = True
    host.core.tick(1_000)
    host.send(host.append_request(batch(timestamp_ms=WALL_MS + 1_000)))
    host.turn()
    host.send(host.append_request(batch(timestamp_ms=WALL_MS + 2_000)))
    (flush,) = [effect for effect in host.held if isinstance(effect, FlushEffect)]
    (write,) = [effect for effect in host.held if isinstance(effect, WriteEffect)]
    assert write.creates

    host.core.on_control(7, host.command(StopReplica([host.stopped()])))
    host.turn()
    host.core.on_control(7, host.command(LeaderAndIsr(False, [topic(leader_epoch=1, topic_id=TOPIC_ID[::-1])])))
    host.run_effect(flush)
    for _ in range(3):
        host.turn()
        for effect in [effect for effect in host.held if isinstance(effect, ReplaceEffect)]:
            host.run_effect(effect)
    assert not host.core.partitions
    host.holds_effects = False
    host.settle()
    (partition,) = host.core.partitions
    names = [entry.name for entry in host.disk.list(partition.log.directory) if entry.name.endswith(".log")]
    assert names == [f"{0:020d}.log"]


def test_a_write_with_a_flush_of_its_own_is_one_effect() -> None:
    host = Host()
    host.greet(EXCHANGE)
    host.lead(topic(configs={"flush.messages": "1"}))
    host.holds_effects = True
    host.send(host.append_request())
    host.turn()
    host.core.on_control(7, host.command(StopReplica([host.stopped()])))
    host.turn()
    host.holds_effects = False
    assert not host.lead(topic(leader_epoch=1, topic_id=TOPIC_ID[::-1])).partition_errors
