"""Heartbeats gather where many come, other calls where many wait for their answers at once; few never wait."""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas_gateway.core.backends.coordinator_client import (
    CALL_GATHER_MS,
    GATHER_CALLS_MAX,
    GATHER_HEARTBEATS_MIN,
    GATHER_OUTSTANDING_MIN,
    GATHER_WINDOW_MS,
    HEARTBEAT_GATHER_MS,
)
from tests.unit.gateway.groups import group_world
from tests.unit.gateway.world import Client, World


def heartbeat(client: Client) -> None:
    client.ask(HeartbeatRequest("g", 3, "m-1"), ApiKey.HEARTBEAT, 4)


def leave(client: Client) -> None:
    client.ask(LeaveGroupRequest("g", "", [MemberIdentity("m-2")]), ApiKey.LEAVE_GROUP, 4)


def busy_world() -> tuple[World, Client]:
    """A window with many heartbeats is just over."""
    world = group_world()
    client = world.client()
    for _ in range(GATHER_HEARTBEATS_MIN + 1):
        heartbeat(client)
        assert len(world.logstore.group_calls) == 1, "the first window gathers nothing"
        world.logstore.group_answer(HeartbeatResponse())
    world.pass_ms(GATHER_WINDOW_MS)
    return world, client


def test_heartbeats_of_a_busy_time_gather_and_leave_together() -> None:
    world, client = busy_world()
    heartbeat(client)
    heartbeat(world.client())
    world.pass_ms(HEARTBEAT_GATHER_MS - 1)
    assert world.logstore.group_calls == []
    world.pass_ms(1)
    assert len(world.logstore.group_calls) == 2


def test_what_has_gathered_is_sent_when_it_is_enough() -> None:
    world, _ = busy_world()
    for _ in range(GATHER_CALLS_MAX):
        assert world.logstore.group_calls == []
        heartbeat(world.client())
    assert len(world.logstore.group_calls) == GATHER_CALLS_MAX


def test_any_other_call_takes_them_along() -> None:
    world, client = busy_world()
    heartbeat(client)
    leave(world.client())
    assert [call.api_key for call in world.logstore.group_calls] == [ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP]


def test_after_a_quiet_window_they_go_at_once() -> None:
    world, client = busy_world()
    world.pass_ms(GATHER_WINDOW_MS)
    heartbeat(client)
    assert len(world.logstore.group_calls) == 1


def test_what_has_gathered_when_the_stream_is_lost_is_not_sent_later() -> None:
    world, client = busy_world()
    answers = len(client.answers)
    heartbeat(client)
    world.logstore.down()
    world.logstore.up()
    world.pass_ms(10 * HEARTBEAT_GATHER_MS)
    assert world.logstore.group_calls == []
    assert len(client.answers) == answers + 1


# --- other calls -----------------------------------------------------------------------------------------------------


def crowd(count: int) -> tuple[World, list[Client]]:
    """So many clients have just been answered, all of whom had waited at once."""
    world = group_world()
    clients = [world.client() for _ in range(count)]
    for client in clients:
        leave(client)
    while world.logstore.group_calls:
        world.logstore.group_answer(LeaveGroupResponse())
        world.pass_ms(CALL_GATHER_MS)
    return world, clients


def test_calls_of_a_crowd_leave_together() -> None:
    world, clients = crowd(2 * GATHER_OUTSTANDING_MIN)
    enough = 2 * GATHER_OUTSTANDING_MIN * 3 // 4
    for client in clients[: enough - 1]:
        leave(client)
        assert world.logstore.group_calls == []
    leave(clients[enough - 1])
    assert len(world.logstore.group_calls) == enough


def test_a_call_does_not_wait_long_for_a_crowd() -> None:
    world, clients = crowd(2 * GATHER_OUTSTANDING_MIN)
    leave(clients[0])
    world.pass_ms(CALL_GATHER_MS - 1)
    assert world.logstore.group_calls == []
    world.pass_ms(1)
    assert len(world.logstore.group_calls) == 1


def test_a_heartbeat_that_gathers_leaves_with_a_call_that_does() -> None:
    world, client = busy_world()
    clients = [world.client() for _ in range(GATHER_OUTSTANDING_MIN)]
    for each in clients:
        leave(each)
    world.pass_ms(CALL_GATHER_MS)
    while world.logstore.group_calls:
        world.logstore.group_answer(LeaveGroupResponse())
    heartbeat(client)
    leave(clients[0])
    world.pass_ms(CALL_GATHER_MS)
    assert [call.api_key for call in world.logstore.group_calls] == [ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP]


def test_few_who_wait_never_wait_for_each_other() -> None:
    world, clients = crowd(GATHER_OUTSTANDING_MIN - 1)
    for number, client in enumerate(clients):
        leave(client)
        assert len(world.logstore.group_calls) == number + 1


def test_a_crowd_of_long_ago_is_not_waited_for() -> None:
    world, clients = crowd(2 * GATHER_OUTSTANDING_MIN)
    world.pass_ms(2 * GATHER_WINDOW_MS)
    leave(clients[0])
    assert len(world.logstore.group_calls) == 1
