"""Purgatory may die at any time: the gateway asks the leader, and no client gets a success that did not happen."""

from __future__ import annotations

from tests.scenarios.scene import Scene


def test_a_parked_produce_outlives_its_pod() -> None:
    scene = Scene().begin()
    scene.slow_down(scene.followers[0], 900)
    (pod,) = scene.cluster.purgatories

    scene.produce("one")
    scene.until_parked()
    assert scene.acknowledged == []

    pod.kill()
    scene.until_acknowledged()
    assert scene.acknowledged == ["one"], "the leader said so itself"
    assert scene.read_everything() == ["one"]

    pod.start()
    scene.produce("two")
    scene.until_acknowledged()
    assert scene.read_everything() == ["one", "two"]


def test_a_long_poll_outlives_its_pod() -> None:
    scene = Scene().begin()
    (pod,) = scene.cluster.purgatories
    scene.until(lambda: pod.core is not None and pod.core.entries, "the consumer waits in purgatory")
    pod.kill()
    scene.wait(50)
    scene.produce("one")
    assert scene.read_everything() == ["one"]
