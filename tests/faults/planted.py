"""One anomaly of each kind, to plant in histories that are clean.

A plant changes a clean history where that kind of anomaly would show and nowhere else, so that the checker has to
find it and to name it rightly. It returns False where the history gives no occasion.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tests.faults.checker import Kind
from tests.faults.history import Guarantee, Operation, Read, Type


@dataclass(slots=True)
class Plot:
    """A clean history to spoil."""

    random: random.Random
    operations: list[Operation]

    def some(self, fits: Callable[[Operation], bool]) -> Operation | None:
        found = [each for each in self.operations if fits(each)]
        return self.random.choice(found) if found else None

    def acknowledged(self, guarantee: Guarantee) -> Operation | None:
        """A send with its offset."""
        return self.some(
            lambda each: (
                each.f == "send"
                and each.type is Type.OK
                and each.offset is not None
                and each.proc == f"{guarantee.name.lower()}/1"
            )
        )

    def rewrite_polls(self, change: Callable[[Operation, list[Read]], list[Read]]) -> None:
        """Replace what every poll was given; those that were given nothing are left out."""
        rewritten = []
        for each in self.operations:
            if each.f != "poll" or not isinstance(each.value, list):
                rewritten.append(each)
                continue
            value = change(each, each.value)
            if value:
                rewritten.append(msgspec.structs.replace(each, value=value))
        self.operations = rewritten

    def replace(self, old: Operation, new: Operation) -> None:
        self.operations = [new if each is old else each for each in self.operations]

    def end_of(self, partition: int) -> int:
        return max(each.offset or 0 for each in self.operations if each.f == "final" and each.partition == partition)


def is_final(operation: Operation) -> bool:
    return operation.proc.startswith("final-")


def lose_the_tail(plot: Plot) -> bool:
    """The log ends earlier than it was acknowledged to: what a leader without the last records leaves."""
    sent = plot.acknowledged(Guarantee.IDEMPOTENT)
    if sent is None or sent.offset is None:
        return False
    cut = sent.offset
    plot.rewrite_polls(
        lambda each, reads: [read for read in reads if each.partition != sent.partition or read[0] < cut]
    )
    kept = []
    for each in plot.operations:
        if each.partition != sent.partition or each.f not in ("final", "assign", "list_offsets"):
            kept.append(each)
        elif each.f != "list_offsets":  # an end that goes back would be another anomaly
            kept.append(msgspec.structs.replace(each, offset=None if each.offset is None else min(each.offset, cut)))
    plot.operations = kept
    return True


def lose_one(plot: Plot) -> bool:
    """The same offsets, one record fewer."""
    sent = plot.acknowledged(Guarantee.ACKS_ALL)
    if sent is None:
        return False
    plot.rewrite_polls(lambda _, reads: [read for read in reads if read[1] != sent.value])
    return True


def duplicate(plot: Plot) -> bool:
    """Once more, in the place of a later record of which nothing is known."""
    sent = plot.acknowledged(Guarantee.IDEMPOTENT)
    if sent is None or not isinstance(sent.value, str):
        return False
    return _replace_values(plot, sent.value, lambda partition: partition == sent.partition, sent.ts)


def swap_in_the_log(plot: Plot) -> bool:
    """Two records of one producer in the other's place, for all readers, with offsets never returned to the
    producer.
    """
    first = plot.acknowledged(Guarantee.IDEMPOTENT)
    if first is None:
        return False
    second = plot.some(
        lambda each: (
            each.f == "send"
            and each.type is Type.OK
            and each.proc == first.proc
            and each.partition == first.partition
            and each.offset is not None
            and each is not first
        )
    )
    if second is None or not isinstance(first.value, str) or not isinstance(second.value, str):
        return False
    other = {first.value: second.value, second.value: first.value}
    # Had a reader seen the later one before it was sent, that would be another anomaly.
    plot.operations = [each for each in plot.operations if each.f not in ("poll", "assign") or is_final(each)]
    plot.rewrite_polls(lambda _, reads: [(offset, other.get(value, value)) for offset, value in reads])
    for sent in (first, second):
        plot.replace(sent, msgspec.structs.replace(sent, offset=None))
    return True


def read_backwards(plot: Plot) -> bool:
    """A reader that is given the same records again, without having gone back."""
    polled = plot.some(lambda each: each.f == "poll" and not is_final(each))
    if polled is None:
        return False
    at = next(index for index, each in enumerate(plot.operations) if each is polled)
    plot.operations = [*plot.operations[: at + 1], polled, *plot.operations[at + 1 :]]
    return True


def skip_records(plot: Plot) -> bool:
    """A reader that is not given the first record of a poll."""
    polled = plot.some(lambda each: each.f == "poll" and not is_final(each) and len(each.value or "") > 1)
    if polled is None or not isinstance(polled.value, list):
        return False
    plot.replace(polled, msgspec.structs.replace(polled, value=polled.value[1:]))
    return True


def move_the_end_back(plot: Plot) -> bool:
    """An end that is below what was committed before."""
    return _tell_an_old_end(plot)


def move_the_end_back_at_the_majority(plot: Plot) -> bool:
    """The same, returned by the next leader while the one before it is cut off."""
    return _tell_an_old_end(plot, cut_off_epochs_before=1)


def move_the_end_back_before_the_cut(plot: Plot) -> bool:
    """Returned by a leader that was cut off only after the request."""
    return _tell_an_old_end(plot, cut_off_epochs_before=0, asked_before=True)


def move_the_end_back_after_the_cut(plot: Plot) -> bool:
    """Returned by a leader that already knows that it does not lead any more."""
    return _tell_an_old_end(plot, cut_off_epochs_before=0, is_over=True)


def ask_a_cut_off_leader(plot: Plot) -> bool:
    """Which tells an old end: no anomaly, but counted apart."""
    return _tell_an_old_end(plot, cut_off_epochs_before=0)


def _tell_an_old_end(
    plot: Plot, *, cut_off_epochs_before: int | None = None, asked_before: bool = False, is_over: bool = False
) -> bool:
    """An end that is below what was committed before, returned by a leader; another one, or the same, may be cut
    off.
    """
    asked = plot.some(
        lambda each: (
            each.f == "list_offsets"
            and each.type is Type.OK
            and (each.offset or 0) > 0
            and (each.epoch or 0) >= (cut_off_epochs_before or 0)
        )
    )
    if asked is None or asked.offset is None or asked.epoch is None:
        return False
    partition = asked.partition
    question = Operation("reader-9/1", Type.INVOKE, "list_offsets", asked.ts, partition=partition)
    reported = msgspec.structs.replace(asked, proc="reader-9/1", offset=asked.offset - 1)
    planted = [question, reported]
    if cut_off_epochs_before is not None:
        epoch = asked.epoch - cut_off_epochs_before
        cut = Operation("nemesis", Type.INVOKE, "cut_off", asked.ts, partition=partition, epoch=epoch)
        over = Operation("nemesis", Type.OK, "cut_off", asked.ts, partition=partition, epoch=epoch)
        planted = [question, cut, reported] if asked_before else [cut, *([over] if is_over else []), question, reported]
    at = next(index for index, each in enumerate(plot.operations) if each is asked)
    plot.operations = [*plot.operations[: at + 1], *planted, *plot.operations[at + 1 :]]
    return True


def one_final_reader_lacks_the_last(plot: Plot) -> bool:
    """It says that it reached the end."""
    last = plot.some(lambda each: each.f == "poll" and each.proc == "final-1/1")
    if last is None or not isinstance(last.value, list):
        return False
    plot.replace(last, msgspec.structs.replace(last, value=last.value[:-1]))
    return True


def another_value_for_one_reader(plot: Plot) -> bool:
    """A reader during the run saw, at an offset, what became of another record of that partition."""
    polled = plot.some(lambda each: each.f == "poll" and not is_final(each) and len(each.value or "") > 1)
    if polled is None or not isinstance(polled.value, list):
        return False
    (first, value), (second, other), *rest = polled.value
    plot.replace(polled, msgspec.structs.replace(polled, value=[(first, other), (second, value), *rest]))
    return True


def dirty_read(plot: Plot) -> bool:
    """A reader saw a record at the end that is not there any more."""
    fate = plot.some(
        lambda each: (
            each.f == "send" and each.type is Type.INFO and not any(_shows(poll, each) for poll in plot.operations)
        )
    )
    if fate is None or fate.partition is None or not isinstance(fate.value, str):
        return False
    end_offset = plot.end_of(fate.partition)
    seen: list[Read] = [(end_offset, fate.value)]
    at = next(index for index, each in enumerate(plot.operations) if each.f == "final")
    assign = Operation("reader-9/1", Type.OK, "assign", 0, partition=fate.partition, offset=end_offset)
    polled = Operation("reader-9/1", Type.OK, "poll", 0, value=seen, partition=fate.partition)
    plot.operations = [*plot.operations[:at], assign, polled, *plot.operations[at:]]
    return True


def _shows(poll: Operation, sent: Operation) -> bool:
    return poll.f == "poll" and isinstance(poll.value, list) and any(value == sent.value for _, value in poll.value)


def acknowledge_elsewhere(plot: Plot) -> bool:
    """The producer got another offset than its record has."""
    sent = plot.acknowledged(Guarantee.IDEMPOTENT)
    if sent is None or sent.offset is None or sent.offset == 0:
        return False
    plot.replace(sent, msgspec.structs.replace(sent, offset=sent.offset - 1))
    return True


def invent_a_value(plot: Plot) -> bool:
    """In the place of a record of which nothing is known."""
    return _replace_values(plot, "t|nobody/1|1")


def value_of_another_partition(plot: Plot) -> bool:
    """A record of unknown fate turns up in a partition that it was not sent to."""
    fate = plot.some(
        lambda each: (
            each.f == "send" and each.type is Type.INFO and not any(_shows(poll, each) for poll in plot.operations)
        )
    )
    if fate is None or not isinstance(fate.value, str):
        return False
    return _replace_values(plot, fate.value, lambda partition: partition != fate.partition, fate.ts)


def write_what_was_refused(plot: Plot) -> bool:
    """The producer got the answer that nothing was written."""
    sent = plot.some(
        lambda each: each.f == "send" and each.type is Type.INFO and any(_shows(poll, each) for poll in plot.operations)
    )
    if sent is None:
        return False
    plot.replace(sent, msgspec.structs.replace(sent, type=Type.FAIL, error="NOT_ENOUGH_REPLICAS"))
    return True


def _replace_values(
    plot: Plot, value: str, fits: Callable[[int | None], bool] = lambda _: True, after_ns: int = 0
) -> bool:
    """Put the value in the place of one whose producer never heard of it, for all readers."""
    unheard = {
        (each.partition, each.value)
        for each in plot.operations
        if each.f == "send" and each.type is Type.INFO and fits(each.partition) and each.ts > after_ns
    }
    seen = [
        (each.partition, read[1])
        for each in plot.operations
        if each.f == "poll" and isinstance(each.value, list)
        for read in each.value
        if (each.partition, read[1]) in unheard
    ]
    if not seen:
        return False
    partition, replaced = plot.random.choice(seen)
    plot.rewrite_polls(
        lambda each, reads: [
            (offset, value if each.partition == partition and old == replaced else old) for offset, old in reads
        ]
    )
    return True


def negative_offset(plot: Plot) -> bool:
    sent = plot.acknowledged(Guarantee.ACKS_1)
    if sent is None:
        return False
    plot.replace(sent, msgspec.structs.replace(sent, offset=-7))
    return True


def negative_end(plot: Plot) -> bool:
    asked = plot.some(lambda each: each.f == "list_offsets" and each.type is Type.OK)
    if asked is None:
        return False
    plot.replace(asked, msgspec.structs.replace(asked, offset=-1))
    return True


def read_at_a_negative_offset(plot: Plot) -> bool:
    polled = plot.some(lambda each: each.f == "poll" and not is_final(each))
    if polled is None or not isinstance(polled.value, list):
        return False
    nowhere: list[Read] = [(-5, polled.value[0][1]), *polled.value]
    plot.replace(polled, msgspec.structs.replace(polled, value=nowhere))
    return True


def record_past_the_end(plot: Plot) -> bool:
    """The end is the last record's own offset, for all final readers."""
    done = plot.some(lambda each: each.f == "final" and each.type is Type.OK and (each.offset or 0) > 0)
    if done is None:
        return False
    plot.operations = [
        msgspec.structs.replace(each, offset=(each.offset or 0) - 1)
        if each.f == "final" and each.type is Type.OK and each.partition == done.partition
        else each
        for each in plot.operations
    ]
    return True


def epoch_that_goes_back(plot: Plot) -> bool:
    """The last records of a partition are of the first leader's epoch, for a final reader."""
    polled = plot.some(lambda each: each.f == "poll" and each.proc == "final-0/1" and (each.epoch or 0) > 0)
    if polled is None:
        return False
    plot.replace(polled, msgspec.structs.replace(polled, epoch=-1))
    return True


def leave_a_hole(plot: Plot) -> bool:
    """The end is one further than the last record, for all final readers."""
    done = plot.some(lambda each: each.f == "final" and each.type is Type.OK)
    if done is None:
        return False
    plot.operations = [
        msgspec.structs.replace(each, offset=(each.offset or 0) + 1)
        if each.f == "final" and each.type is Type.OK and each.partition == done.partition
        else each
        for each in plot.operations
    ]
    return True


PLANTS: dict[Callable[[Plot], bool], frozenset[Kind]] = {
    lose_the_tail: frozenset({Kind.LOST}),
    lose_one: frozenset({Kind.LOST}),
    duplicate: frozenset({Kind.DUPLICATED}),
    swap_in_the_log: frozenset({Kind.REORDERED}),
    read_backwards: frozenset({Kind.REORDERED}),
    skip_records: frozenset({Kind.STALE}),
    move_the_end_back: frozenset({Kind.STALE}),
    move_the_end_back_at_the_majority: frozenset({Kind.STALE}),
    move_the_end_back_before_the_cut: frozenset({Kind.STALE}),
    move_the_end_back_after_the_cut: frozenset({Kind.STALE}),
    one_final_reader_lacks_the_last: frozenset({Kind.STALE}),
    another_value_for_one_reader: frozenset({Kind.DIVERGED}),
    dirty_read: frozenset({Kind.DIVERGED, Kind.STALE}),
    acknowledge_elsewhere: frozenset({Kind.DIVERGED}),
    invent_a_value: frozenset({Kind.UNKNOWN}),
    value_of_another_partition: frozenset({Kind.UNKNOWN}),
    write_what_was_refused: frozenset({Kind.UNKNOWN}),
    negative_offset: frozenset({Kind.IMPOSSIBLE}),
    negative_end: frozenset({Kind.IMPOSSIBLE}),
    read_at_a_negative_offset: frozenset({Kind.IMPOSSIBLE}),
    record_past_the_end: frozenset({Kind.IMPOSSIBLE}),
    epoch_that_goes_back: frozenset({Kind.IMPOSSIBLE}),
    leave_a_hole: frozenset({Kind.IMPOSSIBLE}),
}
"""What each plants is found as, no more and no less: who saw a record past the end saw an end that went back, too."""
