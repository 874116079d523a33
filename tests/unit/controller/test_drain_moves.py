"""When a drain's moves go on: as soon as they can, and without a look at every partition whenever anything changes."""

from __future__ import annotations

import pytest

from barnabas.cluster.messages import NewTopic
from barnabas.ports.etcd import Txn
from barnabas_controller.core.operations.drains import MOVES_MAX, Drains
from barnabas_controller.core.state.operator_requests import PauseBalance
from barnabas_controller.core.state.writes import Write
from tests.sim.etcd_model import Fate
from tests.unit.controller.cluster import LEASE_MS, alter, delete, to_set
from tests.unit.controller.test_drains import TIMEOUT_MS, ask, drain, in_sync, make, replicas, with_logstores


def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many partitions each look at what a drain could go on with has come upon."""
    counts: list[int] = []
    next_moves = Drains.next_moves

    def counted(self: Drains) -> list[Write]:
        counts.append(sum(1 for topic_id in self._image.topics_by_id for _ in self._image.partitions(topic_id)))
        return next_moves(self)

    monkeypatch.setattr(Drains, "next_moves", counted)
    return counts


def test_a_drain_that_stands_reads_no_partition_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is done. Topics that are made, ISRs, configs, pauses of the balance are nothing to it."""
    cluster, controller = with_logstores(4)
    make(cluster, controller, NewTopic("events", 4, 3))
    ask(cluster, controller, drain(4, move_replicas=True))
    in_sync(cluster, controller, "events", 1, 2, 3, 4)
    assert controller.core.drains.progress(4).replicas == 0
    counts = looks(monkeypatch)
    make(cluster, controller, NewTopic("more", 4, 2))
    in_sync(cluster, controller, "events", 1, 2)
    controller.request(alter("events", to_set("retention.ms", "1000")))
    ask(cluster, controller, PauseBalance(True, TIMEOUT_MS))
    cluster.settle()
    assert counts == []
    cluster.logstore(5)
    cluster.settle()
    assert counts, "a new logstore may take what has no place"


def test_a_replica_without_a_place_goes_as_soon_as_there_is_one() -> None:
    """Its place went when the drain had just been begun."""
    cluster, controller = with_logstores(4)
    make(cluster, controller, NewTopic("events", 4, 3))

    def last_write(txn: Txn) -> Fate:
        controller.cut_off = True
        return Fate.ANSWERED

    cluster.fate = last_write
    controller.request(drain(4, move_replicas=True))
    cluster.settle()
    cluster.fate = lambda txn: Fate.ANSWERED
    cluster.stop(3)
    successor = cluster.controller("controller-1")
    cluster.advance(2 * LEASE_MS)
    stays = [each for each in replicas(successor) if 4 in each and 3 not in each]
    begun = successor.core.drains.progress(4).moving
    assert stays
    cluster.logstore(3)
    cluster.settle()
    assert successor.core.drains.progress(4).moving == begun + len(stays)


def test_the_next_partitions_are_moved_as_those_before_have_gone() -> None:
    """More than go at a time, and nothing else happens."""
    cluster, controller = with_logstores(2)
    make(cluster, controller, NewTopic("events", 3 * MOVES_MAX, 1))
    ask(cluster, controller, drain(1, move_replicas=True))
    rounds = 0
    while controller.core.drains.progress(1).replicas:
        assert 0 < controller.core.drains.progress(1).moving <= MOVES_MAX
        in_sync(cluster, controller, "events", 1, 2)
        rounds += 1
    assert rounds == 2, "half of the partitions were there"


def test_moves_go_on_when_a_topic_whose_partitions_were_moving_is_deleted() -> None:
    cluster, controller = with_logstores(2)
    make(cluster, controller, NewTopic("first", 2 * MOVES_MAX, 1), NewTopic("second", 10, 1))
    ask(cluster, controller, drain(1, move_replicas=True))
    assert not any(2 in each for each in replicas(controller, "second") if 1 in each), "the others come first"
    controller.request(delete("first"))
    cluster.settle()
    assert {(1, 2), (2, 1)}.intersection(replicas(controller, "second"))
