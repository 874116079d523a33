"""A connection: the order of its answers, barriers, limits, bad input, throttling, draining."""

from __future__ import annotations

import struct

import pytest

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas_gateway.core.backends.append_router import AppendRouter
from barnabas_gateway.core.connections.connection import ResponseKind
from barnabas_gateway.core.model.containment import REQUEST
from tests.unit.gateway.world import Client, World, topic

VERSIONS = ApiVersionsRequest("client", "1.0")


def ask_versions(client: Client) -> None:
    client.ask(VERSIONS, ApiKey.API_VERSIONS, 3)


# --- order ---


def test_answers_leave_in_the_order_of_the_requests() -> None:
    world = World(topic(leaders=(1, 2)), nodes=(1, 2))
    client = world.client()
    client.produce(0)
    client.produce(1)
    world.logstores[2].append_result()
    assert client.correlation_ids == []
    world.logstores[1].append_result()
    assert client.correlation_ids == [1, 2]


def test_a_barrier_waits_for_all_before_it_and_holds_up_all_after_it() -> None:
    world = World(pods=("p-0",))
    client = world.client()
    client.produce(0)
    ask_versions(client)
    client.produce(0)
    assert client.correlation_ids == []
    assert len(world.logstore.appends) == 1
    world.logstore.append_result()
    assert client.correlation_ids == [1, 2]
    assert len(world.logstore.appends) == 1, "the one after the barrier"


@pytest.mark.parametrize("produce_first", [True, False])
def test_a_run_of_produce_and_a_run_of_fetch_do_not_overlap(produce_first: bool) -> None:
    world = World()
    client = world.client()
    if produce_first:
        client.produce(0)
        client.fetch(0)
        assert (len(world.logstore.appends), len(world.logstore.reads)) == (1, 0)
        world.logstore.append_result()
        assert len(world.logstore.reads) == 1
    else:
        client.fetch(0)
        client.produce(0)
        assert (len(world.logstore.appends), len(world.logstore.reads)) == (0, 1)
        world.logstore.read_result(b"x")
        assert len(world.logstore.appends) == 1


def test_a_waiting_controller_call_is_a_barrier() -> None:
    world = World()
    client = world.client()
    client.ask(MetadataRequest([], True), ApiKey.METADATA, 9)
    assert client.correlation_ids == [1]
    client.ask(MetadataRequest([MetadataRequestTopic(name="new")], True), ApiKey.METADATA, 9)
    ask_versions(client)
    assert client.correlation_ids == [1]
    world.controller_answers(None)
    assert client.correlation_ids == [1, 2, 3]


def test_requests_of_the_same_key_are_barriers_too() -> None:
    world = World()
    client = world.client()
    for name in ("one", "two"):
        client.ask(MetadataRequest([MetadataRequestTopic(name=name)], True), ApiKey.METADATA, 9)
    assert len(world.calls) == 1
    world.controller_answers(None)
    assert len(world.calls) == 1, "the second one's"


# --- limits ---


def test_requests_in_flight_are_bounded() -> None:
    world = World(connection_requests_max=3)
    client = world.client()
    for _ in range(5):
        client.produce(0)
    assert len(world.logstore.appends) == 3
    assert client.is_paused
    for _ in range(5):
        world.logstore.append_result()
    assert len(client.answers) == 5
    assert not client.is_paused


def test_a_client_that_reads_no_answers_is_not_read_either() -> None:
    world = World(connection_unsent_bytes_max=100)
    client = world.client()
    ask_versions(client)
    client.leave_unread(101)
    assert client.is_paused
    ask_versions(client)
    assert len(client.answers) == 1
    client.leave_unread(0)
    assert not client.is_paused
    assert len(client.answers) == 2


def test_queued_frames_behind_a_barrier_pause_the_connection() -> None:
    world = World(connection_queued_bytes_max=100)
    client = world.client()
    client.fetch(0)
    for _ in range(3):
        client.produce(0)
    assert client.is_paused
    world.logstore.read_result(b"x")
    assert not client.is_paused
    assert len(world.logstore.appends) == 3


def test_request_memory_pauses_who_sends_and_one_may_finish() -> None:
    world = World(queued_request_bytes_max=1000)
    first, second, small = world.client(), world.client(), world.client()
    half = struct.pack(">i", 2000) + struct.pack(">hhih", ApiKey.PRODUCE, 9, 1, -1)
    first.send(half + bytes(1200))
    assert not first.is_paused, "it may finish its frame"
    second.send(half + bytes(200))
    assert second.is_paused
    first.close()
    assert not second.is_paused
    ask_versions(small)
    assert len(small.answers) == 1


def test_request_memory_is_given_back() -> None:
    world = World()
    client = world.client()
    for _ in range(3):
        client.produce(0)
        world.logstore.append_result()
    ask_versions(client)
    client.fetch(0)
    client.produce(0)
    assert world.processor.request_memory.held_bytes > 0
    client.send(b"\0\0")
    client.close()
    assert world.processor.request_memory.held_bytes == 0


def test_idle_connections_are_closed() -> None:
    world = World(connection_idle_ms_max=1000)
    idle, polling = world.client(), world.client()
    world.pass_ms(600)
    polling.fetch(0, max_wait_ms=10_000)
    world.pass_ms(600)
    assert idle.is_closed
    assert not polling.is_closed
    world.pass_ms(5000)
    assert not polling.is_closed, "it waits for an answer"


def test_two_thousand_idle_connections_hold_next_to_nothing() -> None:
    world = World()
    clients = [world.client() for _ in range(2000)]
    for client in clients:
        client.send(b"\0")
    assert world.processor.request_memory.held_bytes == 2000
    ask_versions(world.client())
    assert world.clients[2001].answers
    world.pass_ms(world.processor.config.connection_idle_ms_max + 100)
    assert all(client.is_closed for client in clients)
    assert world.processor.request_memory.held_bytes == 0


# --- bad input ---


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">i", -1), id="a length of -1"),
        pytest.param(struct.pack(">i", 0x7FFFFFFF), id="a length of 2^31-1"),
        pytest.param(struct.pack(">i", 0), id="an empty frame"),
        pytest.param(struct.pack(">ihhi", 8, 0, 3, 1)[:11] + b"\0", id="a header that ends early"),
        pytest.param(struct.pack(">ihhi", 8, 999, 0, 1), id="an unknown API key"),
        pytest.param(struct.pack(">ihhi", 8, 4, 0, 1), id="a key of the control channel"),
        pytest.param(struct.pack(">ihhihi", 14, ApiKey.METADATA, 1, 7, -1, 0x7FFFFFFF), id="a count of 2^31-1"),
        pytest.param(struct.pack(">ihhih", 10, ApiKey.METADATA, 99, 7, -1), id="an unknown version"),
        pytest.param(struct.pack(">ihhihi", 14, ApiKey.PRODUCE, 9, 7, -1, -5), id="a body of nonsense"),
    ],
)
def test_bad_input_closes_that_connection_with_one_line(data: bytes) -> None:
    world = World()
    bad, good = world.client(), world.client()
    good.produce(0)
    bad.send(data)
    assert bad.is_closed
    assert len(world.logs) == 1
    assert {"connection_id", "listener", "principal", "peer", "reason"} <= world.logs[0].fields.keys()
    world.logstore.append_result()
    assert good.error_codes() == [[0]]
    assert not good.is_closed


def test_a_client_with_tls_on_a_listener_without_it_is_named_as_one() -> None:
    """Its line was about a frame of 369 million bytes."""
    world = World()
    client = world.client()
    client.send(bytes.fromhex("16030102000100"))
    assert client.is_closed
    assert world.logs[0].fields["reason"] == "a handshake of TLS, on a listener without TLS"


def test_the_line_names_the_request() -> None:
    world = World()
    client = world.client()
    client.send(struct.pack(">ihhih", 10, ApiKey.METADATA, 99, 7, -1))
    fields = world.logs[0].fields
    assert (fields["api_key"], fields["api_version"], fields["correlation_id"]) == (ApiKey.METADATA, 99, 7)
    assert fields["principal"] == "User:ANONYMOUS"


def test_half_a_frame_waits_for_its_other_half() -> None:
    world = World()
    client = world.client()
    frame = client.frame(VERSIONS, ApiKey.API_VERSIONS, 3)
    client.send(frame[:9])
    assert not client.answers
    client.send(frame[9:])
    assert client.correlation_ids == [1]


def test_a_client_at_one_byte_at_a_time() -> None:
    world = World()
    client = world.client()
    for byte in client.frame(VERSIONS, ApiKey.API_VERSIONS, 3):
        assert not client.answers
        client.send(bytes([byte]))
    assert client.correlation_ids == [1]


def test_what_comes_after_the_end_is_ignored() -> None:
    world = World()
    client = world.client()
    client.send(struct.pack(">i", -1))
    client.send(struct.pack(">i", -1))
    client.close()
    assert len(world.logs) == 1


def test_a_fault_of_ours_costs_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    client, other = world.client(), world.client()
    monkeypatch.setattr(AppendRouter, "submit_append", lambda *_: 1 // 0)
    world.expects_fault = True
    client.produce(0)
    assert client.is_closed
    (report,) = world.contained
    assert (report.place, report.fields["correlation_id"]) == (REQUEST, 1)
    assert "ZeroDivisionError" in report.traceback
    ask_versions(other)
    assert other.answers


# --- ApiVersions ---


def test_an_unknown_version_of_api_versions_is_answered_in_v0() -> None:
    world = World()
    client = world.client()
    client.send(struct.pack(">ihhihbbb", 13, ApiKey.API_VERSIONS, 99, 7, -1, 0, 1, 1))
    answer = client.answers[0]
    assert client.correlation_ids == [7]
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys] == [(18, 0, 4)]
    assert not client.is_closed


# --- the five kinds of response ---


def test_throttling_mutes_until_its_end_and_lets_answers_out() -> None:
    world = World()
    client = world.client()
    client.produce(0)
    connection = world.processor.connections.find_connection(client.connection_id)
    assert connection is not None
    world.processor.responder.throttle(connection, 100)
    world.turn()
    assert client.is_paused
    world.logstore.append_result()
    assert len(client.answers) == 1
    ask_versions(client)
    world.pass_ms(50)
    assert len(client.answers) == 1
    world.pass_ms(100)
    assert len(client.answers) == 2
    assert not client.is_paused


def test_two_throttles_end_apart() -> None:
    world = World()
    client = world.client()
    connection = world.processor.connections.find_connection(client.connection_id)
    assert connection is not None
    world.processor.responder.steer(connection, ResponseKind.START_THROTTLING)
    world.processor.responder.steer(connection, ResponseKind.START_THROTTLING)
    world.processor.responder.steer(connection, ResponseKind.END_THROTTLING)
    ask_versions(client)
    assert not client.answers
    world.processor.responder.steer(connection, ResponseKind.END_THROTTLING)
    world.turn()
    assert client.answers


# --- draining ---


def test_draining_lets_answers_out_and_closes() -> None:
    world = World()
    idle, busy = world.client(), world.client()
    busy.produce(0)
    world.processor.drain(world.now_ms)
    world.turn()
    assert idle.is_closed
    assert not busy.is_closed
    assert busy.is_paused
    assert not world.processor.is_drained()
    world.logstore.append_result()
    assert busy.error_codes() == [[0]]
    assert busy.is_closed
    assert world.processor.is_drained()
