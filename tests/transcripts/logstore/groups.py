"""Commands of consumers: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetFetch, DescribeGroups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.transcripts.logstore.calls import Answered, Calls
from tests.transcripts.logstore.cluster import Cluster
from tests.transcripts.logstore.records import OFFSETS_TOPIC
from tests.transcripts.script import Command, ScriptError, milliseconds, partition_of

_JOIN, _SYNC, _HEARTBEAT, _LEAVE, _COMMIT, _FETCH, _DESCRIBE, _DELETE = 9, 5, 4, 5, 9, 9, 5, 2


@dataclass(slots=True)
class Member:
    """What a consumer remembers between its requests."""

    name: str
    group_id: str = ""
    member_id: str = ""
    generation_id: int = -1
    instance_id: str | None = None


class GroupCommands:
    def __init__(self, cluster: Cluster, calls: Calls) -> None:
        self._cluster = cluster
        self._calls = calls
        self._members: dict[str, Member] = {}
        self.verbs: dict[str, Callable[[Command], None]] = {
            "join": self._join,
            "sync": self._sync,
            "heartbeat": self._heartbeat,
            "leave": self._leave,
            "commit": self._commit,
            "offset-fetch": self._offset_fetch,
            "describe-group": self._describe,
            "delete-group": self._delete,
        }

    def member(self, command: Command) -> Member:
        """Return the consumer that a command is of, changed by the options that it has."""
        name = command.argument()
        member = self._members.setdefault(name, Member(name))
        member.group_id = command.text("group", member.group_id)
        member.instance_id = command.text("group.instance.id", member.instance_id or "") or None
        member.member_id = command.text("member", member.member_id)
        member.generation_id = command.number("generation", member.generation_id)
        return member

    def ids_of(self, name: str) -> tuple[str, int]:
        """Return the member and the generation that a consumer takes itself for."""
        member = self._members[name]
        return member.member_id, member.generation_id

    def _ask(self, command: Command, name: str, request: Request, version: int, answered: Answered) -> None:
        kind = type(request).__name__.removesuffix("Request")

        def on_answer(response: Any) -> None:
            if isinstance(response, ErrorCode):
                self._cluster.say(f"{name} {kind} -> {response.name}")
            else:
                answered(response)

        self._calls.call(name, (OFFSETS_TOPIC, 0), request, version, on_answer, at=command.number("at", 0))

    def _join(self, command: Command) -> None:
        member = self.member(command)
        subscription = _subscription(command.texts("topics", ["orders"]))
        names = command.texts("protocols", ["range"])
        protocols = [JoinGroupRequestProtocol(each, subscription) for each in names]
        request = JoinGroupRequest(
            member.group_id,
            milliseconds(command.text("session.timeout.ms", "10s")),
            milliseconds(command.text("max.poll.interval.ms", "60s")),
            member.member_id,
            member.instance_id,
            "consumer",
            protocols,
        )

        def joined(response: Any) -> None:
            if response.member_id:
                member.member_id = response.member_id
            member.generation_id = response.generation_id
            shown = f"{member.name} JoinGroup -> {ErrorCode(response.error_code).name}"
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                shown += f" member={response.member_id}"
            elif not response.error_code:
                shown += (
                    f" member={response.member_id} generation={response.generation_id} "
                    f"protocol={response.protocol_name} leader={response.leader}"
                )
                if response.members:
                    shown += f" members=[{','.join(sorted(each.member_id for each in response.members))}]"
                if response.skip_assignment:
                    shown += " skip-assignment"
            self._cluster.say(shown)

        self._ask(command, member.name, request, _JOIN, joined)

    def _sync(self, command: Command) -> None:
        member = self.member(command)
        given: list[SyncGroupRequestAssignment] = []
        for each in command.texts("assign"):
            name, _, assignment = each.partition(":")
            if name not in self._members:
                raise ScriptError(f"{name} is no member")
            given.append(SyncGroupRequestAssignment(self._members[name].member_id, assignment.encode()))
        request = SyncGroupRequest(
            member.group_id,
            member.generation_id,
            member.member_id,
            member.instance_id,
            command.text("protocol.type") or None,
            command.text("protocol") or None,
            given,
        )

        def synced(response: Any) -> None:
            shown = f"{member.name} SyncGroup -> {ErrorCode(response.error_code).name}"
            if not response.error_code:
                shown += f" assignment={response.assignment.decode() or '-'}"
            self._cluster.say(shown)

        self._ask(command, member.name, request, _SYNC, synced)

    def _heartbeat(self, command: Command) -> None:
        member = self.member(command)
        request = HeartbeatRequest(member.group_id, member.generation_id, member.member_id, member.instance_id)
        say = self._cluster.say
        self._ask(
            command,
            member.name,
            request,
            _HEARTBEAT,
            lambda response: say(f"{member.name} Heartbeat -> {ErrorCode(response.error_code).name}"),
        )

    def _leave(self, command: Command) -> None:
        member = self.member(command)
        identity = MemberIdentity(member.member_id, member.instance_id)
        request = LeaveGroupRequest(member.group_id, members=[identity])

        def left(response: Any) -> None:
            codes = [response.error_code, *(each.error_code for each in response.members)]
            error = next((ErrorCode(each) for each in codes if each), ErrorCode.NONE)
            self._cluster.say(f"{member.name} LeaveGroup -> {error.name}")

        self._ask(command, member.name, request, _LEAVE, left)

    def _commit(self, command: Command) -> None:
        member = self.member(command)
        topics: list[OffsetCommitRequestTopic] = []
        for name, number, offset in offsets_of(command):
            partition = OffsetCommitRequestPartition(number, offset, committed_metadata="")
            topics.append(OffsetCommitRequestTopic(name, partitions=[partition]))
        request = OffsetCommitRequest(
            member.group_id, member.generation_id, member.member_id, member.instance_id, topics=topics
        )

        def committed(response: Any) -> None:
            found = [
                f"{topic.name}-{each.partition_index}:{ErrorCode(each.error_code).name}"
                for topic in response.topics
                for each in topic.partitions
            ]
            self._cluster.say(f"{member.name} OffsetCommit -> {' '.join(found)}")

        self._ask(command, member.name, request, _COMMIT, committed)

    def _offset_fetch(self, command: Command) -> None:
        member = self.member(command)
        partitions = [partition_of(each) for each in command.arguments[1:]]
        topics = [OffsetFetchRequestTopics(name, partition_indexes=[number]) for name, number in partitions]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(member.group_id, topics=topics or None)],
            require_stable=command.flag("require-stable"),
        )

        def fetched(response: Any) -> None:
            (group,) = response.groups
            found = [
                f"{topic.name}-{each.partition_index}:"
                + (ErrorCode(each.error_code).name if each.error_code else str(each.committed_offset))
                for topic in group.topics
                for each in topic.partitions
            ]
            error = ErrorCode(group.error_code).name
            self._cluster.say(f"{member.name} OffsetFetch -> {' '.join(found) if found else error}")

        self._ask(command, member.name, request, _FETCH, fetched)

    def _describe(self, command: Command) -> None:
        request = DescribeGroupsRequest([command.argument()])

        def described(response: Any) -> None:
            (group,) = response.groups
            members = ",".join(f"{each.member_id}:{each.member_assignment.decode() or '-'}" for each in group.members)
            self._cluster.say(
                f"DescribeGroups -> {ErrorCode(group.error_code).name} state={group.group_state} members=[{members}]"
            )

        self._ask(command, "admin", request, _DESCRIBE, described)

    def _delete(self, command: Command) -> None:
        def deleted(response: Any) -> None:
            self._cluster.say(f"DeleteGroups -> {ErrorCode(response.results[0].error_code).name}")

        self._ask(command, "admin", DeleteGroupsRequest([command.argument()]), _DELETE, deleted)


def offsets_of(command: Command) -> list[tuple[str, int, int]]:
    """Return the topic, partition and offset of each argument `orders-0:42`."""
    found: list[tuple[str, int, int]] = []
    for each in command.arguments[1:]:
        name, separator, offset = each.rpartition(":")
        if not separator or not offset.isdigit():
            raise ScriptError(f"{each} is no offset: orders-0:42")
        found.append((*partition_of(name), int(offset)))
    return found


def _subscription(topics: list[str]) -> bytes:
    """Encode a ConsumerProtocolSubscription, version 0."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"
