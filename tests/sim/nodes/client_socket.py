"""A client's socket at a gateway: what arrives while it is paused waits, and ranges of files are read late."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from barnabas.wire.file_range import FileRange
from barnabas.wire.primitives import Buffer
from tests.sim.disk_model import ModelFile
from tests.sim.network import End
from tests.sim.scheduler import MS

if TYPE_CHECKING:
    from tests.sim.nodes.gateway import GatewayNode

SLOW_CLIENT_SHARE = 0.03
SLOW_CLIENT_US_MAX = 2_000 * MS


class ClientSocket:
    """A client's connection; while it is paused, what arrives stays in the kernel."""

    def __init__(self, node: GatewayNode, connection_id: int, end: End) -> None:
        self._node = node
        self.connection_id = connection_id
        self.end = end
        self.is_paused = False
        self._unread: list[bytes] = []
        self._unsent: deque[list[Buffer | FileRange]] = deque()

    def on_message(self, message: bytes) -> None:
        if self.is_paused:
            self._unread.append(message)
            return
        self._node.running.bytes_received(self.connection_id, message, self._node.now_ms)
        self._node.turn_soon()

    def on_closed(self, reason: str) -> None:
        self._node.socket_lost(self.connection_id)

    def write(self, buffers: list[Buffer | FileRange]) -> None:
        """Ranges of files are read when the client does, which may be much later."""
        for buffer in buffers:
            if isinstance(buffer, FileRange):
                _note_sent(buffer)
        if not self._unsent and not any(isinstance(buffer, FileRange) for buffer in buffers):
            self.end.send(b"".join(map(_bytes_of, buffers)))
            return
        self._unsent.append(buffers)
        self._tell_unsent()
        if len(self._unsent) == 1:
            self._send_later()

    def _send_later(self) -> None:
        scheduler = self._node.scheduler
        delay_us = scheduler.below(200)
        if scheduler.random.random() < self._node.slow_share:
            delay_us = scheduler.below(SLOW_CLIENT_US_MAX)
        self._node.after(delay_us, "sends a range", self._send_first)

    def _send_first(self) -> None:
        if not self._unsent:
            return
        buffers = self._unsent.popleft()
        try:
            self.end.send(b"".join(map(_bytes_of, buffers)))
        except EOFError:
            self._unsent.clear()
            self._node.range_cut(self.connection_id)
            self.end.close("a range is not in its file any more")
            self._node.socket_lost(self.connection_id)
            return
        self._tell_unsent()
        if self._unsent:
            self._send_later()

    def _tell_unsent(self) -> None:
        self._node.unsent_changed(self.connection_id, sum(len(each) for buffers in self._unsent for each in buffers))

    def close(self) -> None:
        """Close it after what was written."""
        while self._unsent:
            self._send_first()
        self.end.close("closed by the gateway")

    def resume(self) -> None:
        self.is_paused = False
        unread, self._unread = self._unread, []
        for message in unread:
            self.on_message(message)


def _note_sent(part: FileRange) -> None:
    """Have the disk hold the file to what a client is being sent of it (ADR 0027)."""
    assert isinstance(part.file, ModelFile)
    if not part.file.machine.is_over:
        node = part.file.node
        node.sent_end = max(node.sent_end, min(part.position + part.length, len(node.content)))


def _bytes_of(buffer: Buffer | FileRange) -> bytes:
    """Return what is in a file now; raises EOFError if it ends before, or if its machine is gone."""
    if not isinstance(buffer, FileRange):
        return bytes(buffer)
    assert isinstance(buffer.file, ModelFile)
    content = bytes(buffer.file.node.content[buffer.position : buffer.position + buffer.length])
    if len(content) < buffer.length or buffer.file.machine.is_over:
        raise EOFError
    return content
