"""What the core wants done and said, gathered over a turn: effects in the order of their making, messages by stream."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.channel.assembly import split_read_result
from barnabas.channel.credits import CreditPool
from barnabas.channel.messages import CoordinateResponse, ExchangeResponse, ReadPiece, ReadResponse, WatchResponse
from barnabas.cluster.administration import AdministrationResponse
from barnabas.cluster.messages import ControlResponse
from barnabas.ports.disk import DiskError
from barnabas_logstore.core.storage.compaction.orders import CleanerCommand, PassReport
from barnabas_logstore.core.storage.effects import StorageEffect
from barnabas_logstore.core.streams.completion import Completion
from barnabas_logstore.core.streams.replication_outbox import ReplicationOutgoing
from barnabas_logstore.core.streams.request_times import RequestTimes, TimedRequest, TracedWork
from barnabas_logstore.core.streams.streams import ExchangeStream, ReadStream, WatchStream

# Record bytes in one ReadResponse: bulk travels in chunks, so that heartbeats pass between.
RESPONSE_BYTES_MAX = 1024 * 1024


@dataclass(slots=True)
class Outgoing:
    """The messages of one turn by stream or call id, the streams to end with reasons, the directories gone offline;
    commands for the cleaner, and what its passes have come to.
    """

    exchanges: list[tuple[int, ExchangeResponse]] = field(default_factory=list)
    reads: list[tuple[int, ReadResponse]] = field(default_factory=list)
    watches: list[tuple[int, WatchResponse]] = field(default_factory=list)
    coordinations: list[tuple[int, CoordinateResponse]] = field(default_factory=list)
    controls: list[tuple[int, ControlResponse]] = field(default_factory=list)
    administration: list[tuple[int, AdministrationResponse]] = field(default_factory=list)
    closes: list[tuple[int, str]] = field(default_factory=list)
    offline: list[tuple[str, DiskError]] = field(default_factory=list)
    room: list[tuple[str, DiskError | None]] = field(default_factory=list)
    """Log directories that have run out of room, and those (None) that have room again, or may have for a partition
    that has moved between two: the controller has to ask again.
    """
    cleaner: list[CleanerCommand] = field(default_factory=list)
    passes: list[PassReport] = field(default_factory=list)
    replication: ReplicationOutgoing = field(default_factory=ReplicationOutgoing)
    traced: list[TracedWork] = field(default_factory=list)
    """Traced requests that have been answered."""
    coordination_problems: list[str] = field(default_factory=list)
    """Partitions of `__consumer_offsets` that are led here and can't be read, in whole or in part, and why."""


class Outbox:
    __slots__ = (
        "_administration",
        "_cleaner",
        "_closes",
        "_controls",
        "_credits",
        "_effects",
        "_exchanges",
        "_offline",
        "_passes",
        "_reads",
        "_room",
        "_watches",
        "completions",
        "times",
    )

    def __init__(self, credit_pool: CreditPool, times: RequestTimes) -> None:
        self._credits = credit_pool
        self.times = times
        self._effects: list[StorageEffect] = []
        self.completions: dict[StorageEffect, Completion] = {}
        """What follows each effect whose outcome has not been reported; `EffectCompletions` takes them out."""
        self._exchanges: list[ExchangeStream] = []
        self._reads: list[ReadStream] = []
        self._watches: list[WatchStream] = []
        self._controls: list[tuple[int, ControlResponse]] = []
        self._administration: list[tuple[int, AdministrationResponse]] = []
        self._closes: list[tuple[int, str]] = []
        self._offline: list[tuple[str, DiskError]] = []
        self._room: list[tuple[str, DiskError | None]] = []
        self._cleaner: list[CleanerCommand] = []
        self._passes: list[PassReport] = []

    def add_effect(self, effect: StorageEffect, completion: Completion) -> None:
        """Have `effect` carried out, and `completion` take its outcome."""
        self._effects.append(effect)
        self.completions[effect] = completion

    def expect_outcome(self, effect: StorageEffect, completion: Completion) -> None:
        """Have `completion` take the outcome of an effect that goes to the host in another way."""
        self.completions[effect] = completion

    def exchange_response(self, stream: ExchangeStream) -> ExchangeResponse:
        """This turn's message for a stream, to be filled."""
        response = stream.response
        if response is None:
            response = stream.response = ExchangeResponse()
            self._exchanges.append(stream)
        return response

    def read_response(self, stream: ReadStream) -> ReadResponse:
        """This turn's first message for a stream; its pieces are made of `stream.results`."""
        response = stream.response
        if response is None:
            response = stream.response = ReadResponse()
            self._reads.append(stream)
        return response

    def watch_response(self, stream: WatchStream) -> WatchResponse:
        response = stream.response
        if response is None:
            response = stream.response = WatchResponse()
            self._watches.append(stream)
        return response

    def answer_control(self, session_id: int, response: ControlResponse) -> None:
        self._controls.append((session_id, response))

    def answer_administration(self, call_id: int, response: AdministrationResponse) -> None:
        self._administration.append((call_id, response))

    def close(self, stream_id: int, reason: str) -> None:
        self._closes.append((stream_id, reason))

    def report_offline(self, path: str, error: DiskError) -> None:
        self._offline.append((path, error))

    def report_room(self, path: str, lack: DiskError | None) -> None:
        """A log directory has run out of room, or (None) has room again."""
        self._room.append((path, lack))

    def to_cleaner(self, command: CleanerCommand) -> None:
        self._cleaner.append(command)

    def report_pass(self, report: PassReport) -> None:
        self._passes.append(report)

    def take_effects(self) -> list[StorageEffect]:
        effects, self._effects = self._effects, []
        return effects

    def take_outgoing(self) -> Outgoing:
        """Everything to be said now, with the credit that has come free."""
        outgoing = Outgoing(
            controls=self._controls,
            administration=self._administration,
            closes=self._closes,
            offline=self._offline,
            room=self._room,
            cleaner=self._cleaner,
            passes=self._passes,
        )
        self._controls, self._administration, self._closes, self._offline = [], [], [], []
        self._room = []
        self._cleaner, self._passes = [], []
        for stream in self._exchanges:
            response, stream.response = stream.response, None
            if stream.closed or response is None:
                continue
            self._credits.handled(stream.stream_id, stream.requests_handled, stream.bytes_handled)
            stream.requests_handled = stream.bytes_handled = 0
            if response.credit is None:
                response.credit = self._credits.grants_due(stream.stream_id)
            if stream.timed:
                self._tell_times(stream.timed, response)
            outgoing.exchanges.append((stream.stream_id, response))
        for reader in self._reads:
            reply, reader.response = reader.response, None
            if not reader.closed and reply is not None:
                self._take_reads(reader, reply, outgoing)
        for watcher in self._watches:
            states, watcher.response = watcher.response, None
            if not watcher.closed and states is not None:
                outgoing.watches.append((watcher.stream_id, states))
        self._exchanges, self._reads, self._watches = [], [], []
        return outgoing

    def _tell_times(self, timed: dict[int, TimedRequest], response: ExchangeResponse) -> None:
        for answers in (response.append_results, response.offset_answers, response.state_answers):
            response.times += self.times.answered(timed, [answer.request_id for answer in answers])

    def _take_reads(self, stream: ReadStream, response: ReadResponse, outgoing: Outgoing) -> None:
        results, stream.results = stream.results, []
        self._credits.handled(stream.stream_id, stream.requests_handled, 0)
        stream.requests_handled = 0
        if response.credit is None:
            response.credit = self._credits.grants_due(stream.stream_id)
        byte_count = 0
        for result in results:
            times = self.times.answered(stream.timed, (result.request_id,)) if stream.timed else []
            for piece in split_read_result(result):
                piece_bytes = _bytes_of(piece)
                if byte_count and byte_count + piece_bytes > RESPONSE_BYTES_MAX:
                    outgoing.reads.append((stream.stream_id, response))
                    response, byte_count = ReadResponse(), 0
                response.pieces.append(piece)
                response.times += times
                times = []
                byte_count += piece_bytes
        outgoing.reads.append((stream.stream_id, response))


def _bytes_of(piece: ReadPiece) -> int:
    return sum(len(partition.records) for partition in piece.partitions)
