"""A partition that a logstore had no room for is sent again: it was created only when leaders changed, if ever.

Its topic had a leader by the metadata, and every client of it waited until the logstore was restarted.
"""

from __future__ import annotations

from itertools import pairwise

from barnabas.cluster.messages import ControlResponse, LeaderAndIsr, NewTopic, PartitionError
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.members.control_links import REPEAT_MS_MAX, REPEAT_MS_MIN
from barnabas_controller.core.observability.description import describe_problems
from tests.unit.controller.cluster import Cluster, ControllerNode, FakeLogstore, create, created

FAILED = "partition events-1 failed on logstore 1: KAFKA_STORAGE_ERROR"


def refused(cluster: Cluster, controller: ControllerNode, logstore: FakeLogstore) -> list[LeaderAndIsr]:
    """Have the logstore answer that there is no disk for `events-1`; what it was sent about leaders."""
    (topic,) = controller.core.image.topics.values()
    failed = [PartitionError(topic.topic_id, 1, ErrorCode.KAFKA_STORAGE_ERROR)]
    reported = []
    while logstore.unanswered:
        command = logstore.unanswered.popleft()
        errors = [] if command.leader_and_isr is None else failed
        reported += [] if command.leader_and_isr is None else [command.leader_and_isr]
        response = ControlResponse(command.sequence, ErrorCode.NONE, errors)
        controller.core.on_control_response(1, logstore.broker_epoch, response, cluster.now_ms)
        controller.carry_out()
        cluster.settle()
    return reported


def a_refusal() -> tuple[Cluster, ControllerNode, FakeLogstore, int]:
    """A topic of two partitions, of which the logstore can make one; and the request that waits for it."""
    cluster = Cluster()
    controller = cluster.controller()
    logstore = cluster.logstore(1)
    cluster.settle()
    logstore.answering = False
    request = controller.request(create(NewTopic("events", 2, 1), timeout_ms=10_000))
    cluster.settle()
    assert refused(cluster, controller, logstore)
    return cluster, controller, logstore, request


def test_it_is_sent_again_alone_and_answers_the_creation_once_it_is_made() -> None:
    cluster, controller, logstore, request = a_refusal()
    cluster.advance(REPEAT_MS_MIN)
    (reported,) = [each.leader_and_isr for each in logstore.unanswered if each.leader_and_isr is not None]
    assert not reported.full
    assert [(each.topic, [state.partition for state in each.partitions]) for each in reported.topics] == [
        ("events", [1])
    ]
    assert FAILED in describe_problems(controller.core)
    logstore.answering = True
    cluster.settle()
    assert FAILED not in describe_problems(controller.core)
    assert created(controller, request)


def test_it_is_sent_less_and_less_often() -> None:
    cluster, controller, logstore, _ = a_refusal()
    logged_ms = []
    while cluster.now_ms < 3 * REPEAT_MS_MAX:
        cluster.advance(REPEAT_MS_MIN)
        if refused(cluster, controller, logstore):
            logged_ms.append(cluster.now_ms)
    gaps = [(later - earlier) // REPEAT_MS_MIN for earlier, later in pairwise(logged_ms)]
    assert gaps == [2, 4, 8, 16, 32, 60]


def test_of_very_many_the_first_are_named() -> None:
    _, controller, _, _ = a_refusal()
    (topic,) = controller.core.image.topics.values()
    (link,) = controller.core.links.by_node.values()
    link.partition_errors.update({(topic.topic_id, number): ErrorCode.KAFKA_STORAGE_ERROR for number in range(1000)})
    named = [line for line in describe_problems(controller.core) if "failed on logstore" in line]
    assert len(named) == 11
    assert named[-1] == "990 more partitions failed on logstore 1"
