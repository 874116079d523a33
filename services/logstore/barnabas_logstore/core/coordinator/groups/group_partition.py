"""One partition of `__consumer_offsets` that this logstore leads: it is loaded, then serves its groups."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from barnabas.channel.messages import GroupAnswer, GroupCall, GroupCollect
from barnabas.ports.compression import Decompress
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import UnsupportedVersion, decode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import MalformedFrame
from barnabas_logstore.core.coordinator.coordinator_log import CoordinatedLog
from barnabas_logstore.core.coordinator.groups.calls import GroupCalls, heartbeat_answer
from barnabas_logstore.core.coordinator.groups.clock import Clock
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.groups.coordinator_log_writer import CoordinatorLogWriter, StreamAnswer
from barnabas_logstore.core.coordinator.groups.deadlines import Deadlines
from barnabas_logstore.core.coordinator.groups.delayed_group_responses import DelayedGroupResponses
from barnabas_logstore.core.coordinator.groups.group import GroupState, Steps
from barnabas_logstore.core.coordinator.groups.joining import Joining, MakeMemberId
from barnabas_logstore.core.coordinator.groups.loading import Loader
from barnabas_logstore.core.coordinator.groups.meter import GroupMeter
from barnabas_logstore.core.coordinator.groups.offsets import Offsets
from barnabas_logstore.core.coordinator.groups.rebalancing import Rebalancing
from barnabas_logstore.core.coordinator.groups.registry import Groups

_OFFSETS_PER_PIECE: Final = 500
"""Looked at in one step, or those of one group."""
_GROUPS_PER_PIECE: Final = 500


class GroupPartition:
    """Everything of one leader epoch; under the next one all of it is made anew from the log."""

    def __init__(
        self,
        config: GroupConfig,
        partition: int,
        leader_epoch: int,
        log: CoordinatedLog,
        decompress: Decompress,
        make_member_id: MakeMemberId,
        clock: Clock,
        deadlines: Deadlines,
        answers: list[StreamAnswer],
        written: dict[CoordinatorLogWriter, None],
        holding: dict[DelayedGroupResponses, None],
        steps: Steps,
        meter: GroupMeter,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.log = log
        self.groups = Groups(steps)
        self.journal = CoordinatorLogWriter(log, leader_epoch, answers, written)
        self.loader: Loader | None = Loader(self.groups, decompress, log.end_offset(), clock.wall_ms)
        self._config = config
        self._answers = answers
        self._rebalancing = Rebalancing(config, self.journal, deadlines, clock, meter)
        self._offsets = Offsets(config, self.journal, clock, meter)
        joining = Joining(config, self.groups, self._rebalancing, self.journal, deadlines, clock, make_member_id)
        self.holding = DelayedGroupResponses(config.hold_ms, self.groups, deadlines, clock, holding)
        self._calls = GroupCalls(
            leader_epoch,
            self.groups,
            joining,
            self._rebalancing,
            self._offsets,
            self.holding,
            self.journal,
            clock,
            answers,
        )
        self._to_expire: deque[str] = deque()
        self._to_clean: deque[str] | None = None
        """Groups that may have offsets of `deleted_topics`; None: all may."""
        self.deleted_topics: dict[str, None] = {}
        self.unreadable_records = 0
        """Of the log, as it was when it was read: nothing is known of what they say."""

    # --- loading, and the end -----------------------------------------------------------------------------------------

    def load(self) -> bool:
        """A piece of the log, or a request for more of it; whether it has all been read."""
        loader = self.loader
        assert loader is not None
        loader.step()
        if loader.is_done:
            self.unreadable_records = loader.unreadable_records
            self._loaded()
            return True
        if not loader.has_data and not loader.is_reading:
            loader.is_reading = True
            self.log.read(self.leader_epoch, loader.next_offset)
        return False

    def _loaded(self) -> None:
        """The log has been read: everybody in it has a whole session to be heard of, and calls are served."""
        self.loader = None
        for group in list(self.groups):
            for member in group.members.values():
                self._rebalancing.begin_session(group, member)
            if len(group.members) > self._config.max_size:
                # The limit has become smaller; members may still commit what they have read.
                self._rebalancing.prepare(group)

    def lose(self) -> None:
        """The epoch is over here, or the state is: whoever waits for the log is told, and nothing happens any more."""
        self.journal.lose()
        self._calls.lose_held()
        for group in self.groups:
            self._rebalancing.stop(group)

    # --- what is due --------------------------------------------------------------------------------------------------

    def begin_expiry(self) -> None:
        """Offsets that nobody has wanted for long are to go, and groups of which nothing is left then."""
        if self.loader is None and not self._to_expire:
            self._to_expire.extend(group.group_id for group in self.groups)

    def delete_topics(self, topics: Iterable[str]) -> None:
        """Offsets of topics that are gone are to go with them; when that can be written."""
        self.deleted_topics.update(dict.fromkeys(topics))
        self._to_clean = None

    @property
    def is_tidying(self) -> bool:
        """There is more to look at, and nothing to wait for."""
        return self.loader is None and (bool(self._to_expire) or bool(self._to_clean))

    def tidy(self) -> bool:
        """A piece of both; whether nothing is left to do."""
        if self.journal.check():
            # What is to go is found the next time as well.
            self._to_expire.clear()
            self._to_clean = None
            return not self.deleted_topics
        if self.deleted_topics and self._to_clean is None:
            self._to_clean = deque(group.group_id for group in self.groups)
        looked_at = 0
        for _ in range(_GROUPS_PER_PIECE):
            if looked_at >= _OFFSETS_PER_PIECE:
                break
            if self._to_clean:
                looked_at += self._clean(self._to_clean.popleft())
            elif self._to_expire:
                looked_at += self._expire(self._to_expire.popleft())
        if not self._to_clean:
            self.deleted_topics.clear()
        return not self._to_expire and not self._to_clean

    def _clean(self, group_id: str) -> int:
        group = self.groups.get(group_id)
        if group is None:
            return 0
        looked_at = 0
        for topic in [topic for topic in group.offsets if topic in self.deleted_topics]:
            looked_at += len(group.offsets[topic].partitions)
            self._offsets.delete_topic(group, topic)
        self.groups.remove_if_unused(group)
        return looked_at

    def _expire(self, group_id: str) -> int:
        group = self.groups.get(group_id)
        if group is None:
            return 0
        looked_at = self._offsets.expire(group)
        if group.state is GroupState.EMPTY and not group.offsets and not group.pending_joins:
            self._calls.remove(group)
        return looked_at

    # --- calls --------------------------------------------------------------------------------------------------------

    def call(self, stream_id: int, call: GroupCall) -> None:
        """Answer now, or when what the answer rests on is committed."""
        api_key = call.api_key
        served = self._calls.by_api_key.get(api_key)
        if served is None or not 0 <= call.api_version <= served.version_max:
            self._refuse(stream_id, call.request_id, ErrorCode.INVALID_REQUEST)
            return
        if self.loader is not None:
            if api_key == ApiKey.HEARTBEAT:
                # Its session has not begun: nothing is wrong with a member that is early.
                self._answers.append((stream_id, heartbeat_answer(call, ErrorCode.NONE)))
            else:
                self._refuse(stream_id, call.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        try:
            request = decode_request(api_key, call.api_version, memoryview(call.body), 0)
        except (MalformedFrame, UnsupportedVersion):
            self._refuse(stream_id, call.request_id, ErrorCode.INVALID_REQUEST)
            return
        served.serve(stream_id, call, request)

    def answer_held(self) -> None:
        """Calls whose moment has come."""
        self._calls.answer_held()

    def collect(self, stream_id: int, collect: GroupCollect) -> None:
        """What a member has waited for; or that it still has to."""
        if self.loader is not None:
            self._refuse(stream_id, collect.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        elif collect.api_key not in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP) or (
            not 0 <= collect.api_version <= self._calls.by_api_key[collect.api_key].version_max
        ):
            self._refuse(stream_id, collect.request_id, ErrorCode.INVALID_REQUEST)
        else:
            self._calls.collect(stream_id, collect)

    def _refuse(self, stream_id: int, request_id: int, error: ErrorCode) -> None:
        self._answers.append((stream_id, GroupAnswer(request_id, error)))
