"""A connection of the client that measures."""

from __future__ import annotations

import socket
import struct
from typing import Final

_ANSWER_SECONDS_MAX: Final = 60.0


class Connection:
    """A client that waits for each answer."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, frame: bytes) -> bytes:
        """The answer's frame without its size. Raises OSError where the broker closes the connection."""
        self.send(frame)
        return self.receive()

    def send(self, frame: bytes) -> None:
        """Send a request; its answer is read later, or never."""
        self._socket.sendall(frame)

    def receive(self) -> bytes:
        """The next answer's frame without its size."""
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            data = self._socket.recv(min(size - len(received), 1 << 20))
            if not data:
                raise ConnectionError("the broker has closed the connection")
            received += data
        return bytes(received)

    def close(self) -> None:
        self._socket.close()
