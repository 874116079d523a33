"""What producers did with a script, saved for each real client in `tests/sim/clients/recordings`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.sim.clients.producers.scripted_broker import RecordedRound

_DIRECTORY = Path(__file__).parents[1] / "recordings"


@dataclass(slots=True)
class Recording:
    """`reports`: by partition, in order: the value, then the offset ("-1": unknown) or the error's name."""

    rounds: list[RecordedRound] = field(default_factory=list)
    reports: dict[str, list[str]] = field(default_factory=dict)


def read_recordings(client: str) -> dict[str, Recording]:
    """By the script's name."""
    saved = json.loads((_DIRECTORY / f"{client}.json").read_text())
    return {name: Recording(**each) for name, each in saved.items()}


def write_recordings(client: str, recordings: Mapping[str, Recording]) -> None:
    saved = {name: asdict(each) for name, each in recordings.items()}
    (_DIRECTORY / f"{client}.json").write_text(json.dumps(saved, indent=1) + "\n")
