"""The coordinator of groups of one logstore: its partitions of `__consumer_offsets`, and what it is told of them.

One turn of the host (`barnabas_logstore.core.logstore`):

    coordinator.begin_turn(now_ms, wall_ms)
    coordinator.on_call(stream_id, call)            # answered in `take_answers`, in this turn or a later one
    coordinator.on_collect(stream_id, collect)
    coordinator.step(now_ms)                        # deadlines, a piece of loading, one batch per partition
    coordinator.take_answers()
    coordinator.take_moved()                        # for purgatory pods that watch groups
    coordinator.group_state(partition, group_id)

and `on_leadership`, `on_read`, `on_committed`, `on_lost` as in `coordinator.coordinator_log`, at any time.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.channel.messages import GroupAnswer, GroupCall, GroupCollect
from barnabas.ports.compression import Decompress
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import UnsupportedVersion, decode_request, encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from barnabas.wire.primitives import MalformedFrame
from barnabas_logstore.core.coordinator.coordinator_log import CoordinatedLog
from barnabas_logstore.core.coordinator.groups.clock import Clock
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.groups.coordinator_log_writer import (
    CoordinatorLogWriter,
    Deferred,
    StreamAnswer,
)
from barnabas_logstore.core.coordinator.groups.deadlines import Deadlines
from barnabas_logstore.core.coordinator.groups.delayed_group_responses import DelayedGroupResponses
from barnabas_logstore.core.coordinator.groups.group import Steps
from barnabas_logstore.core.coordinator.groups.group_partition import GroupPartition
from barnabas_logstore.core.coordinator.groups.joining import MakeMemberId
from barnabas_logstore.core.coordinator.groups.listing import list_groups
from barnabas_logstore.core.coordinator.groups.meter import GroupMeter


class GroupCoordinator:
    """`make_member_id` gives ids never given before, that begin with what it is given: randomness is the host's."""

    def __init__(self, config: GroupConfig, decompress: Decompress, make_member_id: MakeMemberId) -> None:
        self._config = config
        self._decompress = decompress
        self._make_member_id = make_member_id
        self._clock = Clock()
        self._deadlines = Deadlines()
        self._partitions: dict[int, GroupPartition] = {}
        self._answers: list[StreamAnswer] = []
        self._written: dict[CoordinatorLogWriter, None] = {}
        """Has something to append at the end of the turn."""
        self._holding: dict[DelayedGroupResponses, None] = {}
        """Holds calls back."""
        self._loading: dict[int, GroupPartition] = {}
        self._untidy: dict[int, GroupPartition] = {}
        """Has offsets that may have to go."""
        self._steps = Steps()
        """Never begins anew: the same epoch of a partition may be loaded twice."""
        self._expire_at_ms: int | None = None
        self.meter = GroupMeter()
        self.problems: list[str] = []
        """What of a log could not be read; for whoever reads this host's own log to take."""

    # --- the turn -----------------------------------------------------------------------------------------------------

    def begin_turn(self, now_ms: int, wall_ms: int) -> None:
        self._clock.now_ms = now_ms
        self._clock.wall_ms = wall_ms

    def step(self, now_ms: int) -> None:
        """What time has brought, a piece of loading, and the batches of this turn."""
        self._clock.now_ms = now_ms
        for led in list(self._loading.values()):
            self._load(led)
        self._deadlines.act(now_ms)
        if self._expire_at_ms is None or now_ms >= self._expire_at_ms:
            self._begin_expiry(now_ms)
        for led in list(self._untidy.values()):
            if led.loader is None and led.tidy():
                del self._untidy[led.partition]
        if self._holding:
            for led in [each for each in self._partitions.values() if each.holding in self._holding]:
                led.answer_held()
        if self._written:
            self._append()

    def _begin_expiry(self, now_ms: int) -> None:
        if self._expire_at_ms is not None:
            for led in self._partitions.values():
                led.begin_expiry()
                self._untidy[led.partition] = led
        self._expire_at_ms = now_ms + self._config.offsets_retention_check_interval_ms

    def _append(self) -> None:
        written = dict(self._written)
        self._written.clear()
        for led in [each for each in self._partitions.values() if each.journal in written]:
            if not led.journal.append():
                # It is not written, under an epoch that is still ours: the log says what is true.
                self.on_leadership(led.partition, led.leader_epoch, led.log, self._clock.now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `step` has something to do, whatever comes until then."""
        next_ms, expire_at_ms = self._deadlines.next_ms(), self._expire_at_ms
        if next_ms is None or expire_at_ms is None:
            return expire_at_ms if next_ms is None else next_ms
        return min(next_ms, expire_at_ms)

    @property
    def partitions(self) -> list[GroupPartition]:
        """What is coordinated here; to look at."""
        return list(self._partitions.values())

    @property
    def has_work(self) -> bool:
        """A `step` would get on with what is at hand."""
        return any(each.loader is not None and each.loader.has_data for each in self._loading.values()) or any(
            each.is_tidying for each in self._untidy.values()
        )

    def take_answers(self) -> list[tuple[int, GroupAnswer]]:
        """By stream, in the order of their making."""
        answers = self._answers[:]
        self._answers.clear()
        return answers

    # --- the coordinator's logs ---------------------------------------------------------------------------------------

    def on_leadership(self, partition: int, leader_epoch: int, log: CoordinatedLog, now_ms: int) -> None:
        self._clock.now_ms = now_ms
        self._steps.take_all()
        before = self._partitions.get(partition)
        if before is not None:
            before.lose()
        self._untidy.pop(partition, None)
        led = GroupPartition(
            self._config,
            partition,
            leader_epoch,
            log,
            self._decompress,
            self._make_member_id,
            self._clock,
            self._deadlines,
            self._answers,
            self._written,
            self._holding,
            self._steps,
            self.meter,
        )
        self._partitions[partition] = led
        self._loading[partition] = led
        if before is not None and before.deleted_topics:
            led.delete_topics(before.deleted_topics)
            self._untidy[partition] = led
        self._load(led)

    def on_read(self, partition: int, leader_epoch: int, data: memoryview, next_offset: int, now_ms: int) -> None:
        self._clock.now_ms = now_ms
        led = self._loading.get(partition)
        if led is not None and led.leader_epoch == leader_epoch and led.loader is not None:
            led.loader.feed(data, next_offset)
            self._load(led)

    def _load(self, led: GroupPartition) -> None:
        if led.load():
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
            led.journal.committed(high_watermark)

    def on_lost(self, partition: int, leader_epoch: int, now_ms: int) -> None:
        self._clock.now_ms = now_ms
        self._steps.take_all()
        led = self._partitions.get(partition)
        if led is not None and led.leader_epoch == leader_epoch:
            led.lose()
            del self._partitions[partition]
            self._loading.pop(partition, None)
            self._untidy.pop(partition, None)

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
        """Of all partitions, when they have committed what is told; while one is being loaded nobody is told that the
        others are all.
        """
        try:
            request = decode_request(call.api_key, call.api_version, memoryview(call.body), 0)
        except (MalformedFrame, UnsupportedVersion):
            self._answers.append((stream_id, GroupAnswer(call.request_id, ErrorCode.INVALID_REQUEST)))
            return
        assert isinstance(request, ListGroupsRequest)
        if self._loading:
            self._answers.append((stream_id, GroupAnswer(call.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)))
            return
        groups: list[ListedGroup] = []
        for led in self._partitions.values():
            groups += list_groups(request, led.groups)
        body = encode_body(ListGroupsResponse(groups=groups), call.api_version)
        behind = [led.journal for led in self._partitions.values() if led.journal.is_behind]
        listing = _Listing(self._answers, stream_id, GroupAnswer(call.request_id, body=body), len(behind))
        for journal in behind:
            journal.defer(Deferred(listing.committed, listing.lost))

    def topics_deleted(self, topics: Iterable[str]) -> None:
        """These are gone from the cluster, and with them what was committed for them."""
        names = list(topics)
        for led in self._partitions.values():
            led.delete_topics(names)
            self._untidy[led.partition] = led

    # --- steps of groups ----------------------------------------------------------------------------------------------

    def take_moved(self) -> dict[str, None] | None:
        """The groups whose `group_state` may be another one than when this was asked last; None: any."""
        return self._steps.take_moved()

    def group_state(self, partition: int, group_id: str) -> tuple[int, int]:
        """(coordinator epoch, or -1 where this logstore does not coordinate; step), for whoever watches a group."""
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
        """What it tells of that partition may not last."""
        if self._behind > 0:
            self._behind = 0
            lost = GroupAnswer(self._answer.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self._answers.append((self._stream_id, lost))
