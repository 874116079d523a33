"""Compares the reports of deliveries with the log. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from tests.faults.moving_leaders.deliveries import NO_OFFSET, Deliveries, Sender, parse_value

EXAMPLES_MAX: Final = 20


class Kind(StrEnum):
    """What must not be. Each counts records."""

    LOST = "lost"
    """Acknowledged, and not in the log."""
    FAILED = "failed"
    """Reported as failed: nothing that is done to the cluster lasts as long as the delivery timeout."""
    FAILED_THOUGH_WRITTEN = "failed though in the log"
    """Of those that failed, the ones that are in the log."""
    DOUBLED = "doubled"
    """Copies beyond the first."""
    OUT_OF_ORDER = "out of order"
    """Behind a record that its sender sent later; first copies alone are looked at."""
    OTHER_OFFSET = "other offset"
    """Acknowledged at an offset at which the record is not."""
    UNREPORTED = "unreported"
    """Sent, and neither acknowledged nor failed when the client had ended."""
    REPORTED_TWICE = "reported twice"
    """Acknowledged or failed more than once."""
    UNSENT = "unsent"
    """In the log of a partition that no producer sent it to."""


class Place(NamedTuple):
    """Where a record is that something is wrong with."""

    partition: int
    offsets: list[int]


@dataclass(slots=True, frozen=True)
class Example:
    kind: Kind
    text: str
    place: Place


@dataclass(slots=True)
class Verdict:
    counts: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    sent: int = 0
    acknowledged: int = 0
    without_offset: int = 0
    """Acknowledged, and the client does not know where: a duplicate, to the broker."""
    in_log: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """Of failed records, by the client's name of the error."""
    longest_wait_ms: int = 0
    """Between two reports of one sender."""
    examples: list[Example] = field(default_factory=list)
    """The first of each kind, EXAMPLES_MAX at the most."""

    @property
    def is_clean(self) -> bool:
        return not any(self.counts.values())

    def add(self, kind: Kind, text: str, partition: int, *offsets: int) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= EXAMPLES_MAX:
            self.examples.append(Example(kind, text, Place(partition, [each for each in offsets if each >= 0])))

    def __str__(self) -> str:
        counts = ", ".join(f"{kind} {count}" for kind, count in self.counts.items())
        lines = [f"sent {self.sent}, acknowledged {self.acknowledged}, {counts}"]
        if self.errors:
            lines.append("errors: " + ", ".join(f"{name} {count}" for name, count in self.errors.most_common()))
        lines += [f"{example.kind}: {example.text}" for example in self.examples]
        return "\n".join(lines)


def check(deliveries: Mapping[Sender, Deliveries], log: Mapping[int, Sequence[bytes]]) -> Verdict:
    """`log` has the values of each partition, from offset 0 without a gap."""
    verdict = Verdict(in_log=sum(map(len, log.values())))
    found = _places(deliveries, log, verdict)
    for sender, of_sender in deliveries.items():
        places = found[sender]
        _check_log(sender, places, verdict)
        _check_reports(sender, of_sender, places, verdict)
    return verdict


def _places(
    deliveries: Mapping[Sender, Deliveries], log: Mapping[int, Sequence[bytes]], verdict: Verdict
) -> dict[Sender, dict[int, list[int]]]:
    """The offsets of each sequence, in the order of the log, by sender."""
    found: dict[Sender, dict[int, list[int]]] = {sender: {} for sender in deliveries}
    for partition, values in log.items():
        for offset, value in enumerate(values):
            parsed = parse_value(value)
            if parsed is not None:
                sender, sequence = parsed
                known = deliveries.get(sender)
                if known is not None and sender.partition == partition and sequence < known.sent:
                    found[sender].setdefault(sequence, []).append(offset)
                    continue
            verdict.add(Kind.UNSENT, f"partition {partition}, offset {offset}: {value!r}", partition, offset)
    return found


def _check_log(sender: Sender, places: Mapping[int, list[int]], verdict: Verdict) -> None:
    last_sequence, its_offset = -1, -1
    for sequence, offsets in places.items():
        name = f"partition {sender.partition}: record {sequence} of producer {sender.producer}"
        for copy in offsets[1:]:
            verdict.add(
                Kind.DOUBLED, f"{name} is at offsets {offsets[0]} and {copy}", sender.partition, offsets[0], copy
            )
        if sequence < last_sequence:
            text = f"{name} is at offset {offsets[0]}, behind record {last_sequence} at {its_offset}"
            verdict.add(Kind.OUT_OF_ORDER, text, sender.partition, its_offset, offsets[0])
        else:
            last_sequence, its_offset = sequence, offsets[0]


def _check_reports(sender: Sender, deliveries: Deliveries, places: Mapping[int, list[int]], verdict: Verdict) -> None:
    verdict.sent += deliveries.sent
    reported: set[int] = set()
    last_at_ms = deliveries.reported[0].at_ms if deliveries.reported else 0
    for sequence, offset, error, at_ms in deliveries.reported:
        verdict.longest_wait_ms = max(verdict.longest_wait_ms, at_ms - last_at_ms)
        last_at_ms = at_ms
        name = f"partition {sender.partition}: record {sequence} of producer {sender.producer}"
        if sequence in reported:
            verdict.add(Kind.REPORTED_TWICE, name, sender.partition, *places.get(sequence, []))
            continue
        reported.add(sequence)
        offsets = places.get(sequence, [])
        if error:
            verdict.errors[error] += 1
            text = f"{name} failed with {error} at {at_ms}"
            verdict.add(Kind.FAILED, text, sender.partition, *offsets)
            if offsets:
                verdict.add(
                    Kind.FAILED_THOUGH_WRITTEN, f"{text} and is at offsets {offsets}", sender.partition, *offsets
                )
            continue
        verdict.acknowledged += 1
        verdict.without_offset += offset == NO_OFFSET
        if not offsets:
            verdict.add(Kind.LOST, f"{name} was acknowledged at offset {offset}", sender.partition, offset)
        elif offset != NO_OFFSET and offset not in offsets:
            text = f"{name} was acknowledged at offset {offset} and is at {offsets}"
            verdict.add(Kind.OTHER_OFFSET, text, sender.partition, offset, *offsets)
    for sequence in range(deliveries.sent):
        if sequence not in reported:
            name = f"partition {sender.partition}: record {sequence} of producer {sender.producer}"
            verdict.add(Kind.UNREPORTED, name, sender.partition, *places.get(sequence, []))
