"""A client loses its gateway in the middle of a produce, goes to another one, and its record is there once."""

from __future__ import annotations

from tests.scenarios.scene import Scene


def test_an_idempotent_producer_goes_on_through_another_gateway() -> None:
    scene = Scene().begin()
    scene.slow_down(scene.followers[0], 900)
    scene.produce("one")
    scene.until_parked()
    for gateway in scene.cluster.gateways:
        gateway.kill()
    scene.wait(200)
    scene.cluster.gateways[1].start()
    scene.until_acknowledged()
    assert scene.acknowledged == ["one"]
    assert scene.read_everything() == ["one"]


def test_requests_of_one_client_leave_nothing_behind_when_it_dies() -> None:
    scene = Scene().begin()
    scene.slow_down(scene.followers[0], 900)
    (pod,) = scene.cluster.purgatories
    scene.produce("one")
    scene.until_parked()
    scene.producer.kill()
    scene.consumer.kill()
    scene.wait(2_000)
    assert pod.core is not None
    assert (pod.core.entries, pod.core.watched_partitions) == (0, 0)
    assert [gateway.running.request_memory.held_bytes for gateway in scene.cluster.gateways] == [0, 0]
