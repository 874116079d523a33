"""Framed messages with file descriptors over a Unix stream socket, on the event loop.

A frame is a head (payload length, kind length, number of descriptors), the kind and the payload. A stream rather than
SOCK_SEQPACKET, whose messages may not exceed the socket's buffer: a LeaderAndIsr for 10,000 partitions does.
Descriptors (SCM_RIGHTS) travel with the first byte of their frame's own `sendmsg`, and Linux never lets one `recvmsg`
return those of two: the n-th set received belongs to the n-th frame that has any.

An end that has nothing to send sends a heartbeat, a frame without a kind, and counts the beats in which it received
nothing. Beats rather than time: a process that was itself stopped does not take that for its peer's silence.
"""

from __future__ import annotations

import array
import asyncio
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.runtime.contained import CONTAINED, PROCESS_MESSAGE
from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.beat import BEAT_MS, next_beat

_HEAD: Final = struct.Struct("<IBB")
_RECEIVE_BYTES: Final = 256 << 10
# Linux accepts 253 in one message; ours contain one connection, or the few descriptors of an arena.
FDS_MAX: Final = 64
_TRUNCATED: Final = int(socket.MSG_CTRUNC)
"""As a number: `&` with a member of an enum takes 1.5 µs."""
_PAYLOAD_BYTES_MAX: Final = 256 << 20
# The metadata of 100,000 partitions is about 5 MiB: only for an end that does not read does so much accumulate.
PENDING_BYTES_MAX: Final = 64 << 20
HEARTBEAT_MS: Final = BEAT_MS
_HEARTBEAT: Final = b""

_log = get_logger("processes")


class MessageSocket:
    """One end of a socket pair. Sending never blocks; what the socket does not accept at once waits in order.

    At most `pending_bytes_max` wait (one message alone may be larger): beyond that, the socket is closed.
    """

    def __init__(
        self,
        joined: socket.socket,
        on_message: Callable[[bytes, bytes, list[int]], None],
        on_closed: Callable[[str], None] | None = None,
        on_beat: Callable[[], None] | None = None,
        pending_bytes_max: int = PENDING_BYTES_MAX,
    ) -> None:
        """`on_message(kind, payload, fds)` owns the descriptors; they may be fewer than were sent if this process has
        run out of them. `on_closed(reason)` is called once when the other end is gone or does not read, not after a
        `close` here. `on_beat()` is called every HEARTBEAT_MS: the time to check `silent_beats`."""
        self._socket = joined
        self._socket.setblocking(False)
        self._on_message = on_message
        self._on_closed = on_closed
        self._on_beat = on_beat
        self._pending_bytes_max = pending_bytes_max
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._received_fds: deque[list[int]] = deque()
        # What waits to be sent, with the descriptors for its first byte.
        self._queue: deque[tuple[memoryview, list[int]]] = deque()
        self.pending_bytes = 0
        self.closed = False
        self._has_sent = False
        self.has_heard = False
        self.silent_beats = 0
        """How many heartbeats ago the other end was heard, or this socket created."""
        self._loop.add_reader(self._socket, self._read)
        self._timer = self._loop.call_at(next_beat(self._loop.time()), self._beat)

    def send(self, kind: bytes, payload: bytes | bytearray | memoryview = b"", fds: Sequence[int] = ()) -> None:
        """Send one message; `fds` stay the caller's, who may close them after this call. Dropped once closed."""
        assert 0 < len(kind) <= 255, "a kind is a short word"
        self._send(kind, payload, fds)

    def _send(self, kind: bytes, payload: bytes | bytearray | memoryview, fds: Sequence[int]) -> None:
        assert len(fds) <= FDS_MAX, "too many descriptors for one message"
        assert len(payload) <= _PAYLOAD_BYTES_MAX, "a message between processes is too large"
        if self.closed:
            return
        if self.pending_bytes and self.pending_bytes + len(payload) > self._pending_bytes_max:
            # Not called back from inside the caller's `send`.
            self._loop.call_soon(self._fail, f"the other process does not read: {self.pending_bytes} bytes wait for it")
            return
        self._has_sent = True
        frame = memoryview(b"".join((_HEAD.pack(len(payload), len(kind), len(fds)), kind, payload)))
        sent = 0
        if not self._queue:
            sent = self._try_send(frame, fds)
            if sent < 0 or sent == len(frame):
                return
        # Descriptors that went with the first bytes are not sent again; others must outlive the caller's.
        held = [] if sent else [os.dup(fd) for fd in fds]
        if not self._queue:
            self._loop.add_writer(self._socket, self._write)
        self._queue.append((frame[sent:], held))
        self.pending_bytes += len(frame) - sent

    def read_arrived(self) -> None:
        """Deliver what has arrived by now, before the event loop gets to it."""
        if not self.closed:
            self._read()

    def close(self) -> None:
        """Close this end; what waits to be sent is dropped, received descriptors without an owner are closed."""
        if self.closed:
            return
        self.closed = True
        self._timer.cancel()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for fds in (*self._received_fds, *(held for _, held in self._queue)):
            _close_all(fds)
        self._received_fds.clear()
        self._queue.clear()
        self.pending_bytes = 0

    def read_to_end(self) -> None:
        """The other process has ended: deliver what it had sent, then close."""
        while not self.closed and self._read():
            pass
        self.close()

    def _beat(self) -> None:
        self._timer = self._loop.call_at(next_beat(self._loop.time()), self._beat)
        self.silent_beats += 1
        if not self._has_sent and not self._queue:
            self._send(_HEARTBEAT, b"", ())
        self._has_sent = False
        if self._on_beat is not None:
            self._on_beat()

    def _fail(self, reason: str) -> None:
        if not self.closed:
            self.close()
            if self._on_closed is not None:
                self._on_closed(reason)

    def _try_send(self, data: memoryview, fds: Sequence[int]) -> int:
        """Return the number of bytes accepted; -1 if the other end is gone."""
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            return self._socket.sendmsg([data], ancillary)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            # Not called back from inside the caller's `send`.
            self._loop.call_soon(self._fail, f"sending failed: {error}")
            return -1

    def _write(self) -> None:
        while self._queue:
            data, held = self._queue[0]
            sent = self._try_send(data, held)
            if sent < 0:
                self._loop.remove_writer(self._socket)
                return
            if sent == 0:
                return
            self.pending_bytes -= sent
            _close_all(held)
            if sent == len(data):
                self._queue.popleft()
            else:
                self._queue[0] = (data[sent:], [])
        self._loop.remove_writer(self._socket)

    def _read(self) -> bool:
        """Read and deliver what has arrived. Return False if nothing had."""
        try:
            data, ancillary, flags, _ = self._socket.recvmsg(
                _RECEIVE_BYTES, socket.CMSG_SPACE(FDS_MAX * 4), socket.MSG_CMSG_CLOEXEC
            )
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self._fail(f"receiving failed: {error}")
            return False
        if ancillary or flags & _TRUNCATED:
            self._received_fds.append(_descriptors(ancillary))
            if flags & _TRUNCATED:
                _log.warning("descriptors were lost: this process is out of them")
        if not data:
            self._fail("the other process closed its end")
            return False
        self.has_heard = True
        self.silent_beats = 0
        self._received += data
        self._deliver()
        return True

    def _deliver(self) -> None:
        received = self._received
        while len(received) >= _HEAD.size and not self.closed:
            payload_length, kind_length, fd_count = _HEAD.unpack_from(received)
            if payload_length > _PAYLOAD_BYTES_MAX or fd_count > FDS_MAX:
                self._fail("a frame is out of bounds")
                return
            start = _HEAD.size + kind_length
            end = start + payload_length
            if len(received) < end:
                return
            kind, payload = bytes(received[_HEAD.size : start]), bytes(received[start:end])
            del received[:end]
            fds = self._received_fds.popleft() if fd_count and self._received_fds else []
            if kind == _HEARTBEAT:
                continue
            try:
                self._on_message(kind, payload, fds)
            except Exception as error:
                CONTAINED.contain(PROCESS_MESSAGE, error, {"kind": kind.decode("latin-1")})


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
