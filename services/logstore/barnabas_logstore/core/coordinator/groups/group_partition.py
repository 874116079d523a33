"""One partition of `__consumer_offsets` that this logstore leads: it is loaded, then serves its groups."""

from __future__ import annotations

from functools import partial

from barnabas.channel.messages import GroupAnswer, GroupCall, GroupCollect
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import UnsupportedVersion, decode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import MalformedFrame
from barnabas_logstore.core.coordinator.groups.calls import GroupCalls, heartbeat_answer
from barnabas_logstore.core.coordinator.groups.loading import Loader
from barnabas_logstore.core.coordinator.groups.offset_expiry import OffsetExpiry
from barnabas_logstore.core.coordinator.groups.rebalancing import Rebalancing
from barnabas_logstore.core.coordinator.groups.registry import Groups
from barnabas_logstore.core.coordinator.runtime.coordinator_log_writer import CoordinatorLogWriter, do_all


class GroupPartition:
    """The state of one leader epoch; under the next one all of it is loaded from the log again."""

    def __init__(
        self,
        partition: int,
        log_writer: CoordinatorLogWriter,
        groups: Groups,
        loader: Loader,
        rebalancing: Rebalancing,
        calls: GroupCalls,
        expiry: OffsetExpiry,
        group_size_max: int,
    ) -> None:
        self.partition = partition
        self.leader_epoch = log_writer.leader_epoch
        self.log_writer = log_writer
        self.groups = groups
        self.loader: Loader | None = loader
        self.calls = calls
        self.expiry = expiry
        self._rebalancing = rebalancing
        self._group_size_max = group_size_max
        self._answers = log_writer.answers
        self.unreadable_records = 0
        """Unreadable records of the log: their content is unknown."""

    # --- loading, and the end -----------------------------------------------------------------------------------------

    def load(self) -> bool:
        """Process a piece of the log, or request more of it. Return whether it has been read completely."""
        loader = self.loader
        assert loader is not None
        if loader.advance(self.log_writer.log, self.leader_epoch):
            self.unreadable_records = loader.unreadable_records
            self._loaded()
            return True
        return False

    def _loaded(self) -> None:
        """The log has been read: every member's session begins now, and calls are served."""
        self.loader = None
        for group in list(self.groups):
            for member in group.members.values():
                self._rebalancing.begin_session(group, member)
            if len(group.members) > self._group_size_max:
                # The limit may have been lowered; members may still commit what they have read.
                self._rebalancing.prepare(group)

    def lose(self) -> None:
        """The epoch is over here, or the state is lost: calls that wait for the log are answered, and nothing happens
        any more.
        """
        stops = [partial(self._rebalancing.stop, group) for group in self.groups]
        do_all([self.log_writer.lose, self.calls.lose_held, *stops])

    # --- what is due --------------------------------------------------------------------------------------------------

    def begin_expiry(self) -> None:
        """Look for offsets that have not been wanted for long, once the log has been read."""
        if self.loader is None:
            self.expiry.begin()

    @property
    def is_tidying(self) -> bool:
        """Whether there is more to check, and nothing to wait for."""
        return self.loader is None and self.expiry.has_work

    # --- calls --------------------------------------------------------------------------------------------------------

    def call(self, stream_id: int, call: GroupCall) -> None:
        """Answer now, or when what the answer depends on is committed."""
        api_key = call.api_key
        served = self.calls.by_api_key.get(api_key)
        if served is None or not 0 <= call.api_version <= served.version_max:
            self._refuse(stream_id, call.request_id, ErrorCode.INVALID_REQUEST)
            return
        if self.loader is not None:
            if api_key == ApiKey.HEARTBEAT:
                # Sessions have not begun: a member that is early makes no error.
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

    def collect(self, stream_id: int, collect: GroupCollect) -> None:
        """Return what a member has waited for, or that it still has to wait."""
        if self.loader is not None:
            self._refuse(stream_id, collect.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        elif collect.api_key not in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP) or (
            not 0 <= collect.api_version <= self.calls.by_api_key[collect.api_key].version_max
        ):
            self._refuse(stream_id, collect.request_id, ErrorCode.INVALID_REQUEST)
        else:
            self.calls.collect(stream_id, collect)

    def _refuse(self, stream_id: int, request_id: int, error: ErrorCode) -> None:
        self._answers.append((stream_id, GroupAnswer(request_id, error)))
