"""A TCP proxy that keeps what passes: between clients and one broker that advertises the proxy's address."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.wire.headers import decode_request_header
from tests.unit.wire.recorded import Exchange

FRAME_BYTES_MAX = 1500


class Tee:
    """Keeps, of each client, key and version, the exchange with the largest request up to `FRAME_BYTES_MAX`.

    A request belongs to the client that is named at the time, and is not kept where none is; one whose client id does
    not begin with that name is one of the broker's own, which finds itself at this address too.
    """

    def __init__(self, broker_port: int) -> None:
        self.client = ""
        self.kept: dict[tuple[str, int, int], Exchange] = {}
        self._broker_port = broker_port
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @contextmanager
    def named(self, client: str) -> Iterator[None]:
        self.client = client
        yield
        self.client = ""

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self._broker_port))
            except ConnectionRefusedError:
                near.close()  # the broker is still starting
            else:
                _Connection(self, near, far)

    def keep(self, exchange: Exchange) -> None:
        if max(len(exchange.request), len(exchange.response)) > FRAME_BYTES_MAX:
            return
        with self._lock:
            known = self.kept.get(exchange[:3])
            if known is None or len(known.request) < len(exchange.request):
                self.kept[exchange[:3]] = exchange


class _Connection:
    """Two threads, one each way; a response finds its request by the correlation id."""

    def __init__(self, tee: Tee, near: socket.socket, far: socket.socket) -> None:
        self._tee = tee
        self._near, self._far = near, far
        self._asked: dict[int, tuple[str, int, int, bytes]] = {}
        threading.Thread(target=self._copy, args=(near, far, self._request), daemon=True).start()
        threading.Thread(target=self._copy, args=(far, near, self._response), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, seen: object) -> None:
        assert callable(seen)
        try:
            while size := _receive(source, 4):
                frame = _receive(source, struct.unpack(">i", size)[0])
                seen(frame)
                target.sendall(size + frame)
        except OSError:
            pass
        for end in (self._near, self._far):
            end.close()

    def _request(self, frame: bytes) -> None:
        header, _ = decode_request_header(memoryview(frame))
        client = self._tee.client
        if not client:
            return
        if not (header.client_id or "").startswith(client):
            client = "broker"
        asked = (client, header.api_key, header.api_version, frame)
        self._asked[header.correlation_id] = asked
        if header.api_key == 0:
            self._tee.keep(Exchange(*asked, b""))  # acks=0 has no response; one with acks comes to replace it

    def _response(self, frame: bytes) -> None:
        asked = self._asked.pop(struct.unpack_from(">i", frame)[0], None)
        if asked is not None:
            self._tee.keep(Exchange(*asked, frame))


def _receive(source: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes, or none where the peer has closed."""
    received = b""
    while len(received) < size:
        piece = source.recv(size - len(received))
        if not piece:
            return b""
        received += piece
    return received
