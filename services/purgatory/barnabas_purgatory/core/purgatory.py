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

However much clients have parked, no turn is long (`TurnWork`): what is more than a few conditions is done in pieces,
over several turns, and `next_deadline_ms` is not after now until all is done. The order holds in pieces, too: each
condition of an entry is watched, looked at and queued in one piece, the states of a logstore are applied in their
order, and each in full before the next. An entry is answered at once when it ends; what is left of it goes in pieces.

When the pod is full, a park is answered at once with EXPIRED, exactly as if its time had run out: a produce gets
REQUEST_TIMED_OUT ("maybe written") for what is not known to be committed, a fetch is read once more and answered with
the records that exist. That is a shorter wait and never a wrong answer; success is still only what a leader of the same
epoch has published.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from barnabas.channel.messages import (
    FetchCondition,
    GroupState,
    Outcome,
    ParkFetch,
    ParkGroup,
    ParkProduce,
    PartitionState,
    ProduceCondition,
)
from barnabas.cluster.image import ClusterImage
from barnabas.metrics.family import Sample
from barnabas.metrics.purgatory_families import (
    WAKE_UPS,
    WATCHED_GROUPS,
    WATCHED_PARTITIONS,
)
from barnabas_purgatory.core.group_watches import GroupKey, GroupWatch, ParkedGroup
from barnabas_purgatory.core.meter import MESSAGE
from barnabas_purgatory.core.outputs import Outputs, take_outputs
from barnabas_purgatory.core.parked_entries import ParkedEntries
from barnabas_purgatory.core.timing_wheel import TimingWheel
from barnabas_purgatory.core.turn_work import TurnWork
from barnabas_purgatory.core.waiting import (
    KAFKA_STORAGE_ERROR,
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


class PurgatoryCore:
    """The delayed operations of one pod.

    `entries_max` bounds what is parked, counted in conditions (an entry without any counts as one). Stream ids are
    chosen by the shell, one per gateway stream and never reused; entry ids are unique within a stream.
    """

    __slots__ = (
        "_deleted_topic_ids",
        "_entries",
        "_groups",
        "_image_to_apply",
        "_is_applying_image",
        "_states",
        "_topic_ids",
        "_wake_ups",
        "_watches",
        "_work",
        "contained",
    )

    def __init__(self, now_ms: int, entries_max: int = ENTRIES_MAX) -> None:
        self._work = TurnWork()
        self._watches: WatchTable[PartitionKey, PartitionWatch] = WatchTable(PartitionWatch)
        self._groups: WatchTable[GroupKey, GroupWatch] = WatchTable(GroupWatch)
        self._entries = ParkedEntries(TimingWheel(now_ms), self._watches, self._groups, self._work, entries_max)
        self.contained = self._entries.contained
        # What was published by a logstore and has to wait for a later turn, by node id.
        self._states: dict[int, deque[PartitionState]] = {}
        # Those of the newest image, and those that it lacks and an earlier one had.
        self._topic_ids: set[bytes] = set()
        self._deleted_topic_ids: set[bytes] = set()
        # The newest image until its watches are looked at, and whether they are being looked at.
        self._image_to_apply: ClusterImage | None = None
        self._is_applying_image = False
        self._wake_ups = 0

    @property
    def entries(self) -> int:
        """What is parked, counted in conditions."""
        return self._entries.conditions

    @property
    def watched_partitions(self) -> int:
        return len(self._watches)

    @property
    def watched_groups(self) -> int:
        return len(self._groups)

    def samples(self) -> Iterator[Sample]:
        yield from self.contained.samples()
        yield from self._entries.samples()
        yield Sample(WAKE_UPS, (), self._wake_ups)
        yield Sample(WATCHED_PARTITIONS, (), self.watched_partitions)
        yield Sample(WATCHED_GROUPS, (), self.watched_groups)

    def next_deadline_ms(self) -> int | None:
        """When `expire` has something to do, None when nothing is parked."""
        if self._work.has_work() or self._watches.has_work() or self._groups.has_work():
            return self._entries.now_ms
        return self._entries.next_deadline_ms()

    def park_produce(self, stream_id: int, park: ParkProduce, now_ms: int) -> None:
        conditions = park.conditions
        entry = ParkedProduce(stream_id, park.entry_id, now_ms + park.wait_ms, len(conditions))
        try:
            self._park_produce(entry, conditions)
        except Exception as error:
            self._entries.fail_to_park(entry, error)

    def _park_produce(self, entry: ParkedProduce, conditions: list[ProduceCondition]) -> None:
        if not self._work.has_time_for(len(conditions)):
            if self._entries.admit(entry):
                self._work.begin(self._register_produce(entry, conditions))
            return
        watches = self._watches
        waiting: list[ProduceWait] = []
        for each in conditions:
            wait = ProduceWait(entry, watches.watch(each.leader_id, (each.topic_id, each.partition)), each)
            entry.waits.append(wait)
            code = wait.judge()
            if code is None:
                waiting.append(wait)
            else:
                wait.error_code = code
        entry.pending = len(waiting)
        if not waiting:
            self._entries.answer(entry, entry.outcome())
        elif self._entries.admit(entry):
            for wait in waiting:
                wait.heap.push(wait.required_offset, wait)

    def _register_produce(self, entry: ParkedProduce, conditions: list[ProduceCondition]) -> Iterator[int]:
        try:
            for each in conditions:
                if entry.has_ended:
                    return
                watch = self._watches.watch(each.leader_id, (each.topic_id, each.partition))
                wait = ProduceWait(entry, watch, each)
                entry.waits.append(wait)
                code = wait.judge()
                if code is None:
                    wait.heap.push(wait.required_offset, wait)
                else:
                    self._resolve(entry, wait, code)
                yield 1
        except Exception as error:
            self._entries.fail(entry, error)

    def park_fetch(self, stream_id: int, park: ParkFetch, now_ms: int) -> None:
        conditions = park.conditions
        entry = ParkedFetch(stream_id, park.entry_id, now_ms + park.wait_ms, park.bytes_wanted, len(conditions))
        try:
            self._park_fetch(entry, conditions)
        except Exception as error:
            self._entries.fail_to_park(entry, error)

    def _park_fetch(self, entry: ParkedFetch, conditions: list[FetchCondition]) -> None:
        if not self._work.has_time_for(len(conditions)):
            if self._entries.admit(entry):
                self._work.begin(self._register_fetch(entry, conditions))
            return
        watches = self._watches
        is_fenced = False
        for each in conditions:
            wait = DelayedFetch(entry, watches.watch(each.leader_id, (each.topic_id, each.partition)), each)
            entry.waits.append(wait)
            if wait.must_read_again():
                is_fenced = True
                break
            wait.count_bytes()
        if is_fenced or entry.bytes_missing <= 0:
            self._entries.answer(entry, Outcome.FENCED if is_fenced else Outcome.SATISFIED)
        elif self._entries.admit(entry):
            for wait in entry.waits:
                wait.queue()

    def _register_fetch(self, entry: ParkedFetch, conditions: list[FetchCondition]) -> Iterator[int]:
        try:
            for each in conditions:
                if entry.has_ended:
                    return
                watch = self._watches.watch(each.leader_id, (each.topic_id, each.partition))
                wait = DelayedFetch(entry, watch, each)
                entry.waits.append(wait)
                if wait.must_read_again():
                    self._entries.end(entry, Outcome.FENCED)
                    return
                wait.count_bytes()
                wait.queue()
                yield 1
            if entry.is_satisfied() and not entry.has_ended:
                self._entries.end(entry, Outcome.SATISFIED)
        except Exception as error:
            self._entries.fail(entry, error)

    def park_group(self, stream_id: int, park: ParkGroup, now_ms: int) -> None:
        watch = self._groups.watch(park.leader_id, (park.topic_id, park.partition, park.group_id))
        entry = ParkedGroup(stream_id, park.entry_id, now_ms + park.wait_ms, watch, park.coordinator_epoch, park.step)
        try:
            outcome = entry.outcome()
            if outcome is not None:
                self._entries.answer(entry, outcome)
            elif self._entries.admit(entry):
                watch.waits[entry] = None
        except Exception as error:
            self._entries.fail_to_park(entry, error)

    def cancel(self, stream_id: int, entry_id: int) -> None:
        """The client is gone: the entry ends without an answer. It is no error if it has already ended."""
        self._entries.cancel(stream_id, entry_id)

    def stream_closed(self, stream_id: int) -> None:
        """The gateway is gone, or asks the leaders itself from now on: all its entries end silently."""
        self._entries.close_stream(stream_id)

    def partition_states(self, node_id: int, states: Iterable[PartitionState]) -> None:
        """Apply what a logstore has published, in order. Partitions that are not watched any more are skipped."""
        queue = self._states.get(node_id)
        if queue is not None:
            queue.extend(states)
            return
        following = iter(states)
        for state in following:
            if self._work.steps_left <= 0 or not self._apply_state(node_id, state):
                self._states[node_id] = deque((state, *following))
                self._work.begin(self._apply_states(node_id))

    def _apply_states(self, node_id: int) -> Iterator[int]:
        """Apply what has had to wait. Each counts its own steps."""
        queue = self._states[node_id]
        try:
            while queue:
                if self._try_to_apply(node_id, queue[0]):
                    queue.popleft()
                yield 0
        finally:
            # Also if something unexpected ends this: what comes on the logstore's next stream must not wait behind it.
            del self._states[node_id]

    def _try_to_apply(self, node_id: int, state: PartitionState) -> bool:
        """A fault costs the pod its sight of the partition, and not the stream in whose turn the state is applied: what
        waits is woken by the next state.
        """
        try:
            return self._apply_state(node_id, state)
        except Exception as error:
            self.contained.contain(MESSAGE, error, {"peer": f"logstore {node_id}"})
            watch = self._watches.find(node_id, (state.topic_id, state.partition))
            if watch is not None:
                watch.lose_sight()
            return True

    def _apply_state(self, node_id: int, state: PartitionState) -> bool:
        """Return False if it ends more than a turn has time for: then it has to be applied again."""
        self._work.steps_left -= 1
        watch = self._watches.find(node_id, (state.topic_id, state.partition))
        if watch is None:
            return True
        known = watch.state
        if known is not state:
            self._wake_ups += 1
            watch.learn(state)
        return self._look_at(watch, known is None or known.log_start_offset != state.log_start_offset)

    def group_states(self, node_id: int, states: Iterable[GroupState]) -> None:
        """Apply what a logstore has published about groups."""
        for state in states:
            watch = self._groups.find(node_id, (state.topic_id, state.partition, state.group_id))
            if watch is None:
                continue
            self._wake_ups += 1
            watch.state = state
            self._work.begin(self._look_at_members(list(watch.waits)))

    def _look_at_members(self, entries: list[ParkedGroup]) -> Iterator[int]:
        for entry in entries:
            try:
                outcome = entry.outcome()
                if outcome is not None and entry in entry.watch.waits:
                    self._entries.end(entry, outcome)
            except Exception as error:
                self._entries.fail(entry, error)
            yield 1

    def logstore_up(self, node_id: int) -> None:
        """A new watch stream to the logstore is open; nothing has been sent on it yet."""
        self._watches.logstore_up(node_id)
        self._groups.logstore_up(node_id)

    def logstore_down(self, node_id: int) -> None:
        """The watch stream is lost. Entries keep waiting: the present state comes with the next stream, and deadlines
        hold anyway."""
        queue = self._states.get(node_id)
        if queue is not None:
            queue.clear()
        self._watches.logstore_down(node_id)
        self._groups.logstore_down(node_id)

    def metadata_applied(self, image: ClusterImage) -> None:
        """End what waits on epochs that the controller has ended, or on topics that it has deleted: a leader that is
        dead or paused never reports it itself.

        A topic that is not in the image is deleted only if it was in an earlier one; otherwise it may be too new. A
        produce whose leader stays leader under another epoch waits for the leader's own report: it may have led without
        interruption.
        """
        self._deleted_topic_ids |= self._topic_ids - image.topics_by_id.keys()
        self._topic_ids = set(image.topics_by_id)
        self._image_to_apply = image
        if not self._is_applying_image:
            self._is_applying_image = True
            self._work.begin(self._apply_image())

    def _apply_image(self) -> Iterator[int]:
        """Look at all watches; if the image has changed meanwhile, at all of them again."""
        try:
            while self._image_to_apply is not None:
                image, self._image_to_apply = self._image_to_apply, None
                yield from self._end_what_is_over(image)
        finally:
            # Also if something unexpected ends this: the next image must not wait behind it.
            self._is_applying_image = False

    def _end_what_is_over(self, image: ClusterImage) -> Iterator[int]:
        deleted_topic_ids, self._deleted_topic_ids = self._deleted_topic_ids, set()
        for watch in self._watches:
            topic_id, partition = watch.key
            yield 1
            metadata = image.partition(topic_id, partition)
            if metadata is None and topic_id not in deleted_topic_ids:
                continue
            for leader_epoch, measure in list(watch.heaps):
                leads_on = (
                    metadata is not None and measure is Measure.HIGH_WATERMARK and metadata.leader == watch.node_id
                )
                if metadata is None or (leader_epoch < metadata.leader_epoch and not leads_on):
                    self._fence_all(watch.heaps[(leader_epoch, measure)], NOT_LEADER_OR_FOLLOWER)
            self._tidy(watch)
        for group in self._groups:
            topic_id, partition, _ = group.key
            yield 1
            metadata = image.partition(topic_id, partition)
            if metadata is None and topic_id not in deleted_topic_ids:
                continue
            for entry in list(group.waits):
                if metadata is None or entry.coordinator_epoch < metadata.leader_epoch:
                    self._end(entry, Outcome.FENCED)
                    yield 1

    def expire(self, now_ms: int) -> None:
        """End what has waited long enough, and continue with what is left of earlier turns."""
        self._entries.expire(now_ms)
        self._work.run()

    def take_outputs(self) -> Outputs:
        """Everything that the inputs since the last call have come to."""
        self._work.end_turn()
        return take_outputs(self._entries.take_completions(), self._watches, self._groups)

    def _look_at(self, watch: PartitionWatch, log_start_moved: bool) -> bool:
        """The state of `watch` is new: end what it ends, and touch nothing else. Return False if there was too much."""
        waiting: list[WaitHeap] = []
        for (leader_epoch, measure), heap in list(watch.heaps.items()):
            standing = watch.standing(leader_epoch, measure)
            if standing is Standing.UNKNOWN:
                continue
            if not watch.may_wait(leader_epoch, measure):
                code = KAFKA_STORAGE_ERROR if standing is Standing.OFFLINE else NOT_LEADER_OR_FOLLOWER
                self._fence_all(heap, code)
                continue
            waiting.append(heap)
            if log_start_moved and measure is not Measure.HIGH_WATERMARK:
                self._look_for_deleted_offsets(heap)
        is_done = True
        for heap in waiting:
            value = watch.value(heap.measure)
            reached = heap.pop_reached(value, max(1, self._work.steps_left))
            self._work.steps_left -= len(reached)
            for wait in reached:
                self._settle(wait)
            is_done = is_done and not heap.has_reached(value)
        self._tidy(watch)
        return is_done

    def _look_for_deleted_offsets(self, heap: WaitHeap) -> None:
        """No heap orders fetches by offset: the log's start moves too rarely (retention, DeleteRecords)."""
        for wait in heap:
            if isinstance(wait, DelayedFetch):
                try:
                    if wait.must_read_again():
                        self._entries.end(wait.entry, Outcome.FENCED)
                except Exception as error:
                    self._entries.fail(wait.entry, error)

    def _settle(self, wait: Wait) -> None:
        """`wait` has left its heap because the partition's state has reached it."""
        match wait:
            case ProduceWait(entry=produce):
                try:
                    code = wait.judge()
                    assert code is not None, "popped before its time"
                    self._resolve(produce, wait, code)
                except Exception as error:
                    self._entries.fail(produce, error)
            case DelayedFetch(entry=fetch) if not fetch.has_ended:
                try:
                    wait.count_bytes()
                    if fetch.is_satisfied():
                        self._entries.end(fetch, Outcome.SATISFIED)
                    else:
                        wait.queue()
                except Exception as error:
                    self._entries.fail(fetch, error)

    def _fence_all(self, heap: WaitHeap, code: int) -> None:
        """The epoch of these waits has ended."""
        waits = heap.pop_all()
        if not self._work.has_time_for(len(waits)):
            self._work.begin(self._fence_in_pieces(waits, code))
        else:
            for wait in waits:
                self._fence(wait, code)

    def _fence_in_pieces(self, waits: list[Wait], code: int) -> Iterator[int]:
        for wait in waits:
            self._fence(wait, code)
            yield 1

    def _fence(self, wait: Wait, code: int) -> None:
        match wait:
            case ProduceWait(entry=produce):
                try:
                    self._resolve(produce, wait, code)
                except Exception as error:
                    self._entries.fail(produce, error)
            case DelayedFetch(entry=fetch):
                self._end(fetch, Outcome.FENCED)

    def _end(self, entry: ParkedFetch | ParkedGroup, outcome: Outcome) -> None:
        try:
            self._entries.end(entry, outcome)
        except Exception as error:
            self._entries.fail(entry, error)

    def _resolve(self, entry: ParkedProduce, wait: ProduceWait, code: int) -> None:
        if entry.has_ended:
            return
        wait.error_code = code
        entry.pending -= 1
        if not entry.pending:
            self._entries.end(entry, entry.outcome())

    def _tidy(self, watch: PartitionWatch) -> None:
        watch.drop_empty_heaps()
        if not watch.live:
            self._watches.left(watch.key, watch)
