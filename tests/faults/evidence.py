"""What is kept of a run that failed: the processes' logs, and which producer, epoch and sequence wrote each batch.

Two copies of a record under one producer epoch are the broker's doing. Under two of them a client started over with
what was reported as not written; no broker can know the second copy for one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import BatchHeader, iterate_headers


def keep(process_logs: Path, log_directories: Iterable[Path], directory: Path) -> None:
    """Write `logs/` and `batches.txt` into `directory`."""
    shutil.copytree(process_logs, directory / "logs")
    lines = (line for each in log_directories for line in batch_lines(each))
    (directory / "batches.txt").write_text("".join(f"{line}\n" for line in lines))


def batch_lines(log_directory: Path, partition: str = "*", offsets: Iterable[int] = ()) -> Iterator[str]:
    """A line per batch of each partition's segments (`partition`: a topic's, `orders-3`); with `offsets`, of the
    batches that hold one of them."""
    wanted = list(offsets)
    for segment in sorted(log_directory.glob(f"{partition}/*.log")):
        for header in _headers(segment):
            if not wanted or any(header.base_offset <= offset <= header.last_offset for offset in wanted):
                yield (
                    f"{log_directory.name}/{segment.parent.name} offsets {header.base_offset}-{header.last_offset} "
                    f"leader epoch {header.partition_leader_epoch} producer {header.producer_id} "
                    f"epoch {header.producer_epoch} sequences {header.base_sequence}-{header.last_sequence}"
                )


def _headers(segment: Path) -> Iterator[BatchHeader]:
    """Up to what was torn, or set aside and not written."""
    try:
        for _, header in iterate_headers(segment.read_bytes()):
            yield header
    except MalformedFrame:
        return
