"""The runtime of one kind of coordinator: its shards of one logstore, and their events.

One turn of the host (`coordination`):

    runtime.begin_turn(now_ms, wall_ms)
    runtime.on_call(stream_id, call)                # answered in `take_answers`, in this turn or a later one
    runtime.on_collect(stream_id, collect)
    runtime.step(now_ms)                            # a piece of loading, what is due, one batch per partition
    runtime.take_answers()

`on_leadership`, `on_read`, `on_committed`, `on_lost` (`coordinator_log`) may be called at any time.

A shard whose code meets an unexpected exception is in doubt: it is lost, and loaded again after a pause. What the
runtime guards so is a load (COORDINATOR_LOAD), and all that follows from the clock or the log (COORDINATOR_STATE).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Generic

from barnabas.channel.messages import GroupAnswer, GroupCall, GroupCollect
from barnabas.containment import Guard
from barnabas.ports.compression import Decompress
from barnabas.wire.codec import UnsupportedVersion, decode_request, encode_body_in_steps
from barnabas.wire.errors import ErrorCode, Refused
from barnabas.wire.markers import TransactionEnd
from barnabas.wire.messages import Request
from barnabas.wire.primitives import MalformedFrame
from barnabas_logstore.core.coordinator.runtime.coordinator_log import CoordinatedLog
from barnabas_logstore.core.coordinator.runtime.led_shard import LedShard
from barnabas_logstore.core.coordinator.runtime.listings import Listings
from barnabas_logstore.core.coordinator.runtime.shard import Effect, S, ShardKind, StreamAnswer, do_all
from barnabas_logstore.core.replica.containment import COORDINATOR_LOAD, COORDINATOR_STATE

_NEVER: Final = 2**62


class CoordinatorRuntime(Generic[S]):
    def __init__(self, kind: ShardKind[S], decompress: Decompress) -> None:
        self.kind = kind
        self._decompress = decompress
        self._clock = kind.clock
        self._listing_key = kind.listing_key
        self._may_rest = all(each.is_wanted is not None for each in kind.periodic)
        """Whether nothing is ever due without a shard."""
        self._shards: dict[int, LedShard[S]] = {}
        """By partition."""
        self._loading: dict[int, LedShard[S]] = {}
        self._working: dict[int, LedShard[S]] = {}
        """Shards that look through what they have, some in each step."""
        self._written: dict[LedShard[S], None] = {}
        """Shards with something to append at the end of the turn."""
        self._has_loaded = False
        """Whether a shard was loaded since periodic work was planned last."""
        self._periodic_ms = 0 if not self._may_rest else _NEVER
        """When the first periodic work is due, or is planned."""
        self._has_unplanned = len(kind.periodic) > 0
        """Whether some of it is not due, since there was nothing to look at."""
        self.answers: list[StreamAnswer] = []
        """What need not wait any more; the host empties it by `take_answers`."""
        self.listings = Listings()
        self.problems: list[str] = []
        """What could not be read of a log; the host takes it for its log file."""

    # --- the turn -----------------------------------------------------------------------------------------------------

    def begin_turn(self, now_ms: int, wall_ms: int) -> None:
        self._clock.now_ms = now_ms
        self._clock.wall_ms = wall_ms

    def step(self, now_ms: int) -> None:
        """Process a piece of loading, deadlines, what is due, and the batches of this turn."""
        kind = self.kind
        if kind.lists_first and self.listings.has_work:
            self.listings.step()
        if self._may_rest and not self._shards:
            return
        self._clock.now_ms = now_ms
        if self._loading:
            for led in list(self._loading.values()):
                with Guard(led, COORDINATOR_LOAD):
                    self._load(led)
        kind.timers.act(now_ms)
        if now_ms >= self._periodic_ms or (self._has_unplanned and (self._has_loaded or self._written)):
            self._step_periodic(now_ms)
        if kind.due:
            self._step_due(now_ms)
        if self._working:
            for led in list(self._working.values()):
                with Guard(led, COORDINATOR_STATE):
                    self._step_piece(led)
        if self.listings.has_work and not kind.lists_first:
            self.listings.step()
        if kind.held:
            for led in [each for each in self._shards.values() if each.shard in kind.held]:
                with Guard(led, COORDINATOR_STATE):
                    led.shard.step_held()
        if self._written:
            self._append()

    def _step_periodic(self, now_ms: int) -> None:
        """Begin what is due, and set when it is due again; also of what nothing was to be looked at for so far."""
        self._has_loaded = False
        for periodic in self.kind.periodic:
            if periodic.due_ms is not None and now_ms < periodic.due_ms:
                continue
            if periodic.due_ms is not None:
                self.begin_pieces(periodic.begin, [led for led in self.shards if led.loader is None])
            is_wanted = periodic.is_wanted
            is_due = is_wanted is None or any(is_wanted(led.shard) for led in self._shards.values())
            periodic.due_ms = now_ms + periodic.interval_ms if is_due else None
        self._note_periodic()

    def _note_periodic(self) -> None:
        due_ms = [each.due_ms for each in self.kind.periodic if each.due_ms is not None]
        self._periodic_ms = min(due_ms, default=_NEVER)
        self._has_unplanned = len(due_ms) < len(self.kind.periodic)

    def begin_pieces(self, begin: Callable[[S], None], shards: Sequence[LedShard[S]]) -> None:
        """Begin something in these shards, which go on with it in pieces once they are loaded."""
        for led in shards:
            with Guard(led, COORDINATOR_STATE):
                begin(led.shard)
                self._working[led.partition] = led

    def _step_piece(self, led: LedShard[S]) -> None:
        if led.loader is not None:
            return
        del self._working[led.partition]  # unless it is to go on
        if not led.shard.step_piece():
            self._working[led.partition] = led

    def _step_due(self, now_ms: int) -> None:
        due = self.kind.due
        for led in [each for each in self._shards.values() if each.shard in due and now_ms >= due[each.shard]]:
            del due[led.shard]
            with Guard(led, COORDINATOR_STATE):
                led.shard.step_due()

    def _append(self) -> None:
        written = dict(self._written)
        self._written.clear()
        for led in [each for each in self._shards.values() if each in written]:
            with Guard(led, COORDINATOR_STATE):
                if not led.append():
                    # The write failed under an epoch that is still ours: the log decides what holds.
                    self.on_leadership(led.partition, led.leader_epoch, led.log, self._clock.now_ms)

    def next_deadline_ms(self) -> int | None:
        """Return when `step` has something to do, unless an event comes first."""
        if self._may_rest and not self._shards:
            return None
        next_ms = self.kind.timers.next_ms()
        if next_ms is None or self._periodic_ms < next_ms:
            next_ms = self._periodic_ms
        if self.kind.due:
            next_ms = min(next_ms, *self.kind.due.values())
        return next_ms if next_ms != _NEVER else None

    @property
    def has_work(self) -> bool:
        """Whether a `step` would make progress now."""
        if self.listings.has_work:
            return True
        if self._written:
            return True  # something was put between two turns: the last marker of a transaction was answered
        if not (self._loading or self._working):
            return False
        return any(each.loader is not None and each.loader.has_data for each in self._loading.values()) or any(
            each.loader is None and each.shard.has_piece for each in self._working.values()
        )

    def take_answers(self) -> list[StreamAnswer]:
        """Return the answers by stream, in order."""
        answers = self.answers[:]
        self.answers.clear()
        return answers

    # --- the shards' logs ---------------------------------------------------------------------------------------------

    @property
    def shards(self) -> list[LedShard[S]]:
        """Those that are coordinated here, loaded or not; read only."""
        return list(self._shards.values())

    def find(self, partition: int) -> LedShard[S] | None:
        """Return the shard of a partition, loaded or not, if it is coordinated here."""
        return self._shards.get(partition)

    def on_leadership(self, partition: int, leader_epoch: int, log: CoordinatedLog, now_ms: int) -> None:
        self._clock.now_ms = now_ms
        self.kind.leadership_changed()
        before = self._shards.get(partition)
        if before is not None:
            before.lose()
        self._working.pop(partition, None)
        led: LedShard[S] = LedShard(partition, leader_epoch, log, self.answers, self._written)
        led.open(self.kind, self._decompress)
        self._shards[partition] = self._loading[partition] = led
        if before is not None and self.kind.reopened(before.shard, led.shard):
            self._working[partition] = led
        self._load(led)

    def on_read(self, partition: int, leader_epoch: int, data: memoryview, next_offset: int, now_ms: int) -> None:
        self._clock.now_ms = now_ms
        led = self._loading.get(partition)
        if led is not None and led.leader_epoch == leader_epoch and led.loader is not None:
            led.loader.feed(data, next_offset)
            self._load(led)

    def _load(self, led: LedShard[S]) -> None:
        try:
            is_loaded = led.load()
        except Exception:
            # What it has read is in doubt: it is read from the beginning, by another one.
            del self._loading[led.partition]
            raise
        if is_loaded:
            del self._loading[led.partition]
            self._has_loaded = True
            if led.unreadable_records:
                self.problems.append(
                    f"records of {self.kind.topic}-{led.partition} that can't be read: {led.unreadable_records}; "
                    f"{self.kind.unreadable}"
                )

    def on_committed(self, partition: int, leader_epoch: int, high_watermark: int, now_ms: int) -> None:
        self._clock.now_ms = now_ms
        led = self._shards.get(partition)
        if led is not None and led.leader_epoch == leader_epoch:
            led.committed(high_watermark)

    def on_lost(self, partition: int, leader_epoch: int, now_ms: int) -> None:
        self._clock.now_ms = now_ms
        self.kind.leadership_changed()
        led = self._shards.get(partition)
        if led is not None and led.leader_epoch == leader_epoch:
            del self._shards[partition]
            self._loading.pop(partition, None)
            self._working.pop(partition, None)
            do_all([led.lose, self._rest_if_empty])

    def _rest_if_empty(self) -> None:
        """Without a shard, periodic work may be long over before there is anything to look at."""
        if self._shards:
            return
        for periodic in self.kind.periodic:
            if periodic.is_wanted is not None:
                periodic.due_ms = None
        self._note_periodic()

    def append_marker(self, partition: int, ended: TransactionEnd) -> int | Refused:
        """Append a transaction's marker to a partition of the topic, behind what this turn has put, and replay it.
        Return the high watermark that commits it. NOT_LEADER_OR_FOLLOWER: not coordinated here, or not loaded yet.
        """
        led = self._shards.get(partition)
        if led is None or led.loader is not None:
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        with Guard(led, COORDINATOR_STATE):
            return led.append_marker(ended, self.kind.change_of_marker(ended))
        return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # --- calls --------------------------------------------------------------------------------------------------------

    def on_call(self, stream_id: int, call: GroupCall) -> None:
        """Process a call to one partition, or the list of what is in all of them."""
        api_key = call.api_key
        if api_key == self._listing_key:
            self._list(stream_id, call)
            return
        led = self._shards.get(call.partition)
        if led is None:
            self._refuse(stream_id, call.request_id, ErrorCode.NOT_COORDINATOR)
            return
        served = led.shard.by_api_key.get(api_key)
        if served is None or not 0 <= call.api_version <= served.version_max:
            self._refuse(stream_id, call.request_id, ErrorCode.INVALID_REQUEST)
        elif led.loader is None:
            try:
                request = decode_request(api_key, call.api_version, memoryview(call.body), 0)
            except (MalformedFrame, UnsupportedVersion):
                self._refuse(stream_id, call.request_id, ErrorCode.INVALID_REQUEST)
                return
            served.serve(stream_id, call, request)
        elif served.while_loading is not None:
            self.answers.append((stream_id, served.while_loading(call)))
        else:
            self._refuse(stream_id, call.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _refuse(self, stream_id: int, request_id: int, error: ErrorCode) -> None:
        self.answers.append((stream_id, GroupAnswer(request_id, error)))

    def on_collect(self, stream_id: int, collect: GroupCollect) -> None:
        """Process a request for what a call has waited for."""
        led = self._shards.get(collect.partition)
        if led is None:
            self._refuse(stream_id, collect.request_id, ErrorCode.NOT_COORDINATOR)
        elif led.loader is not None:
            self._refuse(stream_id, collect.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            led.shard.collect(stream_id, collect)

    # --- lists --------------------------------------------------------------------------------------------------------

    def _list(self, stream_id: int, call: GroupCall) -> None:
        """List what is in all shards; while one is being loaded, no incomplete list is returned."""
        try:
            request = decode_request(call.api_key, call.api_version, memoryview(call.body), 0)
        except (MalformedFrame, UnsupportedVersion):
            self._refuse(stream_id, call.request_id, ErrorCode.INVALID_REQUEST)
            return
        self.listings.add((stream_id, call.request_id), partial(self._list_in_steps, stream_id, call, request))

    def _list_in_steps(self, stream_id: int, call: GroupCall, request: Request) -> Iterator[int]:
        listed = self.shards
        response = self.kind.new_list()
        is_loading = len(self._loading) > 0
        if not is_loading:
            for _ in self.kind.list_in_steps(request, [led.shard for led in listed], response):
                yield 1
        body = yield from encode_body_in_steps(response, call.api_version)
        if is_loading or not self._leads_still(listed):
            self._refuse(stream_id, call.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        behind = [] if self.kind.lists_uncommitted else [led for led in listed if led.is_behind]
        listing = _Listing(self.answers, stream_id, GroupAnswer(call.request_id, body=body), len(behind))
        for led in behind:
            led.then(Effect(listing.committed, listing.lost))

    def _leads_still(self, listed: Sequence[LedShard[S]]) -> bool:
        """Whether all of these are coordinated under the same epochs."""
        return all(self._shards.get(led.partition) is led for led in listed)


class _Listing:
    """An answer that waits for several partitions."""

    __slots__ = ("_answer", "_answers", "_behind", "_stream_id")

    def __init__(self, answers: list[StreamAnswer], stream_id: int, answer: GroupAnswer, behind: int) -> None:
        self._answers = answers
        self._stream_id = stream_id
        self._answer = answer
        self._behind = behind
        if not behind:
            answers.append((stream_id, answer))

    def committed(self) -> None:
        self._behind -= 1
        if self._behind == 0:
            self._answers.append((self._stream_id, self._answer))

    def lost(self) -> None:
        """What it says about that partition may be lost."""
        if self._behind > 0:
            self._behind = 0
            lost = GroupAnswer(self._answer.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self._answers.append((self._stream_id, lost))
