"""Lane: a stream's messages over a Unix socket to a process of the same host, each after its length.

A message that one read returns as a whole is copied once, out of a buffer that all lanes of the process share; any
other is received where it stays. Whole messages are delivered in the turn in which their bytes arrive. A message is
written at once if nothing waits before it; what the kernel does not take is written when there is space.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from typing import Final, TypeAlias

from barnabas.runtime.contained import CONTAINED, PACKING
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas.runtime.rpc import MESSAGE_BYTES_MAX

Packing: TypeAlias = Callable[[], Awaitable[bytes]]
"""Begins to pack a message, when those before it have been sent."""

_LENGTH: Final = struct.Struct("<I")
_READ_BYTES: Final = 256 << 10
_JOINED_BYTES_MAX: Final = 8 << 10
"""Up to this size a copy behind the length costs less than a write of two parts."""
_MESSAGES_PER_TURN: Final = 64
"""Of one lane, so that what has gathered for a process that did not run does not make one long turn."""
_PARTS_MAX: Final = 64
"""Parts of one write; the kernel allows 1,024."""
_SOCKET_BUFFER_BYTES: Final = 4 << 20
"""What the kernel keeps between both sides, if it allows so much: a large message then needs few turns."""
_SO_SNDBUFFORCE: Final = 32

_read_buffer: Final = memoryview(bytearray(_READ_BYTES))
"""Filled and read within one turn: a process has one event loop."""

_DESCRIPTORS_MAX: Final = 253
"""Of one message, as the kernel has it."""
_TRUNCATED: Final = int(socket.MSG_CTRUNC)
"""As a number: `&` with a member of an enum takes 1.5 µs."""
_ANCILLARY_BYTES: Final = socket.CMSG_LEN(_DESCRIPTORS_MAX * array("i").itemsize)


class Descriptor:
    """An open file descriptor that is closed with its last reference."""

    __slots__ = ("_number",)

    def __init__(self, number: int) -> None:
        self._number = number

    def fileno(self) -> int:
        return self._number

    def __del__(self) -> None:
        os.close(self._number)


@dataclass(slots=True, frozen=True)
class _Along:
    """Descriptors that go along with the part behind them."""

    descriptors: Sequence[Descriptor]


OnDescriptors: TypeAlias = Callable[[Sequence[Descriptor]], None]


class Lane:
    """One connected socket. Once it is lost or closed, what is sent is dropped.

    `on_message` gets each message, in order; `on_lost` is called once, with the reason, unless `close` came first.
    """

    __slots__ = (
        "_descriptor",
        "_frame",
        "_frame_rest",
        "_holds",
        "_is_writing",
        "_later",
        "_loop",
        "_on_descriptors",
        "_on_lost",
        "_on_message",
        "_packing",
        "_parts",
        "_rest",
        "_socket",
        "pending_bytes",
    )

    def __init__(
        self,
        connected: socket.socket,
        on_message: Callable[[bytes], None],
        on_lost: Callable[[str], None],
        on_descriptors: OnDescriptors | None = None,
    ) -> None:
        """Take over the socket; nothing is read before `release`. `on_descriptors` gets those that come along with a
        message, before it.
        """
        connected.setblocking(False)
        _widen(connected)
        self._socket = connected
        self._descriptor = connected.fileno()
        self._on_message = on_message
        self._on_lost = on_lost
        self._on_descriptors = on_descriptors
        self._loop = asyncio.get_running_loop()
        self._holds = 1
        self._rest = b""
        """Received and not delivered: while nothing is read whole messages, else a part of a length."""
        self._frame: BytesIO | None = None
        """The message that is being received, with `_frame_rest`: where its missing bytes belong."""
        self._frame_rest: memoryview = _read_buffer[:0]
        self._parts: deque[bytes | memoryview | _Along] = deque()
        """What the kernel has not taken of messages whose turn it is."""
        self._is_writing = False
        self._later: deque[bytes | Packing | _Along] = deque()
        """Messages behind one that is being packed, or waits for its turn to be."""
        self._packing: asyncio.Task[None] | None = None
        self.pending_bytes = 0

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0

    @property
    def is_held(self) -> bool:
        return self._holds > 0

    def hold(self) -> None:
        """Deliver nothing, and read nothing, until a `release` for each `hold`."""
        self._holds += 1
        if self._holds == 1 and self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)

    def release(self) -> None:
        """Deliver and read again, from the next turn on, if this was the last hold."""
        self._holds -= 1
        assert self._holds >= 0, "a release without its hold"
        if not self._holds:
            self._loop.call_soon(self._go_on)

    def send(self, data: bytes, descriptors: Sequence[Descriptor] = ()) -> None:
        """Send one message, at once or behind those that wait; the peer gets the descriptors before it."""
        if self._descriptor < 0:
            return
        if self._later or self._packing is not None:
            if descriptors:
                self._later.append(_Along(descriptors))
            self._later.append(data)
            self.pending_bytes += len(data)
        else:
            self._write(data, descriptors)

    def send_when_packed(self, packing: Packing) -> None:
        """Send a message that is packed at its turn; what is sent later waits for it."""
        if self._descriptor >= 0:
            self._later.append(packing)
            self._send_later_ones()

    def close(self) -> None:
        """Close the socket; what waits to be sent is dropped."""
        if self._descriptor < 0:
            return
        self._loop.remove_reader(self._descriptor)
        self._loop.remove_writer(self._descriptor)
        self._descriptor = -1
        self._socket.close()
        if self._packing is not None:
            self._packing.cancel()
        self._parts.clear()
        self._later.clear()
        self.pending_bytes = 0
        self._rest = b""
        self._drop_frame()

    def read(self) -> bool:
        """Read once, and deliver what is whole; return whether there were bytes."""
        rest = self._rest
        if len(rest) >= _LENGTH.size:
            # A hold has ended, and its turn has not come.
            self._go_on()
            return True
        try:
            if self._frame is not None:
                received = self._receive((self._frame_rest, _read_buffer))
            elif rest:
                _read_buffer[: len(rest)] = rest
                received = self._receive((_read_buffer[len(rest) :],))
            else:
                received = self._receive((_read_buffer,))
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self._lose(f"reading failed: {error}")
            return False
        if not received:
            self._lose("the peer closed it")
            return False
        if self._frame is not None:
            self._fill_frame(received)
        else:
            self._rest = b""
            self._cut(_read_buffer, len(rest) + received)
        return True

    def _receive(self, buffers: Sequence[memoryview]) -> int:
        if self._on_descriptors is None:
            return self._socket.recvmsg_into(buffers)[0] if len(buffers) > 1 else self._socket.recv_into(buffers[0])
        received, ancillary, flags, _ = self._socket.recvmsg_into(buffers, _ANCILLARY_BYTES)
        numbers = array("i")
        for _, kind, content in ancillary:
            if kind == socket.SCM_RIGHTS:
                numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
        descriptors = [Descriptor(number) for number in numbers]
        if flags & _TRUNCATED:
            raise OSError("descriptors were lost: this process may open no more files")
        if descriptors:
            self._on_descriptors(descriptors)
        return received

    def _go_on(self) -> None:
        if self._holds or self._descriptor < 0:
            return
        rest, self._rest = self._rest, b""
        if rest:
            self._cut(memoryview(rest), len(rest))
        if not self._holds and self._descriptor >= 0:
            self._loop.add_reader(self._descriptor, self.read)

    def _cut(self, received: memoryview, end: int) -> None:
        """Deliver each whole message of `received[:end]`, and keep what is left."""
        position = 0
        left = _MESSAGES_PER_TURN
        while end - position >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(received, position)
            if size > MESSAGE_BYTES_MAX:
                self._lose(f"a message of {size} bytes was announced")
                return
            start = position + _LENGTH.size
            if start + size > end:
                self._begin_frame(size, received[start:end])
                return
            position = start + size
            self._on_message(bytes(received[start:position]))
            left -= 1
            if not left:
                self.hold()
                self.release()
                break
            if self._holds or self._descriptor < 0:
                break
        if position < end and self._descriptor >= 0:
            self._rest = bytes(received[position:end])

    def _begin_frame(self, size: int, head: memoryview) -> None:
        # The buffer's `getvalue` returns its bytes without a copy.
        self._frame = BytesIO(bytes(size))
        view = self._frame.getbuffer()
        view[: len(head)] = head
        self._frame_rest = view[len(head) :]
        view.release()

    def _fill_frame(self, received: int) -> None:
        missing = len(self._frame_rest)
        rest = self._frame_rest[received:]
        self._frame_rest.release()
        self._frame_rest = rest
        if received < missing:
            return
        frame = self._frame
        assert frame is not None
        self._drop_frame()
        self._on_message(frame.getvalue())
        if received > missing and self._descriptor >= 0:
            if self._holds:
                self._rest = bytes(_read_buffer[: received - missing])
            else:
                self._cut(_read_buffer, received - missing)

    def _drop_frame(self) -> None:
        self._frame_rest.release()
        self._frame_rest = _read_buffer[:0]
        self._frame = None

    def _write(self, data: bytes, descriptors: Sequence[Descriptor] = ()) -> None:
        """Write a message whose turn it is."""
        length = _LENGTH.pack(len(data))
        parts = (length + data,) if len(data) <= _JOINED_BYTES_MAX else (length, data)
        written = 0
        if not self._parts:
            try:
                if descriptors or len(parts) > 1:
                    written = self._socket.sendmsg(parts, _rights(descriptors))
                else:
                    written = self._socket.send(parts[0])
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as error:
                self._lose(f"writing failed: {error}")
                return
            if written == _LENGTH.size + len(data):
                return
        self.pending_bytes += _LENGTH.size + len(data) - written
        if descriptors and not written:
            self._parts.append(_Along(descriptors))
        for part in parts:
            if written < len(part):
                self._parts.append(memoryview(part)[written:])
            written = max(0, written - len(part))
        if not self._is_writing:
            self._is_writing = True
            self._loop.add_writer(self._descriptor, self._write_on)

    def _write_on(self) -> None:
        parts = self._parts
        along = parts.popleft() if isinstance(parts[0], _Along) else None
        batch = _written_together(parts)
        try:
            written = self._socket.sendmsg(batch, _rights(along.descriptors) if isinstance(along, _Along) else ())
        except (BlockingIOError, InterruptedError):
            if along is not None:
                parts.appendleft(along)
            return
        except OSError as error:
            self._lose(f"writing failed: {error}")
            return
        self.pending_bytes -= written
        for part in batch:
            if written < len(part):
                parts[0] = memoryview(part)[written:]
                break
            written -= len(part)
            parts.popleft()
        if parts:
            return
        self._is_writing = False
        self._loop.remove_writer(self._descriptor)
        self._send_later_ones()

    def _send_later_ones(self) -> None:
        later = self._later
        while later and not self._parts and self._packing is None:
            item = later.popleft()
            if callable(item):
                self._packing = BackgroundTasks(PACKING, self._packing_failed).start(self._pack(item))
                return
            descriptors: Sequence[Descriptor] = ()
            if isinstance(item, _Along):
                descriptors, item = item.descriptors, later.popleft()
            assert isinstance(item, bytes), "descriptors go along with a message"
            self.pending_bytes -= len(item)
            self._write(item, descriptors)

    async def _pack(self, packing: Packing) -> None:
        try:
            data = await packing()
        except Exception as error:
            CONTAINED.contain(PACKING, error)
            self._packing_failed(error)
            return
        self._packing = None
        if self._descriptor >= 0:
            self._write(data)
            self._send_later_ones()

    def _packing_failed(self, error: BaseException) -> None:
        self._packing = None
        self._lose(f"packing failed: {error}")

    def _lose(self, reason: str) -> None:
        self.close()
        self._on_lost(reason)


def _written_together(parts: Iterable[bytes | memoryview | _Along]) -> list[bytes | memoryview]:
    """Return the first parts, up to the next one that has descriptors along with it."""
    batch: list[bytes | memoryview] = []
    for part in islice(parts, _PARTS_MAX):
        if isinstance(part, _Along):
            break
        batch.append(part)
    return batch


def _rights(descriptors: Sequence[Descriptor]) -> list[tuple[int, int, array[int]]]:
    """Return the ancillary data that hands descriptors over."""
    if not descriptors:
        return []
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [each.fileno() for each in descriptors]))]


def _widen(connected: socket.socket) -> None:
    """Ask for a large buffer: beyond the system's limit for what may do so, up to it for others."""
    with contextlib.suppress(OSError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES)
        connected.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SOCKET_BUFFER_BYTES)
