"""The results of effects: each kind of effect declares the one type of its result, as `result`.

Whatever carries an effect out returns a value of that type, a worker as well as the event loop in place, and the
completion accepts that type. The type checker compares both with the declaration (`Result.of`, `Outbox.add_effect`),
and completions assert the type of the value, where an exception costs one request. Bytes of a file are a memoryview,
which needs no copy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from barnabas.channel.messages import RecordError
from barnabas.ports.disk import DiskFile
from barnabas.wire.errors import ErrorCode
from barnabas.wire.file_range import FileRange

R = TypeVar("R")


class Result(Generic[R]):
    """The type of an effect's result."""

    __slots__ = ("types",)

    def __init__(self, *types: type[R]) -> None:
        """A result is an instance of one of `types`."""
        self.types = types

    def of(self, value: R) -> R:
        """Return `value`, which is a result. Raises TypeError if it is none."""
        if not isinstance(value, self.types):
            names = " or ".join([each.__name__ for each in self.types])
            raise TypeError(f"an effect's result is a {type(value).__name__}, not {names}")
        return value


class EffectOf(Protocol[R]):
    """An effect whose result is an `R`."""

    @property
    def result(self) -> Result[R]: ...


DONE: Final = b""
"""The result of an effect that finds nothing out."""
IS_DONE: Final = Result(bytes)


@dataclass(slots=True, frozen=True)
class FoundBatches:
    """`records` begin at `position` of the file, and may end within a batch. Empty: none may be returned, and the
    position is -1 if the file is too short.
    """

    position: int
    records: memoryview | FileRange


class NotFound(Enum):
    """Why no batch was found."""

    PAST_THE_END = "the offset is past the last batch of the file"
    NO_BATCH = "the bytes are not batches"
    NO_FILE = "a file of the segment is missing, or an index can't be this segment's"


@dataclass(slots=True, frozen=True)
class OffsetAtTimestamp:
    """-1 in every field if no record matches; a special timestamp's own `timestamp_ms` is -1."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


@dataclass(slots=True, frozen=True)
class RecordTimestamps:
    """The batches before `end_position` have `latest_ms`, NO_TIMESTAMP if none of their records has one.

    `is_readable` is False if the batch there can't be opened: nothing is known of its records.
    """

    latest_ms: int
    end_position: int
    is_readable: bool


@dataclass(slots=True, frozen=True)
class Refusal:
    """Why a batch is not appended, or not searched."""

    error: ErrorCode
    message: str = ""
    """The message for the client, if Kafka has one."""
    record_errors: list[RecordError] = field(default_factory=list)


class AbortedTransaction(NamedTuple):
    """An entry of `.txnindex`: see `transaction_index`."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(slots=True, frozen=True)
class AbortedInFile:
    """What one index of aborted transactions has: those that were asked for, and what is true of all its entries."""

    aborted: list[AbortedTransaction]
    first_offset_min: int
    last_stable_offset_max: int


@dataclass(slots=True, frozen=True)
class FoundAborted:
    """By file of a `FindAbortedEffect`, None if there is no such file; and the offset that its records end before."""

    files: list[AbortedInFile | None]
    upto_offset: int


@dataclass(slots=True, frozen=True)
class LargestTimestamps:
    """By segment of a `FindTimestampsEffect`: its largest timestamp, and the last offset of the batch that reached it
    first; None if the time index is missing, or can't be this segment's.
    """

    found: list[tuple[int, int] | None]


@dataclass(slots=True, frozen=True)
class OpenedSegment:
    """The file of a segment, and where a batch begins that is not after the one that is looked for."""

    file: DiskFile
    position: int


class VolumeSpace(NamedTuple):
    total_bytes: int
    usable_bytes: int
