"""Offers of lanes: how both ends of a stream find each other's Unix socket, or agree to stay on gRPC.

A server offers a lane in the initial metadata of each stream (`protos/barnabas_protos/lane/v1/lane.proto`): its host,
the path of a socket that only its own user may open, and a token that names the stream. A client of the same host
connects and shows the token; both check that the other process is of their own user. Whatever fails, the stream stays
on gRPC.

`BARNABAS_LANE=off` in the environment of either end keeps its streams on gRPC. The sockets of a process are in
`BARNABAS_LANE_DIRECTORY`, by default in a directory of its user among the temporary files. A process listens while it
serves streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import stat
import struct
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from google.protobuf.message import DecodeError

from barnabas.runtime.contained import LANE
from barnabas.runtime.lane import Descriptor
from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas_protos.lane.v1.lane_pb2 import LaneOffer

METADATA_KEY: Final = "barnabas-lane-bin"
GREETING: Final = b"BNLANE01"
ACCEPTED: Final = b"\1"
TOKEN_BYTES: Final = 16
SUFFIX: Final = ".lane"

ANSWER_MS_MAX: Final = 3000
"""How long each end waits for the other one's part of the handshake: as long as a peer may be silent."""

_PATH_BYTES_MAX: Final = 107
"""Of an address in AF_UNIX."""
_BACKLOG: Final = 128
_HANDSHAKES_MAX: Final = 64
"""At the same time; further connections are closed at once."""
_ACCEPT_AGAIN_S: Final = 1.0
_DESCRIPTORS_MAX: Final = 4
"""Of a handshake, which has one: what else comes along is closed."""
_CREDENTIALS: Final = struct.Struct("3i")
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")

_log = get_logger("lanes")

Take: TypeAlias = Callable[[socket.socket, Descriptor | None], None]
"""Takes over the connection of the client that the offer was for, and the memory that the client has created."""


class LaneRefusedError(Exception):
    """There is no lane, and why."""


def is_on() -> bool:
    """Return whether this process takes and offers lanes."""
    return os.environ.get("BARNABAS_LANE", "on").lower() != "off"


class Offer:
    """One stream's offer; close it with the stream."""

    def __init__(self, listener: _Listener, token: bytes) -> None:
        self._listener = listener
        self._token = token

    @property
    def metadata(self) -> tuple[tuple[str, bytes]]:
        offer = LaneOffer(boot_id=_boot_id(), path=str(self._listener.path), token=self._token)
        return ((METADATA_KEY, offer.SerializeToString()),)

    def close(self) -> None:
        self._listener.withdraw(self._token)


def offer(take: Take, memory: Descriptor | None = None) -> Offer | None:
    """Offer a lane to one client, who gets `memory`; None if there can be none. `take` gets the connection, at most
    once.
    """
    if not is_on():
        return None
    try:
        listener = _listening()
    except (OSError, LaneRefusedError) as error:
        # Where a directory is configured, an operator has asked for lanes.
        report = _log.warning if os.environ.get("BARNABAS_LANE_DIRECTORY") else _log.debug
        report("no lane is offered", reason=str(error))
        return None
    return Offer(listener, listener.add(take, memory))


async def connect(
    metadata: Iterable[tuple[str, str | bytes]], memory: Descriptor | None = None
) -> tuple[socket.socket, Descriptor | None] | None:
    """Return the connection that a stream's initial metadata offers, and the server's memory; the server gets
    `memory`. None if no lane is offered to this host.

    Raises LaneRefusedError if the offer comes to nothing.
    """
    value = dict(metadata).get(METADATA_KEY)
    if not isinstance(value, bytes):
        return None
    try:
        offered = LaneOffer.FromString(value)
    except DecodeError as error:
        raise LaneRefusedError("the offer is malformed") from error
    if not offered.boot_id or offered.boot_id != _boot_id():
        return None
    if len(offered.token) != TOKEN_BYTES or not offered.path.startswith("/") or not offered.path.endswith(SUFFIX):
        # Some other socket of this user would get what the server wants it to read.
        raise LaneRefusedError("the offer names no socket of a lane")
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.setblocking(False)
    try:
        connected.connect(offered.path)
        _check_user(connected)
        _send(connected, GREETING + offered.token, memory)
        async with asyncio.timeout(ANSWER_MS_MAX / 1000):
            answer, handed = await _receive(connected, len(ACCEPTED))
        if answer != ACCEPTED:
            raise LaneRefusedError("the server refused it")
    except (OSError, TimeoutError, ValueError) as error:
        connected.close()
        raise LaneRefusedError(f"{type(error).__name__}: {error}") from error
    except BaseException:
        connected.close()
        raise
    return connected, handed


def user_of(connected: socket.socket) -> int:
    """Return the user id of the process at the other end."""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _pid, user, _group = _CREDENTIALS.unpack(credentials)
    return int(user)


def directory() -> Path:
    """Return where this process's socket is."""
    configured = os.environ.get("BARNABAS_LANE_DIRECTORY")
    return Path(configured) if configured else Path(tempfile.gettempdir()) / f"barnabas-{os.geteuid()}"


@cache
def _boot_id() -> str:
    """Return the identity of this host since it started; empty if it has none."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return ""


def _send(connected: socket.socket, data: bytes, memory: Descriptor | None) -> None:
    """Send a part of the handshake, which a new socket takes at once. Raises OSError."""
    sent = socket.send_fds(connected, [data], [memory.fileno()]) if memory is not None else connected.send(data)
    if sent < len(data):
        raise OSError("the socket takes no bytes")


async def _receive(connected: socket.socket, length: int) -> tuple[bytes, Descriptor | None]:
    """Return up to `length` bytes of a handshake, and the first descriptor that came along. Raises OSError."""
    while True:
        try:
            data, numbers, _, _ = socket.recv_fds(connected, length, _DESCRIPTORS_MAX)
        except (BlockingIOError, InterruptedError):
            await _readable(connected)
            continue
        handed = [Descriptor(number) for number in numbers]
        for each in handed:
            os.set_inheritable(each.fileno(), False)
        return data, handed[0] if handed else None


async def _readable(connected: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[None] = loop.create_future()

    def arrived() -> None:
        if not waiting.done():
            waiting.set_result(None)

    loop.add_reader(connected.fileno(), arrived)
    try:
        await waiting
    finally:
        loop.remove_reader(connected.fileno())


def _check_user(connected: socket.socket) -> None:
    user = user_of(connected)
    if user != os.geteuid():
        raise LaneRefusedError(f"the process at the other end is of user {user}")


_listener: _Listener | None = None


def _listening() -> _Listener:
    """Return the listener of this process; raises OSError or LaneRefusedError if there can be none."""
    global _listener
    loop = asyncio.get_running_loop()
    if _listener is None or not _listener.can_be_reached or _listener.loop is not loop:
        if not _boot_id():
            raise LaneRefusedError("this host has no boot id")
        _listener = _Listener(loop)
    return _listener


class _Listener:
    """A socket that accepts the clients of this process's streams, as long as there are any."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        home = directory()
        _make_private(home)
        _remove_abandoned(home)
        self.path = home / f"{os.getpid():x}-{secrets.token_hex(4)}{SUFFIX}"
        self._socket = _bind(self.path)
        self._offers: dict[bytes, tuple[Take, Descriptor | None]] = {}
        self._streams = 0
        self._handshakes = BackgroundTasks(LANE)
        loop.add_reader(self._socket.fileno(), self._accept)

    @property
    def is_listening(self) -> bool:
        return self._socket.fileno() >= 0

    @property
    def can_be_reached(self) -> bool:
        """Whether new clients can connect: something may have cleaned up the temporary files."""
        return self.is_listening and self.path.exists()

    def add(self, take: Take, memory: Descriptor | None) -> bytes:
        token = secrets.token_bytes(TOKEN_BYTES)
        self._offers[token] = take, memory
        self._streams += 1
        return token

    def withdraw(self, token: bytes) -> None:
        self._offers.pop(token, None)
        self._streams -= 1
        if not self._streams:
            self._close()

    def _close(self) -> None:
        self.loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self.path.unlink(missing_ok=True)
        self._handshakes.cancel()

    def _accept(self) -> None:
        try:
            connected, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            # Out of descriptors: clients that are not accepted in time stay on gRPC.
            _log.debug("no lane is accepted", reason=str(error))
            self.loop.remove_reader(self._socket.fileno())
            self.loop.call_later(_ACCEPT_AGAIN_S, self._accept_again)
            return
        if len(self._handshakes) >= _HANDSHAKES_MAX:
            connected.close()
            return
        task = self._handshakes.start(self._shake_hands(connected))
        # Not in the task: one that is cancelled before its first step never runs.
        task.add_done_callback(lambda ended: connected.close() if ended.cancelled() else None)

    def _accept_again(self) -> None:
        if self.is_listening:
            self.loop.add_reader(self._socket.fileno(), self._accept)

    async def _shake_hands(self, connected: socket.socket) -> None:
        try:
            connected.setblocking(False)
            _check_user(connected)
            async with asyncio.timeout(ANSWER_MS_MAX / 1000):
                greeting = b""
                memory: Descriptor | None = None
                while (missing := len(GREETING) + TOKEN_BYTES - len(greeting)) > 0:
                    received, handed = await _receive(connected, missing)
                    if not received:
                        raise LaneRefusedError("the client went away")
                    greeting += received
                    memory = memory or handed
            offered = self._offers.pop(greeting.removeprefix(GREETING), None)
            if offered is None:
                raise LaneRefusedError("the client shows no token of an open stream")
            take, own_memory = offered
            _send(connected, ACCEPTED, own_memory)
        except (OSError, TimeoutError, LaneRefusedError) as error:
            connected.close()
            _log.debug("a lane is refused", reason=f"{type(error).__name__}: {error}")
        except Exception:
            connected.close()
            raise
        else:
            take(connected, memory)


def _make_private(home: Path) -> None:
    """Create the directory if it is missing; raises LaneRefusedError if others could have made or may read it."""
    with contextlib.suppress(FileExistsError):
        home.mkdir(mode=0o700)
    found = home.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise LaneRefusedError(f"{home} is not a private directory")


def _bind(path: Path) -> socket.socket:
    """Listen on `path`, which appears when clients can connect to it."""
    hidden = path.with_suffix(".new")
    if len(os.fsencode(path)) > _PATH_BYTES_MAX:
        raise LaneRefusedError(f"{path} is too long for a socket")
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.setblocking(False)
        bound.bind(os.fspath(hidden))
        hidden.chmod(0o600)
        bound.listen(_BACKLOG)
        hidden.rename(path)
    except BaseException:
        bound.close()
        hidden.unlink(missing_ok=True)
        raise
    return bound


def _remove_abandoned(home: Path) -> None:
    """Remove the sockets of processes that were killed."""
    for path in home.glob(f"*{SUFFIX}"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
            probe.setblocking(False)
            try:
                probe.connect(os.fspath(path))
            except ConnectionRefusedError:
                path.unlink()
