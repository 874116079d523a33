"""What Kafka Connect has delivered, and what is wrong with it: each number once for each time it was to be written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Message

PARTITIONS: Final = 3
"""Of the topic; a number is in the partition that is its remainder."""
_NAMED_MAX: Final = 5
_WORDS: Final = 4
"""Of a line that the sink has written whole."""


@dataclass(slots=True, frozen=True)
class Delivered:
    """A record: the source has one for each number."""

    partition: int
    offset: int
    number: int


@dataclass(slots=True, frozen=True)
class Kill:
    written: int
    """How many numbers were in the log, of a committed transaction or not."""
    committed: int


def parse(message: Message) -> Delivered:
    """Read a record of the topic. Raises ValueError if it is no number."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert value is not None
    return Delivered(partition, offset, int(value))


def parse_lines(text: str) -> list[Delivered]:
    """Read the sink's file: partition, offset, number and `end` on each line; others were torn by a kill."""
    lines = [line.split() for line in text.splitlines()]
    return [Delivered(*map(int, words[:-1])) for words in lines if len(words) == _WORDS and words[-1] == "end"]


def problems_of_kills(kills: Sequence[Kill], wanted: int, aborted: int, records: int) -> list[str]:
    """Say why the kills prove nothing; `aborted` counts records of transactions that never committed."""
    problems = []
    if len(kills) < wanted:
        problems.append(f"{len(kills)} kills instead of {wanted}")
    if not aborted:
        problems.append("no kill met an open transaction that had records")
    if kills and kills[0].written >= records:
        problems.append("all records were written before the first kill")
    return problems


def problems_of_numbers(delivered: Iterable[Delivered], expected: Iterable[int]) -> list[str]:
    """Say which numbers were not delivered as often as they are in `expected`."""
    found, wanted = Counter(each.number for each in delivered), Counter(expected)
    missing = sorted((wanted - found).elements())
    more = sorted((found - wanted).elements())
    named = {"missing": missing, "too many": more}
    return [f"{len(numbers)} records {what}: {_first(numbers)}" for what, numbers in named.items() if numbers]


def problems_of_order(delivered: Sequence[Delivered], expected: Sequence[int]) -> list[str]:
    """Say where each partition differs first from its numbers of `expected`, in their order."""
    problems = []
    for partition in range(PARTITIONS):
        found = [each.number for each in delivered if each.partition == partition]
        wanted = [number for number in expected if number % PARTITIONS == partition]
        if found == wanted:
            continue
        alike = next((at for at, pair in enumerate(zip(found, wanted, strict=False)) if pair[0] != pair[1]), None)
        if alike is None:
            problems.append(f"partition {partition}: {len(found)} records instead of {len(wanted)}")
        else:
            problems.append(f"partition {partition}: record {alike} is {found[alike]} instead of {wanted[alike]}")
    return problems


def problems_of_sink(written: Iterable[Delivered], committed: Iterable[Delivered]) -> list[str]:
    """Say what the sink left out, and what it wrote that no committed transaction has; it may write a record again."""
    wanted, found = set(committed), set(written)
    lost, strange = (sorted(each.number for each in some) for some in (wanted - found, found - wanted))
    named = {"not written": lost, "written and not committed": strange}
    return [f"{len(numbers)} records {what}: {_first(numbers)}" for what, numbers in named.items() if numbers]


def problems_of_repetition(
    before: Iterable[Delivered], after: Iterable[Delivered], again: Iterable[Delivered]
) -> list[str]:
    """Say whether the sink has written anything else again than `again`, each of these once."""
    wanted = Counter(before) + Counter(again)
    found = Counter(after)
    fewer = sorted(each.number for each in (wanted - found).elements())
    more = sorted(each.number for each in (found - wanted).elements())
    named = {"not written again": fewer, "written again": more}
    return [f"{len(numbers)} records {what}: {_first(numbers)}" for what, numbers in named.items() if numbers]


def problems_of_settings(topic: str, found: Mapping[str, str | None], asked: Mapping[str, str]) -> list[str]:
    """Say which settings of a topic are not those that it was created with."""
    return [
        f"{topic}: {name} is {found.get(name)} instead of {value}"
        for name, value in asked.items()
        if found.get(name) != value
    ]


def offsets_after(delivered: Iterable[Delivered]) -> dict[int, int]:
    """Return the offset after the last record of each partition, not counting markers of transactions."""
    after: dict[int, int] = {}
    for each in delivered:
        after[each.partition] = max(after.get(each.partition, 0), each.offset + 1)
    return after


def _first(numbers: list[int]) -> str:
    more = ["…"] if len(numbers) > _NAMED_MAX else []
    return ", ".join([*map(str, numbers[:_NAMED_MAX]), *more])
