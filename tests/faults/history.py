"""What real clients did and the answers they got, as JSON lines: one file per client, one line per event.

    {"proc": "idempotent-0/1", "type": "invoke", "f": "send", "ts": 81…, "value": "t|idempotent-0/1|7", "partition": 2}
    {"proc": "idempotent-0/1", "type": "ok", "f": "send", "ts": 82…, "value": "t|idempotent-0/1|7", …, "offset": 40}

`proc` is one life of a client: a producer that is opened again is another `proc`, as it has another producer id. `ts`
is CLOCK_MONOTONIC in ns, which every process and every network namespace of a host shares. Fields that say nothing are
left out. The operations, `f`:

| f | events | meaning |
|---|---|---|
| `open` | ok | a life begins: `value` is the Guarantee of a producer, or `reader`; `seed` is what it started with |
| `send` | invoke, then one of ok, fail, info | one record; `offset` (ok) is absent if the client did not get it |
| `assign` | ok | the reader goes on at `offset` of `partition` |
| `poll` | ok | `value` is [[offset, value], …] of `partition`, in the order received, all of leader epoch `epoch` |
| `poll` | info | the client reported `error`; its position stays where it was |
| `flush` | info | the producer could not deliver everything before it ended; what was sent stays without an outcome |
| `list_offsets` | invoke, then ok or info | `offset` is where read_committed ends, said by the leader of `epoch` |
| `final` | invoke, then ok or info | what this life polls of `partition` between the two is all of it, up to `offset` |
| `fault` | info | what was done to the cluster, in `value`: for people, nothing is concluded from it |
| `cut_off` | invoke, then ok | between the two the leader of `epoch` need not know that `partition` has another one |

`ok`: it happened. `fail`: it did not and never will. `info`: unknown. `outcome_of` says which errors prove what.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import TracebackType

import msgspec


class Type(StrEnum):
    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Guarantee(StrEnum):
    """What a producer asked for, and so what the checker holds the cluster to."""

    IDEMPOTENT = "idempotent"
    """acks=all, 5 requests in flight: there, once, in the order sent."""
    ACKS_ALL = "acks=all"
    """There; perhaps twice or in another order, where the client sent again."""
    ACKS_1 = "acks=1"
    """On the leader's word alone: its loss is counted apart, and is no failure."""


READER = "reader"
"""What a life opens as that only reads."""

Read = tuple[int, str]
"""Offset and value."""


class Operation(msgspec.Struct, omit_defaults=True, gc=False):
    """One line. See the module for which `f` uses which field."""

    proc: str
    type: Type
    f: str
    ts: int
    value: str | list[Read] | None = None
    partition: int | None = None
    offset: int | None = None
    epoch: int | None = None
    seed: int | None = None
    error: str | None = None


_DETERMINISTIC_REFUSALS = frozenset(
    {
        "MESSAGE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "INVALID_RECORD",
        "INVALID_TIMESTAMP",
        "UNSUPPORTED_COMPRESSION_TYPE",
    }
)
"""The same record is refused at every attempt."""
_REFUSALS_BEFORE_APPEND = frozenset(
    {
        "NOT_ENOUGH_REPLICAS",
        "CORRUPT_MESSAGE",
        "INVALID_REQUIRED_ACKS",
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_TOPIC_EXCEPTION",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    }
)
"""This attempt wrote nothing; an attempt before it may have."""


def outcome_of(error: str, may_have_been_sent_before: bool) -> Type:
    """Whether an error of a send, by Kafka's name for it, proves that the record is not and will not be in the log.

    NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT, disconnects and what clients make of
    them prove nothing: the old leader may have appended. A client that sends again by itself reports its last attempt.
    """
    if error in _DETERMINISTIC_REFUSALS or (error in _REFUSALS_BEFORE_APPEND and not may_have_been_sent_before):
        return Type.FAIL
    return Type.INFO


class Recorder:
    """Writes the history of one client. It belongs to one thread; lines reach the file by the second and at the end."""

    def __init__(self, path: Path, seed: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=1 << 16)
        self._seed = seed
        self._encoder = msgspec.json.Encoder()
        self._flushed_ns = 0

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def open(self, proc: str, what: str) -> None:
        """A life begins: `what` is a Guarantee or READER."""
        self._write(Operation(proc, Type.OK, "open", time.monotonic_ns(), value=what, seed=self._seed))

    def record(
        self,
        proc: str,
        outcome: Type,
        f: str,
        *,
        value: str | list[Read] | None = None,
        partition: int | None = None,
        offset: int | None = None,
        epoch: int | None = None,
        error: str | None = None,
    ) -> None:
        self._write(
            Operation(
                proc,
                outcome,
                f,
                time.monotonic_ns(),
                value,
                partition=partition,
                offset=offset,
                epoch=epoch,
                error=error,
            )
        )

    def fault(self, what: str) -> None:
        """Something is done to the cluster now."""
        self.record("nemesis", Type.INFO, "fault", value=what)

    def cut_off(self, leaders: Mapping[int, int], *, over: bool) -> None:
        """By partition, the epoch of a leader that is about to be cut off from the majority, or that knows again."""
        for partition, epoch in leaders.items():
            outcome = Type.OK if over else Type.INVOKE
            self.record("nemesis", outcome, "cut_off", partition=partition, epoch=epoch)

    def _write(self, operation: Operation) -> None:
        self._file.write(self._encoder.encode(operation) + b"\n")
        if operation.ts - self._flushed_ns > 1_000_000_000:
            self._flushed_ns = operation.ts
            self._file.flush()


def paths_of(directory: Path) -> list[Path]:
    """The histories of one run."""
    return sorted(directory.glob("*.jsonl"))


def read(paths: Sequence[Path]) -> list[Operation]:
    """All events in the order in which they happened. Raises msgspec.DecodeError for a line that is no event.

    A last line without its end, of a client that was killed as it wrote, is no line.
    """
    decoder = msgspec.json.Decoder(Operation)
    operations: list[Operation] = []
    for path in paths:
        data = path.read_bytes()
        operations += decoder.decode_lines(data[: data.rfind(b"\n") + 1])
    return in_order(operations)


def in_order(operations: Iterable[Operation]) -> list[Operation]:
    """By time. Python's sort takes runs that are in order as they are, so whole files cost next to nothing."""
    return sorted(operations, key=lambda operation: operation.ts)
