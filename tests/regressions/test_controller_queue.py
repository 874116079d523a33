"""More requests than the controller gets done: they wait in bounded number, and the rest know at once."""

from __future__ import annotations

from barnabas.cluster.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse, NewTopic
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.requests import REQUESTS_MAX
from tests.sim.etcd_model import Fate
from tests.unit.controller.cluster import Cluster, create, created, delete, error_codes


def test_requests_beyond_the_bound_are_answered_at_once_and_those_within_it_are_done() -> None:
    """The queue had no bound: what etcd could not take piled up in memory, and every turn looked at all of it."""
    cluster = Cluster()
    controller = cluster.controller()
    cluster.logstore(1)
    cluster.settle()
    cluster.fate = lambda txn: Fate.LOST
    taken = [controller.request(create(NewTopic(f"topic-{n}", 1, 1))) for n in range(REQUESTS_MAX)]
    refused = [
        controller.request(create(NewTopic("one-too-many", 1, 1))),
        controller.request(delete("topic-0")),
        controller.request(AllocateProducerIdsRequest("gateway-0")),
    ]
    assert not controller.responses.keys() & set(taken)
    assert [result.error_message for result in created(controller, refused[0])] == [
        "the controller is busy: 1000 requests wait"
    ]
    assert error_codes(controller, refused[1]) == [ErrorCode.REQUEST_TIMED_OUT]
    allocated = controller.responses[refused[2]]
    assert isinstance(allocated, AllocateProducerIdsResponse)
    assert allocated.error_code == ErrorCode.REQUEST_TIMED_OUT
    cluster.fate = lambda txn: Fate.ANSWERED
    cluster.advance(1000)
    assert {code for request in taken for code in error_codes(controller, request)} == {ErrorCode.NONE}
    assert "one-too-many" not in controller.core.image.topics
    assert error_codes(controller, controller.request(create(NewTopic("topic-0", 1, 1)))) == [
        ErrorCode.TOPIC_ALREADY_EXISTS
    ]
