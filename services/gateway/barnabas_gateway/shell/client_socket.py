"""One accepted socket on a processor's loop: reads when it may, writes buffers without joining them.

Not an asyncio transport: in CPython 3.11 `writelines` joins its buffers, which copies every fetched byte once more, and
the processor has to know how many bytes the client has not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from barnabas.runtime.lane import Descriptor
from barnabas.wire.file_range import FileRange
from barnabas.wire.primitives import Buffer

_RECEIVE_BYTES_MIN: Final = 64 << 10
_RECEIVE_BYTES_MAX: Final = 1 << 20
_LINGER_S: Final = 5.0
_BUFFERS_PER_CALL: Final = 512
"""Fewer than IOV_MAX."""


class SocketOwner(Protocol):
    def bytes_received(self, connection_id: int, data: bytes) -> None: ...

    def unsent_changed(self, connection_id: int, unsent_bytes: int) -> None: ...

    def range_cut(self, connection_id: int) -> None:
        """A range is not in its file any more: the socket closes. `socket_lost` follows unless `close` came first."""

    def socket_lost(self, connection_id: int) -> None:
        """The client closed it, or it failed; called once, and not after `close`."""


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
        self._unsent: deque[memoryview | FileRange] = deque()
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

    def write(self, buffers: Sequence[Buffer | FileRange]) -> None:
        """Send in order; what the socket does not accept now is sent as the client reads. Ranges go from their files to
        the socket within the kernel.
        """
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
        """Close it once everything written has been sent, or after a while in which the client did not read it."""
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

    def _try_send(self, buffers: Sequence[Buffer | FileRange]) -> int:
        """Return how many bytes the socket accepted; -1 if it has failed, or if a range is not in its file any more:
        the client has to fetch again then.
        """
        sent = index = 0
        count = min(len(buffers), _BUFFERS_PER_CALL)
        try:
            if count == 1 and not isinstance(buffers[0], FileRange):
                return self._socket.send(buffers[0])
            while index < count:
                first = buffers[index]
                if isinstance(first, FileRange):
                    index += 1
                    wanted = first.length
                    accepted = self._send_range(first)
                    if not accepted:
                        self._owner.range_cut(self._connection_id)
                        return -1
                else:
                    group = [first]
                    index += 1
                    while index < count and not isinstance(following := buffers[index], FileRange):
                        group.append(following)
                        index += 1
                    wanted = sum(map(len, group))
                    # What precedes a range is sent with it.
                    accepted = self._socket.sendmsg(group, (), socket.MSG_MORE if index < count else 0)
                sent += accepted
                if accepted < wanted:
                    break
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            return -1
        return sent

    def _send_range(self, part: FileRange) -> int:
        """Return how many bytes the socket accepted; 0 if the file ends before them."""
        assert isinstance(part.file, Descriptor), "a range of a file that was not handed over"
        return os.sendfile(self._socket.fileno(), part.file.fileno(), part.position, part.length)

    def _keep(self, buffers: Sequence[Buffer | FileRange], sent: int) -> None:
        for buffer in buffers:
            if sent >= len(buffer):
                sent -= len(buffer)
                continue
            rest = buffer.after(sent) if isinstance(buffer, FileRange) else memoryview(buffer)[sent:]
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
                unsent[0] = first.after(sent) if isinstance(first, FileRange) else first[sent:]
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
