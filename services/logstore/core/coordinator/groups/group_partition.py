"""One partition of `__consumer_offsets` that this logstore leads: it is loaded, then serves its groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.channel.messages import GroupAnswer, GroupCall, GroupCollect, GroupWait
from barnabas.ports.compression import Decompress
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import UnsupportedVersion, decode_request, encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.wire.primitives import MalformedFrame
from services.logstore.core.coordinator.doors import CoordinatedLog
from services.logstore.core.coordinator.groups.config import GroupConfig
from services.logstore.core.coordinator.groups.deadlines import Deadlines
from services.logstore.core.coordinator.groups.fetching import SEVERAL_GROUPS_FROM, fetch_offsets
from services.logstore.core.coordinator.groups.group import Group, GroupState
from services.logstore.core.coordinator.groups.journal import Journal
from services.logstore.core.coordinator.groups.listing import describe_group
from services.logstore.core.coordinator.groups.loading import Loader
from services.logstore.core.coordinator.groups.member import Member
from services.logstore.core.coordinator.groups.offsets import Offsets
from services.logstore.core.coordinator.groups.rebalancing import (
    Deadline,
    DeadlineKey,
    MakeMemberId,
    Rebalancing,
    told_error,
)
from services.logstore.core.coordinator.groups.records import GroupMetadataKey, group_record

_SEVERAL_MEMBERS_FROM: Final = 3
_WAIT_MS_MAX: Final = 60_000
"""After so long a waiting member's gateway asks again, should a word of purgatory have been lost."""

AnswerTo = Callable[[GroupAnswer], None]


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
        wall_ms: int,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.groups: dict[str, Group] = {}
        self.log = log
        self.journal = Journal(log, leader_epoch)
        self._deadlines: Deadlines[DeadlineKey] = Deadlines()
        self._offsets = Offsets(config, self.groups, self.journal)
        self._rebalancing = Rebalancing(config, self.groups, self.journal, self._deadlines, make_member_id)
        self._wall_ms = wall_ms
        self.loader: Loader | None = Loader(self.groups, self._offsets, decompress, log.end_offset(), wall_ms)
        self._answers: dict[type[Request], Callable[[GroupCall, Request, AnswerTo], None]] = {
            JoinGroupRequest: self._join,
            SyncGroupRequest: self._sync,
            HeartbeatRequest: self._heartbeat,
            LeaveGroupRequest: self._leave,
            OffsetCommitRequest: self._commit,
            OffsetFetchRequest: self._fetch,
            OffsetDeleteRequest: self._delete_offsets,
            DescribeGroupsRequest: self._describe,
            DeleteGroupsRequest: self._delete_groups,
        }

    # --- time and loading ---------------------------------------------------------------------------------------------

    def begin_turn(self, now_ms: int, wall_ms: int) -> None:
        self._wall_ms = wall_ms
        self._rebalancing.begin_turn(now_ms, wall_ms)

    def loaded(self) -> None:
        """The log has been read: everybody in it has a whole session to be heard of, and calls are served."""
        self.loader = None
        for group in self.groups.values():
            for member in group.members.values():
                self._rebalancing.lives(group, member)

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def act_on_deadlines(self, now_ms: int) -> None:
        while (due := self._deadlines.pop_due(now_ms)) is not None:
            kind, group_id, member_id = due
            match kind:
                case Deadline.JOIN:
                    self._rebalancing.join_deadline(group_id)
                case Deadline.SYNC:
                    self._rebalancing.sync_deadline(group_id)
                case Deadline.SESSION:
                    self._rebalancing.session_deadline(group_id, member_id)

    def expire_offsets(self) -> None:
        """Offsets that nobody has wanted for long, and groups of which nothing is left then."""
        if self.loader is not None or self.journal.check():
            return
        for group in list(self.groups.values()):
            nothing_is_left = self._offsets.expire(group, self._wall_ms)
            if nothing_is_left and group.state is GroupState.EMPTY and not group.pending_joins:
                self._remove(group)

    def topics_deleted(self, topics: set[str]) -> None:
        if self.loader is None and not self.journal.check():
            self._offsets.topics_deleted(topics, self._wall_ms)

    def _remove(self, group: Group) -> None:
        self.journal.write(group_record(GroupMetadataKey(group.group_id), None, self._wall_ms))
        del self.groups[group.group_id]

    # --- calls --------------------------------------------------------------------------------------------------------

    def call(self, call: GroupCall, answer_to: AnswerTo) -> None:
        """Answer now, or when what the answer rests on is committed."""
        if self.loader is not None:
            answer_to(GroupAnswer(call.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        try:
            request = decode_request(call.api_key, call.api_version, memoryview(call.body), 0)
        except (MalformedFrame, UnsupportedVersion):
            answer_to(GroupAnswer(call.request_id, ErrorCode.INVALID_REQUEST))
            return
        serve = self._answers.get(type(request))
        if serve is None:
            answer_to(GroupAnswer(call.request_id, ErrorCode.INVALID_REQUEST))
        else:
            serve(call, request, answer_to)

    def collect(self, collect: GroupCollect, answer_to: AnswerTo) -> None:
        """What a member has waited for; or that it still has to."""
        if collect.coordinator_epoch != self.leader_epoch:
            answer_to(GroupAnswer(collect.request_id, ErrorCode.NOT_COORDINATOR))
            return
        group = self.groups.get(collect.group_id)
        member = None if group is None else group.members.get(collect.member_id)
        joins = collect.api_key == ApiKey.JOIN_GROUP
        response: JoinGroupResponse | SyncGroupResponse | None
        if group is None or member is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID if group is None else group.error_of_absent(collect.member_id)
            response = (
                JoinGroupResponse(error_code=error, member_id=collect.member_id, protocol_name="")
                if joins
                else SyncGroupResponse(error_code=error)
            )
        else:
            response = member.joined if joins else member.synced
            if member.awaits_join if joins else member.awaits_sync:
                answer_to(self._wait(collect.request_id, group, member))
                return
            if response is None:
                # It waits for nothing any more: another request of its own has taken the answer.
                response = (
                    JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
                    if joins
                    else SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
                )
        self._answer_when_committed(collect.request_id, response, collect.api_version, answer_to)

    def _wait(self, request_id: int, group: Group, member: Member) -> GroupAnswer:
        generation_id = group.generation_id + member.awaits_join
        wait = GroupWait(
            self.leader_epoch, group.group_id, member.member_id, generation_id, group.step + 1, _WAIT_MS_MAX
        )
        return GroupAnswer(request_id, wait=wait)

    def _answer_when_committed(
        self, request_id: int, response: Response, api_version: int, answer_to: AnswerTo
    ) -> None:
        body = encode_body(response, api_version)
        self.journal.then(lambda: answer_to(GroupAnswer(request_id, body=body)))

    # --- one method per API key ---------------------------------------------------------------------------------------

    def _join(self, call: GroupCall, request: Request, answer_to: AnswerTo) -> None:
        assert isinstance(request, JoinGroupRequest)
        outcome = self._rebalancing.join(request, call.api_version, call.client_id, call.client_host)
        response = outcome.joined if isinstance(outcome, Member) else outcome
        if response is not None:
            self._answer_when_committed(call.request_id, response, call.api_version, answer_to)
        elif isinstance(outcome, Member):
            answer_to(self._wait(call.request_id, self.groups[request.group_id], outcome))

    def _sync(self, call: GroupCall, request: Request, answer_to: AnswerTo) -> None:
        assert isinstance(request, SyncGroupRequest)
        outcome = self._rebalancing.sync(request)
        if not isinstance(outcome, Member):
            self._answer_when_committed(call.request_id, outcome, call.api_version, answer_to)
            return
        group, member = self.groups[request.group_id], outcome
        if group.leader_id == member.member_id:
            # What it waits for is only the log: that is no matter for purgatory.
            self.journal.then(lambda: self._answer_sync(call, group, member, answer_to))
        else:
            self._answer_sync(call, group, member, answer_to)

    def _answer_sync(self, call: GroupCall, group: Group, member: Member, answer_to: AnswerTo) -> None:
        if member.awaits_sync:
            answer_to(self._wait(call.request_id, group, member))
        elif member.synced is not None:
            answer_to(GroupAnswer(call.request_id, body=encode_body(member.synced, call.api_version)))
        else:
            refused = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            answer_to(GroupAnswer(call.request_id, body=encode_body(refused, call.api_version)))

    def _heartbeat(self, call: GroupCall, request: Request, answer_to: AnswerTo) -> None:
        assert isinstance(request, HeartbeatRequest)
        response = HeartbeatResponse(error_code=self._rebalancing.heartbeat(request))
        answer_to(GroupAnswer(call.request_id, body=encode_body(response, call.api_version)))

    def _leave(self, call: GroupCall, request: Request, answer_to: AnswerTo) -> None:
        assert isinstance(request, LeaveGroupRequest)
        if not request.group_id:
            response = LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        elif call.api_version >= _SEVERAL_MEMBERS_FROM:
            response = LeaveGroupResponse(members=self._rebalancing.leave(request.group_id, request.members))
        else:
            (left,) = self._rebalancing.leave(request.group_id, [MemberIdentity(request.member_id)])
            response = LeaveGroupResponse(error_code=left.error_code)
        self._answer_when_committed(call.request_id, response, call.api_version, answer_to)

    def _commit(self, call: GroupCall, request: Request, answer_to: AnswerTo) -> None:
        assert isinstance(request, OffsetCommitRequest)
        checked = self._offsets.check_commit(request, call.api_version)
        error = checked if isinstance(checked, ErrorCode) else told_error(self.journal.check())
        if isinstance(checked, ErrorCode) or error:
            response = _refused_commit(request, error)
        else:
            member = checked.members.get(request.member_id)
            if member is not None:
                self._rebalancing.lives(checked, member)
            response = self._offsets.commit(checked, request, self._wall_ms)
        self._answer_when_committed(call.request_id, response, call.api_version, answer_to)

    def _fetch(self, call: GroupCall, request: Request, answer_to: AnswerTo) -> None:
        assert isinstance(request, OffsetFetchRequest)
        several = call.api_version >= SEVERAL_GROUPS_FROM
        names = [group.group_id for group in request.groups] if several else [request.group_id]
        response = fetch_offsets(request, call.api_version, {name: self._offsets.of(name) for name in names})
        self._answer_when_committed(call.request_id, response, call.api_version, answer_to)

    def _delete_offsets(self, call: GroupCall, request: Request, answer_to: AnswerTo) -> None:
        assert isinstance(request, OffsetDeleteRequest)
        error = told_error(self.journal.check())
        response = OffsetDeleteResponse(error_code=error) if error else self._offsets.delete(request, self._wall_ms)
        self._answer_when_committed(call.request_id, response, call.api_version, answer_to)

    def _describe(self, call: GroupCall, request: Request, answer_to: AnswerTo) -> None:
        assert isinstance(request, DescribeGroupsRequest)
        described = [describe_group(name, self.groups.get(name), call.api_version) for name in request.groups]
        response = DescribeGroupsResponse(groups=described)
        self._answer_when_committed(call.request_id, response, call.api_version, answer_to)

    def _delete_groups(self, call: GroupCall, request: Request, answer_to: AnswerTo) -> None:
        assert isinstance(request, DeleteGroupsRequest)
        results = [DeletableGroupResult(name, self._delete_group(name)) for name in request.groups_names]
        response = DeleteGroupsResponse(results=results)
        self._answer_when_committed(call.request_id, response, call.api_version, answer_to)

    def _delete_group(self, group_id: str) -> ErrorCode:
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        error = told_error(self.journal.check())
        if not error:
            self._offsets.delete_all(group_id, self._wall_ms)
            self._remove(group)
        return error


def _refused_commit(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[OffsetCommitResponsePartition(each.partition_index, error) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )
