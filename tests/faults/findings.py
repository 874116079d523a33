"""What a checker has found: how often each kind of anomaly, and some of each as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

EXAMPLES_MAX = 5
"""Of each kind, as text; the count is whole."""

K = TypeVar("K", bound=StrEnum)


@dataclass(slots=True)
class Findings(Generic[K]):
    counts: dict[K, int]
    """Of every kind, also those that were not found."""
    examples: dict[K, list[str]] = field(default_factory=dict)
    incomplete: list[str] = field(default_factory=list)
    """Why nothing can be concluded about losses: what no final reader read to its end."""

    @property
    def is_clean(self) -> bool:
        """Nothing wrong, and enough was read to say so."""
        return not self.incomplete and not any(self.counts.values())

    def add(self, kind: K, text: str) -> None:
        self.counts[kind] += 1
        examples = self.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES_MAX:
            examples.append(text)

    @property
    def summary(self) -> str:
        """All counts in one line."""
        return ", ".join(f"{kind} {count}" for kind, count in self.counts.items())

    @property
    def details(self) -> list[str]:
        """A line for each reason and each example."""
        return [
            *(f"incomplete: {reason}" for reason in self.incomplete),
            *(f"{kind}: {text}" for kind, texts in self.examples.items() for text in texts),
        ]
