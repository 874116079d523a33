"""Reads on their way to the logstores: each waits for memory first, then for credit.

A read is sent only when its largest reply has been reserved, so that a processor never has to stop reading a
logstore's stream. Both waits are lines: nobody overtakes, but for one read at a time: the one that keeps answers of its
own connection from leaving. Those answers hold memory until it is answered, so waiting for memory it could wait for
itself.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from barnabas.channel.messages import Read, ReadPiece
from barnabas.channel.timing import Times
from services.gateway.core.logstores import Logstore
from services.gateway.core.memory import READ_BYTES_MIN
from services.gateway.core.request_timing import timed_of

if TYPE_CHECKING:
    from services.gateway.core.fetch import PendingFetch
    from services.gateway.core.fetch_target import FetchTarget
    from services.gateway.core.processor import Processor


class PendingRead(Read):
    """What one Fetch wants of one logstore."""

    __slots__ = ("fetch", "line", "logstore", "reserved_bytes", "targets")

    def __init__(
        self,
        fetch: PendingFetch,
        logstore: Logstore,
        bytes_max: int,
        isolation_level: int,
        targets: list[FetchTarget],
        rack_id: str,
    ) -> None:
        self.request_id = 0
        self.bytes_max = bytes_max
        self.isolation_level = isolation_level
        self.partitions = list(targets)
        self.rack_id = rack_id
        self.targets = targets
        self.fetch: PendingFetch | None = fetch
        """None once nobody waits for it."""
        self.logstore = logstore
        self.line: deque[PendingRead] | None = None
        """Where it waits, for memory or for credit."""
        self.reserved_bytes = 0
        """Held in `FetchMemory` for the reply; of the reply itself once it is here."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


class ReadRouter:
    __slots__ = ("_logstores", "_memory", "_overdraft", "_waiting")

    def __init__(self, processor: Processor) -> None:
        self._logstores = processor.logstores
        self._memory = processor.fetch_memory
        self._waiting: deque[PendingRead] = deque()
        """For memory."""
        self._overdraft: PendingRead | None = None
        """The read that was sent without waiting for memory, until its reply is here."""

    def submit(self, read: PendingRead) -> None:
        """Its logstore's stream is up."""
        if self._waiting or not self._try_reserve(read):
            self._stand_in(self._waiting, read)
        else:
            self._send_or_wait(read)

    def _stand_in(self, line: deque[PendingRead], read: PendingRead) -> None:
        read.line = line
        line.append(read)

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
        logstore = read.logstore
        if logstore.waiting_reads or not logstore.read_credit.try_spend(1, 0):
            self._stand_in(logstore.waiting_reads, read)
        else:
            self._send(read)

    def _send(self, read: PendingRead) -> None:
        read.line = None
        read.request_id = self._logstores.take_request_id()
        read.logstore.reads_in_flight[read.request_id] = read
        message = self._logstores.read_of(read.logstore)
        message.reads.append(read)
        if read.fetch is not None and read.fetch.timing is not None:
            message.timed.append(timed_of(read.request_id, read.fetch.timing))
            read.logstore.leaving_read.append(read.fetch.timing)

    def took(self, logstore: Logstore, times: Times) -> None:
        """The first piece of an answer is here, with how long the logstore had the read."""
        read = logstore.reads_in_flight.get(times.request_id)
        if read is not None and read.fetch is not None and read.fetch.timing is not None:
            read.fetch.timing.took(times.queue_us, times.work_us)

    def cancel(self, read: PendingRead) -> None:
        """Nobody waits for it any more."""
        read.fetch = None
        self.release(read)
        if read.line is not None:
            read.line.remove(read)
            read.line = None
        logstore = read.logstore
        if logstore.reads_in_flight.pop(read.request_id, None) is not None:
            logstore.assembler.forget(read.request_id)
            self._logstores.read_of(logstore).cancels.append(read.request_id)

    def release(self, read: PendingRead) -> None:
        """Give back what is reserved for it."""
        if read is self._overdraft:
            self._overdraft = None
        if read.reserved_bytes:
            self._memory.release(read.reserved_bytes)
            read.reserved_bytes = 0

    def memory_freed(self) -> None:
        while self._waiting and self._try_reserve(self._waiting[0]):
            self._send_or_wait(self._waiting.popleft())
        if self._waiting and self._overdraft is None:
            self._overdraw()

    def _overdraw(self) -> None:
        """Let one read go that answers of its own connection wait for: what they hold is free once it is answered."""
        for read in self._waiting:
            assert read.fetch is not None, "a read that nobody waits for is not in line"
            connection = read.fetch.connection
            if connection.slots[0] is read.fetch and len(connection.slots) > connection.unanswered:
                self._waiting.remove(read)
                self._overdraft = read
                read.bytes_max = min(read.bytes_max, READ_BYTES_MIN)
                read.reserved_bytes = READ_BYTES_MIN
                self._memory.overdraw(READ_BYTES_MIN)
                self._send_or_wait(read)
                return

    def credit_granted(self, logstore: Logstore) -> None:
        waiting = logstore.waiting_reads
        while waiting and logstore.read_credit.try_spend(1, 0):
            self._send(waiting.popleft())

    def piece_received(self, logstore: Logstore, piece: ReadPiece) -> None:
        read = logstore.reads_in_flight.get(piece.request_id)
        if read is None:
            return
        result = logstore.assembler.take(piece)
        if result is None:
            return
        del logstore.reads_in_flight[piece.request_id]
        byte_count = sum(len(partition.records) for partition in result.partitions)
        self._memory.resize(read.reserved_bytes, byte_count)
        read.reserved_bytes = byte_count
        if read is self._overdraft:
            self._overdraft = None
        if read.fetch is not None:
            read.fetch.read_answered(read, result)

    def stream_lost(self, logstore: Logstore) -> None:
        lost = [*logstore.reads_in_flight.values(), *logstore.waiting_reads]
        logstore.reads_in_flight.clear()
        logstore.waiting_reads.clear()
        logstore.assembler.clear()
        logstore.read = None
        logstore.leaving_read.clear()
        for read in [read for read in self._waiting if read.logstore is logstore]:
            self._waiting.remove(read)
            lost.append(read)
        for read in lost:
            read.line = None
            self.release(read)
            if read.fetch is not None:
                read.fetch.read_answered(read, None)
