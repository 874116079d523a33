"""ParkedEntries: what is parked, from its admission to its end, exactly one; what it waits for is decided elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, cast

from barnabas.channel.messages import Completion, Outcome
from barnabas.containment import CONTAINING, Containment, Uncontained
from barnabas.metrics.family import Sample
from barnabas.metrics.histogram import Histogram
from barnabas.metrics.purgatory_families import CAPACITY, TIMER_LATENESS, TIMER_SIZE
from barnabas_purgatory.core.group_watches import GroupKey, GroupWatch, ParkedGroup
from barnabas_purgatory.core.meter import ENTRY, KIND_NAMES, PLACES, Meter, Parked
from barnabas_purgatory.core.timing_wheel import TimingWheel
from barnabas_purgatory.core.turn_work import TurnWork
from barnabas_purgatory.core.waiting import ParkedFetch, ParkedProduce
from barnabas_purgatory.core.watch_table import WatchTable
from barnabas_purgatory.core.watches import PartitionKey, PartitionWatch, Wait

DEADLINES_PER_TURN: Final = 2_000
"""Those that a turn looks at: they have passed, or are moved to a lower level of the wheel."""


class ParkedEntries:
    __slots__ = (
        "_completions",
        "_conditions_max",
        "_groups",
        "_is_leaving",
        "_lateness",
        "_leaving",
        "_meter",
        "_streams",
        "_watches",
        "_wheel",
        "_work",
        "conditions",
        "contained",
    )

    def __init__(
        self,
        wheel: TimingWheel,
        watches: WatchTable[PartitionKey, PartitionWatch],
        groups: WatchTable[GroupKey, GroupWatch],
        work: TurnWork,
        conditions_max: int,
    ) -> None:
        self._wheel = wheel
        self._watches = watches
        self._groups = groups
        self._work = work
        self._conditions_max = conditions_max
        self.conditions = 0
        """Of what is parked, and of what has ended and is not removed yet; an entry without any counts as one."""
        self.contained = Containment(PLACES)
        self._streams: dict[int, dict[int, Parked]] = {}
        self._completions: dict[int, list[Completion]] = {}
        self._leaving: deque[list[Wait]] = deque()
        """The waits of entries that have ended, to be removed in later turns."""
        self._is_leaving = False
        self._meter = Meter()
        self._lateness = Histogram()

    def samples(self) -> Iterator[Sample]:
        yield from self._meter.samples()
        yield Sample(CAPACITY, (), self._conditions_max)
        yield Sample(TIMER_SIZE, (), len(self._wheel))
        yield Sample(TIMER_LATENESS, (), self._lateness)

    @property
    def now_ms(self) -> int:
        return self._wheel.now_ms

    def next_deadline_ms(self) -> int | None:
        return self._wheel.next_deadline_ms()

    def admit(self, entry: Parked) -> bool:
        """Add an entry that has to wait. Return False if it was answered at once instead."""
        stream = self._streams.setdefault(entry.stream_id, {})
        conditions = entry.conditions or 1
        if self.conditions + conditions > self._conditions_max:
            self._meter.refused += 1
            self.answer(entry, Outcome.EXPIRED)
            return False
        if entry.entry_id in stream:
            # The gateway's error. The first entry keeps the id; the second could never be answered separately.
            return False
        # What may fail comes first: an entry is parked, and counted, from the moment that its stream has it.
        self._wheel.add(entry)
        self._meter.parked(entry, conditions)
        stream[entry.entry_id] = entry
        self.conditions += conditions
        return True

    def answer(self, entry: Parked, outcome: Outcome) -> None:
        self._meter.completed(entry, outcome)
        codes = entry.error_codes() if isinstance(entry, ParkedProduce) else []
        self._completions.setdefault(entry.stream_id, []).append(Completion(entry.entry_id, outcome, codes))

    def end(self, entry: Parked, outcome: Outcome) -> None:
        """Answer an entry, unless it has ended, or its stream has."""
        if not entry.has_ended and entry.stream_id in self._streams:
            self.answer(entry, outcome)
            self._remove(entry)

    def fail_to_park(self, entry: Parked, error: Exception) -> None:
        """An unexpected exception has ended the parking of an entry, whose stream is open: do as `fail`."""
        self._streams.setdefault(entry.stream_id, {})
        self.fail(entry, error)

    def fail(self, entry: Parked, error: Exception) -> None:
        """An unexpected exception has ended what was done for an entry: answer it as if its time were over, unless it
        has ended or its stream has. Raises Uncontained if that fails, too.
        """
        where: dict[str, str | int] = {"stream_id": entry.stream_id, "entry_id": entry.entry_id}
        with CONTAINING:
            self.contained.contain(ENTRY, error, where | {"kind": KIND_NAMES[type(entry)]})
            stream = self._streams.get(entry.stream_id)
            if entry.has_ended or stream is None:
                return
            if not any(each.entry_id == entry.entry_id for each in self._completions.get(entry.stream_id, ())):
                self.answer(entry, Outcome.EXPIRED)
            if stream.get(entry.entry_id) is entry:
                self._remove(entry)
            else:
                entry.has_ended = True
                self._wheel.cancel(entry)

    def cancel(self, stream_id: int, entry_id: int) -> None:
        """End an entry without an answer, if it has not ended."""
        entry = self._streams.get(stream_id, {}).get(entry_id)
        if entry is not None:
            self._meter.dropped += 1
            self._remove(entry)

    def close_stream(self, stream_id: int) -> None:
        """End all entries of a stream without an answer."""
        entries = self._streams.pop(stream_id, {})
        self._completions.pop(stream_id, None)
        self._meter.dropped += len(entries)
        self._work.begin(self._remove_all(entries))

    def _remove_all(self, entries: dict[int, Parked]) -> Iterator[int]:
        while entries:
            self._remove(entries.popitem()[1])
            yield 1

    def expire(self, now_ms: int) -> None:
        """End what has waited long enough."""
        due_ms = self._wheel.next_deadline_ms()
        if due_ms is not None and now_ms >= due_ms:
            self._lateness.add((now_ms - due_ms) * 1000)
        for task in self._wheel.advance(now_ms, DEADLINES_PER_TURN):
            entry = cast("Parked", task)
            try:
                self.end(entry, Outcome.EXPIRED)
            except Exception as error:
                self.fail(entry, error)

    def take_completions(self) -> dict[int, list[Completion]]:
        completions, self._completions = self._completions, {}
        return completions

    def _remove(self, entry: Parked) -> None:
        """The entry has ended: nothing finds it any more, and its waits go, in later turns if they are many. Raises
        Uncontained: what all entries share may be half-changed.
        """
        entry.has_ended = True
        try:
            self._wheel.cancel(entry)
            entries = self._streams.get(entry.stream_id)
            if entries is not None:
                del entries[entry.entry_id]
            self._meter.removed(entry, entry.conditions or 1)
            if isinstance(entry, ParkedGroup):
                self.conditions -= 1
                # It is not there if its parking has failed.
                entry.watch.waits.pop(entry, None)
                if not entry.watch.waits:
                    self._groups.left(entry.watch.key, entry.watch)
            else:
                self._remove_waits(entry)
        except Exception as error:
            raise Uncontained from error

    def _remove_waits(self, entry: ParkedProduce | ParkedFetch) -> None:
        self.conditions -= (entry.conditions or 1) - len(entry.waits)
        waits: list[Wait] = [*entry.waits]
        entry.waits = []
        if self._work.has_time_for(len(waits)):
            for wait in waits:
                self._drop(wait)
            return
        self._leaving.append(waits)
        if not self._is_leaving:
            self._is_leaving = True
            self._work.begin(self._drop_in_pieces())

    def _drop_in_pieces(self) -> Iterator[int]:
        while self._leaving:
            waits = self._leaving.popleft()
            while waits:
                self._drop(waits.pop())
                yield 1
        self._is_leaving = False

    def _drop(self, wait: Wait) -> None:
        self.conditions -= 1
        wait.heap.discard(wait)
        watch = wait.heap.watch
        if not watch.live:
            self._watches.left(watch.key, watch)
