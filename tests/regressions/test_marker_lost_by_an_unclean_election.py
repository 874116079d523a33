"""An unclean leader may have the records of a transaction and not its marker (KAFKA-20716).

Its coordinator knows the transaction to be complete, and sends no marker any more. What is behind is not stable, so
consumers of committed records wait there; find-hanging names the transaction, and an operator's marker ends it.
"""

from __future__ import annotations

from barnabas.cluster.administration import ActiveProducer
from tests.unit.logstore.service.group_host import GroupHost
from tests.unit.logstore.service.support import WALL_MS, batch, topic
from tests.unit.logstore.service.test_administration import producers
from tests.unit.logstore.service.test_markers import OK, PRODUCER, VERSION, errors_of, markers, partition_of
from tests.unit.logstore.storage.test_transactions import aborted_of, write

FIRST_OFFSET = 1


def elected_without_the_marker() -> GroupHost:
    """Its log has a transaction, whose marker only a leader had that is gone for good."""
    host = GroupHost()
    host.lead(topic(0, replicas=[1, 2], in_sync_replicas=[1]))
    host.append(batch())
    write(partition_of(host).log, 0)
    host.settle()
    host.lead(topic(5, 5, replicas=[1, 2], in_sync_replicas=[1]))
    host.append(batch(), leader_epoch=5)
    host.settle()
    return host


def test_it_is_found_and_ended() -> None:
    host = elected_without_the_marker()
    partition = partition_of(host)
    assert (partition.last_stable_offset, partition.high_watermark) == (FIRST_OFFSET, 3)
    described = producers(host)
    assert isinstance(described, list)
    (hanging,) = [each for each in described if each.producer_id == PRODUCER]
    assert hanging == ActiveProducer(PRODUCER, 0, 0, WALL_MS, -1, FIRST_OFFSET)
    assert errors_of(host.ask(markers(coordinator_epoch=hanging.coordinator_epoch, commit=False), VERSION)) == [OK]
    assert (partition.last_stable_offset, partition.high_watermark) == (4, 4)
    (aborted,) = aborted_of(partition.log)
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (PRODUCER, FIRST_OFFSET, 3)
    described = producers(host)
    assert isinstance(described, list)
    assert [each.transaction_first_offset for each in described if each.producer_id == PRODUCER] == [-1]


def test_the_coordinators_own_marker_may_come_after_all() -> None:
    """Of one that has not completed the transaction: it sends its marker to the new leader."""
    host = elected_without_the_marker()
    assert errors_of(host.ask(markers(coordinator_epoch=2), VERSION)) == [OK]
    assert errors_of(host.ask(markers(coordinator_epoch=2), VERSION)) == [OK], "once more, as after a lost answer"
    partition = partition_of(host)
    assert partition.last_stable_offset == partition.high_watermark
    assert aborted_of(partition.log) == []
