"""What was sent, and the answers that its producers got."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.faults.checker.silences import Silences
from tests.faults.checker.verdict import Figures
from tests.faults.history import Guarantee, Operation, Type


class MalformedHistoryError(Exception):
    """A history that no recorder writes, so that nothing can be concluded from it."""


@dataclass(slots=True)
class Sent:
    proc: str
    guarantee: Guarantee
    partition: int
    number: int
    """Of all sends of the history: ascending in the order in which one producer sent."""
    outcome: Type = Type.INVOKE
    """INVOKE as long as nothing is known."""
    offset: int | None = None
    """Where it was acknowledged to be."""

    @property
    def is_promised(self) -> bool:
        return self.outcome is Type.OK and self.guarantee is not Guarantee.ACKS_1


@dataclass(slots=True)
class Sends:
    figures: Figures
    silences: Silences
    by_value: dict[str, Sent] = field(default_factory=dict)
    _guarantees: dict[str, Guarantee] = field(default_factory=dict)
    _first_ns: int | None = None

    def opened(self, proc: str, guarantee: Guarantee) -> None:
        self._guarantees[proc] = guarantee

    def add(self, operation: Operation) -> Sent | None:
        """The send, when this event acknowledged it."""
        value, partition = operation.value, operation.partition
        if not isinstance(value, str) or partition is None:
            raise MalformedHistoryError(f"a send of no value or to no partition: {operation}")
        if operation.type is Type.INVOKE:
            self._invoked(operation, value, partition)
            return None
        sent = self.by_value.get(value)
        if sent is None or sent.proc != operation.proc or sent.partition != partition:
            raise MalformedHistoryError(f"the end of a send without a begin: {operation}")
        if sent.outcome is not Type.INVOKE:
            raise MalformedHistoryError(f"a send that ended twice: {operation}")
        sent.outcome = operation.type
        if operation.type is Type.FAIL:
            self.figures.refused += 1
        if operation.type is not Type.OK:
            return None
        sent.offset = operation.offset
        self.figures.acknowledged += 1
        if sent.guarantee is not Guarantee.ACKS_1:
            self.silences.acknowledged_ns.setdefault(partition, []).append(operation.ts)
        return sent

    def _invoked(self, operation: Operation, value: str, partition: int) -> None:
        guarantee = self._guarantees.get(operation.proc)
        if guarantee is None:
            raise MalformedHistoryError(f"a send of a producer that never opened: {operation}")
        if value in self.by_value:
            raise MalformedHistoryError(f"a value that is sent twice: {operation}")
        self.by_value[value] = Sent(operation.proc, guarantee, partition, len(self.by_value))
        if guarantee is not Guarantee.ACKS_1:
            self.silences.sent_ns.setdefault(partition, []).append(operation.ts)
        if self._first_ns is None:
            self._first_ns = operation.ts
        self.figures.seconds = (operation.ts - self._first_ns) / 1e9
