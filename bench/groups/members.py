"""Members of classic groups, by the bytes of the protocol: they join, sync, send heartbeats, commit and leave.

Subscriptions and assignments are those of Kafka's consumers, version 0, of one topic.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Sequence

from barnabas.client.kafka_connection import KafkaConnection
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from bench.groups.swarm import Connection, Swarm, frame_of, response_of

TOPIC = "bench-groups"
SESSION_TIMEOUT_MS = 300_000
"""Clients' default is 45 s. Here members are silent while the other side is measured, or while others join."""
REBALANCE_TIMEOUT_MS = 300_000
_PROTOCOL_TYPE, _PROTOCOL = "consumer", "range"
_JOIN_VERSION, _SYNC_VERSION, _HEARTBEAT_VERSION, _LEAVE_VERSION = 9, 5, 4, 5
_COMMIT_VERSION = 9
"""The last one that names topics: what librdkafka sends."""
_FIND_VERSION = 4
_RETRY_SECONDS = 0.1
_FIND_SECONDS_MAX = 60.0

_AGAIN = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class RefusedError(Exception):
    """A broker answered what no member here expects."""


def _subscription() -> bytes:
    name = TOPIC.encode()
    return struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, -1)


def _assignment(partition: int) -> bytes:
    name = TOPIC.encode()
    return struct.pack(f">hih{len(name)}siii", 0, 1, len(name), name, 1, partition, -1)


_PROTOCOLS = [JoinGroupRequestProtocol(_PROTOCOL, _subscription())]


def coordinators_of(bootstrap: str, group_ids: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Where each group is coordinated, waited for: the first question of a cluster makes the topic of the offsets."""
    host, _, port = bootstrap.rpartition(":")
    connection = KafkaConnection(host, int(port), _FIND_SECONDS_MAX)
    deadline = time.monotonic() + _FIND_SECONDS_MAX
    try:
        while True:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=list(group_ids))
            response = connection.ask(request, _FIND_VERSION, FindCoordinatorResponse, _FIND_SECONDS_MAX)
            refused = [each for each in response.coordinators if each.error_code != ErrorCode.NONE]
            if not refused:
                return {each.key: (each.host, each.port) for each in response.coordinators}
            if time.monotonic() > deadline:
                raise RefusedError(f"no coordinator of {refused[0].key}: {ErrorCode(refused[0].error_code).name}")
            time.sleep(_RETRY_SECONDS)
    finally:
        connection.close()


class Group:
    """Its members, and how far they have come together."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.members: dict[Member, None] = {}
        self.generation_id = -1
        """The newest in which some member has an assignment."""
        self._assigned = 0
        """The members that have one in it."""

    def has_assignment(self, generation_id: int) -> None:
        if generation_id > self.generation_id:
            self.generation_id, self._assigned = generation_id, 0
        if generation_id == self.generation_id:
            self._assigned += 1

    def is_whole_after(self, generation_id: int) -> bool:
        """All members have the assignment of one generation later than that."""
        return self.generation_id > generation_id and self._assigned == len(self.members)

    def check(self) -> None:
        """Every member has a partition of its own."""
        assigned = {member.assignment for member in self.members}
        assert len(assigned) == len(self.members), f"{len(assigned)} assignments for {len(self.members)} members"
        assert b"" not in assigned
        assert {member.generation_id for member in self.members} == {self.generation_id}


class Member:
    """One member on a connection of its own. It joins again by itself wherever the protocol has it do so."""

    def __init__(self, swarm: Swarm, connection: Connection, group: Group) -> None:
        self._swarm = swarm
        self._connection = connection
        self._group = group
        self._heartbeat = b""
        self._asks_on = False
        self.member_id = ""
        self.generation_id = -1
        self.assignment = b""
        self.is_stable = False
        """Between an assignment and the word that a rebalance is under way."""
        self.heartbeats = 0
        """Answered."""
        self.asked_at = 0.0
        self.heartbeat_seconds: list[float] = []
        """From each heartbeat to its answer."""
        self.others: Iterable[Member] = ()
        """Whom this member tells of a rebalance that it has heard of by `ask_on`."""

    def join(self) -> None:
        self._group.members[self] = None
        self.is_stable = False
        request = JoinGroupRequest(
            group_id=self._group.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=_PROTOCOLS,
        )
        self._connection.ask(frame_of(request, _JOIN_VERSION), self._joined)

    def _joined(self, frame: memoryview) -> None:
        response = response_of(JoinGroupRequest, _JOIN_VERSION, frame)
        assert isinstance(response, JoinGroupResponse)
        match response.error_code:
            case ErrorCode.NONE:
                self.generation_id = response.generation_id
                self._sync(response)
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                self.join()
            case code if code in _AGAIN:
                self._swarm.at(time.perf_counter() + _RETRY_SECONDS, self.join)
            case code:
                raise RefusedError(f"JoinGroup: {ErrorCode(code).name}")

    def _sync(self, joined: JoinGroupResponse) -> None:
        request = SyncGroupRequest(
            group_id=self._group.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=_PROTOCOL,
            assignments=[
                SyncGroupRequestAssignment(each.member_id, _assignment(number))
                for number, each in enumerate(joined.members)
            ],
        )
        self._connection.ask(frame_of(request, _SYNC_VERSION), self._synced)

    def _synced(self, frame: memoryview) -> None:
        response = response_of(SyncGroupRequest, _SYNC_VERSION, frame)
        assert isinstance(response, SyncGroupResponse)
        match response.error_code:
            case ErrorCode.NONE:
                self.assignment = response.assignment
                self.is_stable = True
                request = HeartbeatRequest(self._group.group_id, self.generation_id, self.member_id)
                self._heartbeat = frame_of(request, _HEARTBEAT_VERSION)
                self._group.has_assignment(self.generation_id)
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.join()
            case code if code in _AGAIN:
                self._swarm.at(time.perf_counter() + _RETRY_SECONDS, self.join)
            case code:
                raise RefusedError(f"SyncGroup: {ErrorCode(code).name}")

    def heartbeat(self) -> None:
        """One; nothing where a rebalance is under way."""
        if self.is_stable:
            self.asked_at = time.perf_counter()
            self._connection.ask(self._heartbeat, self._heard)

    def ask_on(self, others: Iterable[Member]) -> None:
        """Heartbeats without pause, until there is word of a rebalance; then the others send theirs."""
        self._asks_on, self.others = True, others
        self.heartbeat()

    def _heard(self, frame: memoryview) -> None:
        response = response_of(HeartbeatRequest, _HEARTBEAT_VERSION, frame)
        assert isinstance(response, HeartbeatResponse)
        self.heartbeats += 1
        self.heartbeat_seconds.append(time.perf_counter() - self.asked_at)
        match response.error_code:
            case ErrorCode.NONE:
                if self._asks_on:
                    self.heartbeat()
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._asks_on = False
                if self.is_stable:
                    self.join()
                for other in self.others:
                    other.heartbeat()
                self.others = ()
            case code:
                raise RefusedError(f"Heartbeat: {ErrorCode(code).name}")

    def leave(self) -> None:
        request = LeaveGroupRequest(group_id=self._group.group_id, members=[MemberIdentity(self.member_id)])
        del self._group.members[self]
        self.is_stable, self.member_id = False, ""
        self._connection.ask(frame_of(request, _LEAVE_VERSION), self._left)

    def _left(self, frame: memoryview) -> None:
        response = response_of(LeaveGroupRequest, _LEAVE_VERSION, frame)
        assert isinstance(response, LeaveGroupResponse)
        if response.error_code != ErrorCode.NONE:
            raise RefusedError(f"LeaveGroup: {ErrorCode(response.error_code).name}")


class Committer:
    """Commits the same offsets again and again, the next when the last is answered."""

    def __init__(self, connection: Connection, group: Group, member: Member, partitions: int) -> None:
        offsets = [OffsetCommitRequestPartition(each, 4711, 0, "") for each in range(partitions)]
        request = OffsetCommitRequest(
            group_id=group.group_id,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=offsets)],
        )
        self._connection = connection
        self._frame = frame_of(request, _COMMIT_VERSION)
        self._partitions = partitions
        self._expected: bytes | None = None
        self._is_over = True
        self.commits = 0
        """Answered."""
        self.is_idle = True

    def begin(self) -> None:
        self._is_over = self.is_idle = False
        self._ask()

    def end(self) -> None:
        """After the commit that is under way."""
        self._is_over = True

    def _ask(self) -> None:
        self._connection.ask(self._frame, self._committed)

    def _committed(self, frame: memoryview) -> None:
        # All answers that tell of no error are the same bytes: the first is read, the others are compared with it.
        if self._expected is None:
            self._expected = self._checked(frame)
        elif frame != self._expected:
            self._checked(frame)
        self.commits += 1
        if self._is_over:
            self.is_idle = True
        else:
            self._ask()

    def _checked(self, frame: memoryview) -> bytes:
        response = response_of(OffsetCommitRequest, _COMMIT_VERSION, frame)
        assert isinstance(response, OffsetCommitResponse)
        codes = [each.error_code for topic in response.topics for each in topic.partitions]
        if codes != [ErrorCode.NONE] * self._partitions:
            raise RefusedError(f"OffsetCommit: {[ErrorCode(code).name for code in dict.fromkeys(codes)]}")
        return bytes(frame)
