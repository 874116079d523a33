"""What the checker says about a history."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from tests.faults.checker.silences import Silences
from tests.faults.findings import Findings


class Kind(StrEnum):
    """What must never happen."""

    LOST = "lost"
    """Acknowledged with acks=all, and in no final read."""
    DUPLICATED = "duplicated"
    """Sent by an idempotent producer, and in the log at two offsets."""
    REORDERED = "reordered"
    """An idempotent producer's records in another order than sent, or a reader that went backwards."""
    STALE = "stale"
    """A read that lacks what was committed before it began: a watermark that went back, a record skipped."""
    DIVERGED = "diverged"
    """An offset with two values: for two readers, for one at two times, or for a producer and a reader."""
    UNKNOWN = "unknown"
    """A value in the log that was never sent there, or that was refused."""
    IMPOSSIBLE = "impossible"
    """Offsets or leader epochs that no log of this topic can have: negative ones, holes, epochs that go back."""


class Apart(StrEnum):
    """What is counted, but not guaranteed."""

    LOST_ACKS_1 = "lost with acks=1"
    DUPLICATED_RETRIES = "duplicated without idempotence"
    REORDERED_RETRIES = "reordered without idempotence"
    AT_CUT_OFF_LEADER = "read at a cut-off leader"
    """An old end, returned by a leader that was cut off from the majority and could not know of its successor. Kafka
    does the same: a leader answers without asking others. A client of the majority's leader never gets an old end."""


@dataclass(slots=True)
class Figures:
    operations: int = 0
    """Events but the invocations: what was answered, one way or the other."""
    seconds: float = 0.0
    """From the first send to the last."""
    sent: int = 0
    acknowledged: int = 0
    """Records, of every guarantee."""
    refused: int = 0
    indeterminate: int = 0
    """Reported as such, or never reported."""
    polls: int = 0
    records_read: int = 0
    """While the cluster was under faults and by the final readers alike."""
    final_records: int = 0
    """In the log at the end, over all partitions."""
    errors: Counter[str] = field(default_factory=Counter)
    """`<f> <error>` -> how often."""
    longest_silence_ms: dict[int, float] = field(default_factory=dict)
    """By partition: the longest time without an acknowledged write (acks=all or idempotent) between sends."""

    @property
    def operations_per_second(self) -> float:
        return self.operations / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class Verdict(Findings[Kind]):
    counts: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    apart: dict[Apart, int] = field(default_factory=lambda: dict.fromkeys(Apart, 0))
    figures: Figures = field(default_factory=Figures)
    silences: Silences = field(default_factory=Silences)
    """When writes were acknowledged, to ask about a certain time."""

    @property
    def lost(self) -> int:
        return self.counts[Kind.LOST]

    @property
    def duplicated(self) -> int:
        return self.counts[Kind.DUPLICATED]

    @property
    def reordered(self) -> int:
        return self.counts[Kind.REORDERED]

    @property
    def stale(self) -> int:
        return self.counts[Kind.STALE]

    @property
    def diverged(self) -> int:
        return self.counts[Kind.DIVERGED]

    def __str__(self) -> str:
        figures = self.figures
        lines = [
            self.summary,
            f"{figures.operations} operations in {figures.seconds:.1f} s ({figures.operations_per_second:.0f}/s): "
            f"{figures.sent} records sent, {figures.acknowledged} acknowledged, {figures.refused} refused, "
            f"{figures.indeterminate} of unknown fate; {figures.records_read} read in {figures.polls} polls, "
            f"{figures.final_records} in the end",
        ]
        if any(self.apart.values()):
            lines.append("apart: " + ", ".join(f"{apart} {count}" for apart, count in self.apart.items() if count))
        if figures.longest_silence_ms:
            silences = ", ".join(f"{each}: {ms:.0f}" for each, ms in sorted(figures.longest_silence_ms.items()))
            lines.append(f"longest time without an acknowledged write, ms by partition: {silences}")
        if figures.errors:
            lines.append("errors: " + ", ".join(f"{name} {count}" for name, count in figures.errors.most_common()))
        return "\n".join([*lines, *self.details])
