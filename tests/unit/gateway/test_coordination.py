"""The stream to coordinators: bodies handed on and back, credit, the line, what is lost."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.channel.messages import CoordinateResponse, Credit, GroupAnswer
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.unit.gateway.groups import answer_to_wait, group_world
from tests.unit.gateway.permissions import deny_everything
from tests.unit.gateway.world import Client, World

JOIN = JoinGroupRequest("g", 10_000, 60_000, "m-1", None, "consumer", [JoinGroupRequestProtocol("range", b"topics")])
JOINED = JoinGroupResponse(0, 0, 3, "consumer", "range", "m-1", False, "m-1", [])
SYNC = SyncGroupRequest("g", 3, "m-1", None, "consumer", "range", [SyncGroupRequestAssignment("m-1", b"part")])
SYNCED = SyncGroupResponse(0, 0, "consumer", "range", b"part")
HEARTBEAT, LIVES = HeartbeatRequest("g", 3, "m-1"), HeartbeatResponse(0, ErrorCode.REBALANCE_IN_PROGRESS)
LEAVE = LeaveGroupRequest("g", "m-1", [MemberIdentity("m-1"), MemberIdentity("m-2", None, "tired")])
LEFT = LeaveGroupResponse(0, 0, [MemberResponse("m-1", None, 0), MemberResponse("m-2", None, 25)])
HANDED_ON = [
    (ApiKey.JOIN_GROUP, JOIN, JOINED, "api_11_join_group"),
    (ApiKey.HEARTBEAT, HEARTBEAT, LIVES, "api_12_heartbeat"),
    (ApiKey.LEAVE_GROUP, LEAVE, LEFT, "api_13_leave_group"),
    (ApiKey.SYNC_GROUP, SYNC, SYNCED, "api_14_sync_group"),
]
EVERY_VERSION = [
    pytest.param(key, version, request, response, id=f"{key.api_name}-{version}")
    for key, request, response, _ in HANDED_ON
    for version in range(key.version_min, key.version_max + 1)
]


def heartbeat(client: Client, group_id: str = "g") -> None:
    client.ask(HeartbeatRequest(group_id, 3, "m-1"), ApiKey.HEARTBEAT, 4)


@pytest.mark.parametrize(("key", "version", "request_", "response"), EVERY_VERSION)
def test_bodies_are_handed_on_and_back(key: ApiKey, version: int, request_: Any, response: Any) -> None:
    world = group_world()
    client = world.client()
    client.ask(request_, key, version)
    (call,) = world.logstore.group_calls
    assert (call.api_key, call.api_version, call.partition) == (key, version, 0)
    assert bytes(call.body) == encode_body(request_, version)
    world.logstore.group_answer(response)
    assert encode_body(client.answers[-1], version) == encode_body(response, version)
    assert world.processor.request_memory.held_bytes == 0


@pytest.mark.parametrize("error", [15, 14, 16, 42])
@pytest.mark.parametrize(("key", "version", "request_", "response"), EVERY_VERSION)
def test_an_error_of_the_whole_call_is_said_as_the_client_knows_it(
    key: ApiKey, version: int, request_: Any, response: Any, error: int
) -> None:
    world = group_world()
    client = world.client()
    client.ask(request_, key, version)
    world.logstore.group_answer(error_code=error)
    assert client.answers[-1].error_code == error


@pytest.mark.parametrize(("key", "request_", "response", "module"), HANDED_ON)
def test_groups_have_to_be_allowed(
    key: ApiKey, request_: Any, response: Any, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deny_everything(monkeypatch)
    world = group_world()
    client = world.client()
    client.ask(request_, key, key.version_max)
    assert client.answers[-1].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert not world.logstore.group_calls


def test_a_sync_names_its_protocol_from_version_5_on() -> None:
    world = group_world()
    client = world.client()
    client.ask(SyncGroupRequest("g", 3, "m-1"), ApiKey.SYNC_GROUP, 5)
    assert client.answers[-1].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    client.ask(SyncGroupRequest("g", 3, "m-1"), ApiKey.SYNC_GROUP, 4)
    assert len(world.logstore.group_calls) == 1


def test_all_of_one_turn_goes_in_one_message() -> None:
    world = group_world()
    clients = [world.client() for _ in range(3)]
    for client in clients:
        data = client.frame(HeartbeatRequest("g", 3, "m-1"), ApiKey.HEARTBEAT, 4)
        world.processor.bytes_received(client.connection_id, data, world.now_ms)
    ((node_id, message),) = world.processor.take_outputs().coordinates
    assert (node_id, len(message.calls)) == (1, 3)
    assert len({call.request_id for call in message.calls}) == 3


def test_a_call_without_credit_waits_in_line() -> None:
    world = World(*group_world().processor.image.topics_by_name.values())
    world.logstore.down()
    world.logstore.up(Credit(1, 1 << 20))
    clients = [world.client() for _ in range(4)]
    for client in clients:
        heartbeat(client)
    assert len(world.logstore.group_calls) == 1
    clients[1].close()
    world.logstore.coordinate(CoordinateResponse(credit=Credit(1, 0)))
    assert len(world.logstore.group_calls) == 2
    world.logstore.coordinate(CoordinateResponse(credit=Credit(1, 0)))
    assert len(world.logstore.group_calls) == 3
    for _ in range(3):
        world.logstore.group_answer(LIVES)
    assert [len(client.answers) for client in clients] == [1, 0, 1, 1]


def test_bodies_spend_the_credit_of_bytes() -> None:
    world = group_world()
    world.logstore.down()
    world.logstore.up(Credit(100, 2 << 20))
    large = JoinGroupRequest("g", 1, 1, "", None, "consumer", [JoinGroupRequestProtocol("range", bytes(1 << 20))])
    clients = [world.client() for _ in range(4)]
    for client in clients:
        client.ask(large, ApiKey.JOIN_GROUP, 9)
    assert len(world.logstore.group_calls) == 1
    heartbeat(world.client())
    assert len(world.logstore.group_calls) == 1, "nothing overtakes"
    world.logstore.coordinate(CoordinateResponse(credit=Credit(0, 8 << 20)))
    assert len(world.logstore.group_calls) == 5


def test_what_was_sent_and_lost_may_have_been_done_and_the_rest_was_not() -> None:
    world = group_world()
    world.logstore.down()
    world.logstore.up(Credit(1, 1 << 20))
    sent, waiting, late = world.client(), world.client(), world.client()
    heartbeat(sent)
    heartbeat(waiting)
    world.logstore.down()
    heartbeat(late)
    errors = [client.answers[-1].error_code for client in (sent, waiting, late)]
    assert errors == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]


def test_a_coordinator_that_takes_too_long_is_not_waited_for() -> None:
    world = group_world()
    client = world.client()
    heartbeat(client)
    world.pass_ms(4_990)
    assert not client.answers
    world.pass_ms(50)
    assert client.answers[-1].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.logstore.group_answer(LIVES)
    assert len(client.answers) == 1, "the answer that comes late is dropped"


def test_a_client_that_is_gone_is_forgotten() -> None:
    world = group_world()
    client = world.client()
    heartbeat(client)
    client.close()
    world.logstore.group_answer(LIVES)
    assert world.processor.request_memory.held_bytes == 0
    assert world.processor.next_deadline_ms() is None


@pytest.mark.parametrize("answer", [GroupAnswer(0), GroupAnswer(0, wait=answer_to_wait())])
def test_an_answer_that_says_nothing_a_heartbeat_knows(answer: GroupAnswer) -> None:
    world = group_world()
    client = world.client()
    heartbeat(client)
    answer.request_id = world.logstore.group_calls[0].request_id
    world.logstore.coordinate(CoordinateResponse(answers=[answer]))
    assert client.answers[-1].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_group_id_of_all_that_a_string_holds() -> None:
    world = group_world(1, 1, 1)
    client = world.client()
    heartbeat(client, "g" * 32_767)
    assert world.logstore.group_request().group_id == "g" * 32_767


def test_a_body_that_is_not_whole_closes_the_connection() -> None:
    world = group_world()
    client = world.client()
    frame = client.frame(HEARTBEAT, ApiKey.HEARTBEAT, 4)[4:-3]
    client.send(len(frame).to_bytes(4, "big") + frame)
    assert client.is_closed
    assert not world.logstore.group_calls
