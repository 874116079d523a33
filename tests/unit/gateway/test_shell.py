"""The shell's parts that can be held without other processes: configuration, messages between processes, sockets."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

import msgspec
import pytest

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    Assignment,
    Broker,
    CreateTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewTopic,
    Purgatory,
    TopicReference,
    UpdateMetadata,
)
from barnabas.runtime.configuration.config import ConfigError, build_config
from barnabas_gateway.core.model.addresses import broker_address, broker_port, node_of_port
from barnabas_gateway.core.model.config import AddressPolicy
from barnabas_gateway.core.model.outputs import ControllerAnswer, ControllerRequest
from barnabas_gateway.core.model.request_context import ANY_NODE
from barnabas_gateway.shell import processor_ipc
from barnabas_gateway.shell.acceptor import Acceptor
from barnabas_gateway.shell.client_socket import ClientSocket
from barnabas_gateway.shell.config import GatewayProperties
from barnabas_gateway.shell.processors import Processors, full_update
from tests.unit.gateway.world import TOPIC_ID, topic


def properties(**keys: str) -> GatewayProperties:
    values = {"gateway.id": "g", "etcd.endpoints": "localhost:2379"}
    values |= {key.replace("_", "."): text for key, text in keys.items()}
    return build_config(GatewayProperties, {key: (text, "test") for key, text in values.items()})


# --- configuration ---


def test_what_is_advertised_to_clients_per_listener() -> None:
    config = properties(
        listeners="IN://10.0.0.5:9092,OUT://0.0.0.0:0",
        listener_security_protocol_map="IN:PLAINTEXT,OUT:PLAINTEXT",
        advertised_listeners="OUT://kafka.example:443",
        advertised_address_policy="shared",
        auto_create_topics_enable="false",
    ).core_config({"IN": 9092, "OUT": 31337})
    reported = [(each.name, each.advertised_host, each.advertised_port) for each in config.listeners]
    assert reported == [("IN", "10.0.0.5", 9092), ("OUT", "kafka.example", 443)]
    assert config.address_policy is AddressPolicy.SHARED
    assert config.auto_create_topics is False


@pytest.mark.parametrize(("slots", "processors", "share"), [(1000, 3, 334), (2, 3, 1), (0, 3, 0)])
def test_each_processor_has_its_share_of_the_fetch_sessions(slots: int, processors: int, share: int) -> None:
    config = properties(
        max_incremental_fetch_session_cache_slots=str(slots), num_network_threads=str(processors)
    ).core_config({"PLAINTEXT": 9092})
    assert config.fetch_session_slots == share


@pytest.mark.parametrize("node_id", [ANY_NODE, 0, 7])
def test_a_port_tells_whose_it_is(node_id: int) -> None:
    per_broker, shared = AddressPolicy.PER_BROKER_PORT, AddressPolicy.SHARED
    port = 9092 if node_id == ANY_NODE else broker_port(per_broker, 9092, node_id)
    assert node_of_port(per_broker, 9092, port) == node_id
    assert node_of_port(shared, 9092, broker_port(shared, 9092, max(0, node_id))) == ANY_NODE


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("broker-{id}.prod.svc", [("broker-0.prod.svc", 9093), ("broker-12.prod.svc", 9105)]),
        ("kafka.example.com", [("kafka.example.com", 9093), ("kafka.example.com", 9105)]),
    ],
)
def test_each_broker_may_have_a_host_of_its_own(host: str, addresses: list[tuple[str, int]]) -> None:
    keys = {"listeners": ["PLAINTEXT://0.0.0.0:9092"], "advertised_listeners": [f"PLAINTEXT://{host}:9092"]}
    (listener,) = GatewayProperties(etcd_endpoints=["etcd:2379"], **keys).core_config({"PLAINTEXT": 9092}).listeners
    brokers = [Broker(0, "logstore-0:9300", 1), Broker(12, "logstore-12:9300", 1)]
    found = [broker_address(AddressPolicy.PER_BROKER_PORT, listener, broker) for broker in brokers]
    assert [(each.node_id, each.host, each.port) for each in found] == [(0, *addresses[0]), (12, *addresses[1])]


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners"),
        ({"listeners": "localhost:9092"}, "NAME://host:port"),
        ({"listeners": "A://h:1,A://h:2"}, "once"),
        ({"listeners": "A://h:99999"}, "NAME://host:port"),
        ({"advertised_listeners": "B://h:1"}, "not in listeners"),
        ({"num_network_threads": "0"}, "num.network.threads"),
        ({"advertised_address_policy": "nearest"}, "advertised.address.policy"),
        ({"etcd_prefix": "/barnabas"}, "etcd.prefix"),
    ],
)
def test_configuration_errors_name_the_key(keys: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        properties(**keys)


@pytest.mark.parametrize(
    ("listener", "protocols", "line"),
    [
        ("SSL://h:1", "", "listener SSL: ssl.keystore.location is needed"),
        ("SASL_SSL://h:1", "", "sasl.enabled.mechanisms is needed for SASL_SSL"),
        ("SASL_PLAINTEXT://h:1", "", "sasl.enabled.mechanisms is needed for SASL_PLAINTEXT"),
        ("OUT://h:1", "OUT:SSL", "listener OUT: ssl.keystore.location is needed"),
        ("PLAINTEXT://h:1", "PLAINTEXT:SSL", "listener PLAINTEXT: ssl.keystore.location is needed"),
        ("OUT://h:1", "IN:PLAINTEXT", "listener.security.protocol.map is needed for OUT: OUT:PLAINTEXT"),
        (
            "OUT://h:1",
            "OUT:TLS",
            "map=OUT:TLS: expected NAME:PROTOCOL, one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        ("OUT://h:1", "PLAINTEXT", "map=PLAINTEXT: expected NAME:PROTOCOL"),
    ],
)
def test_no_listener_is_less_protected_than_its_name_says(listener: str, protocols: str, line: str) -> None:
    """Any name was served in clear text, `SSL://…` too."""
    with pytest.raises(ConfigError, match=line):
        properties(listeners=listener, listener_security_protocol_map=protocols)


def test_a_name_may_be_mapped_to_plaintext() -> None:
    assert properties(listeners="SSL://h:1", listener_security_protocol_map="SSL:PLAINTEXT").bound_listeners()


# --- messages between acceptor and processors ---


def test_settings_pass_between_processes() -> None:
    settings = processor_ipc.ProcessorSettings(2, properties(), {"PLAINTEXT": 9092})
    assert msgspec.json.decode(msgspec.json.encode(settings), type=processor_ipc.ProcessorSettings) == settings


@pytest.mark.parametrize(
    "request_",
    [
        CreateTopicsRequest([NewTopic("t", 3, -1, [Assignment(0, [1, 2])], {"a": "b"})], 1000, True),
        DeleteTopicsRequest([TopicReference("t", bytes(16)), TopicReference("", TOPIC_ID)], 1000),
        AllocateProducerIdsRequest("gateway-0"),
    ],
)
def test_calls_pass_between_processes(request_: ControllerRequest) -> None:
    assert processor_ipc.decode_call(processor_ipc.encode_call(7, request_)) == (7, request_, b"")
    trace = bytes(range(24))
    assert processor_ipc.decode_call(processor_ipc.encode_call(7, request_, trace)) == (7, request_, trace)


@pytest.mark.parametrize(
    "answer",
    [
        CreateTopicsResponse([CreateTopicResult("t", TOPIC_ID, 0, "", 1, 1, {"a": "b"})], 9),
        DeleteTopicsResponse([DeleteTopicResult("t", TOPIC_ID, 3, "no")], -1),
        AllocateProducerIdsResponse(0, 1000, 1000),
        None,
    ],
)
def test_answers_pass_between_processes(answer: ControllerAnswer | None) -> None:
    assert processor_ipc.decode_answer(processor_ipc.encode_answer(1 << 40, answer)) == (1 << 40, answer)


def test_metadata_revisions_and_ids_pass_between_processes() -> None:
    update = UpdateMetadata(
        5, True, "c", 1, [Broker(1, "h:1", 7, "r")], [Purgatory("p", "h:2")], [topic()], [b"x" * 16]
    )
    assert processor_ipc.decode_metadata(processor_ipc.encode_metadata(update)) == update
    assert processor_ipc.decode_revision(processor_ipc.encode_revision(-1)) == -1
    assert processor_ipc.decode_ids(processor_ipc.encode_ids([1, 1 << 40])) == (1, 1 << 40)


def test_a_processor_that_starts_late_gets_the_same_image() -> None:
    image, late = ClusterImage(), ClusterImage()
    image.apply(UpdateMetadata(5, True, "c", 1, [Broker(1, "h:1", 7)], [Purgatory("p", "h:2")], [topic()]))
    image.apply(UpdateMetadata(6, False, "c", 1, [Broker(1, "h:1", 7)], [], [topic("u", b"u" * 16)]))
    assert late.apply(full_update(image))
    assert (late.revision, late.brokers, late.purgatories) == (6, image.brokers, [])
    assert late.topics_by_id == image.topics_by_id


# --- sockets ---


class Owner:
    def __init__(self) -> None:
        self.received = b""
        self.unsent: list[int] = []
        self.lost = asyncio.Event()
        self.changed = asyncio.Event()

    def bytes_received(self, connection_id: int, data: bytes) -> None:
        self.received += data
        self.changed.set()

    def unsent_changed(self, connection_id: int, unsent_bytes: int) -> None:
        self.unsent.append(unsent_bytes)
        self.changed.set()

    def socket_lost(self, connection_id: int) -> None:
        self.lost.set()


def joined() -> tuple[Owner, ClientSocket, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    theirs.setblocking(False)
    owner = Owner()
    return owner, ClientSocket(1, ours, owner), theirs


async def receive(theirs: socket.socket, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    received = b""
    while len(received) < size:
        part = await loop.sock_recv(theirs, 65536)
        if not part:
            break
        received += part
    return received


async def test_what_a_client_does_not_take_is_kept_in_order_and_counted() -> None:
    owner, client, theirs = joined()
    buffers = [bytes([index % 256]) * 1000 for index in range(2_000)]
    client.write(list(buffers))
    assert client.unsent_bytes > 1_000_000
    client.write([b"last"])
    whole = b"".join(buffers) + b"last"
    assert await receive(theirs, len(whole)) == whole
    while client.unsent_bytes:
        await owner.changed.wait()
    assert owner.unsent == sorted(owner.unsent, reverse=True)
    assert owner.unsent[-1] == 0
    client.abort()
    theirs.close()


async def test_a_close_lets_out_what_was_written() -> None:
    _, client, theirs = joined()
    client.write([bytes(1_000_000)])
    client.close()
    assert len(await receive(theirs, 1_000_001)) == 1_000_000
    theirs.close()


async def test_reading_pauses_and_resumes() -> None:
    owner, client, theirs = joined()
    client.pause()
    theirs.send(b"one")
    await asyncio.sleep(0.01)
    assert owner.received == b""
    client.resume()
    await owner.changed.wait()
    assert owner.received == b"one"
    client.abort()
    theirs.close()


async def test_a_client_that_hangs_up_is_lost_once() -> None:
    owner, client, theirs = joined()
    theirs.close()
    await owner.lost.wait()
    client.write([b"too late"])
    client.close()
    assert client.unsent_bytes == 0


async def test_a_client_that_hangs_up_with_answers_on_their_way_is_lost() -> None:
    owner, client, theirs = joined()
    client.pause()
    client.write([bytes(1_000_000)])
    theirs.close()
    await owner.lost.wait()
    assert client.unsent_bytes == 0


class HandedOver:
    """In the place of the processors."""

    def __init__(self) -> None:
        self.socket: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()

    def has_live(self) -> bool:
        return True

    def hand_over(self, accepted: socket.socket, *_: object) -> None:
        self.socket.set_result(accepted)


async def send_buffer_of_a_connection(**keys: str) -> int:
    """Return the size of its send buffer at the gateway; Linux doubles what is set, for its own bookkeeping."""
    handed_over = HandedOver()
    acceptor = Acceptor(properties(listeners="PLAINTEXT://127.0.0.1:0", **keys))
    acceptor.start(cast("Processors", handed_over))
    try:
        with (
            socket.create_connection(("127.0.0.1", acceptor.bound_ports["PLAINTEXT"])),
            await asyncio.wait_for(handed_over.socket, 10) as accepted,
        ):
            return accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    finally:
        acceptor.stop()


async def test_connections_have_the_configured_send_buffer() -> None:
    assert await send_buffer_of_a_connection(socket_send_buffer_bytes="65536") == 2 * 65536


async def test_a_send_buffer_of_minus_1_is_the_systems() -> None:
    with socket.socket() as plain:
        default = plain.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    own = await send_buffer_of_a_connection(socket_send_buffer_bytes="65536")
    systems = await send_buffer_of_a_connection(socket_send_buffer_bytes="-1")
    assert systems >= default
    assert systems != own
