"""Checks by tools of Apache Kafka: a main class with its arguments, and what it must have written at its end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

Verdict: TypeAlias = Callable[[int | None, str], bool]
"""From the exit status, which is None for a tool that was ended because its time was over, and from what it wrote."""

TOOLS: Final = "org.apache.kafka.tools"
SECONDS_MAX: Final = 180.0


@dataclass(slots=True, frozen=True)
class Check:
    name: str
    main_class: str
    arguments: tuple[str, ...]
    verdict: Verdict | None
    """None: it prepares what a later check needs, and is no check of its own."""
    seconds_max: float = SECONDS_MAX


def tool(
    name: str, main_class: str, arguments: str, verdict: Verdict | None, seconds_max: float = SECONDS_MAX
) -> Check:
    """Return a check by a tool of Kafka's package; `arguments` are separated by spaces."""
    return Check(name, f"{TOOLS}.{main_class}", tuple(arguments.split()), verdict, seconds_max)


def says(pattern: str) -> Verdict:
    """The tool succeeds, and a line matches."""
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda status, output: status == 0 and compiled.search(output) is not None


def runs_on_and_says(pattern: str) -> Verdict:
    """The tool would run for ever, and a line matches."""
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda status, output: status is None and compiled.search(output) is not None


def is_silent(status: int | None, output: str) -> bool:
    """The tool succeeds, and writes nothing: so do tools whose request is all they do."""
    return status == 0 and not output.strip()


def consumes(records: int) -> Verdict:
    """The tool succeeds, and its reports of consumed records add up to exactly this number."""
    return lambda status, output: status == 0 and _consumed(output.splitlines()) == records


def _consumed(lines: Iterable[str]) -> int:
    total = 0
    for line in lines:
        try:
            event = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if isinstance(event, dict) and event.get("name") == "records_consumed":
            total += event["count"]
    return total
