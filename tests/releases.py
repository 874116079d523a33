"""The versions that were released, as `RELEASES` names them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(slots=True, frozen=True)
class Release:
    version: str
    commit: str

    def why_not_here(self) -> str | None:
        """Why its files can't be had: a checkout without history, or none at all."""
        command = ["git", "-C", str(ROOT), "cat-file", "-e", f"{self.commit}^{{commit}}"]
        try:
            found = subprocess.run(command, capture_output=True, check=False)
        except FileNotFoundError:
            return "there is no git here"
        return (
            None if found.returncode == 0 else f"this checkout has no commit {self.commit[:7]} (version {self.version})"
        )

    def extract(self, directory: Path, *paths: str) -> None:
        """Put its files, or those of `paths`, below the directory."""
        command = ["git", "-C", str(ROOT), "archive", self.commit, *paths]
        archive = subprocess.run(command, capture_output=True, check=True).stdout
        subprocess.run(["tar", "--extract", "--directory", directory], input=archive, check=True)


def releases() -> list[Release]:
    """Oldest first."""
    lines = [line.split() for line in (ROOT / "RELEASES").read_text().splitlines()]
    return [Release(*line) for line in lines if line and not line[0].startswith("#")]
