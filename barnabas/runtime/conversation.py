"""Conversation: one open stream, the same at both ends: what waits to be sent, what is read, heartbeats and silence.

It begins on gRPC. If both ends are on one host it goes on by a lane (`barnabas.runtime.lane`): each end then sends
first how many messages it has sent by gRPC, and all others by the lane; the other end delivers what comes by the lane
after those. So no message is lost, doubled or reordered, whatever either end was doing. The gRPC stream stays open: it
ends when the conversation does, and its status is the reason.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio

from barnabas.channel.packing_primitives import MalformedMessage
from barnabas.channel.shared_records import SharedOutbox
from barnabas.runtime import shared_memory
from barnabas.runtime.contained import CONTAINED, MESSAGE, PACKING
from barnabas.runtime.lane import Descriptor, Lane, OnDescriptors, Packing
from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas.runtime.loop.beat import BEAT_MS, next_beat

HEARTBEAT_MS: Final = BEAT_MS
"""At each beat an end sends a heartbeat, unless it has sent something in the half before it."""
SILENCE_MS_MAX: Final = 3000

# A timer that is this late shows that this process did not run; the peer is not responsible for that time.
_LATENESS_MS_MAX: Final = 500

# So long the end waits for the status that gRPC reports: it has the reason, which a lost lane or a failed write lacks.
_STATUS_S: Final = 0.1
_HELD_POLL_S: Final = 0.01

PACKINGS_MAX: Final = 1_000
"""Large messages that wait to be packed: a peer that reads more slowly than they come loses the stream."""

_SWITCH: Final = struct.Struct("<Q")
"""The first message on a lane: how many its sender has sent by gRPC."""

_log = get_logger("streams")

OnMessage: TypeAlias = Callable[[bytes], Awaitable[None] | None]
"""Handles one message; the next one is delivered when the returned awaitable is done."""


class Conversation:
    """One open stream: the outgoing queue, the reading loop and the heartbeats, the same on both sides."""

    __slots__ = (
        "_delivered",
        "_expected",
        "_has_spoken",
        "_heartbeats",
        "_is_handling",
        "_lane",
        "_last_received",
        "_last_sent",
        "_loop",
        "_on_descriptors",
        "_on_message",
        "_outbox",
        "_pack_heartbeat",
        "_packings",
        "_pending_bytes",
        "_pending_bytes_max",
        "_queue",
        "_queued",
        "_read",
        "_resumed",
        "_sends_by_lane",
        "_tasks",
        "_timer",
        "_wake_writer",
        "_write",
        "ended",
        "has_lost_lane",
    )

    def __init__(
        self,
        read: Callable[[], Awaitable[Any]],
        write: Callable[[bytes], Awaitable[None]],
        on_message: OnMessage,
        pack_heartbeat: Callable[[int], bytes],
        pending_bytes_max: int,
        on_descriptors: OnDescriptors | None = None,
    ) -> None:
        self._read = read
        self._write = write
        self._on_message = on_message
        self._pack_heartbeat = pack_heartbeat
        self._on_descriptors = on_descriptors
        self._pending_bytes_max = pending_bytes_max
        self._loop = asyncio.get_running_loop()
        self._queue: deque[bytes | Packing] = deque()
        """What gRPC is to send, with `_pending_bytes` and `_queued`: how many messages there were."""
        self._pending_bytes = 0
        self._packings = 0
        """Messages whose packing has not begun, of gRPC or of the lane."""
        self._queued = 0
        self._delivered = 0
        """Messages that came by gRPC and are handled."""
        self._lane: Lane | None = None
        self._sends_by_lane = False
        self._outbox: SharedOutbox | None = None
        self._expected: int | None = None
        """How many messages the peer has sent by gRPC, once it sends by the lane."""
        self.has_lost_lane = False
        """The conversation ended because its lane did, while gRPC went on."""
        self._tasks = BackgroundTasks(MESSAGE, self._failed)
        """Reading, writing, and the handling of a message that came by the lane."""
        self._wake_writer: asyncio.Future[None] | None = None
        self._resumed: asyncio.Event | None = None
        self._has_spoken = False
        """Heartbeats wait for our first message: the peer identifies us by it, however late it is."""
        self._is_handling = False
        """A message is being processed over several turns: nothing is read meanwhile, so silence means nothing."""
        self._heartbeats = 0
        self._last_sent = self._last_received = monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self.ended: asyncio.Future[str] = self._loop.create_future()

    @property
    def pending_bytes(self) -> int:
        """Bytes sent and not yet accepted by gRPC or by the kernel."""
        return self._pending_bytes + (self._lane.pending_bytes if self._lane is not None else 0)

    @property
    def sends_by_lane(self) -> bool:
        """Whether what is sent from now on may have descriptors along with it."""
        return self._sends_by_lane

    @property
    def outbox(self) -> SharedOutbox | None:
        """What is shared with the peer instead of being sent, if the peer has created memory for that."""
        return self._outbox if self._sends_by_lane else None

    def send(self, data: bytes, descriptors: Sequence[Descriptor] = ()) -> None:
        if self.ended.done():
            return
        lane = self._lane
        pending_bytes = self._pending_bytes if lane is None else self._pending_bytes + lane.pending_bytes
        if pending_bytes and pending_bytes + len(data) > self._pending_bytes_max:
            self.end(f"the peer reads too slowly: {pending_bytes} bytes are waiting for it")
            return
        self._has_spoken = True
        if self._sends_by_lane:
            assert lane is not None
            self._last_sent = monotonic()
            lane.send(data, descriptors)
            return
        assert not descriptors, "gRPC carries no descriptors"
        self._enqueue(data)
        self._pending_bytes += len(data)

    def send_when_packed(self, packing: Packing) -> None:
        if self.ended.done():
            return
        if self._packings >= PACKINGS_MAX:
            self.end(f"the peer reads too slowly: {self._packings} large messages are waiting for it")
            return
        self._packings += 1
        self._has_spoken = True
        begun = partial(self._begin_packing, packing)
        if self._sends_by_lane:
            assert self._lane is not None
            self._lane.send_when_packed(begun)
        else:
            self._enqueue(begun)

    def _begin_packing(self, packing: Packing) -> Awaitable[bytes]:
        self._packings -= 1
        return packing()

    def end(self, reason: str) -> None:
        """End the exchange; the first reason is kept."""
        if not self.ended.done():
            self.ended.set_result(reason)

    def pause(self) -> None:
        if self._resumed is None:
            self._resumed = asyncio.Event()
            if self._lane is not None:
                self._lane.hold()

    def resume(self) -> None:
        if self._resumed is not None:
            self._last_received = monotonic()
            self._resumed.set()
            self._resumed = None
            if self._lane is not None:
                self._lane.release()

    def take_lane(self, connected: socket.socket, memory: Descriptor | None = None) -> None:
        """Send by this lane from now on: the client's end, after the peer has accepted."""
        self.accept_lane(connected, memory)
        self._switch()

    def accept_lane(self, connected: socket.socket, memory: Descriptor | None = None) -> None:
        """Read from this lane, and send by it once the client does: the server's end. `memory` is what the peer has
        created.
        """
        if self.ended.done():
            connected.close()
            return
        if memory is not None:
            try:
                self._outbox = SharedOutbox(shared_memory.attach(memory))
            except OSError as error:
                _log.warning("memory of a peer is not used", reason=str(error))
        assert self._lane is None, "an offer is taken once"
        self._lane = Lane(connected, self._lane_received, self._lane_lost, self._on_descriptors)
        if self._resumed is not None:
            self._lane.hold()
        self._lane.release()

    async def run(self) -> str:
        """Run until ended; return the reason."""
        self._tasks.start(self._read_loop())
        self._tasks.start(self._write_loop())
        try:
            self._watch_time()
            return await self.ended
        finally:
            self.end("cancelled")
            if self._timer is not None:
                self._timer.cancel()
            if self._lane is not None:
                self._lane.close()
            await self._tasks.stop()
            self._queue.clear()
            self._pending_bytes = 0

    def _enqueue(self, item: bytes | Packing) -> None:
        self._queued += 1
        self._queue.append(item)
        if self._wake_writer is not None and not self._wake_writer.done():
            self._wake_writer.set_result(None)

    async def _read_loop(self) -> None:
        try:
            while True:
                data = await self._read()
                if data is grpc.aio.EOF:  # type: ignore[attr-defined] # the stubs are older
                    await self._read_lane_out()
                    self.end("the peer closed the stream")
                    return
                self._last_received = monotonic()
                if self.ended.done():
                    return
                if self._delivered == self._expected:
                    self.end("malformed message: gRPC carried one after the lane was taken")
                    return
                working = self._on_message(data)
                if working is not None:
                    self._is_handling = True
                    await working
                    self._is_handling = False
                    self._last_received = monotonic()
                if self._resumed is not None:
                    await self._resumed.wait()
                self._delivered += 1
                if self._delivered == self._expected:
                    assert self._lane is not None
                    self._lane.release()
        except grpc.aio.AioRpcError as status:
            await self._read_lane_out()
            self.end(f"{status.code().name}: {status.details()}")
        except asyncio.CancelledError:
            # Also what gRPC raises when the call, and not this task, is cancelled.
            self.end("the call was cancelled")
            raise
        except Exception as error:
            self._handling_failed(error)

    def _handling_failed(self, error: Exception) -> None:
        if isinstance(error, MalformedMessage):
            self.end(f"malformed message: {error}")
            return
        CONTAINED.contain(MESSAGE, error)
        self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self.end(f"{type(error).__name__}: {error}")

    async def _write_loop(self) -> None:
        queue = self._queue
        try:
            while True:
                if not queue:
                    self._wake_writer = self._loop.create_future()
                    await self._wake_writer
                    self._wake_writer = None
                data = queue.popleft()
                if callable(data):
                    try:
                        data = await data()
                    except Exception as error:
                        CONTAINED.contain(PACKING, error)
                        self.end(f"packing failed: {error}")
                        return
                    await self._write(data)
                else:
                    await self._write(data)
                    self._pending_bytes -= len(data)
                self._last_sent = monotonic()
        except asyncio.CancelledError:
            self.end("the call was cancelled")
            raise
        except Exception as error:
            # The status that the reader gets has the reason; wait for it a moment before keeping a less specific one.
            self._loop.call_later(_STATUS_S, self.end, f"writing failed: {error}")

    def _switch(self) -> None:
        """Send by the lane from now on, unless it is lost already: then the peer has not heard of it."""
        assert self._lane is not None
        self._lane.send(_SWITCH.pack(self._queued))
        self._sends_by_lane = self._lane.is_open

    def _lane_received(self, data: bytes) -> None:
        self._last_received = monotonic()
        if self.ended.done():
            return
        if self._expected is None:
            self._peer_switched(data)
            return
        try:
            working = self._on_message(data)
        except Exception as error:
            self._handling_failed(error)
            return
        if working is not None:
            assert self._lane is not None
            self._lane.hold()
            self._is_handling = True
            self._tasks.start(self._finish_handling(working))

    def _peer_switched(self, data: bytes) -> None:
        assert self._lane is not None
        if len(data) != _SWITCH.size:
            self.end("malformed message: a lane does not begin with a number of messages")
            return
        (self._expected,) = _SWITCH.unpack(data)
        if self._delivered < self._expected:
            self._lane.hold()
        elif self._delivered > self._expected:
            self.end("malformed message: a lane begins with a number of messages that is too small")
            return
        if not self._sends_by_lane:
            self._switch()

    async def _finish_handling(self, working: Awaitable[None]) -> None:
        try:
            await working
        except Exception as error:
            self._handling_failed(error)
            return
        assert self._lane is not None
        self._is_handling = False
        self._last_received = monotonic()
        self._lane.release()

    async def _read_lane_out(self) -> None:
        """Deliver what the peer has sent by the lane before gRPC ended."""
        lane = self._lane
        while self._sends_by_lane and lane is not None and lane.is_open and not self.ended.done():
            if lane.is_held:
                await asyncio.sleep(_HELD_POLL_S)
            elif lane.read():
                await asyncio.sleep(0)
            else:
                return

    def _lane_lost(self, reason: str) -> None:
        if self._sends_by_lane:
            self._loop.call_later(_STATUS_S, self._end_for_lane, reason)

    def _end_for_lane(self, reason: str) -> None:
        if not self.ended.done():
            self.has_lost_lane = True
            self.end(f"the lane was lost: {reason}")

    def _watch_time(self, due: float = 0.0) -> None:
        try:
            self._look_at_time(due)
        except Exception as error:
            # Without this timer the stream would have no heartbeats, and its peer's death would go unnoticed.
            self._handling_failed(error)

    def _look_at_time(self, due: float) -> None:
        now = monotonic()
        if due and now - due > _LATENESS_MS_MAX / 1000:
            self._last_received = min(now, self._last_received + (now - due))
        if self._resumed is not None or self._is_handling:
            self._last_received = now
        if now - self._last_received >= SILENCE_MS_MAX / 1000:
            self.end(f"the peer was silent for {SILENCE_MS_MAX} ms")
            return
        # While messages wait to be written they serve as the sign of life.
        may_beat = self._has_spoken and not self.pending_bytes
        if may_beat and now - self._last_sent >= HEARTBEAT_MS / 2000:
            self._heartbeats += 1
            self._last_sent = now
            self.send(self._pack_heartbeat(self._heartbeats))
        next_due = min(next_beat(now, HEARTBEAT_MS), self._last_received + SILENCE_MS_MAX / 1000)
        self._timer = self._loop.call_at(next_due, self._watch_time, next_due)
