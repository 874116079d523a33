"""The group coordinator of one logstore: its partitions of `__consumer_offsets`, and their events.

One turn of the host (`barnabas_logstore.core.logstore`):

    coordinator.begin_turn(now_ms, wall_ms)
    coordinator.on_call(stream_id, call)            # answered in `take_answers`, in this turn or a later one
    coordinator.on_collect(stream_id, collect)
    coordinator.step(now_ms)                        # deadlines, a piece of loading, one batch per partition
    coordinator.take_answers()
    coordinator.take_moved()                        # for purgatory pods that watch groups
    coordinator.group_state(partition, group_id)

The methods `on_leadership`, `on_read`, `on_committed`, `on_lost` of `coordinator.coordinator_log` may be called at any
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from barnabas.channel.messages import GroupAnswer, GroupCall, GroupCollect
from barnabas.containment import CONTAINING
from barnabas.ports.compression import Decompress
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import UnsupportedVersion, decode_request, encode_body_in_steps
from barnabas.wire.errors import ErrorCode, Refused
from barnabas.wire.markers import TransactionEnd
from barnabas.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.wire.primitives import MalformedFrame
from barnabas_logstore.core.coordinator.groups.calls import GroupCalls
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.groups.delayed_group_responses import DelayedGroupResponses
from barnabas_logstore.core.coordinator.groups.group import Steps
from barnabas_logstore.core.coordinator.groups.group_partition import GroupPartition
from barnabas_logstore.core.coordinator.groups.joining import Joining, MakeMemberId
from barnabas_logstore.core.coordinator.groups.listing import list_groups
from barnabas_logstore.core.coordinator.groups.loading import Loader
from barnabas_logstore.core.coordinator.groups.member_bytes import MemberBytes
from barnabas_logstore.core.coordinator.groups.meter import GroupMeter
from barnabas_logstore.core.coordinator.groups.offset_expiry import OffsetExpiry
from barnabas_logstore.core.coordinator.groups.offsets import Offsets
from barnabas_logstore.core.coordinator.groups.pending_joins import PendingJoins
from barnabas_logstore.core.coordinator.groups.pending_offsets import PendingOffsets
from barnabas_logstore.core.coordinator.groups.rebalancing import Rebalancing
from barnabas_logstore.core.coordinator.groups.registry import Groups
from barnabas_logstore.core.coordinator.runtime.coordinator_log import CoordinatedLog
from barnabas_logstore.core.coordinator.runtime.coordinator_log_writer import (
    CoordinatorLogWriter,
    Deferred,
    StreamAnswer,
)
from barnabas_logstore.core.coordinator.runtime.listings import Listings
from barnabas_logstore.core.coordinator.runtime.timers import Clock, Timers
from barnabas_logstore.core.replica.containment import COORDINATOR_LOAD, COORDINATOR_STATE


class GroupCoordinator:
    """`make_member_id` returns unique ids with the given prefix: randomness belongs to the host."""

    def __init__(self, config: GroupConfig, decompress: Decompress, make_member_id: MakeMemberId) -> None:
        self._config = config
        self._decompress = decompress
        self._make_member_id = make_member_id
        self._clock = Clock()
        self._deadlines = Timers()
        self._partitions: dict[int, GroupPartition] = {}
        self._answers: list[StreamAnswer] = []
        self._written: dict[CoordinatorLogWriter, None] = {}
        """Partitions with something to append at the end of the turn."""
        self._delaying: dict[DelayedGroupResponses, None] = {}
        """Has calls whose responses are delayed."""
        self._loading: dict[int, GroupPartition] = {}
        self._untidy: dict[int, GroupPartition] = {}
        """Partitions with offsets that may have to be removed."""
        self._pending_joins = PendingJoins()
        self._member_bytes = MemberBytes()
        self.listings = Listings()
        self._steps = Steps()
        """Never starts over: the same epoch of a partition may be loaded twice."""
        self._expire_at_ms: int | None = None
        self.meter = GroupMeter()
        self.problems: list[str] = []
        """What could not be read of a log; the host takes it for its log file."""

    # --- the turn -----------------------------------------------------------------------------------------------------

    def begin_turn(self, now_ms: int, wall_ms: int) -> None:
        self._clock.now_ms = now_ms
        self._clock.wall_ms = wall_ms

    def step(self, now_ms: int) -> None:
        """Process deadlines, a piece of loading, and the batches of this turn."""
        self._clock.now_ms = now_ms
        for led in list(self._loading.values()):
            try:
                self._load(led)
            except Exception as error:
                with CONTAINING:
                    led.log_writer.log.state_in_doubt(COORDINATOR_LOAD, error)
        self._deadlines.act(now_ms)
        if self._expire_at_ms is None or now_ms >= self._expire_at_ms:
            self._begin_expiry(now_ms)
        for led in list(self._untidy.values()):
            try:
                if led.loader is None and led.expiry.step():
                    del self._untidy[led.partition]
            except Exception as error:
                del self._untidy[led.partition]
                with CONTAINING:
                    led.log_writer.log.state_in_doubt(COORDINATOR_STATE, error)
        if self.listings.has_work:
            self.listings.step()
        if self._delaying:
            for led in [each for each in self._partitions.values() if each.calls.delayed_responses in self._delaying]:
                try:
                    led.calls.answer_held()
                except Exception as error:
                    with CONTAINING:
                        led.log_writer.log.state_in_doubt(COORDINATOR_STATE, error)
        if self._written:
            self._append()

    def _begin_expiry(self, now_ms: int) -> None:
        if self._expire_at_ms is not None:
            for led in list(self._partitions.values()):
                try:
                    led.begin_expiry()
                    self._untidy[led.partition] = led
                except Exception as error:
                    with CONTAINING:
                        led.log_writer.log.state_in_doubt(COORDINATOR_STATE, error)
        self._expire_at_ms = now_ms + self._config.offsets_retention_check_interval_ms

    def _append(self) -> None:
        written = dict(self._written)
        self._written.clear()
        for led in [each for each in self._partitions.values() if each.log_writer in written]:
            try:
                if not led.log_writer.append():
                    self._restart(led)
            except Exception as error:
                with CONTAINING:
                    led.log_writer.log.state_in_doubt(COORDINATOR_STATE, error)

    def _restart(self, led: GroupPartition) -> None:
        """A write failed under an epoch that is still ours: the log decides what holds."""
        self.on_leadership(led.partition, led.leader_epoch, led.log_writer.log, self._clock.now_ms)

    def next_deadline_ms(self) -> int | None:
        """Return when `step` has something to do, unless an event comes first."""
        next_ms, expire_at_ms = self._deadlines.next_ms(), self._expire_at_ms
        if next_ms is None or expire_at_ms is None:
            return expire_at_ms if next_ms is None else next_ms
        return min(next_ms, expire_at_ms)

    @property
    def partitions(self) -> list[GroupPartition]:
        """The coordinated partitions; read only."""
        return list(self._partitions.values())

    @property
    def has_work(self) -> bool:
        """Whether a `step` would make progress now."""
        if self.listings.has_work:
            return True
        if not (self._loading or self._untidy):
            return False
        return any(each.loader is not None and each.loader.has_data for each in self._loading.values()) or any(
            each.is_tidying for each in self._untidy.values()
        )

    def take_answers(self) -> list[tuple[int, GroupAnswer]]:
        """Return the answers by stream, in order."""
        if not self._answers:
            return []
        answers = self._answers[:]
        self._answers.clear()
        return answers

    # --- the coordinator's logs ---------------------------------------------------------------------------------------

    def on_leadership(self, partition: int, leader_epoch: int, log: CoordinatedLog, now_ms: int) -> None:
        self._clock.now_ms = now_ms
        self._steps.advance_all()
        before = self._partitions.get(partition)
        if before is not None:
            before.lose()
        self._untidy.pop(partition, None)
        led = self._open(partition, leader_epoch, log)
        self._partitions[partition] = led
        self._loading[partition] = led
        if before is not None and before.expiry.deleted_topics:
            led.expiry.delete_topics(before.expiry.deleted_topics)
            self._untidy[partition] = led
        self._load(led)

    def _open(self, partition: int, leader_epoch: int, log: CoordinatedLog) -> GroupPartition:
        """Return a partition of which nothing has been read yet."""
        config, clock, deadlines = self._config, self._clock, self._deadlines
        groups = Groups(self._steps)
        log_writer = CoordinatorLogWriter(log, leader_epoch, self._answers, self._written)
        pending = PendingOffsets(groups)
        loader = Loader(groups, pending, self._decompress, log.end_offset(), clock.wall_ms)
        rebalancing = Rebalancing(
            config, log_writer, deadlines, clock, self.meter, self._pending_joins, self._member_bytes
        )
        offsets = Offsets(config, pending, log_writer, clock, self.meter)
        joining = Joining(config, groups, rebalancing, log_writer, deadlines, clock, self._make_member_id)
        delayed_responses = DelayedGroupResponses(config.hold_ms, groups, deadlines, clock, self._delaying)
        calls = GroupCalls(groups, joining, rebalancing, offsets, delayed_responses, log_writer, clock)
        expiry = OffsetExpiry(groups, log_writer, offsets, calls.remove)
        return GroupPartition(partition, log_writer, groups, loader, rebalancing, calls, expiry, config.max_size)

    def on_read(self, partition: int, leader_epoch: int, data: memoryview, next_offset: int, now_ms: int) -> None:
        self._clock.now_ms = now_ms
        led = self._loading.get(partition)
        if led is not None and led.leader_epoch == leader_epoch and led.loader is not None:
            led.loader.feed(data, next_offset)
            self._load(led)

    def _load(self, led: GroupPartition) -> None:
        try:
            is_loaded = led.load()
        except Exception:
            # What it has read is in doubt: it is read from the beginning, by another one.
            del self._loading[led.partition]
            raise
        if is_loaded:
            del self._loading[led.partition]
            if led.unreadable_records:
                self.problems.append(
                    f"records of __consumer_offsets-{led.partition} that can't be read: {led.unreadable_records}; "
                    "the offsets and groups in them are not known"
                )

    def on_committed(self, partition: int, leader_epoch: int, high_watermark: int, now_ms: int) -> None:
        self._clock.now_ms = now_ms
        led = self._partitions.get(partition)
        if led is not None and led.leader_epoch == leader_epoch:
            led.log_writer.committed(high_watermark)

    def on_lost(self, partition: int, leader_epoch: int, now_ms: int) -> None:
        self._clock.now_ms = now_ms
        self._steps.advance_all()
        led = self._partitions.get(partition)
        if led is not None and led.leader_epoch == leader_epoch:
            del self._partitions[partition]
            self._loading.pop(partition, None)
            self._untidy.pop(partition, None)
            led.lose()

    def end_transaction(self, partition: int, ended: TransactionEnd) -> int | Refused:
        """Append a transaction's marker, and commit or drop the offsets that its producer has pending in that partition
        of `__consumer_offsets`. Return the high watermark that commits it. NOT_LEADER_OR_FOLLOWER: not coordinated
        here, or not loaded yet.
        """
        led = self._partitions.get(partition)
        if led is None or led.loader is not None:
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not led.log_writer.flush():
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            return led.calls.end_transaction(ended)
        except Exception as error:
            with CONTAINING:
                led.log_writer.log.state_in_doubt(COORDINATOR_STATE, error)
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # --- calls --------------------------------------------------------------------------------------------------------

    def on_call(self, stream_id: int, call: GroupCall) -> None:
        if call.api_key == ApiKey.LIST_GROUPS:
            self._list(stream_id, call)
            return
        led = self._partitions.get(call.partition)
        if led is None:
            self._answers.append((stream_id, GroupAnswer(call.request_id, ErrorCode.NOT_COORDINATOR)))
        else:
            led.call(stream_id, call)

    def on_collect(self, stream_id: int, collect: GroupCollect) -> None:
        led = self._partitions.get(collect.partition)
        if led is None:
            self._answers.append((stream_id, GroupAnswer(collect.request_id, ErrorCode.NOT_COORDINATOR)))
        else:
            led.collect(stream_id, collect)

    def _list(self, stream_id: int, call: GroupCall) -> None:
        """List the groups of all partitions, when they have committed what the answer contains; while one is being
        loaded, no incomplete list is returned.
        """
        try:
            request = decode_request(call.api_key, call.api_version, memoryview(call.body), 0)
        except (MalformedFrame, UnsupportedVersion):
            self._answers.append((stream_id, GroupAnswer(call.request_id, ErrorCode.INVALID_REQUEST)))
            return
        assert isinstance(request, ListGroupsRequest)
        self.listings.add((stream_id, call.request_id), partial(self._list_in_steps, stream_id, call, request))

    def _leads_still(self, partitions: list[GroupPartition]) -> bool:
        """Whether all of these are coordinated under the same epochs."""
        return all(self._partitions.get(led.partition) is led for led in partitions)

    def _list_in_steps(self, stream_id: int, call: GroupCall, request: ListGroupsRequest) -> Iterator[int]:
        partitions = list(self._partitions.values())
        response = ListGroupsResponse()
        is_loading = len(self._loading) > 0
        if not is_loading:
            groups = [group for led in partitions for group in led.groups]
            for listed in list_groups(request, groups):
                if listed is not None:
                    response.groups.append(listed)
                yield 1
            del groups
        body = yield from encode_body_in_steps(response, call.api_version)
        if is_loading or not self._leads_still(partitions):
            self._answers.append((stream_id, GroupAnswer(call.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)))
            return
        behind = [led.log_writer for led in partitions if led.log_writer.is_behind]
        listing = _Listing(self._answers, stream_id, GroupAnswer(call.request_id, body=body), len(behind))
        for log_writer in behind:
            log_writer.defer(Deferred(listing.committed, listing.lost))

    def topics_deleted(self, topics: Iterable[str]) -> None:
        """These topics are deleted from the cluster, and with them their committed offsets."""
        names = list(topics)
        for led in list(self._partitions.values()):
            try:
                led.expiry.delete_topics(names)
                self._untidy[led.partition] = led
            except Exception as error:
                with CONTAINING:
                    led.log_writer.log.state_in_doubt(COORDINATOR_STATE, error)

    def log_of(self, partition: int) -> CoordinatedLog | None:
        """Return the log of a coordinated partition."""
        led = self._partitions.get(partition)
        return None if led is None else led.log_writer.log

    # --- steps of groups ----------------------------------------------------------------------------------------------

    def take_moved(self) -> dict[str, None] | None:
        """Return the groups whose `group_state` may have changed since the last call; None: any."""
        return self._steps.take_moved()

    def group_state(self, partition: int, group_id: str) -> tuple[int, int]:
        """Return (coordinator epoch, or -1 if this logstore does not coordinate; step), for watches."""
        led = self._partitions.get(partition)
        return (-1, 0) if led is None else (led.leader_epoch, led.groups.step_of(group_id))


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
