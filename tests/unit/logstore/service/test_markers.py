"""Markers that a coordinator of transactions sends: appended where this logstore leads, answered when committed."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.channel.messages import ReplicaPosition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas_logstore.core.coordinator.markers import MARKERS_PER_STEP
from barnabas_logstore.core.maintenance.full_disks import PROBE_MS
from barnabas_logstore.core.replica.partition import Partition
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.coordinator.test_loading import offset, transactional
from tests.unit.logstore.replication.support import REPLICAS, FollowerByHand, tell_brokers
from tests.unit.logstore.service.group_host import CONSUMED, GROUP, OFFSETS_TOPIC, GroupHost, offsets_topic
from tests.unit.logstore.service.support import TOPIC, TOPIC_ID, WALL_MS, led_by_other, topic
from tests.unit.logstore.storage.test_transactions import write

VERSION = 2
PRODUCER = 1
OK = ErrorCode.NONE


def markers(
    *places: tuple[str, int], epoch: int = 0, coordinator_epoch: int = 0, commit: bool = True, version: int = 1
) -> WriteTxnMarkersRequest:
    topics = [WritableTxnMarkerTopic(name, [index]) for name, index in places or [(TOPIC, 0)]]
    return WriteTxnMarkersRequest([WritableTxnMarker(PRODUCER, epoch, commit, topics, coordinator_epoch, version)])


def errors_of(answer: Any) -> list[ErrorCode]:
    assert isinstance(answer, WriteTxnMarkersResponse)
    (of_producer,) = answer.markers
    assert of_producer.producer_id == PRODUCER
    return [ErrorCode(each.error_code) for of_topic in of_producer.topics for each in of_topic.partitions]


def partition_of(host: GroupHost, name: str = TOPIC, index: int = 0) -> Partition:
    return host.core._replicas.by_name[name, index]


def host_of(**fields: Any) -> GroupHost:
    host = GroupHost()
    host.lead(topic(**fields))
    return host


def test_a_marker_ends_the_transaction_of_each_partition() -> None:
    host = host_of(partitions=2)
    for index in (0, 1):
        write(partition_of(host, index=index).log, 0)
        assert not partition_of(host, index=index).log.state.producers.transactions.is_none
    assert errors_of(host.ask(markers((TOPIC, 0), (TOPIC, 1)), VERSION)) == [OK, OK]
    for index in (0, 1):
        partition = partition_of(host, index=index)
        assert (partition.log.log_end_offset, partition.last_stable_offset) == (2, 2)


def test_each_partition_has_its_own_error() -> None:
    host = host_of(partitions=2)
    write(partition_of(host).log, 0, epoch=5)
    answer = host.ask(markers((TOPIC, 0), ("nowhere", 0), (TOPIC, 1), epoch=4), VERSION)
    assert errors_of(answer) == [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, OK]


def test_an_earlier_coordinator_is_fenced() -> None:
    host = host_of()
    assert errors_of(host.ask(markers(coordinator_epoch=3), VERSION)) == [OK]
    assert errors_of(host.ask(markers(coordinator_epoch=2), VERSION)) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]


def test_a_late_marker_of_version_2_does_not_end_the_next_transaction() -> None:
    host = host_of()
    write(partition_of(host).log, 0, epoch=1, version=2)
    late = markers(epoch=1, version=2)
    assert errors_of(host.ask(late, VERSION)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert errors_of(host.ask(markers(epoch=2, version=2), VERSION)) == [OK]
    assert errors_of(host.ask(markers(epoch=2, version=2), VERSION)) == [OK], "sent again"


def test_who_does_not_lead_appends_nothing() -> None:
    host = GroupHost()
    host.lead(led_by_other(0))
    assert errors_of(host.ask(markers(), VERSION)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert partition_of(host).log.next_offset == 0


def replicated() -> tuple[GroupHost, FollowerByHand]:
    host = GroupHost()
    host.lead(topic(replicas=REPLICAS[:2], in_sync_replicas=REPLICAS[:2], configs={"min.insync.replicas": "2"}))
    tell_brokers(host, *REPLICAS)
    return host, FollowerByHand(host, REPLICAS[1])


def test_the_answer_waits_for_the_followers() -> None:
    host, follower = replicated()
    request_id = host.call(markers(), VERSION)
    host.settle()
    assert request_id not in host.answers
    follower.ask(ReplicaPosition(0, TOPIC_ID, 0, 0, 0, -1, 0))
    host.settle()
    assert request_id not in host.answers
    follower.ask(ReplicaPosition(0, TOPIC_ID, 0, 0, 1, 0, 0))
    host.settle()
    assert errors_of(host.answer_of(request_id)) == [OK]
    assert not partition_of(host).awaits_markers


def test_a_leader_that_is_replaced_does_not_say_that_it_is_committed() -> None:
    host, _ = replicated()
    request_id = host.call(markers(), VERSION)
    host.settle()
    host.lead(led_by_other(1))
    assert errors_of(host.answer_of(request_id)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_not_enough_replicas() -> None:
    host = host_of(replicas=[1, 2], in_sync_replicas=[1], configs={"min.insync.replicas": "2"})
    assert errors_of(host.ask(markers(), VERSION)) == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_a_marker_that_a_full_disk_did_not_take_is_no_success() -> None:
    room = 1 << 30
    host = GroupHost(DiskModel(room))
    host.lead(topic())
    host.core.tick(0)
    assert errors_of(host.ask(markers(), VERSION)) == [OK]
    host.disk.capacity_bytes = host.disk.used_bytes() + 20
    assert errors_of(host.ask(markers(), VERSION)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    host.disk.capacity_bytes = room
    host.later(PROBE_MS)
    assert errors_of(host.ask(markers(), VERSION)) == [OK]
    assert partition_of(host).log.log_end_offset == 2


def test_many_markers_are_appended_over_several_steps_in_their_order() -> None:
    host = host_of()
    first = host.call(markers(*[(TOPIC, 0)] * (MARKERS_PER_STEP + 1)), VERSION)
    second = host.call(markers(coordinator_epoch=1), VERSION)
    host.turn()
    assert host.answers == {}
    host.settle()
    assert errors_of(host.answer_of(first)) == [OK] * (MARKERS_PER_STEP + 1)
    assert errors_of(host.answer_of(second)) == [OK]


def test_a_call_without_markers_is_answered() -> None:
    host = host_of()
    request = markers()
    request.markers[0].topics = []
    assert host.ask(request, VERSION).markers[0].topics == []
    assert host.ask(WriteTxnMarkersRequest([]), VERSION).markers == []


def pending(host: GroupHost, value: int) -> None:
    """A producer has sent an offset within a transaction."""
    log = partition_of(host, OFFSETS_TOPIC).log
    guard = log.begin_verification(PRODUCER, 0, 0, WALL_MS, supports_epoch_bump=False)
    records = transactional(PRODUCER, offset(value, group=GROUP, topic=CONSUMED))
    log.append(memoryview(records), 0, WALL_MS, None, guard)
    host.core._appends.has_writes(log)
    host.settle()


@pytest.mark.parametrize(("commit", "found"), [(True, 42), (False, -1)])
def test_a_marker_decides_on_the_offsets_of_its_transaction(commit: bool, found: int) -> None:
    before = GroupHost()
    before.lead(offsets_topic())
    pending(before, 42)
    host = GroupHost(before.disk)
    host.lead(offsets_topic(leader_epoch=1))
    assert host.committed() == -1
    assert errors_of(host.ask(markers((OFFSETS_TOPIC, 0), commit=commit), VERSION)) == [OK]
    assert host.committed() == found
    after = GroupHost(host.disk)
    after.lead(offsets_topic(leader_epoch=2))
    assert after.committed() == found


def test_an_offset_that_is_committed_later_is_not_taken_back() -> None:
    before = GroupHost()
    before.lead(offsets_topic())
    pending(before, 42)
    host = GroupHost(before.disk)
    host.lead(offsets_topic(leader_epoch=1))
    host.commit(43)
    marker_id = host.call(markers((OFFSETS_TOPIC, 0)), VERSION)
    host.settle()
    assert errors_of(host.answer_of(marker_id)) == [OK]
    assert host.committed() == 43
    after = GroupHost(host.disk)
    after.lead(offsets_topic(leader_epoch=2))
    assert after.committed() == 43
