"""The backlog: appends that a logstore's core finds in its data channel, exactly as many as are asked for.

They are made in the logstore's own process and given to its core as if they had come on the streams of 16 processors,
within the credit that these hold, and as soon as others are answered. So the backlog is what it is called, whoever else
wants the CPU, and the logstore is what limits it. What is left out is gRPC's part in receiving them.

The bench tells how many by a file, and reads how they fare in another; the logstore looks and writes at each tick.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from barnabas.channel.credits import CreditAccount
from barnabas.channel.messages import Append, ExchangeRequest, ExchangeResponse, Hello
from barnabas.wire.record_batch import Record, build_batch
from services.logstore.core.logstore import LogstoreCore

FIRST_STREAM_ID = 1 << 40
"""Above those of all streams that peers open."""
STREAMS = 16
"""With k busy streams each gets 1/(k+1) of the credit: so many leave little of it unused."""
_ACKS_LEADER = 1
_SECONDS_MAX = 30.0


class Wanted(msgspec.Struct, frozen=True):
    """Keep `appends` unanswered, of one record of `value_bytes`, to a topic that is led here."""

    number: int
    """Of this order: one more than the last one's."""
    appends: int
    topic_id: bytes
    partitions: int
    leader_epoch: int
    value_bytes: int


class Standing(msgspec.Struct, frozen=True):
    """How it stands with order `number`: appends unanswered, those without credit yet, and answered ones in all."""

    number: int
    unanswered: int
    without_credit: int
    answered: int
    refused: int


@dataclass(slots=True)
class _Stream:
    stream_id: int
    credit: CreditAccount
    wanted: int = 0
    unanswered: int = 0


class BacklogSource:
    """In the logstore's process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wanted: Wanted | None = None
        self._batch = b""
        self._streams = {FIRST_STREAM_ID + n: _Stream(FIRST_STREAM_ID + n, CreditAccount()) for n in range(STREAMS)}
        self._answered = self._refused = 0

    def look(self, core: LogstoreCore) -> None:
        """Take a new order, if there is one, and say how the last one stands."""
        try:
            wanted = msgspec.json.decode(self._path.read_bytes(), type=Wanted)
        except FileNotFoundError:
            return
        if self._wanted is None:
            for stream in self._streams.values():
                core.on_exchange(stream.stream_id, ExchangeRequest(hello=Hello("", "backlog")))
        if self._wanted != wanted:
            self._wanted = wanted
            self._batch = build_batch([Record(None, bytes(wanted.value_bytes), time.time_ns() // 1_000_000)])
            for number, stream in enumerate(self._streams.values()):
                stream.wanted = wanted.appends // STREAMS + (number < wanted.appends % STREAMS)
            self.top_up(core)
        streams = self._streams.values()
        standing = Standing(
            wanted.number,
            sum(stream.unanswered for stream in streams),
            sum(max(0, stream.wanted - stream.unanswered) for stream in streams),
            self._answered,
            self._refused,
        )
        _replace(_standing_path(self._path), msgspec.json.encode(standing))

    def take(self, stream_id: int, response: ExchangeResponse) -> None:
        """What the core says on one of the streams."""
        stream = self._streams[stream_id]
        if response.credit is not None:
            stream.credit.grant(response.credit)
        stream.unanswered -= len(response.append_results)
        self._answered += len(response.append_results)
        self._refused += sum([result.error_code != 0 for result in response.append_results])

    def top_up(self, core: LogstoreCore) -> None:
        """As much as is wanted, and as credit allows."""
        wanted, batch = self._wanted, self._batch
        if wanted is None:
            return
        for stream in self._streams.values():
            appends = []
            while stream.unanswered < stream.wanted and stream.credit.try_spend(1, len(batch)):
                stream.unanswered += 1
                partition = (self._answered + stream.unanswered) % wanted.partitions
                appends.append(Append(0, wanted.topic_id, partition, wanted.leader_epoch, _ACKS_LEADER, batch))
            if appends:
                core.on_exchange(stream.stream_id, ExchangeRequest(appends=appends))


class Backlog:
    """In the bench: the file's other end."""

    def __init__(self, path: Path, topic_id: bytes, partitions: int, leader_epoch: int, value_bytes: int) -> None:
        self._path = path
        self._wanted = Wanted(0, 0, topic_id, partitions, leader_epoch, value_bytes)

    def offer(self, appends: int) -> Standing:
        """Keep so many unanswered from now on; returns when the logstore does."""
        self._wanted = msgspec.structs.replace(self._wanted, number=self._wanted.number + 1, appends=appends)
        _replace(self._path, msgspec.json.encode(self._wanted))
        deadline = time.monotonic() + _SECONDS_MAX
        while (standing := self.standing()) is None or standing.number != self._wanted.number:
            assert time.monotonic() < deadline, "the logstore does not take the order"
            time.sleep(0.02)
        return standing

    def standing(self) -> Standing | None:
        """As of the logstore's last tick, 100 ms ago at most; None before the first order."""
        try:
            return msgspec.json.decode(_standing_path(self._path).read_bytes(), type=Standing)
        except FileNotFoundError:
            return None


def _standing_path(path: Path) -> Path:
    return path.with_suffix(".standing")


def _replace(path: Path, content: bytes) -> None:
    """So that the other side never reads half of it."""
    temporary = path.with_suffix(f"{path.suffix}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)
