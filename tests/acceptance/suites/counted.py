"""What a stream processor has counted: how its results are read, and what is wrong with them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Message

from tests.acceptance.suites.readers import Numbered

_NAMED_MAX: Final = 5


@dataclass(slots=True, frozen=True)
class Counted:
    """A result: the number of a record, and how many of its key had been counted with it."""

    key: str
    number: int
    count: int


def problems_of_records(results: Iterable[Numbered], records: int) -> list[str]:
    """Say which of the records, numbered from 0, were not counted exactly once."""
    times = Counter(result.number for result in results)
    lost = [number for number in range(records) if number not in times]
    doubled = [number for number, count in sorted(times.items()) if count > 1]
    strange = sorted(number for number in times if not 0 <= number < records)
    found = {"not counted": lost, "counted more than once": doubled, "never written": strange}
    return [f"{len(numbers)} records {what}: {_first(numbers)}" for what, numbers in found.items() if numbers]


def problems_of_state(results: Iterable[Counted]) -> list[str]:
    """Say which keys' counts are not 1, 2, 3 and so on, in the order of their results."""
    counts: dict[str, list[int]] = {}
    for result in results:
        counts.setdefault(result.key, []).append(result.count)
    problems = []
    for key, found in sorted(counts.items()):
        place = next((place for place, count in enumerate(found, 1) if count != place), None)
        if place is not None:
            problems.append(f"{key}: the count of its result {place} is {found[place - 1]}")
    return problems if counts else ["no key has a count"]


def _first(numbers: list[int]) -> str:
    more = ["…"] if len(numbers) > _NAMED_MAX else []
    return ", ".join([*map(str, numbers[:_NAMED_MAX]), *more])


def parse(message: Message) -> Counted:
    """Read a result as the processors write it: its key, and a JSON object."""
    key, value = message.key(), message.value()
    assert key is not None
    assert value is not None
    result = json.loads(value)
    return Counted(key.decode(), result["number"], result["count"])
