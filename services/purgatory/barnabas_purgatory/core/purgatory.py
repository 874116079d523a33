"""PurgatoryCore: parked entries in, completions out; no clock, no sockets.

The host, the shell's `PurgatoryDriver` or the simulation, has this loop:

    wait for input, or for core.next_deadline_ms()
    for each input since the last turn:
        core.park_produce / park_fetch / park_group(stream_id, park, now_ms)
        core.cancel(stream_id, entry_id), core.stream_closed(stream_id)    # of gateways
        core.logstore_up / logstore_down(node_id)
        core.partition_states / group_states(node_id, states)
        core.metadata_applied(image)
    core.expire(now_ms)
    send what core.take_outputs() has: completions by gateway stream, watches and unwatches by logstore

No wake-up is lost because of this order: a partition's watch exists before its newest known state is checked. A state
that the logstore publishes later arrives later (one ordered stream), and the present state is the first answer to a
watch.

When the pod is full, a park is answered at once with EXPIRED, exactly as if its time had run out: a produce gets
REQUEST_TIMED_OUT ("maybe written") for what is not known to be committed, a fetch is read once more and answered with
the records that exist. That is a shorter wait and never a wrong answer; success is still only what a leader of the same
epoch has published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

from barnabas.channel.messages import (
    Completion,
    GroupState,
    Outcome,
    ParkFetch,
    ParkGroup,
    ParkProduce,
    PartitionState,
    WatchedGroup,
    WatchedPartition,
    WatchRequest,
)
from barnabas.cluster.image import ClusterImage
from barnabas.metrics.family import Sample
from barnabas.metrics.histogram import Histogram
from barnabas.metrics.purgatory_families import (
    CAPACITY,
    TIMER_LATENESS,
    TIMER_SIZE,
    WATCHED_GROUPS,
    WATCHED_PARTITIONS,
)
from barnabas_purgatory.core.group_watches import GroupKey, GroupWatch, ParkedGroup
from barnabas_purgatory.core.meter import Meter, Parked
from barnabas_purgatory.core.timing_wheel import TimingWheel
from barnabas_purgatory.core.waiting import (
    NOT_LEADER_OR_FOLLOWER,
    DelayedFetch,
    ParkedFetch,
    ParkedProduce,
    ProduceWait,
)
from barnabas_purgatory.core.watch_table import WatchTable
from barnabas_purgatory.core.watches import (
    Measure,
    PartitionKey,
    PartitionWatch,
    Standing,
    Wait,
    WaitHeap,
)

ENTRIES_MAX = 2_000_000


@dataclass(slots=True)
class Outputs:
    """One turn's output for the shell; nodes and streams in the order in which they came up."""

    completions: dict[int, list[Completion]] = field(default_factory=dict)
    watches: dict[int, list[WatchedPartition]] = field(default_factory=dict)
    unwatches: dict[int, list[WatchedPartition]] = field(default_factory=dict)
    group_watches: dict[int, list[WatchedGroup]] = field(default_factory=dict)
    group_unwatches: dict[int, list[WatchedGroup]] = field(default_factory=dict)

    def watch_requests(self) -> list[tuple[int, WatchRequest]]:
        """Return the messages to the logstores: one each, by node."""
        nodes = {*self.watches, *self.unwatches, *self.group_watches, *self.group_unwatches}
        return [
            (
                node_id,
                WatchRequest(
                    watches=self.watches.get(node_id, []),
                    unwatches=self.unwatches.get(node_id, []),
                    group_watches=self.group_watches.get(node_id, []),
                    group_unwatches=self.group_unwatches.get(node_id, []),
                ),
            )
            for node_id in sorted(nodes)
        ]


class PurgatoryCore:
    """The delayed operations of one pod.

    `entries_max` bounds what is parked, counted in conditions (an entry without any counts as one). Stream ids are
    chosen by the shell, one per gateway stream and never reused; entry ids are unique within a stream.
    """

    __slots__ = (
        "_completions",
        "_entries",
        "_entries_max",
        "_groups",
        "_lateness",
        "_meter",
        "_streams",
        "_topic_ids",
        "_watches",
        "_wheel",
    )

    def __init__(self, now_ms: int, entries_max: int = ENTRIES_MAX) -> None:
        self._wheel = TimingWheel(now_ms)
        self._watches: WatchTable[PartitionKey, PartitionWatch] = WatchTable(PartitionWatch)
        self._groups: WatchTable[GroupKey, GroupWatch] = WatchTable(GroupWatch)
        self._streams: dict[int, dict[int, Parked]] = {}
        self._entries = 0
        self._entries_max = entries_max
        self._completions: dict[int, list[Completion]] = {}
        # The image that was applied last.
        self._topic_ids: set[bytes] = set()
        self._meter = Meter()
        self._lateness = Histogram()

    @property
    def entries(self) -> int:
        """What is parked, counted in conditions."""
        return self._entries

    @property
    def watched_partitions(self) -> int:
        return len(self._watches)

    @property
    def watched_groups(self) -> int:
        return len(self._groups)

    def samples(self) -> Iterator[Sample]:
        yield from self._meter.samples()
        yield Sample(CAPACITY, (), self._entries_max)
        yield Sample(WATCHED_PARTITIONS, (), self.watched_partitions)
        yield Sample(WATCHED_GROUPS, (), self.watched_groups)
        yield Sample(TIMER_SIZE, (), len(self._wheel))
        yield Sample(TIMER_LATENESS, (), self._lateness)

    def next_deadline_ms(self) -> int | None:
        """When `expire` has something to do, None when nothing is parked."""
        return self._wheel.next_deadline_ms()

    def park_produce(self, stream_id: int, park: ParkProduce, now_ms: int) -> None:
        entry = ParkedProduce(stream_id, park.entry_id, now_ms + park.wait_ms)
        watches = self._watches
        entry.waits = tuple(
            ProduceWait(entry, watches.watch(each.leader_id, (each.topic_id, each.partition)), each)
            for each in park.conditions
        )
        waiting: list[ProduceWait] = []
        for wait in entry.waits:
            code = wait.judge()
            if code is None:
                waiting.append(wait)
            else:
                wait.error_code = code
        entry.pending = len(waiting)
        if not waiting:
            self._answer(entry, entry.outcome())
        elif self._admit(entry):
            for wait in waiting:
                wait.heap.push(wait.required_offset, wait)

    def park_fetch(self, stream_id: int, park: ParkFetch, now_ms: int) -> None:
        entry = ParkedFetch(stream_id, park.entry_id, now_ms + park.wait_ms, park.bytes_wanted)
        watches = self._watches
        entry.waits = tuple(
            DelayedFetch(entry, watches.watch(each.leader_id, (each.topic_id, each.partition)), each)
            for each in park.conditions
        )
        outcome = entry.outcome()
        if outcome is not None:
            self._answer(entry, outcome)
        elif self._admit(entry) and entry.waits:
            entry.queue()

    def park_group(self, stream_id: int, park: ParkGroup, now_ms: int) -> None:
        watch = self._groups.watch(park.leader_id, (park.topic_id, park.partition, park.group_id))
        entry = ParkedGroup(stream_id, park.entry_id, now_ms + park.wait_ms, watch, park.coordinator_epoch, park.step)
        outcome = entry.outcome()
        if outcome is not None:
            self._answer(entry, outcome)
        elif self._admit(entry):
            watch.waits[entry] = None

    def cancel(self, stream_id: int, entry_id: int) -> None:
        """The client is gone: the entry ends without an answer. It is no error if it has already ended."""
        entry = self._streams.get(stream_id, {}).get(entry_id)
        if entry is not None:
            self._meter.dropped += 1
            self._remove(entry)

    def stream_closed(self, stream_id: int) -> None:
        """The gateway is gone, or asks the leaders itself from now on: all its entries end silently."""
        for entry in list(self._streams.get(stream_id, {}).values()):
            self._meter.dropped += 1
            self._remove(entry)
        self._completions.pop(stream_id, None)

    def partition_states(self, node_id: int, states: Iterable[PartitionState]) -> None:
        """Apply what a logstore has published, in order. Partitions that are not watched any more are skipped."""
        for state in states:
            watch = self._watches.find(node_id, (state.topic_id, state.partition))
            if watch is None:
                continue
            self._meter.wake_ups += 1
            known = watch.state
            watch.learn(state)
            log_start_moved = known is None or known.log_start_offset != state.log_start_offset
            self._look_at(watch, log_start_moved)

    def group_states(self, node_id: int, states: Iterable[GroupState]) -> None:
        """Apply what a logstore has published about groups."""
        for state in states:
            watch = self._groups.find(node_id, (state.topic_id, state.partition, state.group_id))
            if watch is None:
                continue
            self._meter.wake_ups += 1
            watch.state = state
            for entry in list(watch.waits):
                outcome = entry.outcome()
                if outcome is not None:
                    self._end(entry, outcome)

    def logstore_up(self, node_id: int) -> None:
        """A new watch stream to the logstore is open; nothing has been sent on it yet."""
        self._watches.logstore_up(node_id)
        self._groups.logstore_up(node_id)

    def logstore_down(self, node_id: int) -> None:
        """The watch stream is lost. Entries keep waiting: the present state comes with the next stream, and deadlines
        hold anyway."""
        self._watches.logstore_down(node_id)
        self._groups.logstore_down(node_id)

    def metadata_applied(self, image: ClusterImage) -> None:
        """End what waits on epochs that the controller has ended, or on topics that it has deleted: a leader that is
        dead or paused never reports it itself.

        A topic that is not in the image is deleted only if it was in an earlier one; otherwise it may be too new. A
        produce whose leader stays leader under another epoch waits for the leader's own report: it may have led without
        interruption.
        """
        deleted_topic_ids = self._topic_ids - image.topics_by_id.keys()
        self._topic_ids = set(image.topics_by_id)
        for watch in self._watches:
            topic_id, partition = watch.key
            metadata = image.partition(topic_id, partition)
            if metadata is None and topic_id not in deleted_topic_ids:
                continue
            for leader_epoch, measure in list(watch.heaps):
                leads_on = (
                    metadata is not None and measure is Measure.HIGH_WATERMARK and metadata.leader == watch.node_id
                )
                if metadata is None or (leader_epoch < metadata.leader_epoch and not leads_on):
                    for wait in watch.heaps[(leader_epoch, measure)].pop_all():
                        self._fence(wait)
            self._tidy(watch)
        for group in self._groups:
            topic_id, partition, _ = group.key
            metadata = image.partition(topic_id, partition)
            if metadata is None and topic_id not in deleted_topic_ids:
                continue
            for entry in list(group.waits):
                if metadata is None or entry.coordinator_epoch < metadata.leader_epoch:
                    self._end(entry, Outcome.FENCED)

    def expire(self, now_ms: int) -> None:
        """End what has waited long enough."""
        due_ms = self._wheel.next_deadline_ms()
        if due_ms is not None and now_ms >= due_ms:
            self._lateness.add((now_ms - due_ms) * 1000)
        for entry in self._wheel.advance(now_ms):
            self._end(cast("Parked", entry), Outcome.EXPIRED)

    def take_outputs(self) -> Outputs:
        """Everything that the inputs since the last call have come to."""
        watches, unwatches = self._watches.end_turn()
        group_watches, group_unwatches = self._groups.end_turn()
        completions, self._completions = self._completions, {}
        return Outputs(
            completions,
            {node_id: [WatchedPartition(*key) for key in keys] for node_id, keys in watches.items()},
            {node_id: [WatchedPartition(*key) for key in keys] for node_id, keys in unwatches.items()},
            {node_id: [WatchedGroup(*key) for key in keys] for node_id, keys in group_watches.items()},
            {node_id: [WatchedGroup(*key) for key in keys] for node_id, keys in group_unwatches.items()},
        )

    def _admit(self, entry: Parked) -> bool:
        """Add an entry that has to wait. Return False if it was answered at once instead."""
        stream = self._streams.setdefault(entry.stream_id, {})
        weight = _weight_of(entry)
        if self._entries + weight > self._entries_max:
            self._meter.refused += 1
            self._answer(entry, Outcome.EXPIRED)
            return False
        if entry.entry_id in stream:
            # The gateway's error. The first entry keeps the id; the second could never be answered separately.
            return False
        stream[entry.entry_id] = entry
        self._entries += weight
        self._meter.parked(entry, weight)
        self._wheel.add(entry)
        return True

    def _look_at(self, watch: PartitionWatch, log_start_moved: bool) -> None:
        """The state of `watch` is new: end what it ends, and touch nothing else."""
        for (leader_epoch, measure), heap in list(watch.heaps.items()):
            if watch.standing(leader_epoch, measure) is Standing.UNKNOWN:
                continue
            if watch.may_wait(leader_epoch, measure):
                reached = heap.pop_reached(watch.value(measure))
            else:
                reached = heap.pop_all()
            for wait in reached:
                self._settle(wait)
            if log_start_moved and measure is not Measure.HIGH_WATERMARK:
                self._look_for_deleted_offsets(heap)
        self._tidy(watch)

    def _look_for_deleted_offsets(self, heap: WaitHeap) -> None:
        """No heap orders fetches by offset: the log's start moves too rarely (retention, DeleteRecords)."""
        for wait in heap:
            if isinstance(wait, DelayedFetch) and wait.must_read_again():
                self._settle(wait)

    def _settle(self, wait: Wait) -> None:
        """`wait` has left its heap because the partition's state has reached it."""
        match wait:
            case ProduceWait(entry=entry):
                code = wait.judge()
                assert code is not None, "popped before its time"
                self._resolve(entry, wait, code)
            case DelayedFetch(entry=fetch) if fetch.waits:
                outcome = fetch.outcome()
                if outcome is None:
                    fetch.queue()
                else:
                    self._end(fetch, outcome)

    def _fence(self, wait: Wait) -> None:
        """`wait` has left its heap because the controller has ended its epoch."""
        match wait:
            case ProduceWait(entry=entry):
                self._resolve(entry, wait, NOT_LEADER_OR_FOLLOWER)
            case DelayedFetch(entry=fetch) if fetch.waits:
                self._end(fetch, Outcome.FENCED)

    def _resolve(self, entry: ParkedProduce, wait: ProduceWait, code: int) -> None:
        wait.error_code = code
        entry.pending -= 1
        if not entry.pending:
            self._end(entry, entry.outcome())

    def _end(self, entry: Parked, outcome: Outcome) -> None:
        self._answer(entry, outcome)
        self._remove(entry)

    def _answer(self, entry: Parked, outcome: Outcome) -> None:
        self._meter.completed(entry, outcome)
        codes = [wait.error_code for wait in entry.waits] if isinstance(entry, ParkedProduce) else []
        self._completions.setdefault(entry.stream_id, []).append(Completion(entry.entry_id, outcome, codes))

    def _remove(self, entry: Parked) -> None:
        self._wheel.cancel(entry)
        del self._streams[entry.stream_id][entry.entry_id]
        weight = _weight_of(entry)
        self._entries -= weight
        self._meter.removed(entry, weight)
        if isinstance(entry, ParkedGroup):
            del entry.watch.waits[entry]
            if not entry.watch.waits:
                self._groups.left(entry.watch.key, entry.watch)
            return
        waits, entry.waits = entry.waits, ()
        for wait in waits:
            wait.heap.discard(wait)
            watch = wait.heap.watch
            if not watch.live:
                self._watches.left(watch.key, watch)

    def _tidy(self, watch: PartitionWatch) -> None:
        watch.drop_empty_heaps()
        if not watch.live:
            self._watches.left(watch.key, watch)


def _weight_of(entry: Parked) -> int:
    """Return the weight in conditions; an entry without any counts as one."""
    return 1 if isinstance(entry, ParkedGroup) else len(entry.waits) or 1
