"""Long-lived streams over real loopback servers: up once, down once, reconnect, heartbeats, silence, slow readers.

Each test runs on gRPC alone and by a lane.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import grpc
import grpc.aio
import pytest

from barnabas.channel.generated.packing import MalformedMessage
from barnabas.cluster.keys import Role
from barnabas.runtime import conversation, streams
from barnabas.runtime.rpc import Options, create_channel, create_server
from barnabas.runtime.streams import PENDING_BYTES_MAX, ServerStream, StreamLink, register_stream

SERVICE, METHOD = "barnabas.test.v1.Echo", "Talk"
PATH = f"/{SERVICE}/{METHOD}"


async def until(condition: Callable[[], object]) -> None:
    """Wait as long as the test's own timeout lets it."""
    while not condition():
        await asyncio.sleep(0.005)


@pytest.fixture(autouse=True, params=["gRPC", "lane"])
def by_lane(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setenv("BARNABAS_LANE", "on" if request.param == "lane" else "off")
    return bool(request.param == "lane")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats and silence in a tenth of their time; so is what counts as standing still, on a busy machine."""
    monkeypatch.setattr(conversation, "HEARTBEAT_MS", 50)
    monkeypatch.setattr(conversation, "SILENCE_MS_MAX", 300)
    monkeypatch.setattr(conversation, "_LATENESS_MS_MAX", 50)


class Echo:
    """Welcomes the hello, echoes the rest, and remembers everything."""

    def __init__(self, stream: ServerStream) -> None:
        self.stream = stream
        self.received: list[bytes] = []
        self.closed: list[str] = []

    def on_message(self, data: bytes) -> None:
        self.received.append(data)
        match data:
            case b"hello":
                self.stream.send(b"welcome")
            case b"fail":
                raise RuntimeError("a bug")
            case b"malformed":
                raise MalformedMessage("not a message")
            case b"close":
                self.stream.close("as asked")
            case _ if not data.startswith(b"heartbeat"):
                self.stream.send(data)

    def on_closed(self, reason: str) -> None:
        self.closed.append(reason)

    def pack_heartbeat(self, count: int) -> bytes:
        return b"heartbeat %d" % count


class Served:
    """A server with what its streams are handled by."""

    def __init__(self) -> None:
        self.handlers: list[Echo] = []
        self.handler_type = Echo
        self.address = ""
        self.server: grpc.aio.Server | None = None

    def open_stream(self, stream: ServerStream) -> Echo:
        self.handlers.append(self.handler_type(stream))
        return self.handlers[-1]

    async def start(self, address: str = "127.0.0.1:0", pending_bytes_max: int = PENDING_BYTES_MAX) -> None:
        self.server, port = create_server(address)
        register_stream(self.server, SERVICE, METHOD, self.open_stream, pending_bytes_max=pending_bytes_max)
        await self.server.start()
        self.address = f"127.0.0.1:{port}"

    async def stop(self) -> None:
        if self.server is not None:
            await self.server.stop(0)
            self.server = None


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    served = Served()
    await served.start()
    yield served
    await served.stop()


class Client:
    """A link that remembers what it was called with."""

    def __init__(self, address: str) -> None:
        self.calls: list[tuple[str, str]] = []
        self.link = StreamLink(
            address,
            PATH,
            hello=b"hello",
            pack_heartbeat=lambda count: b"heartbeat %d" % count,
            on_up=lambda data: self.calls.append(("up", data.decode())),
            on_message=lambda data: self.calls.append(("message", data.decode())),
            on_down=lambda reason: self.calls.append(("down", reason)),
        )

    def count(self, kind: str) -> int:
        return sum(1 for call in self.calls if call[0] == kind)

    def messages(self) -> list[str]:
        return [text for kind, text in self.calls if kind == "message" and not text.startswith("heartbeat")]


@asynccontextmanager
async def linked(address: str) -> AsyncIterator[Client]:
    client = Client(address)
    client.link.start()
    try:
        yield client
    finally:
        await client.link.close()


async def test_the_first_message_brings_a_link_up_and_the_rest_come_in_order(served: Served, by_lane: bool) -> None:
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        assert client.calls == [("up", "welcome")]
        for number in range(500):
            client.link.send(b"%d" % number)
        assert by_lane or client.link.pending_bytes > 0
        await until(lambda: len(client.messages()) == 500)
        assert client.messages() == [str(number) for number in range(500)]
        assert client.link.pending_bytes == 0
        assert served.handlers[0].received[0] == b"hello"


async def test_a_message_of_many_megabytes_passes(served: Served) -> None:
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        client.link.send(b"x" * (20 << 20))
        await until(client.messages)
        assert len(client.messages()[0]) == 20 << 20


async def test_closing_a_link_calls_down_once_and_closes_the_stream(served: Served) -> None:
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
    assert client.count("down") == 1
    assert not client.link.up
    client.link.send(b"dropped")
    await until(lambda: served.handlers[0].closed)
    assert len(served.handlers[0].closed) == 1


@contextmanager
def refusing() -> Iterator[str]:
    """An address that refuses connections and that no other process can take."""
    with socket.socket() as placeholder:
        placeholder.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{placeholder.getsockname()[1]}"


async def test_a_link_that_never_was_up_is_closed_without_down() -> None:
    with refusing() as address:
        async with linked(address) as client:
            await asyncio.sleep(0.01)
    assert client.calls == []


async def test_a_refused_connection_is_tried_until_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[str] = []

    def counted(address: str, server: Role | None, *, options: Options) -> grpc.aio.Channel:
        attempts.append(address)
        return create_channel(address, server, options=options)

    monkeypatch.setattr(streams, "create_channel", counted)
    served = Served()
    with refusing() as address:
        client = Client(address)
        client.link.start()
        await until(lambda: len(attempts) >= 4)
        assert client.calls == []
    await served.start(address)
    await until(lambda: client.link.up)
    await client.link.close()
    await served.stop()


async def test_every_up_has_one_down_over_restarts_of_the_server(served: Served) -> None:
    async with linked(served.address) as client:
        for restart in range(1, 4):
            await until(lambda: client.link.up)
            await served.stop()
            await until(lambda restart=restart: client.count("down") == restart)  # type: ignore[misc]
            client.link.send(b"dropped while down")
            await served.start(served.address)
        await until(lambda: client.link.up)
        client.link.send(b"alive")
        await until(client.messages)
    kinds = [kind for kind, _ in client.calls if kind != "message"]
    assert kinds == ["up", "down"] * 4
    assert client.messages() == ["alive"]


async def test_the_servers_reason_reaches_the_client(served: Served) -> None:
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        client.link.send(b"close")
        await until(lambda: client.count("down"))
        assert ("down", "UNAVAILABLE: as asked") in client.calls
        assert served.handlers[0].closed == ["as asked"]


@pytest.mark.parametrize(
    ("message", "reason"), [(b"fail", "RuntimeError: a bug"), (b"malformed", "malformed message: not a message")]
)
async def test_a_handler_that_fails_ends_its_stream_and_no_other(served: Served, message: bytes, reason: str) -> None:
    async with linked(served.address) as failing, linked(served.address) as other:
        await until(lambda: failing.link.up and other.link.up)
        failing.link.send(message)
        await until(lambda: failing.count("up") == 2)
        other.link.send(b"unharmed")
        await until(other.messages)
        assert other.count("down") == 0
    assert [reason] in [handler.closed for handler in served.handlers]


async def test_a_failing_callback_of_the_client_ends_its_stream(served: Served) -> None:
    failures: list[str] = []

    def on_message(data: bytes) -> None:
        raise MalformedMessage(data.decode())

    link = StreamLink(
        served.address,
        PATH,
        hello=b"hello",
        pack_heartbeat=lambda count: b"heartbeat",
        on_up=lambda data: link.send(b"nonsense"),
        on_message=on_message,
        on_down=failures.append,
    )
    link.start()
    await until(lambda: len(failures) >= 2)
    await link.close()
    assert failures[0] == "malformed message: nonsense"


async def test_a_link_can_be_reset_by_its_owner(served: Served) -> None:
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        client.link.reset("another epoch")
        await until(lambda: client.count("up") == 2)
        assert ("down", "another epoch") in client.calls


@pytest.mark.usefixtures("quick")
async def test_idle_sides_send_heartbeats_and_live_on(served: Served) -> None:
    async with linked(served.address) as client:
        await until(lambda: client.count("message") >= 8)
        await until(lambda: len(served.handlers[0].received) >= 8)
        assert client.count("down") == 0
        assert client.calls[1] == ("message", "heartbeat 1")
        assert served.handlers[0].received[1] == b"heartbeat 1"


@pytest.mark.usefixtures("quick")
async def test_a_silent_server_is_dead_and_asked_again() -> None:
    async def mute(_requests: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        await context.write(b"welcome")
        await asyncio.sleep(3600)

    server, port = create_server("127.0.0.1:0")
    handlers = {METHOD: grpc.stream_stream_rpc_method_handler(mute)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    await server.start()
    async with linked(f"127.0.0.1:{port}") as client:
        await until(lambda: client.count("up") == 2)
        assert client.calls[1] == ("down", "the peer was silent for 300 ms")
    await server.stop(0)


@pytest.mark.usefixtures("quick")
async def test_a_silent_client_is_dead(served: Served) -> None:
    channel = create_channel(served.address, None)
    call = channel.stream_stream(PATH, None, None)(None)
    await call.write(b"hello")
    await until(lambda: served.handlers and served.handlers[0].closed)
    assert served.handlers[0].closed == ["the peer was silent for 300 ms"]
    await channel.close(None)


@pytest.mark.usefixtures("quick")
async def test_time_in_which_this_process_did_not_run_is_not_the_peers_silence(served: Served) -> None:
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        time.sleep(1)  # noqa: ASYNC251 - the loop is to stand still
        client.link.send(b"still here")
        await until(client.messages)
        assert client.count("down") == 0


async def test_a_client_that_never_reads_is_closed_when_too_much_waits_for_it() -> None:
    served = Served()
    await served.start(pending_bytes_max=64 << 20)
    channel = create_channel(served.address, None)
    call = channel.stream_stream(PATH, None, None)(None)
    await call.write(b"hello")
    await until(lambda: served.handlers)
    handler = served.handlers[0]
    while not handler.closed:
        handler.stream.send(b"x" * (8 << 20))
        assert handler.stream.pending_bytes <= 64 << 20
        await asyncio.sleep(0)
    assert "reads too slowly" in handler.closed[0]
    assert handler.stream.pending_bytes == 0
    await channel.close(None)
    await served.stop()


async def test_one_message_above_the_bound_passes_when_nothing_else_waits() -> None:
    served = Served()
    await served.start(pending_bytes_max=1000)
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        client.link.send(b"x" * 5000)
        await until(client.messages)
        assert client.count("down") == 0
    await served.stop()


@pytest.mark.usefixtures("quick")
async def test_a_paused_stream_reads_nothing_keeps_everything_and_stays_alive(served: Served, by_lane: bool) -> None:
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        handler = served.handlers[0]
        handler.stream.pause()
        client.link.send(b"first")
        # gRPC was reading when the stream was paused.
        await until(lambda: by_lane or b"first" in handler.received)
        for number in range(100):
            client.link.send(b"%d" % number)
        # Longer than silence may last: heartbeats of the client are not read, those of the server still come.
        await asyncio.sleep(0.5)
        assert b"0" not in handler.received
        handler.stream.resume()
        await until(lambda: len(client.messages()) == 101)
        assert client.messages() == ["first", *map(str, range(100))]
        assert client.count("down") == 0


async def test_stopping_the_server_closes_its_streams(served: Served) -> None:
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        await served.stop()
        await until(lambda: served.handlers[0].closed)
        assert len(served.handlers[0].closed) == 1


class Slow(Echo):
    """Works on each message over some turns of the loop before it remembers it."""

    def on_message(self, data: bytes) -> Awaitable[None] | None:
        if data.startswith(b"slow"):
            return self._work(data)
        super().on_message(data)
        return None

    async def _work(self, data: bytes) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        super().on_message(data)


class VerySlow(Slow):
    async def _work(self, data: bytes) -> None:
        await asyncio.sleep(3 * conversation.SILENCE_MS_MAX / 1000)
        await super()._work(data)


async def test_a_message_waits_until_the_one_before_is_handled(served: Served) -> None:
    served.handler_type = Slow
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        sent = ["slow 1", "2", "slow 3", "4", "5"]
        for each in sent:
            client.link.send(each.encode())
        await until(lambda: len(client.messages()) == len(sent))
        assert client.messages() == sent


@pytest.mark.usefixtures("quick")
async def test_a_peer_is_not_silent_while_its_message_is_worked_on(served: Served) -> None:
    served.handler_type = VerySlow
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        client.link.send(b"slow")
        await until(client.messages)
        assert client.count("up") == 1


async def test_a_message_that_is_packed_when_its_turn_has_come_keeps_its_place(served: Served) -> None:
    async def packed() -> bytes:
        for _ in range(20):
            await asyncio.sleep(0)
        return b"large"

    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        client.link.send(b"1")
        client.link.send_when_packed(packed)
        client.link.send(b"2")
        await until(lambda: len(client.messages()) == 3)
        assert client.messages() == ["1", "large", "2"]
        served.handlers[0].stream.send_when_packed(packed)
        served.handlers[0].stream.send(b"3")
        await until(lambda: len(client.messages()) == 5)
        assert client.messages()[3:] == ["large", "3"]


async def test_a_message_that_is_still_to_be_packed_is_dropped_with_its_stream(served: Served) -> None:
    never: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        client.link.send_when_packed(lambda: never)
        client.link.send(b"1")
        client.link.reset("for the test")
        await until(lambda: client.count("up") == 2)
        client.link.send(b"2")
        await until(lambda: client.messages() == ["2"])
