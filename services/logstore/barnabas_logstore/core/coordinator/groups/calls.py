"""The requests of each API key about the groups of one partition, and their answers.

An answer that depends on what is in the log, or will be, waits until that is committed (`Result.answer`);
a refusal, and a generation that is being formed, depend only on memory. A call that waits for other members is held
back for a moment, then answered with a `GroupWait`, and its answer is collected later.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Final

from barnabas.channel.messages import GroupAnswer, GroupCall, GroupCollect, GroupWait
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.markers import ProducerInTransaction
from barnabas.wire.messages import Response
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
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas_logstore.core.coordinator.groups.delayed_group_responses import DelayedGroupResponses
from barnabas_logstore.core.coordinator.groups.fetching import fetch_offsets
from barnabas_logstore.core.coordinator.groups.group import Group, GroupState
from barnabas_logstore.core.coordinator.groups.joining import Joining, refused_join
from barnabas_logstore.core.coordinator.groups.leaving import heartbeat, leave
from barnabas_logstore.core.coordinator.groups.listing import describe_group
from barnabas_logstore.core.coordinator.groups.member import Member
from barnabas_logstore.core.coordinator.groups.offsets import (
    Offsets,
    check_commit,
    check_delete,
    check_transactional_commit,
)
from barnabas_logstore.core.coordinator.groups.rebalancing import Rebalancing, client_error
from barnabas_logstore.core.coordinator.groups.registry import Groups
from barnabas_logstore.core.coordinator.groups.stored_groups import group_forgotten
from barnabas_logstore.core.coordinator.runtime.shard import Effect, Result, Serve
from barnabas_logstore.core.coordinator.runtime.timers import Clock

_SEVERAL_LEAVE_FROM: Final = 3
_EPOCH_BUMP_FROM: Final = 5
"""TxnOffsetCommit from this version on is of transaction version 2."""
_NULL_PROTOCOL_FROM: Final = 7
"""JoinGroup before this version can't express a missing protocol as null."""
_WAIT_MS_MAX: Final = 60_000
"""After this time a waiting member's gateway asks again, in case a message of purgatory was lost."""


class GroupCalls:
    """All requests of one partition of `__consumer_offsets` under one leader epoch, once it is loaded."""

    def __init__(
        self,
        groups: Groups,
        joining: Joining,
        rebalancing: Rebalancing,
        offsets: Offsets,
        delayed_responses: DelayedGroupResponses,
        result: Result,
        clock: Clock,
        leader_epoch: int,
    ) -> None:
        self._groups = groups
        self._joining = joining
        self._rebalancing = rebalancing
        self._offsets = offsets
        self.delayed_responses = delayed_responses
        self._result = result
        self._clock = clock
        self._leader_epoch = leader_epoch
        self.by_api_key: Final[dict[int, Serve]] = {
            ApiKey.JOIN_GROUP: Serve(self._join, ApiKey.JOIN_GROUP.version_max),
            ApiKey.SYNC_GROUP: Serve(self._sync, ApiKey.SYNC_GROUP.version_max),
            ApiKey.HEARTBEAT: Serve(self._heartbeat, ApiKey.HEARTBEAT.version_max, _early_heartbeat),
            ApiKey.LEAVE_GROUP: Serve(self._leave, ApiKey.LEAVE_GROUP.version_max),
            ApiKey.OFFSET_COMMIT: Serve(self._commit, 9),
            ApiKey.TXN_OFFSET_COMMIT: Serve(self._commit_in_transaction, ApiKey.TXN_OFFSET_COMMIT.version_max),
            ApiKey.OFFSET_FETCH: Serve(self._fetch, 9),
            ApiKey.OFFSET_DELETE: Serve(self._delete_offsets, ApiKey.OFFSET_DELETE.version_max),
            ApiKey.DESCRIBE_GROUPS: Serve(self._describe, ApiKey.DESCRIBE_GROUPS.version_max),
            ApiKey.DELETE_GROUPS: Serve(self._delete_groups, ApiKey.DELETE_GROUPS.version_max),
        }

    def _answer(self, stream_id: int, call: GroupCall, response: Response) -> None:
        self._result.answer(stream_id, GroupAnswer(call.request_id, body=encode_body(response, call.api_version)))

    def _refuse(self, stream_id: int, call: GroupCall, response: Response) -> None:
        answer = GroupAnswer(call.request_id, body=encode_body(response, call.api_version))
        self._result.answer_now(stream_id, answer)

    # --- join and sync, and waiting for them --------------------------------------------------------------------------

    def _join(self, stream_id: int, call: GroupCall, request: JoinGroupRequest) -> None:
        outcome = self._joining.join(request, call.api_version, call.client_id, call.client_host)
        group = self._groups.get(request.group_id)
        is_stable = group is not None and group.state is GroupState.STABLE
        if isinstance(outcome, Member):
            collect = self._collect_of(call, request.group_id, outcome)
            self._tell(stream_id, collect, waits_for_log=is_stable)
        elif is_stable and not outcome.error_code:
            self._answer(stream_id, call, outcome)
        else:
            self._refuse(stream_id, call, _fit_join(outcome, call.api_version))

    def _sync(self, stream_id: int, call: GroupCall, request: SyncGroupRequest) -> None:
        if not request.group_id:
            self._refuse(stream_id, call, SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
            return
        group = self._groups.get(request.group_id)
        outcome = self._rebalancing.sync(group, request)
        if isinstance(outcome, SyncGroupResponse):
            self._refuse(stream_id, call, outcome)
            return
        assert group is not None
        collect = self._collect_of(call, request.group_id, outcome)
        self._tell(stream_id, collect, waits_for_log=group.leader_id == outcome.member_id)

    def _collect_of(self, call: GroupCall, group_id: str, member: Member) -> GroupCollect:
        """The collect that the caller would send if it came back for its answer."""
        group = self._groups.get(group_id)
        generation_id = -1 if group is None else group.generation_id
        return GroupCollect(
            call.request_id,
            call.partition,
            call.api_key,
            call.api_version,
            self._leader_epoch,
            group_id,
            member.member_id,
            generation_id,
        )

    def _tell(self, stream_id: int, collect: GroupCollect, *, waits_for_log: bool) -> None:
        """Answer. If it only waits for the log, purgatory is not involved; otherwise hold it for a moment, or answer as
        `collect` does.
        """
        if waits_for_log:
            lost = partial(self._lost, stream_id, collect)
            self._result.then(Effect(partial(self.collect, stream_id, collect), lost))
        elif not (self._has_to_wait(collect) and self.delayed_responses.try_to_hold(stream_id, collect)):
            self.collect(stream_id, collect)

    def _has_to_wait(self, collect: GroupCollect) -> bool:
        group = self._groups.get(collect.group_id)
        member = None if group is None else group.members.get(collect.member_id)
        return member is not None and _awaits(member, collect)

    def answer_held(self) -> None:
        """Answer held calls: those that have a result now, and those that have to wait after all."""
        for held in self.delayed_responses.take_due():
            if held.until_ms > self._clock.now_ms and self._has_to_wait(held.collect):
                self.delayed_responses.hold(held)
            else:
                self.collect(held.stream_id, held.collect)

    def lose_held(self) -> None:
        self.delayed_responses.stop(lambda held: self._lost(held.stream_id, held.collect))

    def _lost(self, stream_id: int, collect: GroupCollect) -> None:
        self._result.answer_now(stream_id, GroupAnswer(collect.request_id, ErrorCode.NOT_COORDINATOR))

    def collect(self, stream_id: int, collect: GroupCollect) -> None:
        """Return what a member has waited for, or that it still has to wait. Changes nothing."""
        if collect.coordinator_epoch != self._leader_epoch:
            self._lost(stream_id, collect)
            return
        group = self._groups.get(collect.group_id)
        member = None if group is None else group.members.get(collect.member_id)
        if group is not None and member is not None and _awaits(member, collect):
            # Answered at once, since the step is the current one.
            self._result.answer_now(stream_id, self._wait(collect, group, member))
            return
        response = self._result_of(collect)
        if isinstance(response, SyncGroupResponse) and not response.error_code:
            lost = partial(self._lost, stream_id, collect)
            self._result.then(Effect(partial(self._tell_share, stream_id, collect), lost))
        else:
            # A join that depends on the log has waited for it before.
            self._tell_result(stream_id, collect, response)

    def _tell_share(self, stream_id: int, collect: GroupCollect) -> None:
        """The assignment is committed; but meanwhile the member may be gone, or its generation, and the assignment may
        be another's.
        """
        self._tell_result(stream_id, collect, self._result_of(collect))

    def _result_of(self, collect: GroupCollect) -> JoinGroupResponse | SyncGroupResponse | None:
        """Return the answer for a member that does not wait; None: the state in which it waited has been lost."""
        group = self._groups.get(collect.group_id)
        member = None if group is None else group.members.get(collect.member_id)
        is_join = collect.api_key == ApiKey.JOIN_GROUP
        if group is None or member is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID if group is None else group.error_of_absent(collect.member_id)
            member_id = collect.member_id if error == ErrorCode.FENCED_INSTANCE_ID else ""
            return refused_join(member_id, error) if is_join else SyncGroupResponse(error_code=error)
        if is_join:
            return member.joined
        if collect.generation_id != group.generation_id:
            return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        return member.synced

    def _tell_result(
        self, stream_id: int, collect: GroupCollect, response: JoinGroupResponse | SyncGroupResponse | None
    ) -> None:
        if response is None:
            self._lost(stream_id, collect)
            return
        if isinstance(response, JoinGroupResponse):
            response = _fit_join(response, collect.api_version)
        answer = GroupAnswer(collect.request_id, body=encode_body(response, collect.api_version))
        self._result.answer_now(stream_id, answer)

    def _wait(self, collect: GroupCollect, group: Group, member: Member) -> GroupAnswer:
        generation_id = group.generation_id + (member.awaits_join and group.state is not GroupState.STABLE)
        step = group.step + 1
        wait = GroupWait(self._leader_epoch, group.group_id, member.member_id, generation_id, step, _WAIT_MS_MAX)
        return GroupAnswer(collect.request_id, wait=wait)

    # --- members ------------------------------------------------------------------------------------------------------

    def _heartbeat(self, stream_id: int, call: GroupCall, request: HeartbeatRequest) -> None:
        """Depends on nothing in the log: answered at once."""
        error = ErrorCode.INVALID_GROUP_ID
        if request.group_id:
            error = heartbeat(self._rebalancing, self._groups.get(request.group_id), request)
        self._result.answer_now(stream_id, heartbeat_answer(call, error))

    def _leave(self, stream_id: int, call: GroupCall, request: LeaveGroupRequest) -> None:
        group = self._groups.get(request.group_id)
        if not request.group_id:
            response = LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        elif call.api_version >= _SEVERAL_LEAVE_FROM:
            response = LeaveGroupResponse(members=leave(self._rebalancing, group, request.members))
        else:
            (left,) = leave(self._rebalancing, group, [MemberIdentity(request.member_id)])
            response = LeaveGroupResponse(error_code=left.error_code)
        if group is not None:
            self._groups.remove_if_unused(group)
        self._answer(stream_id, call, response)

    # --- offsets ------------------------------------------------------------------------------------------------------

    def _commit(self, stream_id: int, call: GroupCall, request: OffsetCommitRequest) -> None:
        group = self._groups.get(request.group_id)
        error = check_commit(group, request, call.api_version) or client_error(self._result.check())
        if error:
            refused = [[error] * len(each.partitions) for each in request.topics]
            self._refuse(stream_id, call, _commit_response(request, refused))
            return
        if group is None:
            group = self._groups.get_or_add(request.group_id, self._clock.wall_ms)
        else:
            member = group.members.get(request.member_id)
            if member is not None:
                self._rebalancing.lives(member)
        errors = self._offsets.commit(group, request)
        self._groups.remove_if_unused(group)
        if errors:
            self._answer(stream_id, call, _commit_response(request, errors))
        else:
            committed = tuple(
                [(each.name, tuple([one.partition_index for one in each.partitions])) for each in request.topics]
            )
            body = _committed_body(call.api_version, committed)
            self._result.answer(stream_id, GroupAnswer(call.request_id, 0, body))

    def _commit_in_transaction(self, stream_id: int, call: GroupCall, request: TxnOffsetCommitRequest) -> None:
        error = check_transactional_commit(self._groups.get(request.group_id), request)
        error = error or client_error(self._result.check())
        producer = ProducerInTransaction(
            request.producer_id,
            request.producer_epoch,
            supports_epoch_bump=call.api_version >= _EPOCH_BUMP_FROM,
            verification_guard=call.verification_guard,
        )
        outcome = error or self._offsets.commit_in_transaction(request, producer)
        if not isinstance(outcome, ErrorCode):
            self._answer(stream_id, call, _transactional_response(request, outcome))
            return
        guard = 0
        if outcome is ErrorCode.INVALID_TXN_STATE:
            guard = self._result.begin_verification(producer)
        # One that the marker of the transaction before has voided is replaced by the present one.
        if guard not in (0, call.verification_guard):
            self._result.answer_now(stream_id, GroupAnswer(call.request_id, outcome, verification_guard=guard))
        else:
            refused = [[client_error(outcome)] * len(each.partitions) for each in request.topics]
            self._refuse(stream_id, call, _transactional_response(request, refused))

    def _fetch(self, stream_id: int, call: GroupCall, request: OffsetFetchRequest) -> None:
        self._answer(stream_id, call, fetch_offsets(request, call.api_version, self._groups, self._offsets.pending))

    def _delete_offsets(self, stream_id: int, call: GroupCall, request: OffsetDeleteRequest) -> None:
        group = self._groups.get(request.group_id)
        error = ErrorCode.INVALID_GROUP_ID if not request.group_id else check_delete(group)
        error = error or client_error(self._result.check())
        if error or group is None:
            response = OffsetDeleteResponse(error_code=error)
        else:
            response = self._offsets.delete(group, request)
            self._groups.remove_if_unused(group)
        self._answer(stream_id, call, response)

    # --- groups -------------------------------------------------------------------------------------------------------

    def _describe(self, stream_id: int, call: GroupCall, request: DescribeGroupsRequest) -> None:
        described = [describe_group(name, self._groups.get(name), call.api_version) for name in request.groups]
        self._answer(stream_id, call, DescribeGroupsResponse(groups=described))

    def _delete_groups(self, stream_id: int, call: GroupCall, request: DeleteGroupsRequest) -> None:
        results = [DeletableGroupResult(name, self._delete_group(name)) for name in request.groups_names]
        self._answer(stream_id, call, DeleteGroupsResponse(results=results))

    def _delete_group(self, group_id: str) -> ErrorCode:
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        error = client_error(self._result.check())
        if not error:
            self._offsets.delete_all(group)
            self.remove(group)
        return error

    def remove(self, group: Group) -> None:
        """Remove an empty group; a client that was given an id and has not joined finds it gone."""
        self._rebalancing.stop(group)
        self._result.put(group_forgotten(group.group_id, self._clock.wall_ms))


def _awaits(member: Member, collect: GroupCollect) -> bool:
    return member.awaits_join if collect.api_key == ApiKey.JOIN_GROUP else member.awaits_sync


_heartbeat_bodies: dict[tuple[int, int], bytes] = {}


def heartbeat_answer(call: GroupCall, error: ErrorCode) -> GroupAnswer:
    """There are few different ones, and many to send."""
    body = _heartbeat_bodies.get((call.api_version, error))
    if body is None:
        body = encode_body(HeartbeatResponse(error_code=error), call.api_version)
        _heartbeat_bodies[call.api_version, error] = body
    return GroupAnswer(call.request_id, 0, body)


def _early_heartbeat(call: GroupCall) -> GroupAnswer:
    """Sessions have not begun: a member that is early makes no error."""
    return heartbeat_answer(call, ErrorCode.NONE)


def _fit_join(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Return the response in that version's format; what members keep is not changed."""
    if response.protocol_name is not None or version >= _NULL_PROTOCOL_FROM:
        return response
    assert not response.members
    return JoinGroupResponse(error_code=response.error_code, member_id=response.member_id, protocol_name="")


def _commit_response(request: OffsetCommitRequest, errors: list[list[ErrorCode]]) -> OffsetCommitResponse:
    """Return the response with these errors, by topic and partition as in the request."""
    topics = []
    for topic, of_topic in zip(request.topics, errors, strict=True):
        partitions = [
            OffsetCommitResponsePartition(each.partition_index, error)
            for each, error in zip(topic.partitions, of_topic, strict=True)
        ]
        topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return OffsetCommitResponse(topics=topics)


def _transactional_response(request: TxnOffsetCommitRequest, errors: list[list[ErrorCode]]) -> TxnOffsetCommitResponse:
    topics = []
    for topic, of_topic in zip(request.topics, errors, strict=True):
        partitions = [
            TxnOffsetCommitResponsePartition(each.partition_index, error)
            for each, error in zip(topic.partitions, of_topic, strict=True)
        ]
        topics.append(TxnOffsetCommitResponseTopic(topic.name, partitions))
    return TxnOffsetCommitResponse(topics=topics)


@lru_cache(maxsize=256)  # a consumer commits the same partitions again and again
def _committed_body(version: int, committed: tuple[tuple[str, tuple[int, ...]], ...]) -> bytes:
    """Return the response of that version where each partition, by topic, is committed."""
    topics = [
        OffsetCommitResponseTopic(
            name=name, partitions=[OffsetCommitResponsePartition(number, ErrorCode.NONE) for number in numbers]
        )
        for name, numbers in committed
    ]
    return encode_body(OffsetCommitResponse(topics=topics), version)
