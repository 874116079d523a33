"""What a client sends to a TLS listener, as `TlsSocket` and OpenSSL read it; loop and socket are scripted.

A recorded ClientHello, damaged, ends no handshake: the answer needs a key that is not recorded. Whatever comes, the
owner learns of one failure, no byte is passed on, the socket is closed, and no handshake is left under way.

The input is pieces (`tests.fuzz.pieces`): each is what one read of the socket returns.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from barnabas_cli.local.certificates import create_authority, issue
from barnabas_gateway.shell.tls.tls_config import create_context, tls_config
from barnabas_gateway.shell.tls.tls_socket import HandshakeQueue, TlsSocket
from tests.fuzz.pieces import join_pieces, split_pieces
from tests.fuzz.target import Target

_READS_MAX: Final = 40
_HELLO_1_2: Final = bytes.fromhex(
    "16030100890100008503033fd45730c1c25898fed66be068633aba83cf7fdb6494a9ca2c6622a3e21ade93000004c02b00ff010000580000"
    "000e000c0000096c6f63616c686f7374000b000403000102000a0004000200170016000000170000000d002a002804030503060308070808"
    "0809080a080b080408050806040105010601030303010302040205020602"
)
_HELLO_1_3: Final = bytes.fromhex(
    "16030100f9010000f50303627382b7e281c803c2290ff6f5300f4cfc615458e08a80437f9e6d4d024ac14920728730eb25091c858a4e6068"
    "30c933775ea53b1f58b991db77093679450f6189000813021303130100ff010000a40000000e000c0000096c6f63616c686f7374000b0004"
    "03000102000a0004000200170016000000170000000d001e001c040305030603080708080809080a080b080408050806040105010601002b"
    "0003020304002d0002010100330047004500170041049aa6475c5dfd3aac7a390c367d2817148977abe0ba95f670b9cafa59310225df5b0a"
    "e66c14af49def2c4a595d3287cfb8d3778c03235738d7f1d7197cc88a9d9"
)
_FINISHED: Final = bytes.fromhex("1403030001011603030010") + bytes(16)


class _Loop:
    """Readers, writers and calls of an event loop that runs when it is asked to."""

    def __init__(self) -> None:
        self._soon: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self.reader: Callable[[], None] | None = None

    def call_soon(self, callback: Callable[..., object], *arguments: object) -> None:
        self._soon.append((callback, arguments))

    def call_later(self, _delay_s: float, callback: Callable[[], object]) -> _Timer:
        return _Timer()

    def add_reader(self, _file: object, callback: Callable[[], None]) -> None:
        self.reader = callback

    def remove_reader(self, _file: object) -> None:
        self.reader = None

    def add_writer(self, _file: object, _callback: Callable[[], None]) -> None:
        raise AssertionError("its socket takes all that is sent")

    def remove_writer(self, _file: object) -> None:
        pass

    def run(self) -> None:
        while self._soon:
            callback, arguments = self._soon.popleft()
            callback(*arguments)


class _Timer:
    def cancel(self) -> None:
        pass


class _Socket:
    """A socket that has received `received`; no more than that."""

    def __init__(self) -> None:
        self.received: deque[bytes] = deque()
        self.is_closed = False

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def recv(self, size: int) -> bytes:
        assert not self.is_closed
        return self.received.popleft()[:size]

    def send(self, data: bytes | memoryview) -> int:
        assert not self.is_closed
        return len(data)

    def shutdown(self, _how: int) -> None:
        assert not self.is_closed

    def close(self) -> None:
        self.is_closed = True


class _Owner:
    def __init__(self) -> None:
        self.failures: list[str] = []

    def handshake_failed(self, _connection_id: int, reason: str) -> None:
        self.failures.append(reason)

    def handshake_done(self, _connection_id: int, _tls: ssl.SSLObject) -> None:
        raise AssertionError("a handshake with a recorded client is done")

    def bytes_received(self, _connection_id: int, _data: bytes) -> None:
        raise AssertionError("bytes before the handshake is done")

    unsent_changed = range_cut = socket_lost = bytes_received


def _context() -> ssl.SSLContext:
    now = datetime.fromtimestamp(time.time(), UTC)
    authority = create_authority("fuzz", now)
    with TemporaryDirectory() as directory:
        pem = Path(directory) / "server.pem"
        pem.write_bytes(issue(authority, "server", ("localhost",), now))
        return create_context(tls_config({"ssl.keystore.location": str(pem)}))


_CONTEXT: Final = _context()


def check(data: bytes) -> None:
    loop: Any = _Loop()
    sent: Any = _Socket()
    owner: Any = _Owner()
    asyncio._set_running_loop(loop)
    try:
        queue = HandshakeQueue()
        tls = TlsSocket(1, sent, _CONTEXT, owner, queue, 1000)
    finally:
        asyncio._set_running_loop(None)
    for piece in [each for each in split_pieces(data) if each][:_READS_MAX]:
        if loop.reader is None:
            break
        sent.received.append(piece)
        loop.reader()
        loop.run()
    if not owner.failures:
        assert loop.reader is not None, "it waits for nothing"
        sent.received.append(b"")
        loop.reader()
    assert len(owner.failures) == 1
    assert sent.is_closed
    assert tls.unsent_bytes == 0
    assert not queue.under_way_count


def build(random: Random) -> bytes:
    hello = random.choice((_HELLO_1_2, _HELLO_1_3))
    if random.random() < 0.3:
        cut = random.randrange(len(hello))
        return join_pieces([hello[:cut], hello[cut:], _FINISHED])
    return join_pieces([hello, _FINISHED] if random.random() < 0.5 else [hello])


TARGET = Target("tls_records", check, build, input_bytes_max=2048)
