"""What the operator has said of the state that is to be made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True, frozen=True)
class Choices:
    inspections: tuple[Path, ...]
    absent: frozenset[int]
    topic_ids: dict[str, bytes]
    accepts_losses: bool
    replace: bool
