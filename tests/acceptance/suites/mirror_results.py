"""What MirrorMaker has written into the other cluster, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from tests.acceptance.suites.connect_results import Delivered

NUMBER: Final = "number"
TIME: Final = "time"
"""The headers of a record: its number and its timestamp once more."""


@dataclass(slots=True, frozen=True)
class Mirrored(Delivered):
    is_whole: bool
    """Whether its key, its headers and its timestamp are those that it was written with."""


@dataclass(slots=True, frozen=True)
class Translated:
    """What RemoteClusterUtils finds in a cluster about one that is mirrored into it."""

    upstream: tuple[str, ...]
    hops: int
    checkpoints: tuple[str, ...]
    offsets: dict[tuple[str, int], int]
    """By topic and partition: where the group goes on."""


def key_of(number: int) -> bytes:
    return f"key-{number}".encode()


def headers_of(number: int, timestamp: int) -> list[tuple[str, str | bytes | None]]:
    return [(NUMBER, str(number).encode()), (TIME, str(timestamp).encode())]


def parse(message: Message) -> Mirrored:
    """Read a record of a flow. Raises ValueError if it is no number."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert value is not None
    number = int(value)
    kind, timestamp = message.timestamp()
    is_whole = (
        message.key() == key_of(number)
        and message.headers() == headers_of(number, timestamp)
        and kind == TIMESTAMP_CREATE_TIME
    )
    return Mirrored(partition, offset, number, is_whole)


def parse_translated(said: str) -> Translated:
    """Read what the program of RemoteClusterUtils says."""
    upstream: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    hops = -1
    offsets = {}
    for what, *words in (line.split() for line in said.splitlines() if line.strip()):
        match what:
            case "upstream":
                upstream = tuple(words)
            case "checkpoints":
                checkpoints = tuple(words)
            case "hops":
                hops = int(words[1])
            case "offset":
                offsets[words[0], int(words[1])] = int(words[2])
    return Translated(upstream, hops, checkpoints, offsets)


def problems_of_contents(mirrored: Iterable[Mirrored]) -> list[str]:
    """Say which records have another key, other headers or another timestamp."""
    changed = [each.number for each in mirrored if not each.is_whole]
    return [f"{len(changed)} records have changed, the first is {changed[0]}"] if changed else []


def problems_of_going_on(mirrored: Iterable[Delivered], offsets: Mapping[int, int], left: set[int]) -> list[str]:
    """Say which numbers of `left` a group would lose that goes on at these offsets, by partition."""
    read = {each.number for each in mirrored if each.offset >= offsets.get(each.partition, 0)}
    lost = sorted(left - read)
    return [f"{len(lost)} records lost, the first is {lost[0]}"] if lost else []


def problems_of_numbers_read(read: Sequence[int], wanted: Iterable[int]) -> list[str]:
    """Say which numbers a group has not read, or not once."""
    missing, more = Counter(wanted), Counter(read)
    missing, more = missing - more, more - missing
    named = {"not read": sorted(missing), "read too often": sorted(more)}
    return [f"{len(numbers)} records {what}, the first is {numbers[0]}" for what, numbers in named.items() if numbers]


def problems_of_translated(found: Translated, wanted: Translated) -> list[str]:
    """Say where they differ."""
    problems = []
    for what in ("upstream", "hops", "checkpoints", "offsets"):
        shown, expected = getattr(found, what), getattr(wanted, what)
        if shown != expected:
            problems.append(f"{what} {shown} instead of {expected}")
    return problems
