"""Which streams take a lane, which stay on gRPC, and what becomes of a stream whose lane is lost."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from barnabas.runtime import conversation, lane_offers, streams
from barnabas.runtime.lane import Lane
from barnabas.runtime.rpc import create_channel
from barnabas.runtime.stream_meter import STREAMS
from barnabas.runtime.streams import ServerStream
from barnabas_protos.lane.v1.lane_pb2 import LaneOffer
from tests.unit.runtime.test_streams import PATH, Echo, Served, linked, until


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory for sockets, and counters at 0."""
    home = tmp_path / "lanes"
    monkeypatch.setenv("BARNABAS_LANE_DIRECTORY", str(home))
    monkeypatch.setenv("BARNABAS_LANE", "on")
    for name in ("lanes_opened", "lanes_refused", "lanes_lost"):
        monkeypatch.setattr(STREAMS, name, Counter())
    return home


@pytest.fixture
def lanes(monkeypatch: pytest.MonkeyPatch) -> list[Lane]:
    """Every lane of this process, in the order in which they began."""
    begun: list[Lane] = []

    def begin(*arguments: object) -> Lane:
        begun.append(Lane(*arguments))  # type: ignore[arg-type]
        return begun[-1]

    monkeypatch.setattr(conversation, "Lane", begin)
    return begun


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    served = Served()
    await served.start()
    yield served
    await served.stop()


def sockets_in(home: Path) -> list[Path]:
    return sorted(home.iterdir())


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def is_closed(stranger: socket.socket) -> bool:
    try:
        return not await asyncio.get_running_loop().sock_recv(stranger, 1)
    except ConnectionResetError:
        return True


def opened_refused_lost() -> tuple[int, int, int]:
    return STREAMS.lanes_opened[PATH], STREAMS.lanes_refused[PATH], STREAMS.lanes_lost[PATH]


async def talk(served: Served) -> None:
    """A stream that has to work, however it goes."""
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        for number in range(20):
            client.link.send(b"%d" % number)
        await until(lambda: len(client.messages()) == 20)
        assert client.messages() == [str(number) for number in range(20)]
        assert client.count("down") == 0


async def test_a_stream_on_one_host_goes_by_a_lane(served: Served, lanes: list[Lane], home: Path) -> None:
    await talk(served)
    assert opened_refused_lost() == (1, 0, 0)
    assert len(lanes) == 2
    await until(lambda: not any(lane.is_open for lane in lanes))
    await until(lambda: sockets_in(home) == [])


async def test_only_its_user_can_reach_the_socket(served: Served, home: Path) -> None:
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        (path,) = sockets_in(home)
        assert mode_of(home) == 0o700
        assert mode_of(path) == 0o600


@pytest.mark.parametrize("end", ["server", "client"])
async def test_another_user_is_refused(served: Served, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def user_of(connected: socket.socket) -> int:
        is_server = connected.getsockname() != ""
        return os.geteuid() + (is_server == (end == "server"))

    monkeypatch.setattr(lane_offers, "user_of", user_of)
    await talk(served)
    assert opened_refused_lost() == (0, 1, 0)


def change_offers(monkeypatch: pytest.MonkeyPatch, change: Callable[[LaneOffer], None]) -> None:
    def metadata(offer: lane_offers.Offer) -> tuple[tuple[str, bytes]]:
        ((key, value),) = honest(offer)
        changed = LaneOffer.FromString(value)
        change(changed)
        return ((key, changed.SerializeToString()),)

    honest = lane_offers.Offer.metadata.fget
    assert honest is not None
    monkeypatch.setattr(lane_offers.Offer, "metadata", property(metadata))


async def test_an_offer_of_another_host_is_none(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    change_offers(monkeypatch, lambda offer: setattr(offer, "boot_id", "another"))
    await talk(served)
    assert opened_refused_lost() == (0, 0, 0)


@pytest.mark.parametrize("path", ["/missing/lane", "", "x" * 500, "nul\0", "/dev/null"])
async def test_a_socket_that_is_not_there_means_grpc(
    served: Served, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_offers(monkeypatch, lambda offer: setattr(offer, "path", path))
    await talk(served)
    assert opened_refused_lost() == (0, 1, 0)


async def test_an_unknown_token_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    change_offers(monkeypatch, lambda offer: setattr(offer, "token", bytes(16)))
    await talk(served)
    assert opened_refused_lost() == (0, 1, 0)


@pytest.mark.parametrize(
    ("name", "token"),
    [("other.sock", bytes(16)), ("other.lane", b"\n" + b"x" * 500), ("other.lane", b""), ("other.lane", bytes(15))],
    ids=["another socket", "long token", "no token", "short token"],
)
async def test_a_server_does_not_choose_what_another_socket_of_the_user_reads(
    served: Served, tmp_path: Path, name: str, token: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(offered: LaneOffer) -> None:
        offered.path, offered.token = str(tmp_path / name), token

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(tmp_path / name))
        other.listen()
        other.setblocking(False)
        change_offers(monkeypatch, change)
        await talk(served)
        with pytest.raises(BlockingIOError):
            other.accept()
    assert opened_refused_lost() == (0, 1, 0)


async def test_a_malformed_offer_means_grpc(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    nonsense = property(lambda _: ((lane_offers.METADATA_KEY, b"\xff\xff"),))
    monkeypatch.setattr(lane_offers.Offer, "metadata", nonsense)
    await talk(served)
    assert opened_refused_lost() == (0, 1, 0)


async def test_a_server_that_does_not_answer_means_grpc(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the connection that it accepts later changes nothing."""
    shake_hands = lane_offers._Listener._shake_hands

    async def late(listener: lane_offers._Listener, connected: socket.socket) -> None:
        await asyncio.sleep(0.1)
        await shake_hands(listener, connected)

    monkeypatch.setattr(lane_offers, "ANSWER_MS_MAX", 20)
    monkeypatch.setattr(lane_offers._Listener, "_shake_hands", late)
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        client.link.send(b"before")
        await asyncio.sleep(0.15)
        client.link.send(b"after")
        await until(lambda: len(client.messages()) == 2)
        assert client.count("down") == 0
    assert opened_refused_lost() == (0, 1, 0)


@pytest.mark.parametrize("off", ["server", "client"])
async def test_an_end_that_is_switched_off_keeps_grpc(off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams.lane_offers, "is_on", lambda: off == "server")
    if off == "server":
        monkeypatch.setattr(lane_offers, "offer", lambda *_: None)
    served = Served()
    await served.start()
    await talk(served)
    assert opened_refused_lost() == (0, 0, 0)
    await served.stop()


async def test_a_directory_that_others_may_read_is_not_used(served: Served, home: Path) -> None:
    os.mkdir(home, 0o755)
    with capture_logs() as lines:
        await talk(served)
    # Who has configured a directory learns why it is of no use.
    assert f"{home} is not a private directory" in [
        line.get("reason") for line in lines if line["log_level"] == "warning"
    ]
    assert opened_refused_lost() == (0, 0, 0)
    assert sockets_in(home) == []


async def test_sockets_of_killed_processes_are_removed_and_live_ones_kept(home: Path, served: Served) -> None:
    os.mkdir(home, 0o700)
    with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as live:
        dead.bind(str(home / "dead.lane"))
        dead.close()
        live.bind(str(home / "live.lane"))
        live.listen()
        await talk(served)
        await until(lambda: [path.name for path in sockets_in(home)] == ["live.lane"])


async def test_a_socket_that_was_cleaned_up_is_replaced(served: Served, home: Path) -> None:
    async with linked(served.address) as first:
        await until(lambda: first.link.up)
        (path,) = sockets_in(home)
        os.unlink(path)
        await talk(served)
        first.link.send(b"unharmed")
        await until(first.messages)
        assert first.count("down") == 0
    assert opened_refused_lost() == (2, 0, 0)
    await until(lambda: sockets_in(home) == [])


async def test_strangers_at_the_socket_harm_no_stream(served: Served, home: Path) -> None:
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        (path,) = sockets_in(home)
        strangers = []
        for words in (b"", b"GET / HTTP/1.1\r\n\r\n", b"x" * 100, lane_offers.GREETING + bytes(16)):
            stranger = socket.socket(socket.AF_UNIX)
            stranger.connect(str(path))
            stranger.send(words)
            strangers.append(stranger)
        strangers[0].close()
        for stranger in strangers[2:]:
            stranger.setblocking(False)
            assert await is_closed(stranger)
        client.link.send(b"unharmed")
        await until(client.messages)
        assert client.count("down") == 0
        for stranger in strangers:
            stranger.close()


async def test_more_connections_than_can_shake_hands_are_closed(served: Served, home: Path) -> None:
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        (path,) = sockets_in(home)
        idle = [socket.socket(socket.AF_UNIX) for _ in range(lane_offers._HANDSHAKES_MAX + 1)]
        for each in idle:
            each.connect(str(path))
            each.setblocking(False)
            await asyncio.sleep(0)
        assert await asyncio.get_running_loop().sock_recv(idle[-1], 1) == b""
        for each in idle:
            each.close()


@pytest.mark.parametrize("lost_at", [0, 1])
async def test_a_lost_lane_is_a_lost_stream_and_the_next_one_goes_by_grpc(
    served: Served, lanes: list[Lane], lost_at: int
) -> None:
    async with linked(served.address) as client:
        await until(lambda: len(lanes) == 2 and client.link.up)
        client.link.send(b"1")
        await until(client.messages)
        lanes[lost_at]._socket.shutdown(socket.SHUT_RDWR)
        await until(lambda: client.count("up") == 2)
        kinds = [kind for kind, _ in client.calls]
        assert kinds == ["up", "message", "down", "up"]
        client.link.send(b"2")
        await until(lambda: len(client.messages()) == 2)
        assert len(lanes) == 2
        assert [len(handler.closed) for handler in served.handlers] == [1, 0]
    assert opened_refused_lost()[0] == 1


async def test_a_link_takes_a_lane_again_when_it_has_waited(
    served: Served, lanes: list[Lane], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LANE_AFTER_LOSS_MS", 0)
    async with linked(served.address) as client:
        await until(lambda: len(lanes) == 2 and client.link.up)
        lanes[0]._socket.shutdown(socket.SHUT_RDWR)
        await until(lambda: client.count("up") == 2 and len(lanes) == 4)


@pytest.mark.parametrize("words", [struct.pack("<I", 1 << 31), struct.pack("<I", 3) + b"bad"])
async def test_garbage_by_a_lane_ends_its_stream_and_no_other(served: Served, lanes: list[Lane], words: bytes) -> None:
    async with linked(served.address) as failing, linked(served.address) as other:
        await until(lambda: len(lanes) == 4 and failing.link.up and other.link.up)
        lane = failing.link._conversation and failing.link._conversation._lane
        assert lane is not None
        lane._socket.send(words if words[3] else struct.pack("<I", 9) + b"malformed")
        await until(lambda: failing.count("up") == 2)
        other.link.send(b"unharmed")
        await until(other.messages)
        assert other.count("down") == 0


class Talkative(Echo):
    """Sends behind its welcome at once, some of it packed late."""

    def __init__(self, stream: ServerStream) -> None:
        super().__init__(stream)
        self._number = 0

    def on_message(self, data: bytes) -> None:
        super().on_message(data)
        if data == b"hello":
            self._tick()

    def _tick(self) -> None:
        for _ in range(3):
            self._send_next()
        if self._number < 150:
            asyncio.get_running_loop().call_soon(self._tick)

    def _send_next(self) -> None:
        data = b"%d" % self._number
        self._number += 1
        if self._number % 7:
            self.stream.send(data)
            return

        async def pack() -> bytes:
            await asyncio.sleep(0.001)
            return data

        self.stream.send_when_packed(pack)


@pytest.mark.parametrize("by_lane", [True, False])
async def test_what_was_sent_by_grpc_is_delivered_before_what_comes_by_the_lane(
    by_lane: bool, lanes: list[Lane], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BARNABAS_LANE", "on" if by_lane else "off")
    served = Served()
    served.handler_type = Talkative
    await served.start()
    async with linked(served.address) as client:
        await until(lambda: len(client.messages()) == 150)
        assert client.messages() == [str(number) for number in range(150)]
        assert len(lanes) == 2 * by_lane
    await served.stop()


async def test_a_client_that_knows_nothing_of_lanes_is_served(served: Served) -> None:
    channel = create_channel(served.address, None)
    call = channel.stream_stream(PATH, None, None)(None)
    await call.write(b"hello")
    assert await call.read() == b"welcome"
    await call.write(b"1")
    assert await call.read() == b"1"
    await channel.close(None)


async def test_what_a_server_sends_before_it_ends_a_stream_is_delivered(served: Served, lanes: list[Lane]) -> None:
    async with linked(served.address) as client:
        await until(lambda: len(lanes) == 2 and client.link.up)
        client.link.send(b"1")
        await until(client.messages)
        for number in range(50):
            served.handlers[0].stream.send(b"answer %d" % number)
        served.handlers[0].stream.close("as asked")
        await until(lambda: client.count("down"))
        assert client.messages() == ["1", *(f"answer {number}" for number in range(50))]
        assert ("down", "UNAVAILABLE: as asked") in client.calls


async def test_grpc_carries_nothing_once_the_lane_is_taken(served: Served, lanes: list[Lane]) -> None:
    async with linked(served.address) as client:
        await until(lambda: len(lanes) == 2 and client.link.up)
        client.link.send(b"1")
        await until(client.messages)
        assert client.link._call is not None
        await client.link._call.write(b"2")
        await until(lambda: served.handlers[0].closed)
        assert served.handlers[0].closed == ["malformed message: gRPC carried one after the lane was taken"]
        assert b"2" not in served.handlers[0].received


async def test_a_connection_is_closed_whose_handshake_never_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is cancelled before its first step closes nothing itself."""
    accepted: list[socket.socket] = []
    shake_hands = lane_offers._Listener._shake_hands

    def remembered(listener: lane_offers._Listener, connected: socket.socket) -> Coroutine[Any, Any, None]:
        accepted.append(connected)
        return shake_hands(listener, connected)

    monkeypatch.setattr(lane_offers._Listener, "_shake_hands", remembered)
    listener = lane_offers._Listener(asyncio.get_running_loop())
    token = listener.add(lambda connected, memory: connected.close(), None)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(listener.path))
        listener._accept()
        listener.withdraw(token)
        await until(lambda: not listener._handshakes)
    assert [each.fileno() for each in accepted] == [-1]
