"""From a batch that is handed in to its answer: which place it has to get, and what has to be answered.

A log takes the batches of a partition in the order in which they come, though perhaps not at once (some are opened by
a worker first). So the offsets that it has given out since tell which of them have a place by now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from barnabas.channel.messages import AppendResult
from barnabas.wire.errors import ErrorCode
from tests.crash.clients import Producer, Sent, is_surely_remembered, is_within_window
from tests.crash.truth import TrueBatch, TruePartition

# The log is offline or without room, or not led under that epoch any more: no append is acknowledged.
INDETERMINATE = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@dataclass(slots=True, eq=False)
class Handed:
    """A batch that was handed in and is not answered. `expected` is None until the log has come to it; then `batch` is
    what it has become, or what it repeats.
    """

    producer: Producer
    sent: Sent
    leader_epoch: int
    expected: ErrorCode | None = None
    batch: TrueBatch | None = None
    is_repetition: bool = False
    is_sure: bool = True
    is_within_window: bool = True


class Appends:
    """Of one life."""

    def __init__(self, hits: Counter[str], is_flushed_first: Callable[[TruePartition], bool]) -> None:
        """`is_flushed_first` says whether what a partition acknowledges has to be durable (flush.messages=1)."""
        self._hits = hits
        self._is_flushed_first = is_flushed_first
        self._handed: dict[TruePartition, list[Handed]] = {}

    def hand_in(self, producer: Producer, sent: Sent) -> Handed:
        handed = Handed(producer, sent, producer.truth.leader_epoch)
        self._handed.setdefault(producer.truth, []).append(handed)
        self._hits["batches sent"] += 1
        return handed

    def follow(self, truth: TruePartition, next_offset: int, leader_epoch: int) -> None:
        """The log has given out offsets below `next_offset`, the last of them under `leader_epoch`.

        The logstore leads without a break: what was handed in under an earlier epoch is written under the present one.
        """
        if next_offset < truth.next_offset:
            self._take_back(truth, next_offset)
        for handed in self._handed.get(truth, []):
            if truth.next_offset == next_offset:
                break
            if handed.expected is None:
                handed.leader_epoch = leader_epoch
                self._decide(truth, handed)
        assert truth.next_offset == next_offset, (
            f"{truth.name} gives out offsets up to {next_offset}, and was handed in batches for {truth.next_offset}"
        )

    def answered(self, handed: Handed, result: AppendResult) -> None:
        producer, sent = handed.producer, handed.sent
        truth = producer.truth
        code = ErrorCode(result.error_code)
        if code in INDETERMINATE or truth.is_deleted:
            self._handed[truth].remove(handed)
            producer.must_repeat = True
            return
        if handed.expected is None:
            assert code is not ErrorCode.NONE or sent.is_in(truth) is not None, f"{truth.name}: acknowledged, not there"
            self._decide(truth, handed)
        self._handed[truth].remove(handed)
        is_refused = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if is_refused and not handed.is_sure:
            self._hits["repetitions refused, as older than what is remembered"] += 1
        else:
            assert code is handed.expected, f"{truth.name}: a batch is {code!r}, and should be {handed.expected!r}"
        if sent in producer.unanswered and (code is ErrorCode.NONE or (is_refused and handed.is_repetition)):
            producer.unanswered.remove(sent)
        if code is ErrorCode.NONE:
            batch = handed.batch
            assert batch is not None
            # Of one that is older than the window of its producer only the fact is known.
            offset = batch.base_offset if handed.is_within_window else -1
            assert result.base_offset == offset, (
                f"{truth.name}: acknowledged at {result.base_offset}, and belongs at {offset}"
            )
            self._hits["repetitions recognised"] += handed.is_repetition
            self._hits["repetitions recognised without their place"] += not handed.is_within_window
            truth.acknowledged(batch, is_flushed=self._is_flushed_first(truth))

    def _decide(self, truth: TruePartition, handed: Handed) -> None:
        """What has to come of a batch, now that all those before it have their places."""
        sent = handed.sent
        earlier = sent.is_in(truth) if handed.producer.is_idempotent else None
        if earlier is None:
            handed.expected = _verdict_on_new(truth, sent)
            if handed.expected is ErrorCode.NONE:
                handed.batch = sent.placed(truth.next_offset, handed.leader_epoch)
                truth.batches.append(handed.batch)
            return
        handed.batch, handed.is_repetition = earlier, True
        handed.is_sure = is_surely_remembered(earlier, truth)
        handed.is_within_window = is_within_window(earlier, truth)
        handed.expected = ErrorCode.NONE

    def _take_back(self, truth: TruePartition, end_offset: int) -> None:
        """Appends that found no room have been undone, and are answered so."""
        assert end_offset >= truth.written_offset, f"{truth.name}: {truth.written_offset} was written, not {end_offset}"
        lost = truth.take_back(end_offset)
        self._hits["batches taken back for lack of room"] += len(lost)
        for handed in self._handed.get(truth, []):
            if handed.batch in lost:
                handed.producer.must_repeat = True


def _verdict_on_new(truth: TruePartition, sent: Sent) -> ErrorCode:
    """What has to come of a batch that is not in the log."""
    header = sent.header
    produced = truth.produced_by(header.producer_id) if header.producer_id >= 0 else []
    if not produced:
        return ErrorCode.NONE
    last = produced[-1].header
    if header.producer_epoch < last.producer_epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    next_sequence = (last.last_sequence + 1) & 0x7FFFFFFF if header.producer_epoch == last.producer_epoch else 0
    return ErrorCode.NONE if header.base_sequence == next_sequence else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
