"""The results that the applications of the real producers get, and what must be true of them.

Always: a record that is acknowledged is committed at the returned offset; it is in its log once, and those of one
producer and partition are in the order in which they were sent. The exception is Kafka's own: a logstore that has
started again knows of each producer what its log and the last snapshot say, so that a batch that is sent again may look
like a gap, and a producer begins another epoch then and sends it once more. Records that were sent before some logstore
has started may be there twice.

While no fault has hit, leaders move and there always is one: no record fails, none waits for longer than
UNANSWERED_MS_MAX, and no batch is answered with OUT_OF_ORDER_SEQUENCE_NUMBER where Kafka would not (see `gaps`): to the
clients a gap is a loss, and makes them send again what they have taken for not written. Once a fault has hit, records
may fail by their delivery timeout although they are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.wire.errors import ErrorCode
from tests.sim.clients.producers.calls import Answer, Report, SentBatch, TopicPartition
from tests.sim.history import History
from tests.sim.scheduler import MS, InvariantViolation

if TYPE_CHECKING:
    from tests.sim.clients.producers.process import ProducerProcess

UNANSWERED_MS_MAX: Final = 5_000


class Deliveries:
    def __init__(self, history: History) -> None:
        self.history = history
        self.answers: Counter[str] = Counter()
        """By the error's name: answers for batches."""
        self.failed = 0
        self.is_disturbed: Callable[[], bool] = lambda: False
        """Whether any fault has hit yet."""
        self.has_forgotten = False
        """Whether a logstore has started after the first record was sent."""
        self._opened_us = 0
        # By value: when it was sent, in that order; of all, and of those without a result yet.
        self._sent_us: dict[bytes, int] = {}
        self._open_us: dict[bytes, int] = {}
        history.may_be_twice = self._may_be_twice

    def logstore_opened(self, now_us: int) -> None:
        self._opened_us = now_us
        self.has_forgotten = bool(self._sent_us)

    def _may_be_twice(self, value: bytes) -> bool:
        sent_us = self._sent_us.get(value)
        return sent_us is not None and (sent_us <= self._opened_us or self.history.may_jump(*self.history.sent[value]))

    def sending(self, producer: ProducerProcess, partition: TopicPartition, value: bytes) -> None:
        now_us = producer.scheduler.now_us
        self.history.sending(*partition, value)
        self._sent_us[value] = self._open_us[value] = now_us

    def answered(self, producer: ProducerProcess, batch: SentBatch, answer: Answer) -> None:
        self.answers[ErrorCode(answer.error_code).name] += 1
        is_gap = answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if is_gap and not producer.gaps.is_own(batch) and not self.is_disturbed():
            topic, partition = batch.partition
            raise InvariantViolation(
                f"I10: {producer.name} gets a report of a gap in {topic}-{partition} before {batch.values[0]!r}, "
                f"sequence {batch.base_sequence} of epoch {batch.producer.epoch}, and leaders live"
            )

    def reported(self, producer: ProducerProcess, report: Report) -> None:
        self._open_us.pop(report.value, None)
        if not report.error:
            self.history.acknowledged(*report.partition, report.offset, report.value, -1)
            return
        if not self.is_disturbed():
            topic, partition = report.partition
            raise InvariantViolation(
                f"{producer.name}: {report.value!r} of {topic}-{partition} fails with {report.error}, and leaders live"
            )
        self.failed += 1
        self.history.counts.unknown += 1

    def died(self, producer: ProducerProcess) -> None:
        """What it has sent gets no result any more."""
        mine = f"{producer.name}.".encode()
        for value in [value for value in self._open_us if value.startswith(mine)]:
            del self._open_us[value]

    def check_waits(self, now_us: int) -> None:
        """Of the record that waits for longest."""
        if self._open_us and not self.is_disturbed():
            value, sent_us = next(iter(self._open_us.items()))
            waits_ms = (now_us - sent_us) // MS
            if waits_ms > UNANSWERED_MS_MAX:
                raise InvariantViolation(f"liveness: {value!r} waits for {waits_ms} ms, and leaders live")
