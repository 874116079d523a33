"""A cluster of several replicas, as tests of the controller want it: topics by hand, ISRs that leaders ask for."""

from __future__ import annotations

from barnabas.cluster.keys import PartitionRecord
from barnabas.cluster.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    Assignment,
    IsrChange,
    IsrMember,
    NewTopic,
)
from barnabas.ports.etcd import Put, Txn
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.settings import ElectionSettings
from tests.unit.controller.cluster import (
    Cluster,
    ControllerNode,
    create,
    error_codes,
)


def a_cluster(logstores: int = 3, settings: ElectionSettings | None = None) -> tuple[Cluster, ControllerNode]:
    cluster = Cluster()
    controller = cluster.controller(settings=settings)
    for node_id in range(1, logstores + 1):
        cluster.logstore(node_id)
    cluster.settle()
    return cluster, controller


def with_topic(*replicas: list[int], topic: str = "events", logstores: int = 3, **configs: str) -> Cluster:
    """A cluster with one topic, whose partitions have these replicas."""
    cluster, controller = a_cluster(logstores)
    assignments = [Assignment(number, each) for number, each in enumerate(replicas)]
    named = {name.replace("_", "."): value for name, value in configs.items()}
    request = controller.request(create(NewTopic(topic, -1, -1, assignments, named)))
    cluster.settle()
    assert error_codes(controller, request) == [ErrorCode.NONE]
    return cluster


def state(cluster: Cluster, number: int = 0, topic: str = "events") -> PartitionRecord:
    image = cluster.controllers[0].core.image
    partition = image.partition(image.topics[topic].topic_id, number)
    assert partition is not None
    return partition


def isr_change(cluster: Cluster, *members: int, number: int = 0, topic: str = "events") -> IsrChange:
    """What the leader asks for, as it knows the partition."""
    topic_id = cluster.controllers[0].core.image.topics[topic].topic_id
    reported = cluster.logstores[state(cluster, number, topic).leader].partitions[topic_id, number]
    epochs = [IsrMember(each, cluster.logstores[each].broker_epoch) for each in members]
    return IsrChange(topic_id, number, reported.leader_epoch, reported.partition_epoch, epochs)


def ask(cluster: Cluster, leader: int, *changes: IsrChange) -> int:
    epoch = cluster.logstores[leader].broker_epoch
    return cluster.controllers[0].request(AlterPartitionRequest(leader, epoch, list(changes)))


def answer(cluster: Cluster, request_id: int) -> AlterPartitionResponse:
    response = cluster.controllers[0].responses[request_id]
    assert isinstance(response, AlterPartitionResponse)
    return response


def shrink(cluster: Cluster, *members: int) -> None:
    """The leader's ISR, by its own word."""
    assert ask_to_shrink(cluster, *members) == ErrorCode.NONE


def ask_to_shrink(cluster: Cluster, *members: int) -> ErrorCode:
    """The same, and the controller's answer."""
    request = ask(cluster, members[0], isr_change(cluster, *members))
    cluster.settle()
    (result,) = answer(cluster, request).partitions
    return ErrorCode(result.error_code)


def rejoin(cluster: Cluster) -> None:
    """Every replica is in sync again, by its leader's word."""
    image = cluster.controllers[0].core.image
    for topic in image.topics.values():
        for number, partition in image.partitions(topic.topic_id):
            ask(cluster, partition.leader, isr_change(cluster, *partition.replicas, number=number, topic=topic.topic))
    cluster.settle()


def touches(txn: Txn, directory: str) -> bool:
    return any(isinstance(each, Put) and each.key.startswith(directory) for each in txn.success)
