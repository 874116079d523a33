"""One partition of `__consumer_offsets`: its groups, once its log has been read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from barnabas.channel.messages import GroupAnswer, GroupCollect
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.coordinator.groups.calls import GroupCalls
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.groups.delayed_group_responses import DelayedGroupResponses
from barnabas_logstore.core.coordinator.groups.joining import Joining, MakeMemberId
from barnabas_logstore.core.coordinator.groups.member_bytes import MemberBytes
from barnabas_logstore.core.coordinator.groups.meter import GroupMeter
from barnabas_logstore.core.coordinator.groups.offset_expiry import OffsetExpiry
from barnabas_logstore.core.coordinator.groups.offsets import Offsets
from barnabas_logstore.core.coordinator.groups.pending_joins import PendingJoins
from barnabas_logstore.core.coordinator.groups.rebalancing import Rebalancing
from barnabas_logstore.core.coordinator.groups.store import GroupStore
from barnabas_logstore.core.coordinator.groups.stored_groups import restore
from barnabas_logstore.core.coordinator.runtime.shard import Result, Shard, do_all
from barnabas_logstore.core.coordinator.runtime.timers import Clock, Timers


class GroupParts(NamedTuple):
    """What the shards of one logstore share."""

    config: GroupConfig
    clock: Clock
    timers: Timers
    meter: GroupMeter
    pending_joins: PendingJoins
    member_bytes: MemberBytes
    make_member_id: MakeMemberId
    held: dict[Shard, None]


class GroupShard(Shard):
    def __init__(self, partition: int, leader_epoch: int, store: GroupStore, result: Result, parts: GroupParts) -> None:
        super().__init__(partition, leader_epoch, store, result)
        config, clock, timers, groups = parts.config, parts.clock, parts.timers, store.groups
        self.groups = groups
        self._group_size_max = config.max_size
        self._rebalancing = Rebalancing(
            config, result, timers, clock, parts.meter, parts.pending_joins, parts.member_bytes
        )
        offsets = Offsets(config, store.pending, result, clock, parts.meter)
        joining = Joining(config, groups, self._rebalancing, result, timers, clock, parts.make_member_id)
        held = DelayedGroupResponses(config.hold_ms, groups, timers, clock, self, parts.held)
        self._calls = GroupCalls(groups, joining, self._rebalancing, offsets, held, result, clock, leader_epoch)
        self.by_api_key = self._calls.by_api_key
        self.expiry = OffsetExpiry(groups, result, offsets, self._calls.remove)

    # --- loading, and the end -----------------------------------------------------------------------------------------

    def loaded(self) -> Iterator[None]:
        """Every member's session begins now."""
        groups = list(self.groups)
        for group in groups:
            if group.stored is not None:
                restore(group)
            yield
        for group in groups:
            for member in group.members.values():
                self._rebalancing.begin_session(group, member)
            if len(group.members) > self._group_size_max:
                # The limit may have been lowered; members may still commit what they have read.
                self._rebalancing.prepare(group)
            yield

    def stop(self) -> None:
        stops = [partial(self._rebalancing.stop, group) for group in self.groups]
        do_all([self._calls.lose_held, *stops])

    # --- what is due --------------------------------------------------------------------------------------------------

    @property
    def has_piece(self) -> bool:
        return self.expiry.has_work

    def step_piece(self) -> bool:
        return self.expiry.step()

    def step_held(self) -> None:
        self._calls.answer_held()

    # --- calls --------------------------------------------------------------------------------------------------------

    def collect(self, stream_id: int, collect: GroupCollect) -> None:
        is_join_or_sync = collect.api_key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
        if is_join_or_sync and 0 <= collect.api_version <= self.by_api_key[collect.api_key].version_max:
            self._calls.collect(stream_id, collect)
        else:
            self.result.answer_now(stream_id, GroupAnswer(collect.request_id, ErrorCode.INVALID_REQUEST))
