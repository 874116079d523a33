"""Matches names against the regular expression of a client, on a worker of the host.

What a pattern costs depends on the client: with a long name it may take a second. So matching is an effect, as a
conversion is (`RecordFormatConverter`): the host runs `PatternMatching.run` on one thread of its own, one after the
other. A request matches some names at a time, so that others have their turns in between. The pattern is compiled for
each of these parts, since a compiled one is larger than the names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from barnabas.ports.patterns import CompilePattern
from barnabas_gateway.core.model.containment import end_by
from barnabas_gateway.core.model.outputs import Turn
from barnabas_gateway.core.timing.hops import Hop
from barnabas_gateway.core.timing.request_timing import RequestTiming

NAMES_PER_MATCHING: Final = 500
"""What a request may match at a time."""
CHARACTERS_PER_MATCHING: Final = 64 * 1024


class PatternMatchingOwner(Protocol):
    """The request whose pattern it is."""

    @property
    def timing(self) -> RequestTiming | None: ...

    def pattern_matched(self, matching: PatternMatching) -> None:
        """The names are matched, or the pattern is none. The connection may be gone."""

    def failed_in_worker(self, fault: str) -> None:
        """The matching has met an unexpected exception; `fault` is its traceback."""

    def failed(self, error: Exception) -> None:
        """Its end has met an unexpected exception."""


@dataclass(slots=True, eq=False)
class PatternMatching:
    """Some names to be matched; without any, the pattern is checked alone."""

    owner: PatternMatchingOwner
    pattern: str
    names: Sequence[str]
    is_valid: bool = True
    """Whether the text is a pattern."""
    outcomes: list[bool] = field(default_factory=list)
    """For each name whether the whole of it matches."""
    fault: str = ""
    """The traceback of an internal error, for the log: the host sets it if `run` failed."""

    def run(self, compile_pattern: CompilePattern) -> None:
        matches = compile_pattern(self.pattern)
        self.is_valid = matches is not None
        if matches is not None:
            self.outcomes = [matches(name) for name in self.names]

    def ended(self) -> None:
        owner = self.owner
        try:
            # First of all: a second exception must not hide the first one.
            if self.fault:
                owner.failed_in_worker(self.fault)
                return
            if owner.timing is not None:
                owner.timing.enter(Hop.GATEWAY)
            owner.pattern_matched(self)
        except Exception as error:
            end_by(owner, error)


class PatternMatcher:
    __slots__ = ("_turn",)

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    def match(self, owner: PatternMatchingOwner, pattern: str, names: Sequence[str]) -> None:
        """Match the names, or the first of them if they are long; `owner.pattern_matched` follows."""
        count = characters = 0
        while count < len(names) and characters < CHARACTERS_PER_MATCHING:
            characters += len(names[count])
            count += 1
        if owner.timing is not None:
            owner.timing.enter(Hop.CONVERSION)
        self._turn.rare.pattern_matchings.append(PatternMatching(owner, pattern, names[:count]))
