from __future__ import annotations

from dataclasses import replace

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import Broker, BrokerConfigs, PartitionMetadata, Purgatory, TopicMetadata, UpdateMetadata

TOPIC_ID = bytes(range(16))
OTHER_ID = bytes(range(16, 32))


def partition(number: int = 0, leader: int = 1, leader_epoch: int = 0) -> PartitionMetadata:
    return PartitionMetadata(
        number, leader, leader_epoch, partition_epoch=leader_epoch, replicas=(1,), in_sync_replicas=(1,)
    )


def topic(name: str = "orders", topic_id: bytes = TOPIC_ID, *partitions: PartitionMetadata) -> TopicMetadata:
    return TopicMetadata(name, topic_id, {}, list(partitions) or [partition()])


def update(
    revision: int,
    *topics: TopicMetadata,
    full: bool = False,
    controller_epoch: int = 1,
    deleted: list[bytes] | None = None,
    brokers: list[Broker] | None = None,
) -> UpdateMetadata:
    return UpdateMetadata(
        revision=revision,
        full=full,
        cluster_id="c",
        controller_epoch=controller_epoch,
        brokers=brokers or [],
        purgatories=[Purgatory("purgatory-0", "localhost:1")],
        topics=list(topics),
        deleted_topic_ids=deleted or [],
    )


def test_a_full_update_replaces_and_a_partial_one_adds() -> None:
    image = ClusterImage()
    assert image.apply(update(5, topic(), full=True))
    assert image.apply(update(6, topic("payments", OTHER_ID)))
    assert set(image.topics_by_name) == {"orders", "payments"}
    assert image.apply(update(7, topic("payments", OTHER_ID), full=True))
    assert set(image.topics_by_name) == {"payments"}
    assert image.partition(TOPIC_ID, 0) is None


def test_an_update_that_is_not_newer_changes_nothing() -> None:
    image = ClusterImage()
    assert image.apply(update(5, topic(), full=True))
    assert not image.apply(update(5, topic("payments", OTHER_ID)))
    assert not image.apply(update(4, topic("payments", OTHER_ID), full=True))
    assert not image.apply(update(9, topic("payments", OTHER_ID), full=True, controller_epoch=0))
    assert set(image.topics_by_name) == {"orders"}


def test_a_full_update_of_a_newer_controller_counts_even_at_an_older_revision() -> None:
    image = ClusterImage()
    assert image.apply(update(9, topic(), full=True))
    assert not image.apply(update(8, topic("payments", OTHER_ID), controller_epoch=2))
    assert image.apply(update(8, topic("payments", OTHER_ID), full=True, controller_epoch=2))
    assert set(image.topics_by_name) == {"payments"}


def test_a_deleted_and_recreated_topic_keeps_only_its_new_id() -> None:
    image = ClusterImage()
    assert image.apply(update(1, topic(), full=True))
    assert image.apply(update(2, topic("orders", OTHER_ID)))
    assert image.topics_by_name["orders"].topic_id == OTHER_ID
    assert TOPIC_ID not in image.topics_by_id
    assert image.apply(update(3, deleted=[TOPIC_ID]))
    assert image.topics_by_name["orders"].topic_id == OTHER_ID
    assert image.apply(update(4, deleted=[OTHER_ID]))
    assert image.topics_by_name == {}


def test_a_topic_made_again_has_the_leader_of_its_own_id() -> None:
    """Its epochs begin at 0, below those of the topic that had its name."""
    image = ClusterImage()
    assert image.apply(update(1, topic("orders", TOPIC_ID, partition(leader=1, leader_epoch=7)), full=True))
    assert image.adopt_leader(TOPIC_ID, 0, 3, 8)
    assert image.apply(update(2, topic("orders", OTHER_ID, partition(leader=2)), deleted=[TOPIC_ID]))
    assert image.partition(OTHER_ID, 0) == partition(leader=2)
    assert not image.adopt_leader(TOPIC_ID, 0, 3, 9), "what is said late of the one before is of its id"
    assert image.partition(OTHER_ID, 0) == partition(leader=2)


def test_an_adopted_leader_outlives_an_update_that_has_not_caught_up() -> None:
    image = ClusterImage()
    assert image.apply(update(1, topic("orders", TOPIC_ID, partition(leader=1, leader_epoch=3)), full=True))
    assert not image.adopt_leader(TOPIC_ID, 0, leader=2, leader_epoch=3)
    assert not image.adopt_leader(TOPIC_ID, 1, leader=2, leader_epoch=9)
    assert image.adopt_leader(TOPIC_ID, 0, leader=2, leader_epoch=4)
    assert image.apply(update(2, topic("orders", TOPIC_ID, partition(leader=1, leader_epoch=3)), full=True))
    adopted = image.partition(TOPIC_ID, 0)
    assert adopted is not None
    assert (adopted.leader, adopted.leader_epoch) == (2, 4)
    assert image.apply(update(3, topic("orders", TOPIC_ID, partition(leader=1, leader_epoch=5))))
    caught_up = image.partition(TOPIC_ID, 0)
    assert caught_up is not None
    assert (caught_up.leader, caught_up.leader_epoch) == (1, 5)


def test_brokers_and_purgatories_come_whole_and_sorted_with_every_update() -> None:
    image = ClusterImage()
    brokers = [Broker(2, "b:1", 7), Broker(1, "a:1", 6)]
    assert image.apply(update(1, full=True, brokers=brokers))
    assert list(image.brokers) == [1, 2]
    assert image.apply(update(2, brokers=[Broker(2, "b:1", 7)]))
    assert list(image.brokers) == [2]


def test_a_replica_lags_where_the_isr_of_a_partition_with_a_leader_lacks_it() -> None:
    image = ClusterImage()
    assert image.lagging_replicas(2) is None
    in_sync = PartitionMetadata(0, 1, 3, 3, replicas=(1, 2), in_sync_replicas=(2, 1))
    behind = PartitionMetadata(1, 1, 3, 3, replicas=(1, 2), in_sync_replicas=(1,))
    leaderless = PartitionMetadata(2, -1, 3, 3, replicas=(3, 2), in_sync_replicas=(3,))
    of_others = PartitionMetadata(3, 1, 3, 3, replicas=(1, 3), in_sync_replicas=(1,))
    image.apply(update(5, topic("orders", TOPIC_ID, in_sync, behind, leaderless, of_others), full=True))
    assert [image.lagging_replicas(node_id) for node_id in (1, 2, 3)] == [0, 1, 1]
    image.apply(update(6, topic("orders", TOPIC_ID, in_sync, leaderless, of_others), full=True))
    assert image.lagging_replicas(2) == 0


def test_what_the_controller_cannot_read_stays_as_it_is_known() -> None:
    """A topic that seemed gone would take the offsets that groups have committed for it along."""
    image = ClusterImage()
    configs = [BrokerConfigs(-1, {"min.insync.replicas": "2"})]
    assert image.apply(replace(update(5, topic(), topic("payments", OTHER_ID), full=True), broker_configs=configs))
    nothing_known = replace(topic(), partitions=[PartitionMetadata(0, -1, -1, -1, (), ())])
    unknown = replace(update(6, nothing_known, full=True), unknown_topics=["payments"], unknown_broker_configs=[-1])
    assert image.apply(unknown)
    assert image.partition(TOPIC_ID, 0) == partition()
    assert image.partition(OTHER_ID, 0) == partition()
    assert set(image.topics_by_name) == {"orders", "payments"}
    assert image.broker_configs == {-1: {"min.insync.replicas": "2"}}
    assert image.apply(update(7, topic(), full=True))
    assert set(image.topics_by_name) == {"orders"}
    assert image.broker_configs == {}


def test_configs_of_brokers_can_come_before_the_first_update_and_never_go_back() -> None:
    image = ClusterImage()
    raised = [BrokerConfigs(-1, {"min.insync.replicas": "2"})]
    image.learn_broker_configs(3, 6, raised, [])
    assert (image.broker_configs, image.revision) == ({-1: {"min.insync.replicas": "2"}}, -1)
    assert image.apply(update(5, full=True, controller_epoch=3)), "the topics of an older update are news"
    assert image.broker_configs == {-1: {"min.insync.replicas": "2"}}
    image.learn_broker_configs(2, 9, [], [])
    assert image.broker_configs == {-1: {"min.insync.replicas": "2"}}
    image.learn_broker_configs(3, 7, [], [-1])
    assert image.broker_configs == {-1: {"min.insync.replicas": "2"}}, "what cannot be read stays as it is"
    assert image.apply(update(8, controller_epoch=3))
    assert image.broker_configs == {}


def test_an_empty_image_gets_partitions_without_a_leader() -> None:
    image = ClusterImage()
    reported = PartitionMetadata(0, -1, -1, -1, (), ())
    assert image.apply(update(5, replace(topic(), partitions=[reported]), full=True))
    assert image.partition(TOPIC_ID, 0) == reported
