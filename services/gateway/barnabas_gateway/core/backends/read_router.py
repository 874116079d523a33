"""Send reads to the logstores: each waits for memory first, then for credit.

A read is sent only when its largest reply has been reserved, so that a processor never has to stop reading a
logstore's stream. Both waits are lines. One read at a time may overtake: the one that keeps answers of its own
connection from leaving. Those answers hold memory until it is answered, so waiting for memory it could wait for itself.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from barnabas.channel.assembly import ReadAssembler, ReadResult
from barnabas.channel.messages import Read, ReadPiece, ReadRequest, ReadResponse
from barnabas.channel.timing import Times
from barnabas_gateway.core.backends.credited_stream import MessageStream, no_bytes
from barnabas_gateway.core.backends.fetch_memory import READ_BYTES_MIN, FetchMemory
from barnabas_gateway.core.backends.logstores import Logstores
from barnabas_gateway.core.model.containment import end_by
from barnabas_gateway.core.model.fetch_target import FetchTarget
from barnabas_gateway.core.timing.request_timing import RequestTiming, timed_of


class ReadOwner(Protocol):
    """The Fetch request that a read is of."""

    @property
    def timing(self) -> RequestTiming | None: ...

    def holds_back_answers(self) -> bool:
        """Whether other responses of its connection wait for this request's, and hold memory meanwhile."""

    def read_answered(self, read: PendingRead, result: ReadResult | None) -> None:
        """A logstore's result, or None if its stream was lost."""

    def failed(self, error: Exception) -> None:
        """An answer has met an unexpected exception."""


class PendingRead(Read):
    """What one Fetch wants of one logstore."""

    __slots__ = ("fetch", "lane", "line", "reserved_bytes", "targets")

    def __init__(
        self,
        fetch: ReadOwner,
        lane: ReadLane,
        bytes_max: int,
        isolation_level: int,
        targets: list[FetchTarget],
        rack_id: str,
        *,
        accepts_ranges: bool,
    ) -> None:
        self.request_id = 0
        self.bytes_max = bytes_max
        self.isolation_level = isolation_level
        self.partitions = list(targets)
        self.rack_id = rack_id
        self.accepts_ranges = accepts_ranges
        self.targets = targets
        self.fetch: ReadOwner | None = fetch
        """None once the request does not wait for it any more."""
        self.lane = lane
        self.line: OrderedDict[PendingRead, None] | None = None
        """Where it waits, for memory or for credit."""
        self.reserved_bytes = 0
        """Bytes held in `FetchMemory` for the reply; those of the reply itself once it has arrived."""

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class ReadLane(MessageStream[PendingRead, PendingRead, ReadRequest]):
    """The read stream to one logstore."""

    __slots__ = ("accepts_ranges", "assembler")

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.assembler = ReadAssembler()
        self.accepts_ranges = False
        """Whether descriptors of files can come along with its responses."""


class ReadRouter:
    __slots__ = ("_logstores", "_memory", "_overdraft", "lanes", "sending", "waiting")

    def __init__(self, logstores: Logstores, memory: FetchMemory) -> None:
        """`logstores` numbers the requests."""
        self._logstores = logstores
        self._memory = memory
        self.lanes: dict[int, ReadLane] = {}
        """By node id; there is one for each logstore whose stream was ever up."""
        self.waiting: OrderedDict[PendingRead, None] = OrderedDict()
        """The queue for memory."""
        self.sending: list[ReadLane] = []
        """Those with a message in this turn."""
        self._overdraft: PendingRead | None = None
        """The read that was sent without waiting for memory, until its reply arrives."""

    def submit_read(self, read: PendingRead) -> None:
        """Send a read to a logstore whose stream is up."""
        if self.waiting or not self._try_reserve(read):
            read.line = self.waiting
            self.waiting[read] = None
        else:
            self._send_or_wait(read)

    def _try_reserve(self, read: PendingRead) -> bool:
        memory = self._memory
        bytes_max = min(read.bytes_max, memory.share())
        size = max(bytes_max, READ_BYTES_MIN)
        if not memory.try_reserve(read, size):
            return False
        read.bytes_max = bytes_max
        return True

    def _send_or_wait(self, read: PendingRead) -> None:
        lane = read.lane
        # Before anything that may fail, so that it can be withdrawn from there.
        read.line = lane.waiting
        if lane.try_enter(read, 0):
            self._send(read)

    def _send(self, read: PendingRead) -> None:
        lane = read.lane
        read.line = None
        read.request_id = request_id = next(self._logstores.request_ids)
        lane.in_flight[request_id] = read
        message = self._message_of(lane)
        message.reads.append(read)
        if read.fetch is not None and read.fetch.timing is not None:
            message.timed.append(timed_of(request_id, read.fetch.timing))
            lane.leaving.append(read.fetch.timing)

    def _message_of(self, lane: ReadLane) -> ReadRequest:
        message = lane.message
        if message is None:
            message = lane.message = ReadRequest()
            self.sending.append(lane)
        return message

    def _times_received(self, lane: ReadLane, times: Times) -> None:
        """The first piece of an answer has arrived, with how long the logstore had the read."""
        read = lane.in_flight.get(times.request_id)
        if read is not None and read.fetch is not None and read.fetch.timing is not None:
            read.fetch.timing.answer_begun(times.queue_us, times.work_us)

    def cancel_read(self, read: PendingRead) -> None:
        """Withdraw it, or have the logstore stop answering it."""
        read.fetch = None
        self.release(read)
        if read.line is not None:
            # It is in no line if something unexpected has ended `submit_read`.
            read.line.pop(read, None)
            read.line = None
        lane = read.lane
        if lane.in_flight.pop(read.request_id, None) is not None:
            lane.assembler.forget(read.request_id)
            self._message_of(lane).cancels.append(read.request_id)

    def release(self, read: PendingRead) -> None:
        """Release what is reserved for it."""
        if read is self._overdraft:
            self._overdraft = None
        if read.reserved_bytes:
            self._memory.release(read)

    def memory_freed(self) -> None:
        while self.waiting and self._try_reserve(next(iter(self.waiting))):
            read, _ = self.waiting.popitem(last=False)
            self._send_or_wait(read)
        if self.waiting and self._overdraft is None:
            self._overdraw()

    def _overdraw(self) -> None:
        """Let one read go that responses of its own connection wait for: what they hold is free once it is answered."""
        for read in self.waiting:
            assert read.fetch is not None, "a read that was withdrawn is not in line"
            if read.fetch.holds_back_answers():
                del self.waiting[read]
                self._overdraft = read
                read.bytes_max = min(read.bytes_max, READ_BYTES_MIN)
                self._memory.resize(read, READ_BYTES_MIN)
                self._send_or_wait(read)
                return

    # --- what the streams bring ---

    def stream_up(self, node_id: int, *, accepts_ranges: bool) -> None:
        self._logstores.ensure_logstore(node_id)
        lane = self.lanes.setdefault(node_id, ReadLane(node_id))
        lane.is_up, lane.accepts_ranges = True, accepts_ranges

    def response_received(self, node_id: int, response: ReadResponse) -> None:
        lane = self.lanes[node_id]
        for times in response.times:
            self._times_received(lane, times)
        for piece in response.pieces:
            self._piece_received(lane, piece)
        if response.credit is not None:
            lane.credit.grant(response.credit)
            if lane.waiting:
                for read in lane.admit(no_bytes):
                    self._send(read)

    def _piece_received(self, lane: ReadLane, piece: ReadPiece) -> None:
        read = lane.in_flight.get(piece.request_id)
        if read is None:
            return
        result = lane.assembler.add_piece(piece)
        if result is None:
            return
        del lane.in_flight[piece.request_id]
        if read is self._overdraft:
            self._overdraft = None
        fetch = read.fetch
        if fetch is None:
            # Its request has failed before it knew of it.
            self.release(read)
            return
        try:
            self._memory.resize(read, sum([len(partition.records) for partition in result.partitions]))
            fetch.read_answered(read, result)
        except Exception as error:
            end_by(fetch, error)

    def stream_lost(self, node_id: int) -> None:
        lane = self.lanes.get(node_id)
        if lane is None:
            return
        in_flight, waiting = lane.lose()
        lost = in_flight + waiting
        lane.assembler.clear()
        for read in [read for read in self.waiting if read.lane is lane]:
            del self.waiting[read]
            lost.append(read)
        for read in lost:
            read.line = None
            self.release(read)
            fetch = read.fetch
            if fetch is not None:
                try:
                    fetch.read_answered(read, None)
                except Exception as error:
                    end_by(fetch, error)

    def take_messages(self) -> list[tuple[int, ReadRequest]]:
        """Return the messages of this turn by node id; they leave now."""
        taken = []
        for lane in self.sending:
            message = lane.take_message()
            if message is not None:
                taken.append((lane.node_id, message))
        self.sending.clear()
        return taken
