"""An unexpected exception in the decision about a request costs that request: nothing of it is written."""

from __future__ import annotations

import pytest

from barnabas.cluster.keys import Role
from barnabas.cluster.messages import NewTopic
from barnabas.containment import REPORTS_MAX
from barnabas.metrics.conditions import ConditionKind
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.observability.description import describe_problems
from barnabas_controller.core.requests.request_decisions import RequestDecisions
from barnabas_controller.core.requests.request_queue import REQUEST
from tests.unit.controller.cluster import Cluster, create, error_codes


def raises(*args: object) -> object:
    raise RuntimeError("planted")


def raises_later(*args: object) -> object:
    yield 1
    raise RuntimeError("planted")


@pytest.mark.parametrize("planted", [raises, raises_later], ids=["at once", "in a later step"])
def test_a_decision_that_fails_costs_its_request_each_time(monkeypatch: pytest.MonkeyPatch, planted: object) -> None:
    cluster = Cluster()
    controller = cluster.controller()
    cluster.logstore(1)
    cluster.settle()
    with monkeypatch.context() as patch:
        patch.setattr(RequestDecisions, "decide", planted)
        for _ in range(200):
            request_id = controller.request(create(NewTopic("poison", 1, 1)))
            cluster.settle()
            assert error_codes(controller, request_id) == [ErrorCode.REQUEST_TIMED_OUT]
    contained = controller.core.contained
    assert contained.counts[REQUEST] == 200
    assert len(contained.take_reports()) == REPORTS_MAX
    (reported,) = controller.core.reported_health.conditions()
    assert (reported.role, reported.member_id) == (Role.CONTROLLER, controller.controller_id)
    assert reported.condition.kind is ConditionKind.CONTAINED_EXCEPTION
    assert "controller.request (200)" in reported.condition.text
    assert not [each for each in describe_problems(controller.core) if "exception" in each]
    assert "poison" not in controller.core.image.topics
    request_id = controller.request(create(NewTopic("sound", 1, 1)))
    cluster.advance(1_000)
    assert error_codes(controller, request_id) == [ErrorCode.NONE]
