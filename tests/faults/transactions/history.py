"""What transactional clients did and the answers they got, as JSON lines: one file per client, one line per event.

There are three topics of the same number of partitions. `<topic>-in` is fed by an idempotent producer, `<topic>-out` is
what copiers make of it (consume, transform, produce), and `<topic>-all` gets transactions that write one record to each
of its partitions. The events, `f`:

| f | events | meaning |
|---|---|---|
| `fed` | ok | the record `value` of `<topic>-in` is acknowledged |
| `transaction` | invoke, then ok, fail or info | `value`, in `<topic>-all`: committed, never committed, or unknown |
| `copied` | ok | a copier's transaction is committed: its time is all that counts |
| `read` | ok | `reads` is [[offset, value], …] of `partition`, in the order received, by a read_committed consumer |
| `final` | ok or info | what this client read of `partition` is all of it; or why it is not |
| `hanging` | info | the last stable offset of `partition` did not reach the high watermark: a transaction never ended |
| `zombie` | ok or fail | a producer tried to commit `value` after its successor had begun: whether it could |
| `fault` | info | what was done to the cluster, in `value` |

`ts` is CLOCK_MONOTONIC in ns, which all processes of a host share.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from tests.faults.history import Read, Type

IN, OUT, ALL = "in", "out", "all"


class Event(msgspec.Struct, omit_defaults=True, gc=False):
    """One line. See the module for which `f` uses which field."""

    client: str
    type: Type
    f: str
    ts: int
    value: str = ""
    topic: str = ""
    """IN, OUT or ALL."""
    partition: int = -1
    reads: list[Read] = []
    error: str = ""


class EventRecorder:
    """Writes the events of one client. It belongs to one thread; lines reach the file by the second and at the end."""

    def __init__(self, directory: Path, client: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._client = client
        self._file = (directory / f"{client}.jsonl").open("ab", buffering=1 << 16)
        self._encoder = msgspec.json.Encoder()
        self._flushed_ns = 0

    def __enter__(self) -> EventRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def record(
        self,
        outcome: Type,
        f: str,
        *,
        value: str = "",
        topic: str = "",
        partition: int = -1,
        reads: Sequence[Read] = (),
        error: str = "",
    ) -> None:
        event = Event(self._client, outcome, f, time.monotonic_ns(), value, topic, partition, list(reads), error)
        self._file.write(self._encoder.encode(event) + b"\n")
        if event.ts - self._flushed_ns > 1_000_000_000:
            self._flushed_ns = event.ts
            self._file.flush()


def read_events(directory: Path) -> list[Event]:
    """Return all events of a directory by their time.

    A last line without its end, of a client that was killed as it wrote, is left out.
    """
    decoder = msgspec.json.Decoder(Event)
    events: list[Event] = []
    for path in sorted(directory.glob("*.jsonl")):
        data = path.read_bytes()
        events += decoder.decode_lines(data[: data.rfind(b"\n") + 1])
    return sorted(events, key=lambda event: event.ts)
