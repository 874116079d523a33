"""What the real producers' applications are told, and what must be true of it.

While nothing goes wrong but that leaders move, no record fails, none is in a log twice, every one is where it was
reported, in the order in which it was sent, and none waits longer than UNANSWERED_MS_MAX. Once a fault has hit, records
may expire although they are written, as with Kafka; and a leader that has restarted may have forgotten by what it would
know a batch again, as Kafka's snapshots of producers keep one batch of each.
"""

from __future__ import annotations

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
        self.is_disturbed: Callable[[], bool] = lambda: False
        """Whether any fault has hit yet."""
        self.expired = 0
        self.gaps = 0
        """Answers of OUT_OF_ORDER_SEQUENCE_NUMBER."""
        self._sent_us: dict[bytes, int] = {}
        history.may_be_twice = lambda value: value in self._known and self.is_disturbed()
        self._known: dict[bytes, None] = {}

    def sending(self, producer: ProducerProcess, partition: TopicPartition, value: bytes) -> None:
        self._check_waits(producer.scheduler.now_us)
        self.history.sending(*partition, value)
        self._known[value] = None
        self._sent_us[value] = producer.scheduler.now_us

    def answered(self, producer: ProducerProcess, batch: SentBatch, answer: Answer) -> None:
        if answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self.gaps += 1

    def reported(self, producer: ProducerProcess, report: Report) -> None:
        self._sent_us.pop(report.value)
        if not report.error:
            self.history.acknowledged(*report.partition, report.offset, report.value, -1)
            return
        if not self.is_disturbed():
            raise InvariantViolation(
                f"{producer.name}: {report.value!r} of {_name(report.partition)} failed with {report.error}, though "
                f"nothing goes wrong but that leaders move"
            )
        self.expired += 1
        self.history.counts.unknown += 1

    def _check_waits(self, now_us: int) -> None:
        """Of the record that was sent first; every partition has a live leader."""
        for value, sent_us in self._sent_us.items():
            if now_us - sent_us > UNANSWERED_MS_MAX * MS and not self.is_disturbed():
                waited_ms = (now_us - sent_us) // MS
                raise InvariantViolation(f"liveness: {value!r} has waited {waited_ms} ms, and leaders live")
            return


def _name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"
