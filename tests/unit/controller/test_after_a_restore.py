"""A controller on what a restore has written: who leads, under which epochs, and what can't be mistaken."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.inspection import LogDirFound, NodeInspection, PartitionFound
from barnabas.cluster.keys import ControllerEpochRecord, MemberRecord, Role, encode_record
from barnabas.cluster.messages import UpdateMetadata
from barnabas.cluster.recovery.partitions import EPOCHS_SKIPPED
from barnabas.cluster.recovery.plan import plan_recovery
from barnabas.cluster.recovery.remembered import Remembered
from barnabas.ports.etcd import Put, Txn
from tests.unit.controller.cluster import KEYS, Cluster, ControllerNode

TOPIC_ID = bytes(range(16))
KEY = (TOPIC_ID, 0)


def restored(logs: Mapping[int, tuple[int, int]]) -> tuple[Cluster, ControllerNode]:
    """A cluster made of logs, given as (latest epoch, log end offset) by node; no logstore is there yet."""
    nodes = [
        NodeInspection(
            "cluster",
            node_id,
            [LogDirFound("/data", "x", True, [PartitionFound("events", TOPIC_ID.hex(), 0, 0, end, epoch)])],
        )
        for node_id, (epoch, end) in logs.items()
    ]
    plan = plan_recovery(KEYS, Remembered(), nodes, picked_topic_ids={}, wall_ms=0)
    assert not plan.conflicts
    cluster = Cluster()
    cluster.etcd.txn(Txn((), tuple([Put(key, value) for key, value in plan.writes.items()])))
    controller = cluster.controller("controller-0")
    cluster.settle()
    assert controller.is_active()
    assert controller.core.image.cluster_id == "cluster"
    return cluster, controller


def leader(controller: ControllerNode) -> tuple[int, int]:
    """(leader, leader epoch)."""
    partition = controller.core.image.partition(*KEY)
    assert partition is not None
    return partition.leader, partition.leader_epoch


def test_no_replica_leads_before_the_longest_log_is_there() -> None:
    cluster, controller = restored({1: (4, 100), 2: (6, 80), 3: (6, 90)})
    first, second = cluster.logstore(1), cluster.logstore(2)
    cluster.settle()
    assert leader(controller)[0] == -1
    third = cluster.logstore(3)
    cluster.settle()
    assert leader(controller) == (3, 6 + EPOCHS_SKIPPED + 1)
    for logstore in (first, second, third):
        assert logstore.partitions[KEY].leader == 3


def test_not_even_where_it_may_have_lost_records_since() -> None:
    """The machine was restarted in between: what the inspection found on its disk is what counts."""
    cluster, controller = restored({1: (4, 100), 3: (6, 90)})
    cluster.logstore(1)
    cluster.logstore(3, may_lack_records=True)
    cluster.settle()
    assert leader(controller)[0] == 3


def test_every_epoch_that_is_given_is_later_than_any_that_a_log_knows() -> None:
    """A log refuses a leader epoch that is older than its own (STALE_CONTROLLER_EPOCH)."""
    cluster, controller = restored({1: (77, 100), 2: (77, 100)})
    cluster.logstore(1)
    cluster.logstore(2)
    cluster.settle()
    assert leader(controller)[1] > 77


def test_a_broker_epoch_that_comes_again_is_a_restart_all_the_same() -> None:
    """Revisions start over: the registration after the restore may have the number of one of before."""
    cluster, controller = restored({1: (5, 100), 2: (5, 100)})
    logstore = cluster.logstore(1)
    cluster.settle()
    found = controller.core.image.partition(*KEY)
    assert found is not None
    assert found.leader_broker_epoch == logstore.broker_epoch
    assert leader(controller) == (1, 5 + EPOCHS_SKIPPED + 1)


def test_a_suspicion_is_not_ended_by_the_epoch_of_a_registration_of_long_ago() -> None:
    _, controller = restored({1: (5, 100), 2: (5, 100)})
    for node_id in (1, 2):
        member = controller.core.image.members[Role.LOGSTORE, str(node_id)]
        assert member.broker_epoch == 0
        assert member == MemberRecord(Role.LOGSTORE, str(node_id), {}, down_since_ms=member.down_since_ms)


def metadata(revision: int, controller_epoch: int, *, full: bool = True) -> UpdateMetadata:
    return UpdateMetadata(revision, full, "cluster", controller_epoch, [], [], [])


def test_metadata_of_after_the_restore_is_news_though_its_revision_is_smaller() -> None:
    """For a gateway that has lived through it: the controller epoch counts first."""
    image = ClusterImage()
    assert image.apply(metadata(9_000, controller_epoch=40))
    assert image.apply(metadata(12, controller_epoch=40 + EPOCHS_SKIPPED + 1))
    assert image.revision == 12
    assert image.apply(metadata(13, controller_epoch=40 + EPOCHS_SKIPPED + 1, full=False))
    assert not image.apply(metadata(9_001, controller_epoch=40)), "and what is late from before is not"


def test_the_next_controller_counts_on_from_what_was_written() -> None:
    _, controller = restored({1: (5, 100)})
    written = encode_record(ControllerEpochRecord(EPOCHS_SKIPPED + 1))
    assert encode_record(ControllerEpochRecord(controller.core.image.controller_epoch)) == written
