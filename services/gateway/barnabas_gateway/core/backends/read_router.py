"""Reads on their way to the logstores: each waits for memory first, then for credit.

A read is sent only when its largest reply has been reserved, so that a processor never has to stop reading a
logstore's stream. Both waits are lines: nobody overtakes, but for one read at a time: the one that keeps answers of its
own connection from leaving. Those answers hold memory until it is answered, so waiting for memory it could wait for
itself.
"""

from __future__ import annotations

from collections import OrderedDict

from barnabas.channel.messages import ReadPiece
from barnabas.channel.timing import Times
from barnabas_gateway.core.backends.credited_stream import no_bytes
from barnabas_gateway.core.backends.fetch_memory import READ_BYTES_MIN, FetchMemory
from barnabas_gateway.core.backends.logstores import Logstores
from barnabas_gateway.core.backends.read_lane import PendingRead, ReadLane
from barnabas_gateway.core.timing.request_timing import timed_of


class ReadRouter:
    __slots__ = ("_logstores", "_memory", "_overdraft", "_waiting", "lanes")

    def __init__(self, logstores: Logstores, memory: FetchMemory) -> None:
        self._logstores = logstores
        self._memory = memory
        self.lanes = logstores.read_lanes
        """By node id."""
        self._waiting: OrderedDict[PendingRead, None] = OrderedDict()
        """For memory."""
        self._overdraft: PendingRead | None = None
        """The read that was sent without waiting for memory, until its reply is here."""

    def submit(self, read: PendingRead) -> None:
        """Its logstore's stream is up."""
        if self._waiting or not self._try_reserve(read):
            read.line = self._waiting
            self._waiting[read] = None
        else:
            self._send_or_wait(read)

    def has_waiting(self) -> bool:
        """Whether any read waits for memory."""
        return len(self._waiting) > 0

    def _try_reserve(self, read: PendingRead) -> bool:
        memory = self._memory
        bytes_max = min(read.bytes_max, memory.share())
        size = max(bytes_max, READ_BYTES_MIN)
        if not memory.try_reserve(size):
            return False
        read.bytes_max = bytes_max
        read.reserved_bytes = size
        return True

    def _send_or_wait(self, read: PendingRead) -> None:
        lane = read.lane
        if lane.try_enter(read, 0):
            self._send(read)
        else:
            read.line = lane.waiting

    def _send(self, read: PendingRead) -> None:
        lane = read.lane
        read.line = None
        read.request_id = request_id = self._logstores.take_request_id()
        lane.in_flight[request_id] = read
        message = self._logstores.read_of(lane)
        message.reads.append(read)
        if read.fetch is not None and read.fetch.timing is not None:
            message.timed.append(timed_of(request_id, read.fetch.timing))
            lane.leaving.append(read.fetch.timing)

    def times_received(self, lane: ReadLane, times: Times) -> None:
        """The first piece of an answer is here, with how long the logstore had the read."""
        read = lane.in_flight.get(times.request_id)
        if read is not None and read.fetch is not None and read.fetch.timing is not None:
            read.fetch.timing.answer_begun(times.queue_us, times.work_us)

    def cancel_read(self, read: PendingRead) -> None:
        """Nobody waits for it any more."""
        read.fetch = None
        self.release(read)
        if read.line is not None:
            del read.line[read]
            read.line = None
        lane = read.lane
        if lane.in_flight.pop(read.request_id, None) is not None:
            lane.assembler.forget(read.request_id)
            self._logstores.read_of(lane).cancels.append(read.request_id)

    def release(self, read: PendingRead) -> None:
        """Give back what is reserved for it."""
        if read is self._overdraft:
            self._overdraft = None
        if read.reserved_bytes:
            self._memory.release(read.reserved_bytes)
            read.reserved_bytes = 0

    def memory_freed(self) -> None:
        while self._waiting and self._try_reserve(next(iter(self._waiting))):
            read, _ = self._waiting.popitem(last=False)
            self._send_or_wait(read)
        if self._waiting and self._overdraft is None:
            self._overdraw()

    def _overdraw(self) -> None:
        """Let one read go that answers of its own connection wait for: what they hold is free once it is answered."""
        for read in self._waiting:
            assert read.fetch is not None, "a read that nobody waits for is not in line"
            if read.fetch.holds_back_answers():
                del self._waiting[read]
                self._overdraft = read
                read.bytes_max = min(read.bytes_max, READ_BYTES_MIN)
                read.reserved_bytes = READ_BYTES_MIN
                self._memory.overdraw(READ_BYTES_MIN)
                self._send_or_wait(read)
                return

    def credit_granted(self, lane: ReadLane) -> None:
        if lane.waiting:
            for read in lane.admit(no_bytes):
                self._send(read)

    def piece_received(self, lane: ReadLane, piece: ReadPiece) -> None:
        read = lane.in_flight.get(piece.request_id)
        if read is None:
            return
        result = lane.assembler.take(piece)
        if result is None:
            return
        del lane.in_flight[piece.request_id]
        byte_count = sum([len(partition.records) for partition in result.partitions])
        self._memory.resize(read.reserved_bytes, byte_count)
        read.reserved_bytes = byte_count
        if read is self._overdraft:
            self._overdraft = None
        if read.fetch is not None:
            read.fetch.read_answered(read, result)

    def stream_lost(self, lane: ReadLane) -> None:
        in_flight, waiting = lane.lose()
        lost = in_flight + waiting
        lane.assembler.clear()
        lane.message = None
        lane.leaving.clear()
        for read in [read for read in self._waiting if read.lane is lane]:
            del self._waiting[read]
            lost.append(read)
        for read in lost:
            read.line = None
            self.release(read)
            if read.fetch is not None:
                read.fetch.read_answered(read, None)
