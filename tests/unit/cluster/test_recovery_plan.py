"""What is written into etcd after a loss, case by case: of a back-up, of the disks, of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from barnabas.cluster.inspection import (
    KnownTopic,
    LogDirFound,
    NodeInspection,
    PartitionFound,
    Register,
    decode_inspection,
    encode_inspection,
)
from barnabas.cluster.keys import (
    BrokerConfigsRecord,
    ClusterRecord,
    ControllerEpochRecord,
    DeletionRecord,
    Keys,
    MemberRecord,
    PartitionChunk,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    Role,
    TopicRecord,
    decode_record,
    encode_record,
)
from barnabas.cluster.recovery.partitions import EPOCHS_SKIPPED
from barnabas.cluster.recovery.plan import HELD_CONFIGS, PRODUCER_IDS_SKIPPED, Plan, plan_recovery
from barnabas.cluster.recovery.remembered import Remembered, remember
from barnabas.ports.etcd import KeyValue, Snapshot
from barnabas_cli.recovery.backup import take_backup

KEYS = Keys("/b/")
A, B = bytes(15) + b"\x0a", bytes(15) + b"\x0b"
WALL_MS = 1_700_000_000_000


def log(topic: str, topic_id: bytes, partition: int, end: int, epoch: int, high_watermark: int = 0) -> PartitionFound:
    return PartitionFound(topic, topic_id.hex(), partition, 0, end, epoch, high_watermark)


def node(node_id: int, *logs: PartitionFound, register: Register | None = None, **fields: object) -> NodeInspection:
    found = LogDirFound(f"/data/{node_id}", "x", True, list(logs), register=register)
    return replace(NodeInspection("cluster-a", node_id, [found]), **fields)  # type: ignore[arg-type]


def known(topic: str, topic_id: bytes, partitions: int, **configs: str) -> KnownTopic:
    return KnownTopic(
        topic, topic_id.hex(), partitions, {key.replace("_", "."): value for key, value in configs.items()}
    )


def partition(*replicas: int, leader_epoch: int = 5, isr: Sequence[int] | None = None) -> PartitionRecord:
    return PartitionRecord(replicas[0], leader_epoch, 9, replicas, tuple(isr or replicas), leader_broker_epoch=77)


def backed_up(
    *topics: tuple[TopicRecord, list[PartitionRecord]], others: Sequence[tuple[str, Record]] = ()
) -> Remembered:
    """Of a cluster of logstores 0 to 2, at controller epoch 40 and revision 500."""
    records: list[tuple[str, Record]] = [
        (KEYS.cluster, ClusterRecord("cluster-a")),
        (KEYS.controller_epoch, ControllerEpochRecord(40)),
        (KEYS.producer_ids, ProducerIdsRecord(7000)),
        *others,
    ]
    for node_id in range(3):
        member = MemberRecord(Role.LOGSTORE, str(node_id), {"data": f"host-{node_id}:1"}, 0, broker_epoch=300 + node_id)
        records.append((KEYS.member(Role.LOGSTORE, str(node_id)), member))
    for topic, partitions in topics:
        records.append((KEYS.topic(topic.topic), topic))
        records.append((KEYS.chunk(topic.topic_id, 0), PartitionChunk(topic.topic_id, 0, tuple(partitions))))
    key_values = tuple(KeyValue(key, encode_record(record), 1, 1) for key, record in records)
    return remember(take_backup(Snapshot(500, key_values), KEYS.prefix, "cluster-a", WALL_MS, "0.2.0"), KEYS)


def topic_a(partitions: int = 1, **configs: str) -> TopicRecord:
    return TopicRecord("a", A, partitions, 3, {key.replace("_", "."): value for key, value in configs.items()})


def plan_of(remembered: Remembered, *nodes: NodeInspection, absent: Sequence[int] = (), **picked: bytes) -> Plan:
    return plan_recovery(KEYS, remembered, nodes, absent=frozenset(absent), picked_topic_ids=picked, wall_ms=WALL_MS)


def written(plan: Plan, key: str) -> Record | None:
    return decode_record(KEYS, key, plan.writes[key])


def three(*logs: PartitionFound) -> list[NodeInspection]:
    """The same logs on all three."""
    return [node(node_id, *logs) for node_id in range(3)]


def test_the_longest_log_of_the_latest_epoch_leads_whichever_led_by_the_back_up() -> None:
    nodes = [node(0, log("a", A, 0, 900, 6)), node(1, log("a", A, 0, 700, 8)), node(2, log("a", A, 0, 650, 8))]
    plan = plan_of(backed_up((topic_a(), [partition(0, 1, 2)])), *nodes)
    (recovered,) = plan.partitions["a"]
    assert recovered.in_sync_replicas == (1,)
    assert recovered.replicas == (0, 1, 2)
    assert not plan.losses
    assert not plan.conflicts


def test_all_whose_logs_are_the_same_are_in_sync() -> None:
    nodes = [node(0, log("a", A, 0, 700, 8)), node(1, log("a", A, 0, 700, 8)), node(2, log("a", A, 0, 700, 7))]
    (recovered,) = plan_of(backed_up((topic_a(), [partition(0, 1, 2)])), *nodes).partitions["a"]
    assert recovered.in_sync_replicas == (0, 1)


def test_leader_epochs_go_on_past_those_of_the_back_up_and_of_every_log() -> None:
    logs = [log("a", A, 0, 700, 20)], [log("a", A, 0, 700, 21)], [log("a", A, 0, 700, 19)]
    nodes = [node(node_id, *each) for node_id, each in enumerate(logs)]
    plan = plan_of(backed_up((topic_a(), [partition(0, 1, 2, leader_epoch=5)])), *nodes)
    assert plan.partitions["a"][0].leader_epoch == 21 + EPOCHS_SKIPPED
    plan = plan_of(backed_up((topic_a(), [partition(0, 1, 2, leader_epoch=50)])), *nodes)
    assert plan.partitions["a"][0].leader_epoch == 50 + EPOCHS_SKIPPED


def test_no_replica_leads_under_a_broker_epoch_of_before() -> None:
    plan = plan_of(backed_up((topic_a(), [partition(0, 1, 2)])), *three(log("a", A, 0, 7, 5)))
    (recovered,) = plan.partitions["a"]
    assert (recovered.leader, recovered.leader_broker_epoch) == (-1, -1)


def test_no_suspicion_ends_by_a_broker_epoch_of_before() -> None:
    """Revisions of a new etcd begin again: one may be that of a registration of long ago."""
    plan = plan_of(backed_up(), *three())
    for node_id in range(3):
        member = written(plan, KEYS.member(Role.LOGSTORE, str(node_id)))
        assert member == MemberRecord(Role.LOGSTORE, str(node_id), {"data": f"host-{node_id}:1"}, WALL_MS, 0)


def test_the_controller_epoch_goes_on() -> None:
    assert written(plan_of(backed_up(), *three()), KEYS.controller_epoch) == ControllerEpochRecord(40 + EPOCHS_SKIPPED)
    register = Register(controller_epoch=60, revision=1)
    nodes = [node(0, register=register), node(1), node(2)]
    assert written(plan_of(backed_up(), *nodes), KEYS.controller_epoch) == ControllerEpochRecord(60 + EPOCHS_SKIPPED)


def next_producer_id(plan: Plan) -> int:
    record = written(plan, KEYS.producer_ids)
    assert isinstance(record, ProducerIdsRecord)
    return record.next_producer_id


def controller_epoch(plan: Plan) -> int:
    record = written(plan, KEYS.controller_epoch)
    assert isinstance(record, ControllerEpochRecord)
    return record.controller_epoch


def test_producer_ids_go_on_far_past_those_of_the_back_up_and_of_the_logs() -> None:
    assert next_producer_id(plan_of(backed_up(), *three())) >= 7000 + PRODUCER_IDS_SKIPPED
    huge = 1 << 60
    plan = plan_of(backed_up(), node(0, producer_id_max=huge), node(1), node(2))
    assert next_producer_id(plan) == huge + 1 + PRODUCER_IDS_SKIPPED


@pytest.mark.parametrize("remembered", [Remembered(), backed_up()], ids=["rebuilt", "restored"])
def test_ids_that_were_never_written_with_are_not_given_again_by_the_next_recovery(remembered: Remembered) -> None:
    """etcd is lost again and again. Each time producers have got ids since; what the logs know of them, and a back-up,
    is what they knew the first time.
    """
    register = Register(controller_epoch=3, revision=1)
    given_up_to = 0
    for _ in range(5):
        plan = plan_of(remembered, node(0, producer_id_max=9000, register=register), node(1), node(2))
        assert next_producer_id(plan) >= given_up_to, "an id is given twice"
        given_up_to = next_producer_id(plan) + 1_000_000
        # The controller that gave them, as logstores received it.
        register = Register(controller_epoch=controller_epoch(plan) + 1, revision=1)
    assert given_up_to < 2**53, "clients that count in doubles tell ids apart"


def test_a_topic_that_is_younger_than_the_back_up_is_there_again() -> None:
    register = Register(41, 600, [known("b", B, 3, cleanup_policy="compact")])
    nodes = [node(0, log("b", B, 0, 10, 0), register=register), node(1, log("b", B, 2, 10, 0)), node(2)]
    plan = plan_of(backed_up(), *nodes)
    (topic,) = plan.topics
    assert (topic.topic, topic.topic_id, topic.partitions) == ("b", B, 3)
    assert topic.configs == {"cleanup.policy": "compact"}
    assert plan.losses == ["b, partitions 1: it has no log on any disk that was inspected, and starts empty"]


def test_a_topic_that_was_deleted_since_is_left_out() -> None:
    plan = plan_of(backed_up((topic_a(), [partition(0, 1, 2)])), *three())
    assert plan.topics == []
    assert KEYS.topic("a") not in plan.writes
    assert any("a is in the backup and on no disk" in note for note in plan.notes)


def test_a_topic_that_was_recreated_since_is_the_new_one() -> None:
    plan = plan_of(backed_up((topic_a(retention_ms="1"), [partition(0, 1, 2)])), *three(log("a", B, 0, 10, 0)))
    (topic,) = plan.topics
    assert topic.topic_id == B
    assert topic.configs == HELD_CONFIGS, "those of the other topic are not its own"


def test_a_deletion_under_way_goes_on() -> None:
    deletion = DeletionRecord("a", A, 1)
    chunk = PartitionChunk(A, 0, (partition(0, 1),))
    remembered = backed_up(others=[(KEYS.deletion(A), deletion), (KEYS.chunk(A, 0), chunk)])
    plan = plan_of(remembered, *three(log("a", A, 0, 10, 0)))
    assert plan.topics == []
    assert written(plan, KEYS.deletion(A)) == deletion
    assert written(plan, KEYS.chunk(A, 0)) == chunk


def test_partitions_that_came_after_the_back_up_are_there() -> None:
    plan = plan_of(backed_up((topic_a(1), [partition(0, 1, 2)])), *three(log("a", A, 0, 10, 0), log("a", A, 1, 10, 0)))
    assert plan.topics[0].partitions == 2


def test_replicas_that_moved_since_are_where_the_logs_are() -> None:
    nodes = [node(0), node(1), node(2, log("a", A, 0, 10, 9)), *[node(each, log("a", A, 0, 10, 9)) for each in (3, 4)]]
    (recovered,) = plan_of(backed_up((topic_a(), [partition(0, 1, 2)])), *nodes).partitions["a"]
    assert sorted(recovered.replicas) == [2, 3, 4]
    assert recovered.replicas[0] == 2


def test_who_lost_its_disk_is_a_replica_again_and_not_in_sync() -> None:
    nodes = [node(0), node(1, log("a", A, 0, 10, 9)), node(2, log("a", A, 0, 10, 9))]
    (recovered,) = plan_of(backed_up((topic_a(), [partition(0, 1, 2)])), *nodes).partitions["a"]
    assert sorted(recovered.replicas) == [0, 1, 2]
    assert recovered.in_sync_replicas == (1, 2)


def test_a_move_under_way_is_given_up() -> None:
    moving = structs.replace(partition(0, 1, 2), adding_replicas=(2,), removing_replicas=(0,))
    (recovered,) = plan_of(backed_up((topic_a(), [moving])), *three(log("a", A, 0, 7, 5))).partitions["a"]
    assert (recovered.adding_replicas, recovered.removing_replicas) == ((), ())


# --- who was not asked ---


def test_a_logstore_of_the_back_up_that_was_not_inspected_is_a_conflict() -> None:
    plan = plan_of(backed_up(), node(0), node(1))
    assert len(plan.conflicts) == 1
    assert "logstore 2 " in plan.conflicts[0]
    assert "--without-node 2" in plan.conflicts[0]


def test_so_is_one_that_only_the_registers_tell_of() -> None:
    plan = plan_of(Remembered(), node(0, register=Register(1, 1, node_ids=[0, 1])))
    assert ["logstore 1 " in each for each in plan.conflicts] == [True]


def test_a_logstore_that_was_not_asked_may_have_acknowledged_alone_only_as_many_as_min_isr_takes() -> None:
    nodes = [node(0, log("a", A, 0, 10, 9)), node(1, log("a", A, 0, 10, 9))]
    safe = topic_a(min_insync_replicas="2")
    assert not plan_of(backed_up((safe, [partition(0, 1, 2)])), *nodes, absent=[2]).losses
    losses = plan_of(backed_up((topic_a(), [partition(0, 1, 2)])), *nodes, absent=[2]).losses
    assert losses == ["a, partitions 0: replicas that were not inspected may have had later records"]


def test_what_only_an_absent_logstore_has_waits_for_it() -> None:
    plan = plan_of(backed_up((topic_a(), [partition(2, isr=(2,))])), node(0), node(1), absent=[2])
    (recovered,) = plan.partitions["a"]
    assert recovered.in_sync_replicas == (2,)
    assert ["stays offline" in each for each in plan.losses] == [True]


def test_a_log_that_ends_before_its_own_high_watermark_is_reported() -> None:
    plan = plan_of(backed_up((topic_a(), [partition(0, 1, 2)])), *three(log("a", A, 0, 10, 5, high_watermark=12)))
    assert ["ends before the last recorded high watermark" in each for each in plan.losses] == [True]


def test_a_log_of_an_earlier_epoch_counts_for_nothing_however_long_it_is() -> None:
    nodes = [node(0, log("a", A, 0, 150, 6, high_watermark=150)), node(1, log("a", A, 0, 100, 7)), node(2)]
    plan = plan_of(backed_up((topic_a(), [partition(0, 1, 2)])), *nodes)
    assert plan.partitions["a"][0].in_sync_replicas == (1,)
    assert ["ends before the last recorded high watermark" in each for each in plan.losses] == [True]


def test_a_topic_that_a_later_register_knows_was_not_deleted() -> None:
    register = Register(41, 600, [known("a", A, 1)], {}, [0, 1, 2])
    plan = plan_of(backed_up((topic_a(), [partition(0)])), node(0), node(1, register=register), node(2))
    assert [topic.topic for topic in plan.topics] == ["a"]
    assert ["starts empty" in each for each in plan.losses] == [True]


def test_a_topic_that_an_earlier_register_knows_was_deleted_before_the_back_up() -> None:
    plan = plan_of(backed_up(), node(0, register=Register(39, 400, [known("a", A, 1)])), node(1), node(2))
    assert (plan.topics, plan.losses) == ([], [])


def test_partitions_behind_an_unreadable_chunk_are_not_taken_for_others() -> None:
    remembered = backed_up((topic_a(), [partition(0, 1, 2)]))
    remembered.chunks[A] = {1: PartitionChunk(A, 1, (partition(2, 1, 0),))}
    assert remembered.partitions(A) == []


# --- without a back-up ---


def test_everything_comes_back_of_the_disks_alone() -> None:
    register = Register(3, 90, [known("a", A, 2, retention_ms="5")], {1: {"x": "y"}}, [0, 1, 2])
    nodes = [
        node(0, log("a", A, 0, 10, 1), log("a", A, 1, 5, 0), register=register),
        node(1, log("a", A, 0, 10, 1), log("a", A, 1, 4, 0)),
        node(2, log("a", A, 0, 9, 1), log("a", A, 1, 5, 0)),
    ]
    plan = plan_of(Remembered(), *nodes)
    assert (plan.conflicts, plan.losses) == ([], [])
    assert written(plan, KEYS.cluster) == ClusterRecord("cluster-a")
    assert written(plan, KEYS.topic("a")) == TopicRecord("a", A, 2, 3, {"retention.ms": "5"})
    assert written(plan, KEYS.broker_configs(1)) == BrokerConfigsRecord(1, {"x": "y"})
    chunk = written(plan, KEYS.chunk(A, 0))
    assert isinstance(chunk, PartitionChunk)
    assert [set(each.in_sync_replicas) for each in chunk.partitions] == [{0, 1}, {0, 2}]
    assert [set(each.replicas) for each in chunk.partitions] == [{0, 1, 2}] * 2


def test_without_a_back_up_a_logstore_that_was_not_asked_may_be_a_replica_of_anything() -> None:
    register = Register(3, 90, [known("a", A, 1), known("b", B, 1, min_insync_replicas="2")], {}, [0, 1, 2])
    logs = [log("a", A, 0, 10, 1), log("b", B, 0, 10, 1)]
    plan = plan_of(Remembered(), node(0, *logs, register=register), node(1, *logs), absent=[2])
    assert plan.losses == ["a, partitions 0: replicas that were not inspected may have had later records"]


def test_a_topic_that_only_an_absent_logstore_had_is_reported() -> None:
    register = Register(3, 90, [known("a", A, 1), known("b", B, 1)], {}, [0, 1])
    plan = plan_of(Remembered(), node(0, log("a", A, 0, 10, 1), register=register), absent=[1])
    assert [topic.topic for topic in plan.topics] == ["a"]
    assert "b: logstores know it, and no disk that was inspected has a log of it" in plan.losses


def test_preferred_leaders_are_spread_where_logs_are_the_same() -> None:
    nodes = three(*[log("a", A, number, 10, 1) for number in range(6)])
    plan = plan_of(Remembered(), *nodes)
    assert [each.replicas[0] for each in plan.partitions["a"]] == [0, 1, 2, 0, 1, 2]


def test_nothing_is_deleted_of_a_topic_whose_configs_are_unknown() -> None:
    plan = plan_of(Remembered(), node(0, log("a", A, 0, 10, 1)))
    assert plan.topics[0].configs == {"retention.ms": "-1", "retention.bytes": "-1"}
    assert any("a: its configs are unknown" in note for note in plan.notes)


def test_groups_are_kept_by_compaction_though_it_is_not_in_the_configs() -> None:
    plan = plan_of(Remembered(), node(0, log("__consumer_offsets", A, 0, 10, 1)))
    assert plan.topics[0].configs["cleanup.policy"] == "compact"


def test_two_topics_of_one_name_are_a_conflict_until_one_is_picked() -> None:
    nodes = [node(0, log("a", A, 0, 10, 1)), node(1, log("a", B, 0, 20, 1))]
    plan = plan_of(Remembered(), *nodes)
    (conflict,) = plan.conflicts
    assert A.hex() in conflict
    assert B.hex() in conflict
    assert "--topic-id a=ID" in conflict
    plan = plan_of(Remembered(), *nodes, a=B)
    assert plan.conflicts == []
    assert plan.topics[0].topic_id == B
    assert plan.partitions["a"][0].in_sync_replicas == (1,)


def test_the_register_that_heard_last_counts() -> None:
    old = Register(9, 500, [known("a", A, 1, retention_ms="1")])
    new = Register(10, 20, [known("a", A, 1, retention_ms="2")])
    nodes = [node(0, log("a", A, 0, 10, 1), register=new), node(1, register=old)]
    assert plan_of(Remembered(), *nodes).topics[0].configs == {"retention.ms": "2"}


@pytest.mark.parametrize(("revision", "expected"), [(499, "of the back-up"), (501, "of the register")])
def test_of_back_up_and_register_the_later_one_knows_the_configs(revision: int, expected: str) -> None:
    register = Register(40, revision, [known("a", A, 1, retention_ms="of the register")])
    nodes = [node(0, log("a", A, 0, 1, 1), register=register), node(1), node(2)]
    remembered = backed_up((topic_a(retention_ms="of the back-up"), [partition(0)]))
    assert plan_of(remembered, *nodes).topics[0].configs["retention.ms"] == expected


# --- what does not fit together ---


def test_directories_of_two_clusters_are_a_conflict() -> None:
    plan = plan_of(Remembered(), node(0), node(1, cluster_id="cluster-b"))
    assert ["of different clusters" in each for each in plan.conflicts] == [True]


def test_a_back_up_of_another_cluster_is_a_conflict() -> None:
    plan = plan_of(backed_up(), *[replace(each, cluster_id="cluster-b") for each in three()])
    assert ["the clusters differ" in each for each in plan.conflicts] == [True]


def test_a_logstore_given_twice_is_a_conflict() -> None:
    assert ["inspected twice" in each for each in plan_of(Remembered(), node(0), node(0)).conflicts] == [True]


def test_a_log_directory_that_was_left_out_is_a_conflict() -> None:
    plan = plan_of(Remembered(), node(0, missing_log_dirs=["/disk-2"]))
    assert ["/disk-2" in each for each in plan.conflicts] == [True]


def test_a_partition_without_its_topic_id_is_left_out_and_reported() -> None:
    plan = plan_of(Remembered(), node(0, PartitionFound("a", "", 0, 0, 10, 1)))
    assert plan.topics == []
    assert any("a-0 has no topic id" in note for note in plan.notes)


def test_the_cluster_is_written_last_and_topics_after_their_partitions() -> None:
    keys = list(plan_of(backed_up((topic_a(), [partition(0, 1, 2)])), *three(log("a", A, 0, 7, 5))).writes)
    assert keys[-1] == KEYS.cluster
    assert keys.index(KEYS.chunk(A, 0)) < keys.index(KEYS.topic("a"))


def test_many_partitions_are_packed_into_chunks() -> None:
    logs = [log("a", A, number, 1, 0) for number in range(501)]
    plan = plan_of(Remembered(), node(0, *logs))
    chunks = [written(plan, KEYS.chunk(A, number)) for number in range(2)]
    assert [len(each.partitions) for each in chunks if isinstance(each, PartitionChunk)] == [500, 1]


def test_an_inspection_is_read_as_it_was_written() -> None:
    register = Register(3, 90, [known("a", A, 2, retention_ms="5")], {-1: {"x": "y"}}, [0, 1])
    inspection = node(0, log("a", A, 0, 10, 1), register=register, missing_log_dirs=["/x"], producer_id_max=5)
    assert decode_inspection(encode_inspection(inspection)) == inspection
