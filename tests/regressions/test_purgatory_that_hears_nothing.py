"""A purgatory pod that is cut off the leader does not keep an acknowledgement back.

Found by faults: the pod lived, and held on to what was parked until its deadline, as no watermark came; the leader had
committed it long before.
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from tests.unit.gateway.world import Client, World

DOUBT_MS = 2_000
COARSE_MS = 200
"""Deadlines are kept in buckets."""


def parked() -> tuple[World, Client]:
    world = World(pods=("p-0",), commit_doubt_ms=DOUBT_MS)
    client = world.client()
    client.produce(0, acks=-1)
    world.logstore.append_result()
    assert len(world.pod.produces) == 1
    return world, client


def test_the_leader_is_asked_for_what_is_parked_for_long() -> None:
    world, client = parked()
    world.pass_ms(DOUBT_MS - 1)
    assert not world.logstore.state_queries
    world.pass_ms(COARSE_MS + 1)
    assert world.pod.cancels == [world.pod.produces[0].entry_id]
    world.logstore.state_answer(high_watermark=8)
    assert client.error_codes() == [[ErrorCode.NONE]]


def test_what_is_not_committed_is_parked_again_and_doubted_again() -> None:
    world, client = parked()
    for entries in (2, 3):
        world.pass_ms(DOUBT_MS + COARSE_MS)
        world.logstore.state_answer(high_watermark=7)
        assert len(world.pod.produces) == entries
    assert client.answers == []


def test_a_leader_that_leads_no_more_has_the_last_word() -> None:
    world, client = parked()
    world.pass_ms(DOUBT_MS + COARSE_MS)
    world.logstore.state_answer(high_watermark=100, leader_epoch=6)
    assert client.error_codes() == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]]
