"""The coordinator of groups of one logstore: its partitions of `__consumer_offsets`, and the doors to them.

One turn of whoever opens the doors (`services.logstore.core.logstore`):

    coordinator.begin_turn(now_ms, wall_ms)
    coordinator.on_call(stream_id, call)            # answered in `take_answers`, in this turn or a later one
    coordinator.on_collect(stream_id, collect)
    coordinator.step(now_ms)                        # deadlines, a piece of loading, one batch per partition
    coordinator.take_answers()
    coordinator.group_state(partition, group_id)    # for purgatory pods that watch a group

and `on_leadership`, `on_read`, `on_committed`, `on_lost` as in `services.logstore.core.coordinator.doors`.
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
from services.logstore.core.coordinator.doors import CoordinatedLog
from services.logstore.core.coordinator.groups.config import GroupConfig
from services.logstore.core.coordinator.groups.group_partition import AnswerTo, GroupPartition
from services.logstore.core.coordinator.groups.listing import list_groups
from services.logstore.core.coordinator.groups.rebalancing import MakeMemberId


class GroupCoordinator:
    """`make_member_id` gives ids never given before: randomness is the host's."""

    def __init__(self, config: GroupConfig, decompress: Decompress, make_member_id: MakeMemberId) -> None:
        self._config = config
        self._decompress = decompress
        self._make_member_id = make_member_id
        self._partitions: dict[int, GroupPartition] = {}
        self._answers: list[tuple[int, GroupAnswer]] = []
        self._now_ms = 0
        self._wall_ms = 0
        self._expire_at_ms: int | None = None

    # --- the turn -----------------------------------------------------------------------------------------------------

    def begin_turn(self, now_ms: int, wall_ms: int) -> None:
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        for partition in self._partitions.values():
            partition.begin_turn(now_ms, wall_ms)

    def step(self, now_ms: int) -> None:
        """What time has brought, a piece of loading, and the batches of this turn."""
        if self._expire_at_ms is None:
            self._expire_at_ms = now_ms + self._config.offsets_retention_check_interval_ms
        expires = now_ms >= self._expire_at_ms
        if expires:
            self._expire_at_ms = now_ms + self._config.offsets_retention_check_interval_ms
        for partition in list(self._partitions.values()):
            if partition.loader is not None:
                self._load(partition)
                continue
            partition.act_on_deadlines(now_ms)
            if expires:
                partition.expire_offsets()
            if not partition.journal.append():
                self._lose(partition)

    def next_deadline_ms(self) -> int | None:
        """When `step` has something to do, whatever comes until then."""
        deadlines = [partition.next_deadline_ms() for partition in self._partitions.values()]
        return min((each for each in [*deadlines, self._expire_at_ms] if each is not None), default=None)

    @property
    def has_work(self) -> bool:
        """A log is being read, and there is more of it at hand."""
        return any(each.loader is not None and not each.loader.wants_data for each in self._partitions.values())

    def take_answers(self) -> list[tuple[int, GroupAnswer]]:
        """By stream, in the order of their making."""
        answers, self._answers = self._answers, []
        return answers

    # --- doors --------------------------------------------------------------------------------------------------------

    def on_leadership(self, partition: int, leader_epoch: int, log: CoordinatedLog, now_ms: int) -> None:
        led = GroupPartition(
            self._config, partition, leader_epoch, log, self._decompress, self._make_member_id, self._wall_ms
        )
        led.begin_turn(now_ms, self._wall_ms)
        self._partitions[partition] = led
        self._load(led)

    def on_read(self, partition: int, leader_epoch: int, data: memoryview, next_offset: int, now_ms: int) -> None:
        led = self._partitions.get(partition)
        if led is not None and led.leader_epoch == leader_epoch and led.loader is not None:
            led.loader.feed(data, next_offset)
            self._load(led)

    def _load(self, led: GroupPartition) -> None:
        loader = led.loader
        assert loader is not None
        loader.step()
        if loader.is_done:
            led.loaded()
        elif loader.wants_data:
            led.log.read(led.leader_epoch, loader.next_offset)

    def on_committed(self, partition: int, leader_epoch: int, high_watermark: int, now_ms: int) -> None:
        led = self._partitions.get(partition)
        if led is not None and led.leader_epoch == leader_epoch:
            led.journal.committed(high_watermark)

    def on_lost(self, partition: int, leader_epoch: int, now_ms: int) -> None:
        led = self._partitions.get(partition)
        if led is not None and led.leader_epoch == leader_epoch:
            del self._partitions[partition]

    def _lose(self, led: GroupPartition) -> None:
        """What was to be written is not, under an epoch that is still ours: the log says what is true."""
        self.on_leadership(led.partition, led.leader_epoch, led.log, self._now_ms)

    # --- calls --------------------------------------------------------------------------------------------------------

    def on_call(self, stream_id: int, call: GroupCall) -> None:
        if call.api_key == ApiKey.LIST_GROUPS:
            self._answers.append((stream_id, self._list(call)))
            return
        led = self._partitions.get(call.partition)
        if led is None:
            self._answers.append((stream_id, GroupAnswer(call.request_id, ErrorCode.NOT_COORDINATOR)))
        else:
            led.call(call, self._answer_to(stream_id))

    def on_collect(self, stream_id: int, collect: GroupCollect) -> None:
        led = self._partitions.get(collect.partition)
        if led is None:
            self._answers.append((stream_id, GroupAnswer(collect.request_id, ErrorCode.NOT_COORDINATOR)))
        else:
            led.collect(collect, self._answer_to(stream_id))

    def _answer_to(self, stream_id: int) -> AnswerTo:
        return lambda answer: self._answers.append((stream_id, answer))

    def _list(self, call: GroupCall) -> GroupAnswer:
        """Of all partitions; while one is being loaded nobody is told that the others are all."""
        try:
            request = decode_request(call.api_key, call.api_version, memoryview(call.body), 0)
        except (MalformedFrame, UnsupportedVersion):
            return GroupAnswer(call.request_id, ErrorCode.INVALID_REQUEST)
        assert isinstance(request, ListGroupsRequest)
        if any(each.loader is not None for each in self._partitions.values()):
            return GroupAnswer(call.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        groups: list[ListedGroup] = []
        for led in self._partitions.values():
            groups += list_groups(request, led.groups.values())
        return GroupAnswer(call.request_id, body=encode_body(ListGroupsResponse(groups=groups), call.api_version))

    def topics_deleted(self, topics: Iterable[str]) -> None:
        """These are gone from the cluster, and with them what was committed for them."""
        names = set(topics)
        for led in self._partitions.values():
            led.topics_deleted(names)

    # --- steps of groups ----------------------------------------------------------------------------------------------

    def group_state(self, partition: int, group_id: str) -> tuple[int, int]:
        """(coordinator epoch, or -1 where this logstore does not coordinate; step), for whoever watches a group."""
        led = self._partitions.get(partition)
        if led is None:
            return -1, 0
        group = led.groups.get(group_id)
        return led.leader_epoch, 0 if group is None else group.step
