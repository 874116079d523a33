"""Spark's checkpoint, read: what its logs of offsets and commits say.

`offsets/<n>` is written before batch n runs, `commits/<n>` after; a line of version, a line of Spark's own, then a line
per source. Each run has a generation of its own (`0001-<run>`, `0002-<run>`, …): of two runs at once neither finds the
other's batches in its logs, which Spark takes for a reason to end both. A run whose newest generation agrees with the
table begins with a copy of what Spark goes on from; else with nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyarrow import fs

from barnabas_pipeline.core.bookkeeping import CheckpointState
from barnabas_pipeline.core.positions import Positions, from_dict
from barnabas_pipeline.tables.contract import TableError
from barnabas_pipeline.tables.locations import filesystem_and_path

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
                content = file.read()
        except FileNotFoundError:
            return None
        return self._parse(content, path)

    def _parse(self, content: bytes, path: str) -> Positions:
        try:
            return from_dict(json.loads(content.decode().splitlines()[-1]))
        except (ValueError, IndexError):  # no text, no JSON, or no positions
            raise TableError(
                f"the checkpoint's {path} is damaged; delete {self.uri}: the table knows its progress"
            ) from None

    def state(self) -> CheckpointState | None:
        """None: no batch was ever begun in it."""
        begun = max(self._numbers("offsets"), default=-1)
        if begun < 0:
            return None
        finished = max((each for each in self._numbers("commits") if each <= begun), default=-1)
        ended = self.positions(finished) if finished >= 0 else None
        return CheckpointState(ended or {}, self.positions(begun) if begun > finished else None)

    def go_on_from(self, earlier: Checkpoint) -> None:
        """Copy what Spark needs to go on there: the query's identity, and the two newest batches of both logs.

        Offsets come last: a copy that was cut short is behind the table, or has no batch, and is not gone on from.
        """
        names = [f"{log}/{number}" for log in ("commits", "offsets") for number in sorted(earlier._numbers(log))[-2:]]
        for name in ("metadata", *names):  # Spark refuses logs without the identity
            filesystem, source = filesystem_and_path(f"{earlier.uri}/{name}")
            _, path = filesystem_and_path(f"{self.uri}/{name}")
            if filesystem.get_file_info(source).type is fs.FileType.NotFound:
                continue
            directory, _, last = path.rpartition("/")
            filesystem.create_dir(directory, recursive=True)
            filesystem.copy_file(source, f"{directory}/.{last}")
            filesystem.move(f"{directory}/.{last}", path)

    def _numbers(self, log: str) -> list[int]:
        filesystem, path = filesystem_and_path(f"{self.uri}/{log}")
        found = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return [int(each.base_name) for each in found if each.base_name.isdigit()]


def newest_checkpoint(root: str) -> Checkpoint | None:
    """The newest in which a batch was begun."""
    for _, name in reversed(_generations(root)):
        checkpoint = Checkpoint(f"{root}/{name}")
        if checkpoint.state() is not None:
            return checkpoint
    return None


def new_checkpoint(root: str, run: str) -> Checkpoint:
    """An empty one for this run, above all that there are; those that nobody will look at again are deleted."""
    known = _generations(root)
    filesystem, path = filesystem_and_path(root)
    for _, name in known[:-GENERATIONS_KEPT]:
        filesystem.delete_dir(f"{path}/{name}")
    number = known[-1][0] + 1 if known else 1
    return Checkpoint(f"{root}/{number:04}-{run}")


def _generations(root: str) -> list[tuple[int, str]]:
    """Number and name of each, oldest first."""
    filesystem, path = filesystem_and_path(root)
    found = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
    names = [each.base_name for each in found]
    return sorted((int(name.partition("-")[0]), name) for name in names if name.partition("-")[0].isdigit())
