"""Thousands of Kafka connections in one thread, and as little of the client in the figures as Python allows.

Requests are frames made beforehand where they can be, answers are handed on as they came. Due times are met to some
microseconds, where an event loop that counts in milliseconds would make bursts of what clients send by themselves.
"""

from __future__ import annotations

import heapq
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from types import TracebackType

from barnabas.client.kafka_connection import connect
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.messages import Request, Response, api_key_of

CLIENT_ID = "bench-groups"
_CORRELATION_ID = 1
"""Of every request: answers come in order."""
_CONNECT_SECONDS_MAX = 30.0
_RECEIVE_BYTES = 1 << 18

Answered = Callable[[memoryview], None]
"""With the frame of the answer, its header included."""


def frame_of(request: Request, version: int) -> bytes:
    return b"".join(encode_request(request, version, _CORRELATION_ID, CLIENT_ID))


def response_of(request: type[Request], version: int, frame: memoryview) -> Response:
    return decode_response(api_key_of(request), version, frame)[1]


class Connection:
    """Made by `Swarm.connect`. Raises ConnectionResetError where the broker has closed it."""

    __slots__ = ("_answered", "_received", "_socket", "_unsent")

    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setblocking(False)
        self._socket = connected
        self._answered: deque[Answered] = deque()
        self._unsent = b""
        self._received = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def ask(self, frame: bytes, answered: Answered) -> None:
        """Have it sent now; `answered` is called with the answer."""
        self._answered.append(answered)
        if self._unsent:
            self._unsent += frame
            return
        sent = self._socket.send(frame)
        if sent < len(frame):
            self._unsent = frame[sent:]

    def is_ready(self) -> None:
        """The socket has something, or takes something."""
        if self._unsent:
            try:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            except BlockingIOError:
                pass
        # Readiness is reported once (EPOLLET): everything is read.
        while self._receive():
            pass

    def _receive(self) -> bool:
        """Whether there may be more."""
        try:
            chunk = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            raise ConnectionResetError("the broker closed a connection of the swarm")
        received = self._received + chunk if self._received else chunk
        view, position = memoryview(received), 0
        while len(received) >= position + 4:
            end = position + 4 + int.from_bytes(view[position : position + 4], "big")
            if len(received) < end:
                break
            self._answered.popleft()(view[position + 4 : end])
            position = end
        self._received = received[position:]
        return len(chunk) == _RECEIVE_BYTES


class Swarm:
    """Use it as a context manager: it closes its connections."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def __enter__(self) -> Swarm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as closing:
            closing.callback(self._epoll.close)
            for connection in self._connections.values():
                closing.callback(connection.close)

    def connect(self, address: tuple[str, int]) -> Connection:
        """Raises OSError."""
        connection = Connection(connect(*address, _CONNECT_SECONDS_MAX))
        self._connections[connection.fileno()] = connection
        self._epoll.register(connection.fileno(), select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        return connection

    def at(self, when: float, act: Callable[[], None]) -> None:
        """By time.perf_counter()."""
        heapq.heappush(self._due, (when, next(self._numbers), act))

    def run(self, is_over: Callable[[], bool], seconds_max: float) -> None:
        """Raises TimeoutError, and what connections and callbacks raise."""
        deadline = time.perf_counter() + seconds_max
        due = self._due
        while not is_over():
            now = time.perf_counter()
            if now > deadline:
                raise TimeoutError(f"not over after {seconds_max:.0f} s")
            has_acted = bool(due) and due[0][0] <= now
            while due and due[0][0] <= now:
                heapq.heappop(due)[2]()
            # What was done may be the end: the sockets are looked at, not waited for.
            self._wait(now if has_acted else min(due[0][0] if due else deadline, deadline))

    def run_for(self, seconds: float) -> None:
        until = time.perf_counter() + seconds
        self.at(until, lambda: None)
        self.run(lambda: time.perf_counter() >= until, seconds + 1.0)

    def _wait(self, until: float) -> None:
        """For a socket, or for that time. epoll itself counts in milliseconds, and rounds up."""
        events = self._epoll.poll(0)
        if not events:
            select.select([self._epoll], [], [], max(0.0, until - time.perf_counter()))
            events = self._epoll.poll(0)
        for descriptor, _ in events:
            self._connections[descriptor].is_ready()
