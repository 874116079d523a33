"""What the operator has chosen for the state to be written."""

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
