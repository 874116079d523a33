"""One accepted socket on a processor's loop: reads when it may, writes buffers without joining them.

Not an asyncio transport: in CPython 3.11 `writelines` joins its buffers, which copies every fetched byte once more, and
here it has to be known how many bytes the client has not taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from typing import Final, Protocol

from barnabas.wire.primitives import Buffer

_RECEIVE_BYTES_MIN: Final = 64 << 10
_RECEIVE_BYTES_MAX: Final = 1 << 20
_LINGER_S: Final = 5.0
_BUFFERS_PER_CALL: Final = 512
"""Below IOV_MAX."""


class SocketOwner(Protocol):
    def bytes_received(self, connection_id: int, data: bytes) -> None: ...

    def unsent_changed(self, connection_id: int, unsent_bytes: int) -> None: ...

    def socket_lost(self, connection_id: int) -> None:
        """The client closed it, or it broke; called once, and not after `close`."""


class ClientSocket:
    __slots__ = (
        "_connection_id",
        "_is_closing",
        "_is_gone",
        "_is_reading",
        "_loop",
        "_owner",
        "_receive_bytes",
        "_socket",
        "_unsent",
        "unsent_bytes",
    )

    def __init__(self, connection_id: int, accepted: socket.socket, owner: SocketOwner) -> None:
        self._connection_id = connection_id
        self._socket = accepted
        self._socket.setblocking(False)
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[memoryview] = deque()
        self.unsent_bytes = 0
        self._receive_bytes = _RECEIVE_BYTES_MIN
        self._is_reading = False
        self._is_closing = False
        self._is_gone = False
        self.resume()

    def resume(self) -> None:
        if not self._is_reading and not self._is_closing and not self._is_gone:
            self._is_reading = True
            self._loop.add_reader(self._socket, self._readable)

    def pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._socket)

    def write(self, buffers: list[Buffer]) -> None:
        """Send in order; what the socket does not take now goes out as the client reads."""
        if self._is_gone:
            return
        if self._unsent:
            self._keep(buffers, 0)
            return
        sent = self._try_send(buffers)
        if sent < 0:
            self._lose()
        elif sent < sum(map(len, buffers)):
            self._keep(buffers, sent)
            self._loop.add_writer(self._socket, self._writable)

    def close(self) -> None:
        """Close it once everything written has been sent, or after a while in which the client did not take it."""
        self.pause()
        self._is_closing = True
        if not self._unsent:
            self._end()
        else:
            self._loop.call_later(_LINGER_S, self.abort)

    def abort(self) -> None:
        """Close it now."""
        self._unsent.clear()
        self.unsent_bytes = 0
        self._end()

    def _readable(self) -> None:
        try:
            data = self._socket.recv(self._receive_bytes)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        if len(data) == self._receive_bytes:
            self._receive_bytes = min(2 * self._receive_bytes, _RECEIVE_BYTES_MAX)
        elif len(data) < _RECEIVE_BYTES_MIN:
            self._receive_bytes = _RECEIVE_BYTES_MIN
        self._owner.bytes_received(self._connection_id, data)

    def _try_send(self, buffers: list[Buffer]) -> int:
        """How many bytes the socket took; -1 when it is broken."""
        try:
            if len(buffers) == 1:
                return self._socket.send(buffers[0])
            return self._socket.sendmsg(buffers[:_BUFFERS_PER_CALL])
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return -1

    def _keep(self, buffers: list[Buffer], sent: int) -> None:
        for buffer in buffers:
            if sent >= len(buffer):
                sent -= len(buffer)
                continue
            rest = memoryview(buffer)[sent:]
            sent = 0
            self._unsent.append(rest)
            self.unsent_bytes += len(rest)

    def _writable(self) -> None:
        unsent = self._unsent
        sent = self._try_send([unsent[index] for index in range(min(len(unsent), _BUFFERS_PER_CALL))])
        if sent < 0:
            self._lose()
            return
        self.unsent_bytes -= sent
        while sent:
            first = unsent[0]
            if sent < len(first):
                unsent[0] = first[sent:]
                break
            sent -= len(first)
            unsent.popleft()
        if not unsent:
            self._loop.remove_writer(self._socket)
        if not self._is_closing:
            self._owner.unsent_changed(self._connection_id, self.unsent_bytes)
        elif not unsent:
            self._end()

    def _lose(self) -> None:
        was_closing = self._is_closing
        self.abort()
        if not was_closing:
            self._owner.socket_lost(self._connection_id)

    def _end(self) -> None:
        if self._is_gone:
            return
        self._is_gone = True
        self.pause()
        self._loop.remove_writer(self._socket)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._socket.close()
