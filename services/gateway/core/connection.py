"""One client connection: frames in, slots in order, answers out.

Runs of Produce, and runs of Fetch, overlap; any other request is a barrier, which waits for the answers to all before
it, and nothing after it starts before it is answered. Kafka gets the same order by muting the connection at each
request (`SocketServer`); here a producer with several requests in flight keeps them in flight.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.frames import FrameSplitter
from barnabas.wire.primitives import Buffer
from services.gateway.core.authorization import RequestContext
from services.gateway.core.slots import Slot

if TYPE_CHECKING:
    from services.gateway.core.partition_appends import PartitionAppends, PartitionKey
    from services.gateway.core.processor import Processor

QUEUED_FRAME_BYTES = 256
"""What a whole frame takes beside its bytes while it waits: the smallest has ten of them."""


class Connection:
    """State only; `Processor` and the rooms around it change it."""

    __slots__ = (
        "active_ms",
        "append_orders",
        "connection_id",
        "context",
        "deadline_bucket",
        "frame_since_ms",
        "is_closed",
        "is_paused",
        "is_runnable",
        "outgoing",
        "outgoing_bytes",
        "processor",
        "produce_requests",
        "queued_bytes",
        "queued_frames",
        "queued_since_us",
        "run_api_key",
        "slots",
        "splitter",
        "throttles",
        "unanswered",
        "unsent_bytes",
        "unsent_since_ms",
        "waiting_appends",
        "written_bytes",
    )

    def __init__(self, processor: Processor, context: RequestContext, now_ms: int) -> None:
        self.processor = processor
        self.connection_id = context.connection_id
        self.context = context
        self.splitter = FrameSplitter(processor.config.socket_request_bytes_max)
        self.queued_frames: deque[memoryview] = deque()
        """Whole frames that may not start yet."""
        self.queued_since_us: deque[int] = deque()
        """When each of them had come."""
        self.queued_bytes = 0
        """What these take, with `QUEUED_FRAME_BYTES` for each."""
        self.frame_since_ms = now_ms
        """When the frame that is still incomplete began to arrive, or might go on arriving."""
        self.slots: deque[Slot] = deque()
        """Requests whose answers have not gone out, in order; the first is unanswered, others may be answered."""
        self.unanswered = 0
        self.run_api_key = -1
        """Of the requests that are unanswered, when there are any: they are all of one key."""
        self.outgoing: list[Buffer] = []
        self.outgoing_bytes = 0
        self.append_orders: dict[PartitionKey, PartitionAppends] = {}
        self.produce_requests = 0
        """All that have come."""
        self.waiting_appends = 0
        """Appends that have no credit or no route, and requests that are being converted: as long as there are any, no
        request starts.
        """
        self.throttles = 0
        self.unsent_bytes = 0
        """Answers that the host still holds, as it said last."""
        self.written_bytes = 0
        """All that the host was ever given."""
        self.unsent_since_ms = now_ms
        """When the client last took some of them."""
        self.active_ms = now_ms
        self.is_paused = False
        self.is_closed = False
        self.is_runnable = False
        """Whether the processor looks at it at the end of the turn."""
        self.deadline_bucket = -1

    def may_start(self, frame: memoryview) -> bool:
        """Whether this frame, the oldest that has not started, may start now."""
        config = self.processor.config
        if (
            self.waiting_appends
            or self.throttles
            or self.unsent_bytes + self.outgoing_bytes > config.connection_unsent_bytes_max
            or self.unanswered >= config.connection_requests_max
        ):
            return False
        if self.unanswered == 0:
            return True
        if len(frame) < 2 or frame[0] << 8 | frame[1] != self.run_api_key:
            return False
        if self.run_api_key == ApiKey.FETCH:
            # A client that pipelines fetches must not take the last memory from those that wait for each answer.
            return not self.processor.fetch_memory.is_scarce()
        return self.run_api_key == ApiKey.PRODUCE

    def wants_pause(self) -> bool:
        """Whether more of its bytes would only pile up here."""
        config = self.processor.config
        return (
            self.waiting_appends > 0
            or self.throttles > 0
            or self.unsent_bytes > config.connection_unsent_bytes_max
            or self.unanswered >= config.connection_requests_max
            or self.queued_bytes > config.connection_queued_bytes_max
        )

    def expire(self, now_ms: int) -> None:
        """`connections.max.idle.ms` may have passed."""
        self.processor.clients.check_idle(self, now_ms)
