"""Spark's checkpoint, read: what its logs of offsets and commits say.

`offsets/<n>` is written before batch n runs, `commits/<n>` after; a line of version, a line of Spark's own, then a line
per source. A run goes on in the newest generation (`0001`, `0002`, …) if that agrees with the table, else in a new one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyarrow import fs

from pipeline.core.bookkeeping import CheckpointState
from pipeline.core.positions import Positions, from_dict
from pipeline.tables.contract import TableError
from pipeline.tables.locations import filesystem_and_path

GENERATIONS_KEPT = 2


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One generation. `uri` is what Spark gets as its checkpointLocation."""

    uri: str

    def positions(self, batch_id: int) -> Positions | None:
        """The end of a batch, None if it was never begun (or is long forgotten)."""
        filesystem, path = filesystem_and_path(f"{self.uri}/offsets/{batch_id}")
        try:
            with filesystem.open_input_file(path) as file:
                lines = file.read().decode().splitlines()
        except FileNotFoundError:
            return None
        return self._parse(lines, path)

    def _parse(self, lines: list[str], path: str) -> Positions:
        try:
            document = json.loads(lines[-1])
        except (ValueError, IndexError):
            raise TableError(
                f"the checkpoint's {path} is damaged; delete {self.uri}: the table knows its progress"
            ) from None
        return from_dict(document)

    def state(self) -> CheckpointState | None:
        """None: no batch was ever begun in it."""
        begun = max(self._numbers("offsets"), default=-1)
        if begun < 0:
            return None
        finished = max((each for each in self._numbers("commits") if each <= begun), default=-1)
        ended = self.positions(finished) if finished >= 0 else None
        return CheckpointState(ended or {}, self.positions(begun) if begun > finished else None)

    def _numbers(self, log: str) -> list[int]:
        filesystem, path = filesystem_and_path(f"{self.uri}/{log}")
        found = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return [int(each.base_name) for each in found if each.base_name.isdigit()]


def generations(root: str) -> list[int]:
    """Which there are, oldest first."""
    filesystem, path = filesystem_and_path(root)
    found = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return sorted(int(each.base_name) for each in found if each.base_name.isdigit())


def generation(root: str, number: int) -> Checkpoint:
    return Checkpoint(f"{root}/{number:04}")


def forget_before(root: str, number: int) -> None:
    """Delete generations that nobody will look at again."""
    filesystem, path = filesystem_and_path(root)
    for old in generations(root):
        if old <= number - GENERATIONS_KEPT:
            filesystem.delete_dir(f"{path}/{old:04}")
