"""A cluster that stops takes its logstores out one by one, and the last register is written when others are gone."""

import json

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import Broker, PartitionMetadata, TopicMetadata, UpdateMetadata
from barnabas_logstore.core.storage.directories.topic_register import TopicRegister

TOPIC_ID = bytes(range(16))


def node_ids(register: TopicRegister) -> list[int]:
    listed: list[int] = json.loads(register.content())["node_ids"]
    return listed


def update(revision: int, brokers: list[int], *topics: TopicMetadata, full: bool = False) -> UpdateMetadata:
    return UpdateMetadata(
        revision=revision,
        full=full,
        cluster_id="cluster",
        controller_epoch=1,
        brokers=[Broker(node_id, f"host-{node_id}:9300", 1) for node_id in brokers],
        purgatories=[],
        topics=list(topics),
    )


def topic(partitions: list[list[int]], *, partial: bool = False) -> TopicMetadata:
    states = [
        PartitionMetadata(partition, replicas[0], 1, 1, tuple(replicas), tuple(replicas))
        for partition, replicas in enumerate(partitions)
    ]
    return TopicMetadata("orders", TOPIC_ID, {}, states, partial)


def test_a_logstore_that_stopped_first_still_belongs_to_the_cluster() -> None:
    image = ClusterImage()
    register = TopicRegister(image)
    image.apply(update(1, [0, 1, 2], topic([[0, 1], [1, 2]]), full=True))
    assert node_ids(register) == [0, 1, 2]
    image.apply(update(2, [0]))
    assert node_ids(register) == [0, 1, 2]


def test_a_logstore_without_replicas_belongs_to_it_while_it_is_registered() -> None:
    image = ClusterImage()
    register = TopicRegister(image)
    image.apply(update(1, [0, 7], topic([[0]]), full=True))
    assert node_ids(register) == [0, 7]
    image.apply(update(2, [0]))
    assert node_ids(register) == [0]


def test_replicas_that_move_are_those_of_the_last_update() -> None:
    image = ClusterImage()
    register = TopicRegister(image)
    image.apply(update(1, [0, 1], topic([[0], [1]]), full=True))
    assert node_ids(register) == [0, 1]
    image.apply(update(2, [0, 3], topic([[3]], partial=True)))
    assert node_ids(register) == [0, 1, 3]
