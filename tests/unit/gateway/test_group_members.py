"""Members that wait: parked, collected, and what becomes of them when something around them is lost."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.channel.messages import GroupCollect, Outcome, ParkGroup
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse
from tests.unit.gateway.groups import EPOCH, OFFSETS_TOPIC_ID, answer_to_wait, group_world, offsets_topic
from tests.unit.gateway.test_coordination import JOIN, JOINED, LIVES, SYNC, SYNCED
from tests.unit.gateway.world import Client, World, topic

KINDS = [
    pytest.param(ApiKey.JOIN_GROUP, JOIN, JOINED, id="join"),
    pytest.param(ApiKey.SYNC_GROUP, SYNC, SYNCED, id="sync"),
]


def waiting(
    key: ApiKey = ApiKey.JOIN_GROUP, request: Any = JOIN, pods: tuple[str, ...] = ("p-0",)
) -> tuple[World, Client]:
    world = group_world(pods=pods)
    client = world.client()
    client.ask(request, key, key.version_max)
    world.logstore.group_answer(wait=answer_to_wait())
    return world, client


def errors(client: Client) -> list[int]:
    return [answer.error_code for answer in client.answers]


@pytest.mark.parametrize(("key", "request_", "response"), KINDS)
def test_a_member_is_parked_and_collected_when_its_group_has_come_so_far(
    key: ApiKey, request_: Any, response: JoinGroupResponse | SyncGroupResponse
) -> None:
    world, client = waiting(key, request_)
    (park,) = world.pod.groups
    assert park == ParkGroup(park.entry_id, 5_000, OFFSETS_TOPIC_ID, 0, 1, EPOCH, "g", 7)
    assert not world.logstore.collects
    world.pod.complete(park.entry_id, Outcome.SATISFIED)
    (collect,) = world.logstore.collects
    assert collect == GroupCollect(collect.request_id, 0, key, key.version_max, EPOCH, "g", "m-1", 3)
    world.logstore.collect_answer(response)
    assert client.answers == [response]
    assert not world.logstore.group_calls, "it is never asked for again"
    client.close()
    assert world.processor.next_deadline_ms() is None


def test_a_member_that_still_has_to_wait_is_parked_again() -> None:
    world, client = waiting()
    world.pod.complete(world.pod.groups[0].entry_id, Outcome.SATISFIED)
    world.logstore.collect_answer(wait=answer_to_wait(step=8))
    assert [park.step for park in world.pod.groups] == [7, 8]
    world.pod.complete(world.pod.groups[1].entry_id, Outcome.SATISFIED)
    world.logstore.collect_answer(JOINED)
    assert client.answers == [JOINED]


def test_a_member_waits_for_as_long_as_its_coordinator_says_so() -> None:
    """A rebalance may take minutes, and a connection that waits is not idle."""
    world, client = waiting()
    for _ in range(200):
        world.pass_ms(5_000)
        world.pod.complete(world.pod.groups[-1].entry_id, Outcome.EXPIRED)
        world.logstore.collect_answer(wait=answer_to_wait())
    assert world.now_ms > world.processor.config.connection_idle_ms_max
    world.pod.complete(world.pod.groups[-1].entry_id, Outcome.SATISFIED)
    world.logstore.collect_answer(JOINED)
    assert client.answers == [JOINED]
    assert not client.is_closed


def test_a_new_epoch_ends_the_wait() -> None:
    world, client = waiting()
    world.pod.complete(world.pod.groups[0].entry_id, Outcome.FENCED)
    assert errors(client) == [ErrorCode.NOT_COORDINATOR]
    assert not world.logstore.collects


def test_a_coordinator_of_another_epoch_has_nothing_to_collect() -> None:
    world, client = waiting()
    world.pod.complete(world.pod.groups[0].entry_id, Outcome.SATISFIED)
    world.logstore.collect_answer(error_code=ErrorCode.NOT_COORDINATOR)
    assert errors(client) == [ErrorCode.NOT_COORDINATOR]


@pytest.mark.parametrize("topics", [(topic(), offsets_topic(1, epoch=EPOCH + 1)), (topic(),)])
def test_what_the_image_knows_to_be_over_is_not_collected(topics: tuple[Any, ...]) -> None:
    world, client = waiting()
    world.update(*topics)
    world.pod.complete(world.pod.groups[0].entry_id, Outcome.EXPIRED)
    world.pass_ms(1_000)
    assert errors(client) == [ErrorCode.NOT_COORDINATOR]
    assert not world.logstore.collects


def test_a_pod_that_is_lost_means_collecting_at_once() -> None:
    world, client = waiting(pods=("p-0", "p-1"))
    (chosen,) = [pod for pod in world.pods.values() if pod.groups]
    chosen.down()
    world.logstore.collect_answer(wait=answer_to_wait())
    (other,) = [pod for pod in world.pods.values() if pod.groups]
    assert other is not chosen
    other.complete(other.groups[0].entry_id, Outcome.SATISFIED)
    world.logstore.collect_answer(JOINED)
    assert client.answers == [JOINED]


def test_without_a_pod_the_coordinator_is_asked_now_and_then() -> None:
    world, client = waiting(pods=())
    world.logstore.collect_answer(wait=answer_to_wait())
    assert not world.logstore.collects
    world.pass_ms(210)
    world.logstore.collect_answer(wait=answer_to_wait())
    world.pass_ms(190)
    assert not world.logstore.collects
    world.pass_ms(20)
    world.logstore.collect_answer(JOINED)
    assert client.answers == [JOINED]


def test_a_pod_that_is_full_is_not_asked_in_a_loop() -> None:
    world, _client = waiting()
    world.pod.complete(world.pod.groups[0].entry_id, Outcome.EXPIRED)
    assert not world.logstore.collects
    world.pass_ms(210)
    world.logstore.collect_answer(wait=answer_to_wait(wait_ms_max=0))
    assert world.pod.groups[1].wait_ms == 200


def test_a_pod_that_says_nothing_is_not_waited_for() -> None:
    world, client = waiting()
    world.pass_ms(5_000)
    assert not world.logstore.collects
    world.pass_ms(250)
    assert world.pod.cancels == [world.pod.groups[0].entry_id]
    world.logstore.collect_answer(JOINED)
    assert client.answers == [JOINED]
    world.pod.complete(world.pod.groups[0].entry_id, Outcome.SATISFIED)
    assert client.answers == [JOINED]


def test_a_stream_that_comes_back_is_collected_from() -> None:
    world, client = waiting()
    world.pod.complete(world.pod.groups[0].entry_id, Outcome.SATISFIED)
    world.logstore.down()
    assert not client.answers
    world.pass_ms(400)
    world.logstore.up()
    world.pass_ms(400)
    world.logstore.collect_answer(JOINED)
    assert client.answers == [JOINED]


def test_a_coordinator_out_of_reach_is_given_up() -> None:
    world, client = waiting()
    world.logstore.down()
    world.pod.complete(world.pod.groups[0].entry_id, Outcome.SATISFIED)
    world.pass_ms(4_800)
    assert not client.answers
    world.pass_ms(500)
    assert errors(client) == [ErrorCode.NOT_COORDINATOR]


def test_a_coordinator_that_does_not_answer_is_given_up() -> None:
    world, client = waiting()
    world.pod.complete(world.pod.groups[0].entry_id, Outcome.SATISFIED)
    world.pass_ms(12_000)
    assert errors(client) == [ErrorCode.NOT_COORDINATOR]


def test_a_join_that_was_sent_and_lost_is_not_sent_again() -> None:
    world = group_world()
    client = world.client()
    client.ask(JOIN, ApiKey.JOIN_GROUP, 9)
    world.logstore.down()
    world.logstore.up()
    assert errors(client) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert client.answers[0].member_id == "m-1"
    assert not world.logstore.group_calls


def test_a_client_that_leaves_is_neither_parked_nor_collected() -> None:
    world, client = waiting()
    client.close()
    assert world.pod.cancels == [world.pod.groups[0].entry_id]
    assert world.processor.next_deadline_ms() is None
    world, client = waiting()
    world.pod.complete(world.pod.groups[0].entry_id, Outcome.SATISFIED)
    client.close()
    world.logstore.collect_answer(JOINED)
    assert world.processor.next_deadline_ms() is None


def test_a_heartbeat_behind_a_join_waits_for_its_answer() -> None:
    """As in Kafka, which mutes the connection."""
    world, client = waiting()
    client.ask(HeartbeatRequest("g", 3, "m-1"), ApiKey.HEARTBEAT, 4)
    assert not world.logstore.group_calls
    world.pod.complete(world.pod.groups[0].entry_id, Outcome.SATISFIED)
    world.logstore.collect_answer(JOINED)
    world.logstore.group_answer(LIVES)
    assert client.answers == [JOINED, LIVES]


def test_the_metadata_of_members_that_wait_is_not_held() -> None:
    world = group_world(queued_request_bytes_max=4 << 20)
    large = JoinGroupRequest("g", 1, 1, "", None, "consumer", [JoinGroupRequestProtocol("range", bytes(1 << 20))])
    clients = [world.client() for _ in range(16)]
    for client in clients:
        client.ask(large, ApiKey.JOIN_GROUP, 9)
        world.logstore.group_answer(wait=answer_to_wait())
    assert len(world.pod.groups) == 16
    assert world.processor.request_memory.held_bytes == 0
    assert not any(client.is_paused for client in clients)
    for park in list(world.pod.groups):
        world.pod.complete(park.entry_id, Outcome.SATISFIED)
        world.logstore.collect_answer(JOINED)
    assert [client.answers for client in clients] == [[JOINED]] * 16
    assert world.processor.request_memory.held_bytes == 0
