"""Logstores that say that they stop: their leaders go before them."""

from __future__ import annotations

from barnabas.cluster.messages import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    NewTopic,
)
from barnabas.wire.errors import ErrorCode
from tests.sim.etcd_model import Fate
from tests.unit.controller.cluster import (
    Cluster,
    create,
)
from tests.unit.controller.replicated import a_cluster, shrink, state, with_topic


def shut_down(cluster: Cluster, node_id: int) -> int:
    asked = ControlledShutdownRequest(node_id, cluster.logstores[node_id].broker_epoch)
    return cluster.controllers[0].request(asked)


def test_a_controlled_shutdown_moves_a_thousand_leaders_in_few_txns() -> None:
    cluster, controller = a_cluster()
    controller.request(create(NewTopic("events", 3000, 3)))
    cluster.settle()
    led = [number for number in range(3000) if state(cluster, number).leader == 1]
    assert len(led) == 1000
    before = len(controller.submitted)
    request = shut_down(cluster, 1)
    assert request not in controller.responses
    cluster.settle()
    assert controller.responses[request] == ControlledShutdownResponse(ErrorCode.NONE, 0)
    assert len(controller.submitted) - before <= 2
    assert all(state(cluster, number).leader in (2, 3) for number in led)
    assert all(1 not in state(cluster, number).in_sync_replicas for number in led)


def test_a_logstore_that_stopped_is_a_candidate_again_when_it_is_back() -> None:
    cluster = with_topic([1, 2])
    shut_down(cluster, 1)
    cluster.settle()
    cluster.logstore(1)
    cluster.settle()
    shrink(cluster, 2, 1)
    cluster.stop(2)
    cluster.settle()
    assert state(cluster).leader == 1


def test_a_shutdown_of_another_registration_is_refused() -> None:
    cluster = with_topic([1, 2])
    asked = ControlledShutdownRequest(1, cluster.logstores[1].broker_epoch - 1)
    request = cluster.controllers[0].request(asked)
    assert cluster.controllers[0].responses[request] == ControlledShutdownResponse(ErrorCode.STALE_BROKER_EPOCH)
    cluster.settle()
    assert state(cluster).leader == 1


def test_a_shutdown_whose_logstore_is_gone_meanwhile_is_refused() -> None:
    cluster = with_topic([1, 2])
    cluster.fate = lambda txn: Fate.LOST
    request = shut_down(cluster, 1)
    cluster.stop(1)
    cluster.settle()
    assert cluster.controllers[0].responses[request] == ControlledShutdownResponse(ErrorCode.STALE_BROKER_EPOCH)


def test_a_shutdown_that_etcd_does_not_take_in_time_says_what_remains() -> None:
    cluster = with_topic([1, 2])
    cluster.fate = lambda txn: Fate.LOST
    request = shut_down(cluster, 1)
    cluster.advance(10_000, step_ms=500)
    assert cluster.controllers[0].responses[request] == ControlledShutdownResponse(ErrorCode.REQUEST_TIMED_OUT, 1)
