"""What readers saw: the log of each partition as it was returned, and errors in the answers themselves."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.faults.checker.sends import MalformedHistoryError, Sends
from tests.faults.checker.verdict import Apart, Kind, Verdict
from tests.faults.history import Operation, Type

Session = tuple[str, int]
"""One life of a reader, and a partition."""


@dataclass(slots=True, frozen=True)
class Skip:
    """A reader that went on at an offset past the one that was due."""

    session: Session
    due_offset: int
    offset: int


@dataclass(slots=True)
class FinalRead:
    """All that one reader found in a partition when everything was over."""

    log: dict[int, str] = field(default_factory=dict)
    end_offset: int | None = None
    """None until the reader reached it."""
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """(first offset, leader epoch), where the epoch changes."""


@dataclass(slots=True, frozen=True)
class Question:
    """How things were when a reader asked for the end of a partition."""

    committed_end: int = 0
    cut_off_epoch: int | None = None


@dataclass(slots=True)
class PartitionReads:
    log: dict[int, str] = field(default_factory=dict)
    """What was first seen at each offset, by any reader."""
    committed_end: int = 0
    """Everything below was seen or acknowledged as committed by now."""
    cut_off_epoch: int | None = None
    """Of the leader that is cut off from the majority now."""
    finals: dict[str, FinalRead] = field(default_factory=dict)
    """By proc."""


@dataclass(slots=True)
class Reads:
    verdict: Verdict
    sends: Sends
    partitions: dict[int, PartitionReads] = field(default_factory=dict)
    skips: list[Skip] = field(default_factory=list)
    _due: dict[Session, int] = field(default_factory=dict)
    """The offset that the reader is to see next."""
    _questions: dict[Session, Question] = field(default_factory=dict)
    """For the end of a partition, without an answer yet."""

    def of(self, partition: int) -> PartitionReads:
        found = self.partitions.get(partition)
        if found is None:
            found = self.partitions[partition] = PartitionReads()
        return found

    def committed(self, partition: int, offset: int) -> None:
        """A producer got an acknowledgement of its record by all in-sync replicas."""
        reads = self.of(partition)
        if offset >= reads.committed_end:
            reads.committed_end = offset + 1

    def assigned(self, operation: Operation) -> None:
        partition, offset = _place(operation)
        self._due[operation.proc, partition] = offset

    def polled(self, operation: Operation) -> None:
        """Offsets rise from the one that is due; each holds the value that all other readers have seen there."""
        if not isinstance(operation.value, list) or operation.partition is None:
            raise MalformedHistoryError(f"a poll without records: {operation}")
        partition, figures = operation.partition, self.verdict.figures
        figures.polls += 1
        figures.records_read += len(operation.value)
        session = (operation.proc, partition)
        reads = self.of(partition)
        final = reads.finals.get(operation.proc)
        log, due = reads.log, self._due.get(session)
        for offset, value in operation.value:
            if offset < 0:
                self.verdict.add(Kind.IMPOSSIBLE, f"{operation.proc} read partition {partition} at offset {offset}")
                continue
            if due is not None and offset != due:
                self._out_of_step(session, due, offset)
            due = offset + 1
            known = log.get(offset)
            if known is None:
                self._seen_first(partition, offset, value)
                log[offset] = value
            elif known != value:
                self.verdict.add(
                    Kind.DIVERGED,
                    f"partition {partition} offset {offset}: first {known!r}, for {operation.proc} {value!r}",
                )
            if final is not None:
                final.log[offset] = value
        if due is not None:
            self._due[session] = due
            reads.committed_end = max(reads.committed_end, due)
        if final is not None and operation.value and operation.epoch is not None:
            self._check_epoch(final, session, operation.value[0][0], operation.epoch)

    def _out_of_step(self, session: Session, due: int, offset: int) -> None:
        proc, partition = session
        if offset < due:
            self.verdict.add(Kind.REORDERED, f"{proc} read partition {partition} offset {offset}, as {due} was due")
        else:
            self.skips.append(Skip(session, due, offset))

    def _seen_first(self, partition: int, offset: int, value: str) -> None:
        sent = self.sends.by_value.get(value)
        if sent is None:
            self.verdict.add(Kind.UNKNOWN, f"partition {partition} offset {offset}: {value!r} had not been sent")
        elif sent.partition != partition:
            self.verdict.add(
                Kind.UNKNOWN, f"partition {partition} offset {offset}: {value!r} was sent to partition {sent.partition}"
            )

    def _check_epoch(self, final: FinalRead, session: Session, offset: int, epoch: int) -> None:
        """KIP-101: leader epochs rise along a log."""
        if final.epochs and epoch < final.epochs[-1][1]:
            self.verdict.add(
                Kind.IMPOSSIBLE,
                f"partition {session[1]}: leader epoch {epoch} at offset {offset}, after {final.epochs[-1][1]}",
            )
        if not final.epochs or epoch != final.epochs[-1][1]:
            final.epochs.append((offset, epoch))

    def leader_is_cut_off(self, operation: Operation) -> None:
        """Or knows again."""
        self.of(_partition(operation)).cut_off_epoch = operation.epoch if operation.type is Type.INVOKE else None

    def asked_for_end(self, operation: Operation) -> None:
        """list_offsets: what was committed before the question must be below the answer, unless that is of a leader
        that was cut off when it was asked.
        """
        partition = _partition(operation)
        session = (operation.proc, partition)
        reads = self.of(partition)
        if operation.type is Type.INVOKE:
            self._questions[session] = Question(reads.committed_end, reads.cut_off_epoch)
            return
        asked = self._questions.pop(session, Question())
        if operation.type is not Type.OK:
            return
        _, end_offset = _place(operation)
        is_cut_off = asked.cut_off_epoch is not None and operation.epoch == asked.cut_off_epoch
        if end_offset < 0:
            self.verdict.add(
                Kind.IMPOSSIBLE, f"{session[0]} got the answer that partition {partition} ends at {end_offset}"
            )
        elif end_offset < asked.committed_end and is_cut_off:
            self.verdict.apart[Apart.AT_CUT_OFF_LEADER] += 1
        elif end_offset < asked.committed_end:
            self.verdict.add(
                Kind.STALE,
                f"{session[0]} got the answer that partition {partition} ends at {end_offset}, as offset "
                f"{asked.committed_end - 1} had been committed before it asked",
            )
        reads.committed_end = max(reads.committed_end, end_offset)

    def final(self, operation: Operation) -> None:
        partition = _partition(operation)
        finals = self.of(partition).finals
        if operation.type is Type.INVOKE:
            finals[operation.proc] = FinalRead()
            self._due[operation.proc, partition] = 0
        elif operation.type is Type.OK:
            _, end_offset = _place(operation)
            finals[operation.proc].end_offset = end_offset


def _partition(operation: Operation) -> int:
    if operation.partition is None:
        raise MalformedHistoryError(f"no partition: {operation}")
    return operation.partition


def _place(operation: Operation) -> tuple[int, int]:
    if operation.offset is None:
        raise MalformedHistoryError(f"no offset: {operation}")
    return _partition(operation), operation.offset
