"""The core's effects and messages of a turn: effects in order, messages by stream.

An effect is data; what follows once a worker has carried it out is its `Completion`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from barnabas.channel.assembly import message_bytes, split_read_result
from barnabas.channel.credits import CreditPool
from barnabas.channel.messages import (
    CoordinateRequest,
    CoordinateResponse,
    ExchangeResponse,
    Hello,
    ReadPiece,
    ReadResponse,
    WatchResponse,
)
from barnabas.cluster.administration import AdministrationResponse
from barnabas.cluster.messages import Broker, ControlResponse
from barnabas.containment import ContainedException
from barnabas.ports.disk import DiskError
from barnabas_logstore.core.storage.compaction.orders import CleanerCommand, PassReport
from barnabas_logstore.core.storage.effect_results import EffectOf
from barnabas_logstore.core.storage.effects import StorageEffect
from barnabas_logstore.core.storage.log.partition_log import PartitionLog
from barnabas_logstore.core.streams.replication_outbox import NO_REPLICATION
from barnabas_logstore.core.streams.request_times import RequestTimes, TimedRequest, TracedWork
from barnabas_logstore.core.streams.streams import ExchangeStream, ReadStream, WatchStream

# Record bytes in one ReadResponse: large answers are sent in chunks, so that heartbeats can be sent in between.
RESPONSE_BYTES_MAX = 1024 * 1024
# Partitions in one ReadResponse, at 5 µs each where it is read, and in those of one turn: at 3 µs here.
PARTITIONS_PER_RESPONSE = 500
READ_PARTITIONS_PER_TURN = 1_000


R = TypeVar("R")


class Completion(Generic[R]):
    """`done` gets the effect's result, `failed` the reason why there is none; one of them is called, once.

    `logs` are those whose files the effect uses: a log that goes offline meanwhile counts it as in progress until then.
    """

    __slots__ = ("done", "failed", "logs")

    def __init__(
        self,
        done: Callable[[R], None],
        failed: Callable[[DiskError], None],
        logs: tuple[PartitionLog, ...] = (),
    ) -> None:
        self.done = done
        self.failed = failed
        self.logs = logs


def ignore_result(result: bytes) -> None:
    """For effects after which nothing follows."""


class CompletionFault(Exception):  # noqa: N818 - what is wrong is its cause
    """A completion was ended by an unexpected exception, its cause. `logs` are those of the effect."""

    def __init__(self, logs: tuple[PartitionLog, ...], cause: Exception) -> None:
        super().__init__("what follows an effect was not done")
        self.logs = logs
        self.cause = cause


def refuse_failure(error: DiskError) -> None:
    """For effects that touch no disk."""
    raise AssertionError("work on a batch does not fail for its disk") from error


@dataclass(slots=True, frozen=True)
class PeerLink:
    """A wanted Coordinate stream: to one incarnation of a logstore."""

    peer: Broker
    hello: Hello


@dataclass(slots=True)
class TransactionOutputs:
    """`links`: from now on the streams to other logstores are these (None: as before); `requests` by node id."""

    links: list[PeerLink] | None = None
    requests: list[tuple[int, CoordinateRequest]] = field(default_factory=list)
    wants_producer_ids: bool = False
    """A block of producer ids is to be requested from the controller."""


class Outputs:
    """Either `effects` alone or all the others: see `LogstoreCore.take_outputs`. Messages are by stream or call id.

    What has only effects is valid until the next outputs are taken: it is the same object each time.
    """

    __slots__ = (
        "administration",
        "administration_failures",
        "cleaner",
        "closes",
        "contained",
        "controls",
        "coordination_problems",
        "coordinations",
        "effects",
        "exchanges",
        "full_disks",
        "offline",
        "offline_partitions",
        "passes",
        "reads",
        "replication",
        "traced",
        "transactions",
        "watches",
    )

    def __init__(self) -> None:
        self.effects: Sequence[StorageEffect] = ()
        """What the disks have to do, in the order of its making."""
        self.exchanges: list[tuple[int, ExchangeResponse]] = []
        self.reads: list[tuple[int, ReadResponse]] = []
        self.watches: list[tuple[int, WatchResponse]] = []
        self.coordinations: Sequence[tuple[int, CoordinateResponse]] = ()
        self.controls: list[tuple[int, ControlResponse]] = []
        self.administration: list[tuple[int, AdministrationResponse]] = []
        self.administration_failures: list[int] = []
        """Calls that an unexpected exception has ended, perhaps when something of them was done."""
        self.closes: list[tuple[int, str]] = []
        """Streams to end, after their messages, and why."""
        self.offline: list[tuple[str, DiskError]] = []
        """Log directories that have gone offline."""
        self.offline_partitions: list[tuple[str, str]] = []
        """Partitions that have gone offline alone, as `<topic>-<partition>`, and why."""
        self.contained: Sequence[ContainedException] = ()
        """Unexpected exceptions."""
        self.full_disks: list[tuple[str, DiskError | None]] = []
        """Log directories that have run out of space, and those (None) that have space again, or may have for a
        partition that has moved between two: the controller has to ask again.
        """
        self.cleaner: list[CleanerCommand] = []
        self.passes: list[PassReport] = []
        """What passes of the cleaner have come to, for the log."""
        self.replication = NO_REPLICATION
        self.traced: Sequence[TracedWork] = ()
        """Traced requests that have been answered."""
        self.transactions: TransactionOutputs | None = None
        """None where coordinators of transactions have nothing to send, as in nearly all turns."""
        self.coordination_problems: Sequence[str] = ()
        """Internal partitions that can't be read, completely or in part; transactions that can't be ended; and why."""


class Outbox:
    __slots__ = ("_completions", "_credits", "_effects", "_exchanges", "_outputs", "_reads", "_watches", "times")

    def __init__(self, credit_pool: CreditPool, times: RequestTimes) -> None:
        self._credits = credit_pool
        self.times = times
        self._effects: list[StorageEffect] = []
        self._completions: dict[StorageEffect, Completion[Any]] = {}
        """The completion of each effect whose outcome has not been reported."""
        self._exchanges: list[ExchangeStream] = []
        self._reads: list[ReadStream] = []
        self._watches: list[WatchStream] = []
        self._outputs = Outputs()
        """Of this turn, as far as it is known before the turn ends."""

    def add_effect(self, effect: EffectOf[R], completion: Completion[R]) -> None:
        """Have `effect` carried out, and `completion` called with its outcome."""
        wanted: Any = effect
        self._effects.append(wanted)
        self._completions[wanted] = completion

    def expect_outcome(self, effect: EffectOf[R], completion: Completion[R]) -> None:
        """Have `completion` called with the outcome of an effect that the host gets in another way."""
        expected: Any = effect
        self._completions[expected] = completion

    def effect_done(self, effect: StorageEffect, result: object) -> None:
        """An effect has been carried out. Raises CompletionFault."""
        completion = self._completions.pop(effect)
        for log in completion.logs:
            if log.unreported:
                log.effect_ended(effect)
        try:
            completion.done(result)
        except Exception as error:
            raise CompletionFault(completion.logs, error) from error

    def take_completion(self, effect: StorageEffect) -> Completion[Any]:
        """Return the completion of an effect that has failed, which is reported elsewhere."""
        return self._completions.pop(effect)

    def exchange_response(self, stream: ExchangeStream) -> ExchangeResponse:
        """Return this turn's message for a stream, to be filled."""
        response = stream.response
        if response is None:
            response = stream.response = ExchangeResponse()
            self._exchanges.append(stream)
        return response

    @property
    def has_more(self) -> bool:
        """Whether there is more of answers for the next turn; only between two turns."""
        return len(self._reads) > 0

    def read_response(self, stream: ReadStream) -> ReadResponse:
        """Return the next message for a stream; its pieces are made of `stream.results`."""
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
        self._outputs.controls.append((session_id, response))

    def answer_administration(self, call_id: int, response: AdministrationResponse) -> None:
        self._outputs.administration.append((call_id, response))

    def fail_administration(self, call_id: int) -> None:
        self._outputs.administration_failures.append(call_id)

    def close(self, stream_id: int, reason: str) -> None:
        self._outputs.closes.append((stream_id, reason))

    def report_offline(self, path: str, error: DiskError) -> None:
        self._outputs.offline.append((path, error))

    def report_offline_partition(self, name: str, reason: str) -> None:
        self._outputs.offline_partitions.append((name, reason))

    def report_full_disk(self, path: str, lack: DiskError | None) -> None:
        """A log directory has run out of space, or (None) has space again."""
        self._outputs.full_disks.append((path, lack))

    def to_cleaner(self, command: CleanerCommand) -> None:
        self._outputs.cleaner.append(command)

    def report_pass(self, report: PassReport) -> None:
        self._outputs.passes.append(report)

    def drain_effects(self) -> list[StorageEffect]:
        effects, self._effects = self._effects, []
        return effects

    def drain_messages(self) -> Outputs:
        """Return everything to be said now, with the credit that has come free."""
        outputs, self._outputs = self._outputs, Outputs()
        for stream in self._exchanges:
            response, stream.response = stream.response, None
            if stream.closed or response is None:
                continue
            self._credits.handled(stream.stream_id, stream.requests_handled, stream.bytes_handled)
            stream.requests_handled = stream.bytes_handled = 0
            if response.credit is None:
                response.credit = self._credits.grants_due(stream.stream_id)
            if stream.timed:
                self._add_times(stream.timed, response)
            outputs.exchanges.append((stream.stream_id, response))
        self._answer_reads(outputs)
        for watcher in self._watches:
            states, watcher.response = watcher.response, None
            if not watcher.closed and states is not None:
                outputs.watches.append((watcher.stream_id, states))
        self._exchanges.clear()
        self._watches.clear()
        return outputs

    def _add_times(self, timed: dict[int, TimedRequest], response: ExchangeResponse) -> None:
        for answers in (response.append_results, response.offset_answers, response.state_answers):
            response.times += self.times.answered(timed, [answer.request_id for answer in answers])

    def _answer_reads(self, outputs: Outputs) -> None:
        """Answer the streams in turn, each with a message of `PARTITIONS_PER_RESPONSE` at most; what a turn has no time
        for is said in the next one.
        """
        left = READ_PARTITIONS_PER_TURN
        reads, self._reads = self._reads, []
        waiting: deque[ReadStream] = deque(reads)
        while waiting:
            stream = waiting.popleft()
            if stream.closed:
                continue
            if left <= 0 and (stream.results or stream.piece is not None):
                self._reads.append(stream)
                continue
            left -= self._answer_read(stream, outputs)
            if stream.response is not None:
                waiting.append(stream)

    def _answer_read(self, stream: ReadStream, outputs: Outputs) -> int:
        """Add one message of a stream, with what is new of its credit; return how many partitions it has.

        If there is more, the stream has a response again.
        """
        response, stream.response = stream.response, None
        assert response is not None, "a stream without a response has nothing to say"
        self._credits.handled(stream.stream_id, stream.requests_handled, 0)
        stream.requests_handled = 0
        if response.credit is None:
            response.credit = self._credits.grants_due(stream.stream_id)
        byte_count = partition_count = 0
        while (piece := self._next_piece(stream)) is not None:
            piece_bytes = _bytes_of(piece)
            is_full = byte_count + piece_bytes > RESPONSE_BYTES_MAX
            if response.pieces and (is_full or partition_count + len(piece.partitions) > PARTITIONS_PER_RESPONSE):
                stream.piece = piece
                stream.response = ReadResponse()
                break
            if stream.timed:
                response.times += self.times.answered(stream.timed, (piece.request_id,))
            response.pieces.append(piece)
            byte_count += piece_bytes
            partition_count += len(piece.partitions)
        outputs.reads.append((stream.stream_id, response))
        return partition_count

    @staticmethod
    def _next_piece(stream: ReadStream) -> ReadPiece | None:
        """Take the next piece of what a stream is answered; None: that is all."""
        piece, stream.piece = stream.piece, None
        while piece is None:
            if stream.pieces is None:
                if not stream.results:
                    return None
                stream.pieces = split_read_result(stream.results.popleft())
            piece = next(stream.pieces, None)
            if piece is None:
                stream.pieces = None
        return piece


def _bytes_of(piece: ReadPiece) -> int:
    return sum([message_bytes(partition) for partition in piece.partitions])
