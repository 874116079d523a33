"""One file of the model disk: what a process sees of it, what the platter has, and what a power cut makes of the
difference.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from tests.sim.scheduler import InvariantViolation

SECTOR_BYTES = 512
PAGE_BYTES = 4096

_SECTORS_PER_PAGE = PAGE_BYTES // SECTOR_BYTES


@dataclass(slots=True, eq=False)
class FileNode:
    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unflushed: list[tuple[int, bytes | None]] = field(default_factory=list)
    """(position, bytes) of a write, (byte count, None) of a truncation; oldest first."""
    is_flush_failed: bool = False
    modified_ms: int = 0
    sent_end: int = 0
    """Where the last of what clients are, or were, sent from this file ends (`FileRange`). While its machine runs, a
    byte before that may be cut off, and never be replaced by another one."""

    def change(self, position: int, data: bytes | None) -> None:
        """Raises InvariantViolation."""
        if data is not None and position < self.sent_end:
            # Recovery writes the same bytes once more after a failed flush.
            again = data[: self.sent_end - position]
            if self.content[position : position + len(again)] != again:
                raise InvariantViolation(
                    f"I9: bytes from {position} on of a file are written, up to {self.sent_end} clients were sent it"
                )
        apply_change(self.content, position, data)
        self.unflushed.append((position, data))

    def flush(self) -> None:
        for position, data in self.unflushed:
            apply_change(self.durable, position, data)
        self.unflushed.clear()

    def fail_to_flush(self, chance: Random | None) -> None:
        """Pages are marked clean all the same: a later flush will not bring them to the disk."""
        self.is_flush_failed = True
        if chance is not None:
            self.durable = lose_unflushed(self, chance, Counter())
        self.unflushed.clear()


def apply_change(content: bytearray, position: int, data: bytes | None) -> None:
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    if data is None:
        del content[position:]
    else:
        content[position : position + len(data)] = data


def lose_unflushed(node: FileNode, random: Random, losses: Counter[str]) -> bytearray:
    """What the platter has of a file after a power cut."""
    count = len(node.unflushed)
    fate = random.random()
    if not count or fate < 0.15:
        losses["files without their last writes"] += count > 0
        return node.durable
    if fate < 0.3:
        return bytearray(node.content)
    versions, sizes = _versions(node)
    upto = dict.fromkeys((sector // _SECTORS_PER_PAGE for sector in versions), count)
    if fate < 0.5:
        # A single moment: as if nothing had been written back since.
        upto = dict.fromkeys(upto, random.randint(0, count))
        losses["files as of an earlier moment"] += 1
    else:
        lateness = random.choice((0.1, 0.5, 0.9))
        for page in upto:
            if random.random() < lateness:
                upto[page] = random.randrange(count)
                losses["pages lost beside others"] += 1
    tearing = random.choice((0.0, 0.0, 0.3, 1.0))
    survivors = bytearray(node.durable)
    for sector, contents in versions.items():
        version = upto[sector // _SECTORS_PER_PAGE]
        if tearing and random.random() < tearing:
            version = random.randint(0, count)
            losses["sectors torn"] += 1
        kept = [content for index, content in contents if index <= version]
        if kept:
            start = sector * SECTOR_BYTES
            width = min(SECTOR_BYTES, max(len(survivors) - start, 0))
            apply_change(survivors, start, kept[-1].ljust(width, b"\0"))
    size = random.choice((sizes[count], sizes[max(upto.values(), default=count)], len(survivors), random.choice(sizes)))
    losses["zeros at the end of a file"] += size > len(survivors)
    apply_change(survivors, size, None)
    return survivors


def _versions(node: FileNode) -> tuple[dict[int, list[tuple[int, bytes]]], list[int]]:
    """Of every sector that was changed its contents over time, as (changes so far, content); the sizes over time."""
    content = bytearray(node.durable)
    versions: dict[int, list[tuple[int, bytes]]] = {}
    sizes = [len(content)]
    for index, (position, data) in enumerate(node.unflushed, 1):
        before = len(content)
        apply_change(content, position, data)
        end = max(position, before) if data is None else position + len(data)
        for sector in range(min(position, before) // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            start = sector * SECTOR_BYTES
            versions.setdefault(sector, []).append((index, bytes(content[start : start + SECTOR_BYTES])))
        sizes.append(len(content))
    return dict(sorted(versions.items())), sizes
