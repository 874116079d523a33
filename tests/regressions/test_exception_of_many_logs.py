"""One exception is counted once, however many logs its effect had: a flush of a whole volume was reported by each.

All of them are in doubt. Found by tour 10000045 with exceptions.
"""

from __future__ import annotations

from barnabas_logstore.core.replica.containment import LOG_EFFECT
from barnabas_logstore.core.storage.effects import VolumeFlushEffect
from tests.unit.logstore.service.support import EXCHANGE, Host, topic


def test_the_flush_of_a_volume_that_ends_unexpectedly_is_noted_once() -> None:
    host = Host()
    host.greet(EXCHANGE)
    host.lead(topic(partitions=2))
    for partition in (0, 1):
        host.append(partition=partition)
    host.core.stopping.begin()
    host.settle()
    (flush,) = host.core.stopping.take_closing_flushes()
    assert isinstance(flush, VolumeFlushEffect)
    # As nothing leaves it.
    host.core.partitions[0].log.flushes.in_flight = None
    host.held.append(flush)
    host.run_effects()
    assert host.core.contained.counts[LOG_EFFECT] == 1
    assert [partition.online for partition in host.core.partitions] == [False, False]
