"""From a history to a verdict."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from tests.faults.checker.reads import FinalRead, PartitionReads, Reads
from tests.faults.checker.sends import MalformedHistoryError, Sends, Sent
from tests.faults.checker.verdict import Apart, Kind, Verdict
from tests.faults.history import READER, Guarantee, Operation, Type


def check(operations: Iterable[Operation]) -> Verdict:
    """All events of a run, in the order in which they happened (see history.read).

    Linear in the events. Raises MalformedHistoryError for what no recorder writes.
    """
    verdict = Verdict()
    sends = Sends(verdict.figures, verdict.silences)
    reads = Reads(verdict, sends)
    for operation in operations:
        _take(operation, verdict, sends, reads)
    figures = verdict.figures
    figures.sent = len(sends.by_value)
    figures.indeterminate = figures.sent - figures.acknowledged - figures.refused
    figures.longest_silence_ms = verdict.silences.whole_ms()
    _compare_with_the_end(verdict, sends, reads)
    return verdict


def _take(operation: Operation, verdict: Verdict, sends: Sends, reads: Reads) -> None:
    if operation.type is not Type.INVOKE:
        verdict.figures.operations += 1
    if operation.error is not None:
        verdict.figures.errors[f"{operation.f} {operation.error}"] += 1
    match operation.f:
        case "send":
            sent = sends.add(operation)
            if sent is not None and sent.offset is not None:
                if sent.offset < 0:
                    verdict.add(Kind.IMPOSSIBLE, f"{operation.value!r} was acknowledged at offset {sent.offset}")
                elif sent.guarantee is not Guarantee.ACKS_1:
                    reads.committed(sent.partition, sent.offset)
        case "poll":
            if operation.type is Type.OK:
                reads.polled(operation)
        case "list_offsets":
            reads.asked_for_end(operation)
        case "assign":
            reads.assigned(operation)
        case "final":
            reads.final(operation)
        case "open":
            if isinstance(operation.value, str) and operation.value != READER:
                sends.opened(operation.proc, Guarantee(operation.value))
        case "cut_off":
            reads.leader_is_cut_off(operation)
        case "fault" | "flush":
            pass
        case _:
            raise MalformedHistoryError(f"an operation of no kind: {operation}")


def _compare_with_the_end(verdict: Verdict, sends: Sends, reads: Reads) -> None:
    """The whole log, as the final readers found it, against what was sent, acknowledged and read before."""
    sent_to: dict[int, list[tuple[str, Sent]]] = {}
    for value, sent in sends.by_value.items():
        sent_to.setdefault(sent.partition, []).append((value, sent))
    for partition in sorted({*sent_to, *reads.partitions}):
        partition_reads = reads.of(partition)
        finals = {proc: final for proc, final in partition_reads.finals.items() if final.end_offset is not None}
        if not finals:
            verdict.incomplete.append(f"partition {partition} was not read to its end")
            continue
        log = _union(partition, finals, verdict)
        verdict.figures.final_records += len(log)
        offsets_of = _places(partition, log, sends, verdict)
        lost_offsets = _check_sent(partition, sent_to.get(partition, []), log, offsets_of, verdict)
        _check_read_before(partition, partition_reads, log, verdict)
        end_offset = max(final.end_offset or 0 for final in finals.values())
        _check_holes(partition, log, end_offset, lost_offsets, verdict)
        _check_skips(partition, reads, sorted(log), verdict)


def _union(partition: int, finals: dict[str, FinalRead], verdict: Verdict) -> dict[int, str]:
    """What any final reader found, by ascending offset; where two found different values, both said so already.

    A reader whose end is an older one got a stale watermark, which Reads has looked at.
    """
    union: dict[int, str] = {}
    for final in finals.values():
        union.update(final.log)
    for proc, final in finals.items():
        assert final.end_offset is not None
        missing = [offset for offset in union if offset < final.end_offset and offset not in final.log]
        if missing:
            verdict.add(
                Kind.STALE,
                f"{proc} read partition {partition} to its end without {len(missing)} records that another final "
                f"reader found, the first at offset {min(missing)}",
            )
    return dict(sorted(union.items()))


def _places(partition: int, log: dict[int, str], sends: Sends, verdict: Verdict) -> dict[str, int]:
    """By value, the first offset. Each is there once, and each producer's are in the order in which they were sent."""
    offsets_of: dict[str, int] = {}
    last_of: dict[str, int] = {}
    by_value = sends.by_value
    for offset, value in log.items():
        sent = by_value.get(value)
        if sent is None or sent.partition != partition:
            continue  # said already
        first = offsets_of.setdefault(value, offset)
        is_idempotent = sent.guarantee is Guarantee.IDEMPOTENT
        if first != offset:
            if is_idempotent:
                verdict.add(Kind.DUPLICATED, f"partition {partition}: {value!r} is at offsets {first} and {offset}")
            else:
                verdict.apart[Apart.DUPLICATED_RETRIES] += 1
            continue
        if sent.number < last_of.get(sent.proc, -1):
            if is_idempotent:
                verdict.add(Kind.REORDERED, f"partition {partition} offset {offset}: {value!r} is behind a later one")
            else:
                verdict.apart[Apart.REORDERED_RETRIES] += 1
            continue
        last_of[sent.proc] = sent.number
    return offsets_of


def _check_sent(
    partition: int, sent_here: list[tuple[str, Sent]], log: dict[int, str], offsets_of: dict[str, int], verdict: Verdict
) -> set[int]:
    """Returns the offsets of lost records, which may have left holes."""
    lost_offsets = set()
    for value, sent in sent_here:
        offset = offsets_of.get(value)
        if offset is None:
            if sent.is_promised:
                verdict.add(Kind.LOST, f"partition {partition}: {value!r}, acknowledged at offset {sent.offset}")
            elif sent.outcome is Type.OK:
                verdict.apart[Apart.LOST_ACKS_1] += 1
            if sent.outcome is Type.OK and sent.offset is not None:
                lost_offsets.add(sent.offset)
        elif sent.outcome is Type.FAIL:
            verdict.add(Kind.UNKNOWN, f"partition {partition} offset {offset}: {value!r} had been refused")
        elif sent.is_promised and sent.offset is not None and log.get(sent.offset) != value:
            verdict.add(
                Kind.DIVERGED, f"partition {partition}: {value!r} is at offset {offset}, acknowledged at {sent.offset}"
            )
    return lost_offsets


def _check_read_before(partition: int, reads: PartitionReads, log: dict[int, str], verdict: Verdict) -> None:
    """What a consumer was given is committed: it is there for ever."""
    for offset, value in reads.log.items():
        if offset not in log:
            verdict.add(Kind.DIVERGED, f"partition {partition} offset {offset}: {value!r} was read, and is gone")


def _check_holes(
    partition: int, log: dict[int, str], end_offset: int, lost_offsets: set[int], verdict: Verdict
) -> None:
    """Without transactions and compaction every offset holds a record."""
    due = 0
    for offset in [*log, end_offset]:
        if offset > due and any(missing not in lost_offsets for missing in range(due, offset)):
            verdict.add(Kind.IMPOSSIBLE, f"partition {partition}: no records at offsets {due} to {offset - 1}")
        due = offset + 1
    if log and max(log) >= end_offset:
        verdict.add(Kind.IMPOSSIBLE, f"partition {partition}: a record at {max(log)}, and the end at {end_offset}")


def _check_skips(partition: int, reads: Reads, offsets: list[int], verdict: Verdict) -> None:
    for skip in reads.skips:
        proc, skipped_in = skip.session
        if skipped_in != partition:
            continue
        at = bisect_left(offsets, skip.due_offset)
        if at < len(offsets) and offsets[at] < skip.offset:
            verdict.add(
                Kind.STALE,
                f"{proc} read partition {partition} from offset {skip.due_offset} on and was given {skip.offset}, "
                f"without the record at {offsets[at]}",
            )
