"""A transaction that was acknowledged as committed was complete without one of its markers.

A coordinator left out each partition that its metadata had lacked for ten seconds. A logstore that has restarted
coordinates from LeaderAndIsr on, with an empty image until UpdateMetadata, which does not come if the controller is
lost between the two; and a topic whose record a controller can't read is not in it. COMPLETE_COMMIT was written,
nothing was reported, and the next abort of the producer took the acknowledged records with it. Absent is not deleted.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.cluster.messages import LeaderAndIsr
from barnabas_logstore.core.coordinator.transactions.marker_sender import RETRY_MS, UNDELIVERED_MS
from barnabas_logstore.core.coordinator.transactions.transaction import TransactionState
from tests.unit.logstore.service.support import Host, topic
from tests.unit.logstore.service.test_control import full_update
from tests.unit.logstore.transactions.support import PARTITION, TOPIC, TOPIC_ID, state_topic, update_of
from tests.unit.logstore.transactions.test_marker_sender import Scene

PREPARE, COMPLETE = TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT
STATE_TOPIC = "__transaction_state"


def wait(scene: Scene) -> None:
    """Longer than anything is waited for."""
    for _ in range(2 * UNDELIVERED_MS // RETRY_MS):
        scene.step(RETRY_MS)
    assert not scene.peers.calls
    assert scene.world.state() is PREPARE
    (problem,) = scene.sender.problems
    assert TOPIC in problem


def deliver(scene: Scene) -> None:
    """The metadata is there: the marker is written."""
    scene.update(3)
    scene.step(RETRY_MS)
    assert scene.asked == [(3, [0])]
    scene.answer()
    assert scene.world.state() is COMPLETE


def test_a_coordinator_that_has_restarted_waits_for_its_metadata() -> None:
    scene = Scene(is_informed=False)
    scene.end(0)
    wait(scene)
    deliver(scene)


def test_metadata_of_before_the_election_says_nothing() -> None:
    """The topic was created after it, and the coordinator before this one knew that."""
    scene = Scene(topics=False)
    scene.world.fail_over()
    scene.end(0)
    wait(scene)
    deliver(scene)


def test_a_topic_that_the_controller_cannot_read_is_not_deleted() -> None:
    scene = Scene(is_informed=False)
    scene.end(0)
    scene.update(2, topics=False, unknown_topics=[TOPIC])
    wait(scene)
    deliver(scene)


def test_a_coordinator_whose_own_topic_cannot_be_read_knows_of_no_deletion() -> None:
    scene = Scene(is_informed=False)
    scene.end(0)
    scene.update(2, topics=False, unknown_topics=[STATE_TOPIC], without_state=True)
    wait(scene)
    deliver(scene)


def test_a_topic_that_is_known_to_be_deleted_holds_nothing_up() -> None:
    scene = Scene()
    scene.end(0, 1)
    scene.update(2, topics=False)
    scene.step()
    assert (scene.world.state(), scene.peers.calls) == (COMPLETE, [])


def test_what_only_the_deleted_one_of_two_topics_of_a_name_had_holds_nothing_up() -> None:
    scene = Scene()
    scene.end(0, 1)
    scene.step()
    scene.peers.calls.pop()[2](None)
    smaller = update_of(1, 2, 3, leader=2, revision=1).topics[0]
    smaller = replace(smaller, topic_id=TOPIC_ID[::-1], partitions=smaller.partitions[:1])
    scene.update(2, topics=False, also=[smaller])
    scene.step(RETRY_MS)
    assert scene.asked == [(2, [0])]
    scene.answer()
    assert scene.world.state() is COMPLETE


@pytest.fixture
def host() -> Host:
    return Host()


def knows_deletion(host: Host, leader_epoch: int) -> bool:
    return host.core._replicas.deletions.is_deleted(("gone", 0), (STATE_TOPIC, PARTITION), leader_epoch)


def update(host: Host, revision: int, *, full: bool, unknown: list[str] | None = None, leader_epoch: int = 1) -> None:
    command = replace(full_update(), revision=revision, full=full, topics=[state_topic(leader_epoch)])
    host.control(replace(command, unknown_topics=unknown or []))


def test_what_a_logstore_knows_of_deletions_at_each_command(host: Host) -> None:
    host.control(LeaderAndIsr(True, [topic()]))
    assert not knows_deletion(host, 1)
    update(host, 5, full=True, unknown=["gone"])
    assert not knows_deletion(host, 1)
    update(host, 6, full=False)
    assert not knows_deletion(host, 1), "what changed is something else"
    update(host, 7, full=True)
    assert knows_deletion(host, 1)
    assert not knows_deletion(host, 2)
    update(host, 8, full=False, leader_epoch=2)
    assert knows_deletion(host, 2)
