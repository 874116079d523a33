"""What the members of one consumer group did and the answers they got, as JSON lines: one file per life of a member.

    {"consumer": "consumer-3/1", "what": "assigned", "ts": 81…, "generation": 7, "partitions": [2, 3]}
    {"consumer": "consumer-3/1", "what": "read", "ts": 82…, "partition": 2, "offset": 40, "value": "t|…|7"}

`ts` is CLOCK_MONOTONIC in ns, which all processes of a host share. A line is in the file before what it tells of has
consequences, so a member that is killed leaves out nothing that others can have seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from types import TracebackType

import msgspec


class What(StrEnum):
    ASSIGNED = "assigned"
    """All that the member owns from now on is `partitions`, by its assignment of `generation`; it asks for the
    committed offsets after this."""
    REVOKED = "revoked"
    """It owns nothing any more: it gave back `partitions`, or lost them."""
    READ = "read"
    """It was given the record at `offset` of `partition`."""
    COMMIT = "commit"
    """It is about to ask that `offsets` (by partition) be committed."""
    COMMITTED = "committed"
    """The answer was that they are."""
    NOT_COMMITTED = "not committed"
    """The answer was `error`: they are not, or it is unknown."""
    ERROR = "error"
    """Something else went wrong; its position stays where it was."""


class GroupEvent(msgspec.Struct, omit_defaults=True, gc=False):
    """One line. See What for the fields of each."""

    consumer: str
    """One life of one member."""
    what: What
    ts: int
    generation: int | None = None
    """-1 where the client knew none."""
    partitions: list[int] | None = None
    partition: int | None = None
    offset: int | None = None
    value: str | None = None
    offsets: dict[int, int] | None = None
    error: str | None = None


class GroupRecorder:
    """Writes the events of one life, each at once."""

    def __init__(self, path: Path, consumer: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        self._consumer = consumer
        self._encoder = msgspec.json.Encoder()

    def __enter__(self) -> GroupRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def assigned(self, generation: int, partitions: Iterable[int]) -> None:
        self._write(
            GroupEvent(self._consumer, What.ASSIGNED, _now(), generation=generation, partitions=sorted(partitions))
        )

    def revoked(self, partitions: Iterable[int]) -> None:
        self._write(GroupEvent(self._consumer, What.REVOKED, _now(), partitions=sorted(partitions)))

    def read(self, partition: int, offset: int, value: str) -> None:
        self._write(GroupEvent(self._consumer, What.READ, _now(), partition=partition, offset=offset, value=value))

    def commit(self, offsets: dict[int, int]) -> None:
        self._write(GroupEvent(self._consumer, What.COMMIT, _now(), offsets=offsets))

    def committed(self, offsets: dict[int, int]) -> None:
        self._write(GroupEvent(self._consumer, What.COMMITTED, _now(), offsets=offsets))

    def not_committed(self, offsets: dict[int, int], error: str) -> None:
        self._write(GroupEvent(self._consumer, What.NOT_COMMITTED, _now(), offsets=offsets, error=error))

    def error(self, error: str) -> None:
        self._write(GroupEvent(self._consumer, What.ERROR, _now(), error=error))

    def _write(self, event: GroupEvent) -> None:
        self._file.write(self._encoder.encode(event) + b"\n")


def _now() -> int:
    return time.monotonic_ns()


def read_group(paths: Sequence[Path]) -> list[GroupEvent]:
    """All events in the order in which they happened; a last line without its end is none."""
    decoder = msgspec.json.Decoder(GroupEvent)
    events: list[GroupEvent] = []
    for path in paths:
        data = path.read_bytes()
        events += decoder.decode_lines(data[: data.rfind(b"\n") + 1])
    return sorted(events, key=lambda event: event.ts)
