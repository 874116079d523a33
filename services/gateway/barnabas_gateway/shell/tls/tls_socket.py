"""One accepted socket with TLS on a processor's loop: the same as `ClientSocket` to its owner, once the handshake is
done.

OpenSSL works on memory (`ssl.MemoryBIO`); reading and writing the socket stay with the loop. Handshakes are bounded in
time and bytes, and run a few in each pass of the loop (`HandshakeQueue`), so that a storm of them delays others by
milliseconds. OpenSSL takes 50 KB for each that is under way, so that these are bounded in number too: over the bound
the oldest ends, which an honest client has completed long before. Ranges of files are read and encrypted: `sendfile`
can't (ADR 0027).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from barnabas.runtime.contained import CONTAINED
from barnabas.runtime.lane import Descriptor
from barnabas.wire.file_range import FileRange
from barnabas.wire.primitives import Buffer
from barnabas_gateway.core.model.containment import CONNECTION
from barnabas_gateway.shell.client_socket import SocketOwner

_RECEIVE_BYTES: Final = 256 << 10
_RECORD_BYTES: Final = 16 << 10
"""A read returns one record at most, and a larger buffer for it would be mapped, and given back, each time."""
_HANDSHAKE_BYTES_MAX: Final = 128 << 10
"""A ClientHello has hundreds of bytes, a client's chain of certificates some thousands."""
_ENCRYPT_BYTES: Final = 128 << 10
"""With more, what is encrypted has left the processor's cache when it is sent; with less, each send costs more."""
_range = bytearray(_ENCRYPT_BYTES)
"""What is read of a file, encrypted before the next read: one of the process, whose pages stay."""
_range_view = memoryview(_range)
_PASS_BYTES: Final = 1 << 20
"""What is encrypted in one pass of the loop, about a millisecond's work, before others have theirs."""
_LINGER_S: Final = 5.0
_HANDSHAKES_PER_PASS: Final = 4
"""A signature of RSA with 2048 bits takes about a millisecond."""
HANDSHAKES_MAX: Final = 256
"""Under way in a processor at once, from a whole ClientHello on."""
_HANDSHAKE_RECORD: Final = 0x16
_RECORD_HEADER_BYTES: Final = 5


class TlsOwner(SocketOwner, Protocol):
    def handshake_done(self, connection_id: int, tls: ssl.SSLObject) -> None:
        """`bytes_received` and the others follow, unless this closes the socket."""

    def handshake_failed(self, connection_id: int, reason: str) -> None:
        """Called once, instead of `handshake_done`; the socket is closed. `reason` is empty for a client that has only
        looked whether the port is open.
        """


class HandshakeQueue:
    """The handshakes of a processor: those that have received something, and all that are under way."""

    def __init__(self) -> None:
        self._waiting: deque[TlsSocket] = deque()
        self._under_way: dict[TlsSocket, None] = {}
        """The oldest first."""
        self._loop = asyncio.get_running_loop()
        self._is_scheduled = False

    @property
    def under_way_count(self) -> int:
        return len(self._under_way)

    def add(self, waiting: TlsSocket) -> None:
        self._waiting.append(waiting)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def begin(self, begun: TlsSocket) -> None:
        """OpenSSL begins with this one."""
        self._under_way[begun] = None
        if len(self._under_way) > HANDSHAKES_MAX:
            next(iter(self._under_way)).fail("too many handshakes are under way, and this is the oldest")

    def end(self, ended: TlsSocket) -> None:
        self._under_way.pop(ended, None)

    def _run(self) -> None:
        for _ in range(min(_HANDSHAKES_PER_PASS, len(self._waiting))):
            handshaking = self._waiting.popleft()
            try:
                handshaking.continue_handshake()
            except Exception as error:
                handshaking.break_off(error)
        self._is_scheduled = bool(self._waiting)
        if self._is_scheduled:
            self._loop.call_soon(self._run)


class TlsSocket:
    __slots__ = (
        "_connection_id",
        "_context",
        "_handshake_bytes",
        "_hello",
        "_incoming",
        "_is_closing",
        "_is_established",
        "_is_gone",
        "_is_reading",
        "_is_writing",
        "_loop",
        "_outgoing",
        "_owner",
        "_plain",
        "_plain_bytes",
        "_queue",
        "_sealed",
        "_socket",
        "_timer",
        "_tls",
        "unsent_bytes",
    )

    def __init__(
        self,
        connection_id: int,
        accepted: socket.socket,
        context: ssl.SSLContext,
        owner: TlsOwner,
        queue: HandshakeQueue,
        handshake_ms_max: int,
    ) -> None:
        self._connection_id = connection_id
        self._socket = accepted
        self._socket.setblocking(False)
        self._context = context
        self._owner = owner
        self._queue = queue
        self._loop = asyncio.get_running_loop()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        """None until a whole ClientHello has arrived: a connection without one costs no memory of OpenSSL."""
        self._hello = bytearray()
        """What has arrived until then."""
        self._handshake_bytes = 0
        self._plain: deque[memoryview | FileRange] = deque()
        self._plain_bytes = 0
        self._sealed = memoryview(b"")
        """What is encrypted and not sent."""
        self.unsent_bytes = 0
        self._is_established = False
        self._is_reading = False
        self._is_writing = False
        self._is_closing = False
        self._is_gone = False
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(handshake_ms_max / 1000, self._too_late)
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
        """Send in order; what the socket does not accept now is encrypted and sent as the client reads."""
        if self._is_gone:
            return
        for buffer in buffers:
            self._plain.append(buffer if isinstance(buffer, FileRange) else memoryview(buffer))
            self._plain_bytes += len(buffer)
        if not self._is_writing:
            self._pump()

    def close(self) -> None:
        """Close it once everything written has been sent, or after a while in which the client did not read it."""
        self.pause()
        self._is_closing = True
        if self._is_writing:
            self._loop.call_later(_LINGER_S, self.abort)
        else:
            self._say_goodbye()
            self._end()

    def abort(self) -> None:
        """Close it now."""
        self._plain.clear()
        self._plain_bytes = self.unsent_bytes = 0
        self._end()

    # --- the handshake ---

    def continue_handshake(self) -> None:
        if self._is_gone:
            return
        if self._tls is None:
            self._queue.begin(self)
            self._tls = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._pump()
            self.resume()
            return
        except ssl.SSLError as error:
            self.fail(_reason_of(error))
            return
        self._queue.end(self)
        self._is_established = True
        self._stop_timer()
        self._owner.handshake_done(self._connection_id, self._tls)
        if not self._is_over():
            self._pump()
            self.resume()
            self._decrypt()

    def _is_over(self) -> bool:
        """Whether the owner has closed it meanwhile, or it has failed."""
        return self._is_gone

    def break_off(self, error: Exception) -> None:
        """End the handshake because of an exception that nothing expects. One of what follows it is its owner's."""
        if self._is_established:
            raise error
        CONTAINED.contain(CONNECTION, error)
        self.fail("an internal error")

    def _too_late(self) -> None:
        self._timer = None
        self.fail("it has not completed the handshake in time")

    def fail(self, reason: str) -> None:
        """End a handshake that is not done."""
        if not self._is_gone:
            self._say_goodbye()
            self._end()
            self._owner.handshake_failed(self._connection_id, reason)

    # --- reading ---

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        if self._is_established:
            self._incoming.write(data)
            self._decrypt()
            return
        self._handshake_bytes += len(data)
        if self._tls is None:
            self._hello += data
            if not _is_whole_record(self._hello):
                return
            data = bytes(self._hello)
            self._hello.clear()
        self._incoming.write(data)
        if self._handshake_bytes > _HANDSHAKE_BYTES_MAX:
            self.fail(f"a handshake of more than {_HANDSHAKE_BYTES_MAX} bytes")
            return
        self.pause()
        self._queue.add(self)

    def _decrypt(self) -> None:
        assert self._tls is not None, "decrypted before the handshake"
        pieces: list[bytes] = []
        is_over = False
        while True:
            try:
                piece = self._tls.read(_RECORD_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError:
                piece = b""
            if not piece:
                is_over = True
                break
            pieces.append(piece)
        if pieces:
            self._owner.bytes_received(self._connection_id, pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if is_over:
            self._lose()
        elif self._outgoing.pending and not self._is_writing:
            self._pump()

    # --- writing ---

    def _pump(self) -> None:
        """Encrypt and send what the socket accepts, up to a bound."""
        sealed_bytes = 0
        while True:
            if not self._sealed and self._outgoing.pending:
                self._sealed = memoryview(self._outgoing.read())
            if self._sealed:
                try:
                    sent = self._socket.send(self._sealed)
                except (BlockingIOError, InterruptedError):
                    sent = 0
                except OSError:
                    self._lose()
                    return
                self._sealed = self._sealed[sent:]
                if self._sealed:
                    break
            if not self._plain or sealed_bytes >= _PASS_BYTES:
                break
            if not self._seal_next():
                self._lose()
                return
            sealed_bytes += _ENCRYPT_BYTES
        self.unsent_bytes = self._plain_bytes + len(self._sealed)
        self._watch_writable(is_wanted=self.unsent_bytes > 0)

    def _seal_next(self) -> bool:
        """Encrypt some of what is first. Return False if a range is not in its file any more."""
        assert self._tls is not None, "written before the handshake"
        first = self._plain.popleft()
        if isinstance(first, FileRange):
            assert isinstance(first.file, Descriptor), "a range of a file that was not handed over"
            wanted = _range_view[: min(first.length, _ENCRYPT_BYTES)]
            chunk: bytes | memoryview = wanted[: os.preadv(first.file.fileno(), [wanted], first.position)]
            if not chunk:
                return False
            if len(chunk) < first.length:
                self._plain.appendleft(first.after(len(chunk)))
        elif len(first) >= _ENCRYPT_BYTES:
            chunk = first[:_ENCRYPT_BYTES]
            if len(first) > _ENCRYPT_BYTES:
                self._plain.appendleft(first[_ENCRYPT_BYTES:])
        else:
            # Small buffers together are one TLS record instead of one each.
            parts, part_bytes = [first], len(first)
            while self._plain:
                following = self._plain[0]
                if isinstance(following, FileRange) or part_bytes + len(following) > _ENCRYPT_BYTES:
                    break
                parts.append(following)
                part_bytes += len(following)
                self._plain.popleft()
            chunk = b"".join(parts) if len(parts) > 1 else first
        self._plain_bytes -= len(chunk)
        if len(chunk):
            self._tls.write(chunk)
        return True

    def _writable(self) -> None:
        self._pump()
        if self._is_gone:
            return
        if not self._is_closing:
            if self._is_established:
                self._owner.unsent_changed(self._connection_id, self.unsent_bytes)
        elif not self.unsent_bytes:
            self._say_goodbye()
            self._end()

    def _watch_writable(self, *, is_wanted: bool) -> None:
        if is_wanted and not self._is_writing:
            self._loop.add_writer(self._socket, self._writable)
        elif self._is_writing and not is_wanted:
            self._loop.remove_writer(self._socket)
        self._is_writing = is_wanted

    # --- the end ---

    def _say_goodbye(self) -> None:
        """Send what OpenSSL still has to say, an alert or that nothing follows, if the socket takes it at once."""
        with contextlib.suppress(OSError, ValueError):
            if self._tls is not None and self._is_established:
                with contextlib.suppress(ssl.SSLError):
                    self._tls.unwrap()
            if self._outgoing.pending and not self._sealed:
                self._socket.send(self._outgoing.read())

    def _lose(self) -> None:
        was_closing, was_established = self._is_closing, self._is_established
        if not was_established:
            self.fail("the client closed the connection" if self._handshake_bytes else "")
            return
        self.abort()
        if not was_closing:
            self._owner.socket_lost(self._connection_id)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        if self._is_gone:
            return
        self._is_gone = True
        self._queue.end(self)
        self._stop_timer()
        self.pause()
        self._loop.remove_writer(self._socket)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._socket.close()


def _is_whole_record(received: bytearray) -> bool:
    """Whether a handshake can begin: with its first record, or with what is none, for OpenSSL to say so."""
    if received[:1] != bytes((_HANDSHAKE_RECORD,)):
        return True
    if len(received) < _RECORD_HEADER_BYTES:
        return False
    return len(received) >= _RECORD_HEADER_BYTES + int.from_bytes(received[3:5], "big")


def _reason_of(error: ssl.SSLError) -> str:
    reason = error.reason or ""
    if reason in ("HTTP_REQUEST", "WRONG_VERSION_NUMBER", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE"):
        return f"the client does not speak TLS ({reason})"
    return reason or str(error)
