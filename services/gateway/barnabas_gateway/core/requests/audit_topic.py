"""AuditTopic: the records of the audit as JSON in a topic, appended the way a client's produce with acks=all is.

It is a producer within the processor, without a client's connection: what it appends is not authorized and makes no
record, so that no record causes another. Records wait 100 ms for their batch, and while another is on its way; they are
bounded, and the newest are dropped. A batch that may not have been written is sent again for two minutes, so a record
can be in the topic twice.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from barnabas.cluster.access.operator_calls import EVENT as OPERATOR_CALL
from barnabas.cluster.access.operator_calls import OperatorCall
from barnabas.cluster.messages import NO_LEADER
from barnabas.containment import Containment
from barnabas.metrics import security_families as families
from barnabas.metrics.family import Sample
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.produce import PartitionProduceResponse
from barnabas.wire.primitives import Steps
from barnabas.wire.record_batch import Record, build_batch
from barnabas_gateway.core.backends.fetch_memory import FetchMemory
from barnabas_gateway.core.backends.partition_appends import LOSSES, PendingAppend
from barnabas_gateway.core.connections.connection import Connection, PendingRequest, ResponseKind
from barnabas_gateway.core.model.config import GatewayConfig
from barnabas_gateway.core.model.containment import AUDIT
from barnabas_gateway.core.model.log_lines import LogLineBuffer
from barnabas_gateway.core.model.outputs import Log, LogLevel
from barnabas_gateway.core.model.request_context import Principal, RequestContext
from barnabas_gateway.core.requests.produce import ACKS_ALL, BaseProduceHandler, PendingProduce

WAITING_BYTES_MAX: Final = 1 << 20
"""Of the records that wait, and of a batch that is on its way."""
BATCH_BYTES_MAX: Final = 256 << 10
DELIVERY_MS_MAX: Final = 120_000
"""`delivery.timeout.ms` of Kafka's producers: a batch is dropped when it could not be written for so long."""
LINGER_MS: Final = 100
_RETRY_MS_MAX: Final = 2_000
_REQUEST_MS_MAX: Final = 30_000
_TEXT_LENGTH_MAX: Final = 1_024
_RECORD_OVERHEAD_BYTES: Final = 100
_CONTEXT: Final = RequestContext(-1, "", "", Principal("Service", "audit"))


class AuditProduce(PendingProduce):
    """One batch on its way; its end goes to the topic instead of to a client."""

    __slots__ = ("on_end",)

    def __init__(self, handler: BaseProduceHandler, connection: Connection, on_end: Callable[[int], None]) -> None:
        super().__init__(handler, connection, RequestHeader(ApiKey.PRODUCE, 0, 0, "audit"), 0)
        self.acks = ACKS_ALL
        self.on_end = on_end

    def _name_leader(self, append: PendingAppend) -> None:
        """There is no client to name it to."""

    def failed(self, error: Exception) -> None:
        """Its answers have met an unexpected exception: the batch may be written, and is not sent again."""
        self.connection.owner.request_failed(self, error)
        self._end(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _respond(self) -> None:
        self._end(self.appends[0].response.error_code if self.appends else ErrorCode.UNKNOWN_SERVER_ERROR)

    def _end(self, error_code: int) -> None:
        """Once: an answer that it still waited for when it failed ends it no second time."""
        self.appends = ()
        self.handler.deadlines.unschedule(self)
        if self.kind is None:
            self.kind = ResponseKind.NO_OP
            self.on_end(error_code)


class AuditProduceHandler(BaseProduceHandler):
    """What an `AuditProduce` needs; no request of a client comes to it."""

    def start(self, pending: AuditProduce, request: Sequence[PendingAppend]) -> Steps[None] | None:
        pending.deadline_ms = self.clock.now_ms + _REQUEST_MS_MAX
        pending.send_appends(request)
        return None


@dataclass(frozen=True)
class _Unowned:
    """The owner of a connection without a client: nothing is read from it, and it is never idle."""

    config: GatewayConfig
    fetch_memory: FetchMemory
    contained: Containment

    def request_failed(self, pending: PendingRequest, error: Exception) -> None:
        self.contained.contain(AUDIT, error, {})

    def connection_failed(self, connection: Connection, error: Exception) -> None:
        self.contained.contain(AUDIT, error, {})

    def check_idle(self, connection: Connection, now_ms: int) -> None:
        return

    def run_later(self, connection: Connection) -> None:
        return


class AuditTopic:
    """Sends the records of one processor, and of controllers that it is given; without a topic it does nothing."""

    def __init__(
        self,
        topic: str,
        handler: AuditProduceHandler,
        fetch_memory: FetchMemory,
        log_lines: LogLineBuffer,
        wall_ms: Callable[[], int],
    ) -> None:
        self.is_enabled = bool(topic)
        self._topic = topic
        self._handler = handler
        self._clock = handler.clock
        self._connection = Connection(
            _Unowned(handler.config, fetch_memory, log_lines.contained), _CONTEXT, handler.clock.now_ms
        )
        self._log_lines = log_lines
        self._wall_ms = wall_ms
        self._waiting: deque[Record] = deque()
        self._waiting_bytes = 0
        """Of these, and of `_batch`."""
        self._batch: list[Record] = []
        """What is on its way, or is to be sent again."""
        self._batch_since_ms = 0
        self._is_under_way = False
        self._retry_ms = LINGER_MS
        self._next_partition = 0
        self._counts: Counter[str] = Counter()
        """Records by outcome: `written`, `dropped`."""
        self.deadline_bucket = -1

    def add_lines(self, lines: Sequence[Log]) -> None:
        """Add those of a turn's lines that are records of the audit."""
        for line in lines:
            if line.is_audited:
                self.add_record(line.event, line.fields)

    def failed(self, error: Exception) -> None:
        """The sending of a batch has met an unexpected exception: its records are dropped."""
        self._log_lines.contained.contain(AUDIT, error, {"topic": self._topic, "records": len(self._batch)})
        if not self._is_under_way:
            self._waiting_bytes -= sum(_size(record.value) for record in self._batch)
            self._counts["dropped"] += len(self._batch)
            self._batch = []

    def add_record(self, event: str, fields: Mapping[str, str | int]) -> None:
        """Have it written later, or drop it; never wait."""
        if self.is_enabled:
            source = {"service": "gateway", "gateway_id": self._handler.config.gateway_id}
            now_ms = self._wall_ms()
            self._add_value(_encode_record(event, source, fields, now_ms), now_ms)

    def add_operator_call(self, call: OperatorCall) -> None:
        """The same for what a controller has recorded."""
        if self.is_enabled:
            source = {"service": "controller", "controller_id": call.controller_id}
            fields = {
                "principal": call.principal,
                "peer": call.peer,
                "operation": call.operation,
                "verdict": call.verdict,
            }
            fields |= {"reason": call.reason} if call.reason else {}
            self._add_value(_encode_record(OPERATOR_CALL, source, fields, call.time_ms), self._wall_ms())

    def _add_value(self, value: bytes, now_ms: int) -> None:
        if self._waiting_bytes + _size(value) > WAITING_BYTES_MAX:
            self._drop(1, "too many wait")
            return
        self._waiting.append(Record(None, value, now_ms))
        self._waiting_bytes += _size(value)
        if not self._is_under_way and self.deadline_bucket < 0:
            self._handler.deadlines.schedule(self, self._clock.now_ms + LINGER_MS)

    def expire(self, now_ms: int) -> None:
        """Send the batch again, or the next one."""
        if not self._batch:
            self._batch = self._take_batch()
            self._batch_since_ms, self._retry_ms = now_ms, LINGER_MS
        append = self._next_append()
        if append is None:
            self._ended(next(iter(LOSSES)))
            return
        self._is_under_way = True
        produce, pending = append
        self._handler.start(produce, [pending])

    def _take_batch(self) -> list[Record]:
        batch: list[Record] = []
        size = 0
        while self._waiting and (not batch or size + _size(self._waiting[0].value) <= BATCH_BYTES_MAX):
            record = self._waiting.popleft()
            size += _size(record.value)
            batch.append(record)
        return batch

    def _next_append(self) -> tuple[AuditProduce, PendingAppend] | None:
        """Return the batch for the next partition with a leader; None: there is none."""
        image = self._handler.image
        topic = image.topics_by_name.get(self._topic)
        if topic is None:
            return None
        partitions = list(image.partitions_by_topic_id[topic.topic_id])
        for _ in partitions:
            self._next_partition = (self._next_partition + 1) % len(partitions)
            index = partitions[self._next_partition]
            metadata = image.partition(topic.topic_id, index)
            if metadata is not None and metadata.leader != NO_LEADER:
                produce = AuditProduce(self._handler, self._connection, self._ended)
                response = PartitionProduceResponse(index, 0, -1)
                return produce, PendingAppend(produce, (topic.topic_id, index), build_batch(self._batch), response)
        return None

    def _ended(self, error_code: int) -> None:
        """The batch is committed, or is sent again, or is dropped."""
        now_ms = self._clock.now_ms
        self._is_under_way = False
        if error_code in LOSSES and now_ms - self._batch_since_ms < DELIVERY_MS_MAX:
            self._handler.deadlines.schedule(self, now_ms + self._retry_ms)
            self._retry_ms = min(2 * self._retry_ms, _RETRY_MS_MAX)
            return
        if error_code:
            self._drop(len(self._batch), f"the topic can't be written: error {error_code}")
        else:
            self._counts["written"] += len(self._batch)
        self._waiting_bytes -= sum(_size(record.value) for record in self._batch)
        self._batch = []
        if self._waiting:
            self._handler.deadlines.schedule(self, now_ms + LINGER_MS)

    def _drop(self, records: int, reason: str) -> None:
        self._counts["dropped"] += records
        fields: dict[str, str | int] = {"topic": self._topic, "records": records, "reason": reason}
        fields["limit_key"] = f"records of the audit dropped: {reason}"
        self._log_lines.add_line(LogLevel.WARNING, "records of the audit dropped", _CONTEXT, None, fields)

    def samples(self) -> Iterator[Sample]:
        if self.is_enabled:
            for outcome in ("written", "dropped"):
                yield Sample(families.AUDIT_RECORDS, (outcome,), self._counts[outcome])


def _size(value: bytes | None) -> int:
    return len(value or b"") + _RECORD_OVERHEAD_BYTES


def _encode_record(event: str, source: Mapping[str, str], fields: Mapping[str, str | int], wall_ms: int) -> bytes:
    """Return a JSON object: that of the log's line, with the service that logged it and its id."""
    time = datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds")
    record: dict[str, str | int] = {"time": time, **source, "event": event}
    for name, value in fields.items():
        if name != "limit_key":
            record[name] = value[:_TEXT_LENGTH_MAX] if isinstance(value, str) else value
    return json.dumps(record, separators=(",", ":")).encode()
