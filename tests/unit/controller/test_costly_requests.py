"""No turn of the controller is long, whatever gateways put to it: the costliest requests that they make, many at once.

A turn's instructions are counted, so that the tests are the same on every machine. The bounds are a quarter above what
two requests of a kind take: four times as many come at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.cluster.controller_calls.table import MembershipRequest
from barnabas.cluster.keys import Role
from barnabas.cluster.messages import (
    PARTITIONS_PER_REQUEST_MAX,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterReassignmentsRequest,
    Assignment,
    ConfigChange,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    NewPartitions,
    NewTopic,
    Reassignment,
    TopicPartition,
    TopicReference,
)
from barnabas_controller.core.controller import ControllerCore
from barnabas_controller.core.state.effects import Effect
from barnabas_gateway.core.requests.controller_request import CALL_ELEMENTS_MAX
from tests.costly.instructions import counted
from tests.unit.controller.cluster import SET, TOPIC, Cluster, ControllerNode, create, error_codes

REQUESTS = 8
ELEMENTS = CALL_ELEMENTS_MAX
"""In a request, as gateways count them."""
PARTITIONS = 600
TIMEOUT_MS = 60_000


def create_topics(number: int) -> MembershipRequest:
    topics = [NewTopic(f"new-{number}-{each}", 9, 3) for each in range(ELEMENTS)]
    return CreateTopicsRequest(topics, TIMEOUT_MS, validate_only=True)


def create_topics_that_are_refused(number: int) -> MembershipRequest:
    topics = [NewTopic(f"new-{number}-{each}", 9, 4) for each in range(ELEMENTS)]
    return CreateTopicsRequest(topics, TIMEOUT_MS)


def create_topics_as_assigned(number: int) -> MembershipRequest:
    assignments = [Assignment(each, [1, 2, 3]) for each in range(ELEMENTS - 1)]
    return CreateTopicsRequest([NewTopic(f"new-{number}", -1, -1, assignments)], TIMEOUT_MS, validate_only=True)


def create_wide_topics(number: int) -> MembershipRequest:
    return CreateTopicsRequest([NewTopic(f"new-{number}", 10 * ELEMENTS - 10, 3)], TIMEOUT_MS, validate_only=True)


def create_partitions(number: int) -> MembershipRequest:
    return CreatePartitionsRequest([NewPartitions(f"t{each}", 9) for each in range(ELEMENTS)], TIMEOUT_MS, True)


def delete_topics(number: int) -> MembershipRequest:
    return DeleteTopicsRequest([TopicReference(f"new-{number}-{each}", b"") for each in range(ELEMENTS)], TIMEOUT_MS)


def alter_configs(number: int) -> MembershipRequest:
    changes = [ConfigChange("retention.ms", SET, "1000")]
    resources = [AlterConfigsResource(TOPIC, f"t{each}", False, changes) for each in range(ELEMENTS // 2)]
    return AlterConfigsRequest(resources, TIMEOUT_MS, validate_only=True)


def elect_leaders(number: int) -> MembershipRequest:
    return ElectLeadersRequest(0, False, [TopicPartition("wide", each) for each in range(ELEMENTS)], TIMEOUT_MS)


def reassign(number: int) -> MembershipRequest:
    moves = [Reassignment("wide", each, [1, 2, 9]) for each in range(ELEMENTS)]
    return AlterReassignmentsRequest(moves, TIMEOUT_MS)


class Turns:
    """The instructions of the longest turn of any controller from now on, by what it begins with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self._names = names
        self.forget()
        for name in names:
            monkeypatch.setattr(ControllerCore, name, self._measured(name, getattr(ControllerCore, name)))

    def forget(self) -> None:
        self.by_name = dict.fromkeys(self._names, 0)

    def _measured(self, name: str, turn: Callable[..., list[Effect]]) -> Callable[..., list[Effect]]:
        def measured(*arguments: Any) -> list[Effect]:
            with counted() as count:
                effects = turn(*arguments)
            self.by_name[name] = max(self.by_name[name], count.instructions)
            return effects

        return measured

    @property
    def longest(self) -> int:
        return max(self.by_name.values())


@pytest.fixture(scope="module")
def cluster() -> tuple[Cluster, ControllerNode]:
    """Three logstores, and topics that requests name."""
    cluster = Cluster()
    controller = cluster.controller()
    for node_id in (1, 2, 3):
        cluster.logstore(node_id)
    cluster.settle()
    topics = [NewTopic("wide", PARTITIONS, 3), *(NewTopic(f"t{each}", 1, 3) for each in range(ELEMENTS))]
    request = controller.request(create(*topics))
    cluster.settle()
    assert set(error_codes(controller, request)) == {0}
    return cluster, controller


INSTRUCTIONS_MAX = {
    create_topics: 2_000_000,
    create_topics_that_are_refused: 320_000,
    create_topics_as_assigned: 360_000,
    create_wide_topics: 2_100_000,
    create_partitions: 1_850_000,
    delete_topics: 24_000,
    alter_configs: 80_000,
    elect_leaders: 48_000,
    reassign: 100_000,
}


@pytest.mark.parametrize("costly", INSTRUCTIONS_MAX, ids=lambda costly: costly.__name__)
def test_a_turn_ends_however_much_waits(
    costly: Callable[[int], MembershipRequest],
    cluster: tuple[Cluster, ControllerNode],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, controller = cluster
    core, now_ms = controller.core, world.now_ms
    turns = Turns(monkeypatch, "_turn")
    requests = range(controller.last_id + 1, controller.last_id + 1 + REQUESTS)
    with monkeypatch.context() as writing:
        # They come while a Txn is on its way.
        writing.setattr(type(core.txn_pipeline), "idle", False)
        for number in range(REQUESTS):
            assert controller.request(costly(number)) == requests[number]
    assert not controller.responses.keys() & set(requests)
    core.on_tick(now_ms)
    controller.carry_out()
    world.settle()
    while core.next_deadline_ms(now_ms) == now_ms:
        core.on_tick(now_ms)
        controller.carry_out()
        world.settle()
    assert controller.responses.keys() >= set(requests)
    assert turns.longest < INSTRUCTIONS_MAX[costly]


def test_a_topic_of_ten_thousand_partitions_takes_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its partitions were placed in one turn, and in another one read from etcd, converted for each logstore and looked
    through for leaders: 0.2 s each. When it got as many again, all twenty thousand were sent."""
    world = Cluster()
    controller = world.controller()
    for node_id in (1, 2, 3):
        world.logstore(node_id)
    controller.subscribe(Role.GATEWAY, "gateway-0")
    world.settle()
    turns = Turns(monkeypatch, "on_request", "on_tick", "on_image")
    request = controller.request(create(NewTopic("large", PARTITIONS_PER_REQUEST_MAX, 3)))
    world.settle()
    assert error_codes(controller, request) == [0]
    for each in world.logstores.values():
        assert len(each.partitions) == PARTITIONS_PER_REQUEST_MAX
    assert turns.by_name["on_request"] < 1_900_000
    assert turns.by_name["on_tick"] < 1_900_000
    assert turns.by_name["on_image"] < 750_000
    turns.forget()
    more = NewPartitions("large", 2 * PARTITIONS_PER_REQUEST_MAX)
    request = controller.request(CreatePartitionsRequest([more], TIMEOUT_MS, False))
    world.settle()
    assert error_codes(controller, request) == [0]
    assert turns.by_name["on_request"] < 2_400_000
    assert turns.by_name["on_tick"] < 1_900_000
    assert turns.by_name["on_image"] < 1_450_000
