"""What a new topic costs does not depend on the topics that there are: unchanged chunks are counted once."""

from __future__ import annotations

import pytest

from barnabas.cluster.keys import PartitionChunk
from barnabas.cluster.messages import NewTopic
from barnabas_controller.core.controller import ControllerCore
from barnabas_controller.core.state.replica_counts import ChunkCounts, ReplicaCounts
from tests.costly.instructions import counted
from tests.unit.controller.cluster import Cluster, ControllerNode, create, delete


def grown(topics: int, partitions: int) -> tuple[Cluster, ControllerNode]:
    cluster = Cluster()
    controller = cluster.controller()
    for node_id in (1, 2, 3):
        cluster.logstore(node_id)
    cluster.settle()
    for number in range(topics):
        controller.request(create(NewTopic(f"t{number}", partitions, 3)))
        cluster.settle()
    return cluster, controller


def instructions_of_a_topic(topics: int, partitions: int, monkeypatch: pytest.MonkeyPatch) -> int:
    cluster, controller = grown(topics, partitions)
    controller.request(create(NewTopic("first", 1, 3)))
    cluster.settle()
    total = 0
    on_request = ControllerCore.on_request

    def measured(*arguments: object) -> None:
        nonlocal total
        with counted() as count:
            on_request(*arguments)  # type: ignore[arg-type]
        total += count.instructions

    with monkeypatch.context() as patch:
        patch.setattr(ControllerCore, "on_request", measured)
        controller.request(create(NewTopic("second", 1, 3)))
        cluster.settle()
    assert total
    return total


def test_a_topic_among_many_partitions_costs_as_among_few(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (instructions_of_a_topic(4, partitions, monkeypatch) for partitions in (20, 400))
    assert many < 1.2 * few, f"{few} instructions among 80 partitions, {many} among 1,600"


def test_placement_goes_by_what_there_is_after_a_change_too() -> None:
    cluster, controller = grown(1, 3)
    controller.request(delete("t0"))
    cluster.settle()
    for number in range(3):
        controller.request(create(NewTopic(f"n{number}", 1, 1)))
        cluster.settle()
    image = controller.core.image
    leaders = [image.partition(image.topics[f"n{number}"].topic_id, 0) for number in range(3)]
    assert sorted(leader.leader for leader in leaders if leader is not None) == [1, 2, 3]


def test_a_chunk_that_was_replaced_is_counted_again() -> None:
    _, controller = grown(1, 2)
    image = controller.core.image
    ((chunk,),) = [list(chunks.values()) for chunks in image.chunks.values()]
    counts = ReplicaCounts()
    before = counts.of(chunk)
    assert counts.find(chunk) is before
    assert before == ChunkCounts({1: 1, 2: 1}, {1: 2, 2: 2, 3: 2})  # type: ignore[arg-type]
    same = PartitionChunk(chunk.topic_id, chunk.chunk, chunk.partitions[:1])
    assert counts.find(same) is None
    assert sum(counts.of(same).replicas.values()) == 3
    counts.forget(chunk.topic_id, chunk.chunk)
    assert counts.find(same) is None
