"""One anomaly of each kind, to plant in histories of groups that are clean.

A plant changes a clean history where that kind of anomaly would show and nowhere else. It returns False where the
history gives no occasion.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from tests.faults.groups.check import Wrong
from tests.faults.groups.history import GroupEvent, What


@dataclass(slots=True)
class GroupPlot:
    """A clean history to spoil."""

    random: random.Random
    events: list[GroupEvent]
    log: dict[int, list[str]]

    def some(self, indexes: list[int]) -> int | None:
        return self.random.choice(indexes) if indexes else None

    def of(self, what: What) -> list[int]:
        return [index for index, event in enumerate(self.events) if event.what is what]

    def insert(self, index: int, event: GroupEvent) -> None:
        self.events.insert(index, event)


def leave_out_the_last(plot: GroupPlot) -> bool:
    """The last record of a partition, which was committed all the same."""
    partition = plot.some([partition for partition, records in plot.log.items() if records])
    if partition is None:
        return False
    last = len(plot.log[partition]) - 1
    plot.events = [each for each in plot.events if (each.partition, each.offset) != (partition, last)]
    return True


def leave_one_out(plot: GroupPlot) -> bool:
    """Between two others, by one member; another has read it."""
    between = [
        index
        for before, index, after in _successive_reads(plot)
        if _offset(plot, before) + 2 == _offset(plot, index) + 1 == _offset(plot, after)
    ]
    reads = [(plot.events[index].partition, plot.events[index].offset) for index in plot.of(What.READ)]
    index = plot.some([each for each in between if reads.count((plot.events[each].partition, _offset(plot, each))) > 1])
    if index is None:
        return False
    del plot.events[index]
    return True


def _offset(plot: GroupPlot, index: int) -> int:
    offset = plot.events[index].offset
    assert offset is not None
    return offset


def _successive_reads(plot: GroupPlot) -> Iterator[tuple[int, int, int]]:
    """Three of one partition by one member under one assignment."""
    recent: dict[tuple[str, int], list[int]] = {}
    for index, event in enumerate(plot.events):
        if event.what in (What.ASSIGNED, What.REVOKED):
            recent = {key: value for key, value in recent.items() if key[0] != event.consumer}
        elif event.what is What.READ and event.partition is not None:
            last = recent.setdefault((event.consumer, event.partition), [])
            last.append(index)
            if len(last) == 3:
                yield last[0], last[1], last[2]
                del last[0]


def begin_beyond(plot: GroupPlot) -> bool:
    """A position that no member has committed, at the beginning of an assignment."""
    first = next(iter(plot.of(What.ASSIGNED)))
    owner = plot.events[first]
    partition = next((each for each in owner.partitions or [] if len(plot.log[each]) > 1), None)
    if partition is None:
        return False
    value = plot.log[partition][1]
    # Alone in a generation of its own, before the others: they read it again, as nothing is committed.
    plot.events[first:first] = [
        GroupEvent("early/1", What.ASSIGNED, owner.ts, generation=0, partitions=[partition]),
        GroupEvent("early/1", What.READ, owner.ts, partition=partition, offset=1, value=value),
    ]
    return True


def read_twice(plot: GroupPlot) -> bool:
    """The same record again at once, without a new assignment."""
    index = plot.some(plot.of(What.READ))
    if index is None:
        return False
    plot.insert(index, plot.events[index])
    return True


def forget_a_commit(plot: GroupPlot) -> bool:
    """A new owner begins one record before what was committed."""
    committed = dict.fromkeys(plot.log, 0)
    occasions: list[tuple[int, int]] = []
    for index, event in enumerate(plot.events):
        if event.what is What.COMMITTED and event.offsets is not None:
            committed |= event.offsets
        elif event.what is What.ASSIGNED and event.partitions is not None:
            for partition in event.partitions:
                if committed[partition] > 0 and _first_read(plot, index, partition) in (None, committed[partition]):
                    occasions.append((index, partition))
    if not occasions:
        return False
    index, partition = plot.random.choice(occasions)
    assigned, committed_then = plot.events[index], 0
    for event in plot.events[:index]:
        if event.what is What.COMMITTED and event.offsets is not None:
            committed_then = max(committed_then, event.offsets.get(partition, 0))
    offset = committed_then - 1
    read = GroupEvent(assigned.consumer, What.READ, assigned.ts, partition=partition, offset=offset)
    plot.insert(index + 1, replace(read, value=plot.log[partition][offset]))
    return True


def _first_read(plot: GroupPlot, assigned: int, partition: int) -> int | None:
    """The offset at which that assignment of the partition begins to be read."""
    consumer = plot.events[assigned].consumer
    for event in plot.events[assigned + 1 :]:
        if event.consumer == consumer:
            if event.what in (What.ASSIGNED, What.REVOKED):
                return None
            if event.what is What.READ and event.partition == partition:
                return event.offset
    return None


def give_to_two(plot: GroupPlot) -> bool:
    """One partition to another member of the generation too."""
    pairs = [
        (other, partition)
        for index in plot.of(What.ASSIGNED)
        for other in plot.of(What.ASSIGNED)
        for partition in plot.events[index].partitions or []
        if index != other and plot.events[index].generation == plot.events[other].generation
    ]
    if not pairs:
        return False
    index, partition = plot.random.choice(pairs)
    event = plot.events[index]
    plot.events[index] = replace(event, partitions=[*(event.partitions or []), partition])
    return True


def go_back_a_generation(plot: GroupPlot) -> bool:
    """To one without any other member."""
    seen: set[str] = set()
    later = []
    for index in plot.of(What.ASSIGNED):
        if plot.events[index].consumer in seen:
            later.append(index)
        seen.add(plot.events[index].consumer)
    index_or_none = plot.some(later)
    if index_or_none is None:
        return False
    plot.events[index_or_none] = replace(plot.events[index_or_none], generation=0)
    return True


def accept_from_the_past(plot: GroupPlot) -> bool:
    """A commit that was rightly refused; of an offset that says nothing, so that no member begins there."""
    refused = [index for index in plot.of(What.NOT_COMMITTED) if plot.events[index].error == "ILLEGAL_GENERATION"]
    index = plot.some(refused)
    if index is None:
        return False
    event = plot.events[index]
    nothing = dict.fromkeys(event.offsets or {}, 0)
    plot.events[index] = replace(event, what=What.COMMITTED, offsets=nothing, error=None)
    return True


def read_what_was_given_back(plot: GroupPlot) -> bool:
    index = plot.some([each for each in plot.of(What.REVOKED) if plot.events[each].partitions])
    if index is None:
        return False
    event = plot.events[index]
    partition = plot.random.choice(event.partitions or [])
    if not plot.log[partition]:
        return False
    read = GroupEvent(event.consumer, What.READ, event.ts, partition=partition, offset=0)
    plot.insert(index + 1, replace(read, value=plot.log[partition][0]))
    return True


def change_a_record(plot: GroupPlot) -> bool:
    index = plot.some(plot.of(What.READ))
    if index is None:
        return False
    plot.events[index] = replace(plot.events[index], value="another")
    return True


PLANTS: dict[Callable[[GroupPlot], bool], set[Wrong]] = {
    leave_out_the_last: {Wrong.SKIPPED},
    leave_one_out: {Wrong.JUMPED},
    begin_beyond: {Wrong.JUMPED},
    read_twice: {Wrong.REPEATED},
    forget_a_commit: {Wrong.REPEATED},
    give_to_two: {Wrong.TWO_OWNERS},
    go_back_a_generation: {Wrong.OLD_GENERATION},
    accept_from_the_past: {Wrong.OLD_GENERATION},
    read_what_was_given_back: {Wrong.UNOWNED},
    change_a_record: {Wrong.DIVERGED},
}
"""What the checker must find, and nothing else."""
