"""An unexpected exception in the decision about a request costs that request: nothing of it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from barnabas.cluster.keys import Keys, Role
from barnabas.cluster.messages import NewTopic
from barnabas.containment import REPORTS_MAX
from barnabas.metrics.conditions import ConditionKind
from barnabas.runtime.etcd import Lease
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.controller import ControllerCore
from barnabas_controller.core.observability.description import describe_problems
from barnabas_controller.core.requests.request_decisions import RequestDecisions
from barnabas_controller.core.requests.request_queue import REQUEST
from barnabas_controller.core.state import image
from barnabas_controller.shell.driver import ControllerDriver
from tests.unit.controller.cluster import KEYS, Cluster, create, error_codes


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


def test_a_value_that_cannot_be_decoded_for_a_fault_of_ours_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended one controller after another, each at its start."""
    cluster = Cluster()
    cluster.controller()
    cluster.logstore(1)
    cluster.settle()
    key = KEYS.cluster
    original = image.decode_record

    def decode(keys: Keys, name: str, value: bytes) -> object:
        if name == key:
            raise AssertionError("planted")
        return original(keys, name, value)

    monkeypatch.setattr(image, "decode_record", decode)
    another = cluster.controller("controller-1")
    cluster.settle()
    assert another.core.image.unreadable == {key: "ValueError: AssertionError: planted"}
    assert list(another.core.image.logstores) == [1]


# --- the driver -------------------------------------------------------------------------------------------------------


class Stream:
    def close(self, reason: str) -> None:
        raise AssertionError(reason)


CALLBACKS: dict[str, Callable[[ControllerDriver], object]] = {
    "on_subscribed": lambda driver: driver.subscribe(cast("Any", Stream()), Role.GATEWAY, "gateway-0"),
    "on_acknowledged": lambda driver: driver.acknowledge(1, 5),
    "on_unsubscribed": lambda driver: driver.unsubscribe(1),
    "on_lease": lambda driver: driver.on_lease(Lease(7, 10_000, 0)),
}


@pytest.mark.parametrize("method", CALLBACKS)
async def test_what_leaves_the_core_half_changed_ends_the_process(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended the stream of one member, and the controller stayed active."""
    cluster = Cluster()
    core = cluster.controller().core
    driver = ControllerDriver(core, cast("Any", None), KEYS, lambda ready: None)
    monkeypatch.setattr(ControllerCore, method, raises)
    CALLBACKS[method](driver)
    with pytest.raises(RuntimeError, match="planted"):
        await driver.failed
    await driver.close()
