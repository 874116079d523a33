"""Brokers that answer Produce requests as a script says: the same script for a real client and for a simulated one.

A script goes in rounds. Requests are collected until the client has been quiet for a while, that is until it can send
nothing more without an answer; then the round's answers go out, broker after broker, and the next round begins. What
the client has sent in each round is the recording.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from barnabas.wire.errors import ErrorCode
from tests.sim.clients.producers.calls import Answer, Leader, SentBatch, TopicPartition

TOPIC = "scripted"
NODE_IDS = (1, 2)

R = TypeVar("R")


@dataclass(slots=True)
class Round:
    """`answers`: by partition, for its batches in the order in which they came. The rest is "ok" where the broker leads
    the partition, and NOT_LEADER_OR_FOLLOWER elsewhere. An error's name begins with "+" where the batch is written all
    the same. `leaders`: who leads which partitions from the moment at which the round is answered. `closes`: brokers
    that close their connections instead; all that they got is written. `silent`: those that say nothing, and write
    nothing.
    """

    answers: dict[int, list[str]] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)
    closes: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()


@dataclass(slots=True)
class Script:
    """`leaders`: of the partitions 0, 1, …; `records` are sent to each of them before the producer has an id.
    `has_hints`: NOT_LEADER_OR_FOLLOWER names the new leader (KIP-951). Without them a client asks for Metadata, perhaps
    of a broker that still owes it answers to what it has produced: then one partition must be all that there is.
    """

    name: str
    rounds: list[Round]
    leaders: tuple[int, ...] = (1, 1)
    records: int = 12
    has_hints: bool = True
    request_timeout_ms: int = 3_000
    delivery_timeout_ms: int = 60_000

    def values(self, partition: int) -> list[bytes]:
        return [f"p{partition}-{number}".encode() for number in range(self.records)]


@dataclass(slots=True)
class Reply(Generic[R]):
    """What to do about one request: answer it, or close its connection."""

    node_id: int
    request: R
    answers: dict[TopicPartition, Answer] | None


@dataclass(slots=True)
class _Log:
    """One partition: what was written, by the producer's id, epoch and first sequence, at which offset."""

    leader: Leader
    written: dict[tuple[int, int, int], int] = field(default_factory=dict)
    end: int = 0

    def write(self, batch: SentBatch) -> int:
        key = (*batch.producer, batch.base_sequence)
        if key not in self.written:
            self.written[key] = self.end
            self.end += len(batch.values)
        return self.written[key]


# By broker: its requests in order, each with its batches in words.
RecordedRound = dict[str, list[list[str]]]


class ScriptedBroker(Generic[R]):
    """All brokers of a script. A request is any value that identifies one for the network's host."""

    def __init__(self, script: Script) -> None:
        self.recorded: list[RecordedRound] = []
        self._script = script
        self._logs = {(TOPIC, index): _Log(Leader(node_id, 0)) for index, node_id in enumerate(script.leaders)}
        self._waiting: list[tuple[int, R, list[SentBatch]]] = []

    @property
    def leaders(self) -> dict[TopicPartition, Leader]:
        return {partition: log.leader for partition, log in self._logs.items()}

    @property
    def is_waiting(self) -> bool:
        """Whether a round is under way."""
        return bool(self._waiting)

    def produce(self, node_id: int, request: R, batches: list[SentBatch]) -> None:
        self._waiting.append((node_id, request, batches))

    def end_round(self) -> list[Reply[R]]:
        """The client is quiet. Replies are broker by broker; requests to silent brokers get none at all."""
        rounds = self._script.rounds
        plan = rounds[len(self.recorded)] if len(self.recorded) < len(rounds) else Round()
        waiting, self._waiting = self._waiting, []
        recorded: RecordedRound = {}
        for node_id, _, batches in waiting:
            batches.sort(key=lambda batch: batch.partition)
            recorded.setdefault(str(node_id), []).append([_batch_text(batch) for batch in batches])
        self.recorded.append(recorded)
        for index, node_id in plan.leaders.items():
            log = self._logs[TOPIC, index]
            log.leader = Leader(node_id, log.leader.epoch + 1)
        lines = {index: list(lines) for index, lines in plan.answers.items()}
        replies: list[Reply[R]] = []
        for node_id, request, batches in sorted(waiting, key=lambda each: each[0]):
            if node_id in plan.silent:
                continue
            answers = {}
            for batch in batches:
                line = lines.get(batch.partition[1])
                leads = self._logs[batch.partition].leader.node_id == node_id
                default = "ok" if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER.name
                answers[batch.partition] = self._answer(batch, line.pop(0) if line else default)
            replies.append(Reply(node_id, request, None if node_id in plan.closes else answers))
        return replies

    def _answer(self, batch: SentBatch, line: str) -> Answer:
        log = self._logs[batch.partition]
        offset = log.write(batch) if line == "ok" or line.startswith("+") else -1
        if line == "ok":
            return Answer(ErrorCode.NONE, offset, 0)
        error = ErrorCode[line.removeprefix("+")]
        is_named = self._script.has_hints and error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        return Answer(error, log_start_offset=0, current_leader=log.leader if is_named else None)


def _batch_text(batch: SentBatch) -> str:
    values = " ".join(value.decode() for value in batch.values)
    return f"{batch.partition[1]}: epoch {batch.producer.epoch} sequence {batch.base_sequence}: {values}"
