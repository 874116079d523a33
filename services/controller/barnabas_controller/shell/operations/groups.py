"""Describe groups: their coordinators are asked, and the leaders of the partitions that they read for end offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.cluster.internal_topics import OFFSETS_TOPIC, partition_of_group
from barnabas.cluster.messages import NO_LEADER
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Response
from barnabas.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from barnabas_controller.core.controller import ControllerCore
from barnabas_controller.shell.operations.calls import Call, Method, not_found, page_of, unavailable
from barnabas_controller.shell.operations.consumer_assignment import read_assignment
from barnabas_controller.shell.operations.logstore_questions import (
    GroupQuestion,
    LogstoreQuestions,
    NoAnswer,
    gather_answers,
)
from barnabas_protos.controller.v1 import operations_pb2 as pb
from barnabas_protos.logstore.v1 import administration_pb2

_LIST_VERSION: Final = 5
_DESCRIBE_VERSION: Final = 6
_OFFSETS_VERSION: Final = 8
_DEAD: Final = "Dead"

Partition = tuple[str, int]


class Groups:
    def __init__(self, core: ControllerCore, questions: LogstoreQuestions) -> None:
        self._image = core.image
        self._questions = questions

    def methods(self) -> Mapping[str, Method]:
        return {"ListGroups": self._list_groups, "DescribeGroup": self._describe_group}

    def _coordinators(self) -> Counter[int]:
        """How many partitions of `__consumer_offsets` each logstore leads; -1: without a leader."""
        topic = self._image.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return Counter()
        return Counter([partition.leader for _, partition in self._image.partitions(topic.topic_id)])

    async def _list_groups(self, request: pb.ListGroupsRequest, call: Call) -> pb.ListGroupsResponse:
        coordinators = self._coordinators()
        leaderless = coordinators.pop(NO_LEADER, 0)
        question = GroupQuestion(0, ListGroupsRequest(list(request.states)), _LIST_VERSION)
        answered, unanswered = await gather_answers(
            {
                node_id: self._questions.ask_coordinator(node_id, [question], call.timeout_ms)
                for node_id in sorted(coordinators)
            }
        )
        if unanswered and not answered:
            raise unavailable(f"no coordinator of groups answers: {'; '.join(unanswered)}")
        if leaderless:
            unanswered.append(f"{leaderless} partitions of {OFFSETS_TOPIC} have no leader")
        groups: dict[str, pb.GroupSummary] = {}
        for node_id, (answer,) in answered.items():
            if isinstance(answer, ListGroupsResponse) and answer.error_code == ErrorCode.NONE:
                groups |= {group.group_id: _summary(group, node_id) for group in answer.groups}
            else:
                unanswered.append(f"logstore {node_id} refuses: {_error_name(answer)}")
        ordered = [groups[group_id] for group_id in sorted(groups)]
        page, token = page_of(ordered, request.page_size, request.page_token, lambda group: group.group_id)
        return pb.ListGroupsResponse(groups=page, next_page_token=token, unanswered=unanswered)

    async def _describe_group(self, request: pb.DescribeGroupRequest, call: Call) -> pb.DescribeGroupResponse:
        group_id = request.group_id
        node_id, partition = self._coordinator_of(group_id)
        described_by = DescribeGroupsRequest([group_id])
        offsets_of = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=None)])
        try:
            described, fetched = await self._questions.ask_coordinator(
                node_id,
                [
                    GroupQuestion(partition, described_by, _DESCRIBE_VERSION),
                    GroupQuestion(partition, offsets_of, _OFFSETS_VERSION),
                ],
                call.timeout_ms,
            )
        except NoAnswer as reason:
            raise unavailable(f"the coordinator of group '{group_id}' does not answer: {reason}") from None
        if not isinstance(described, DescribeGroupsResponse):
            raise unavailable(f"the coordinator of group '{group_id}' refuses: {_error_name(described)}; try again")
        group = described.groups[0]
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or group.group_state == _DEAD:
            raise not_found(f"there is no group '{group_id}'")
        if group.error_code != ErrorCode.NONE:
            raise unavailable(f"the coordinator refuses: {ErrorCode(group.error_code).name}; try again")
        members, owners = _members(group)
        offsets, unanswered = _offsets(fetched, owners)
        unanswered += await self._find_latest_offsets(offsets, call)
        return pb.DescribeGroupResponse(
            group_id=group_id,
            state=group.group_state,
            protocol_type=group.protocol_type,
            protocol=group.protocol_data,
            coordinator=node_id,
            members=members,
            offsets=[offsets[key] for key in sorted(offsets)],
            total_lag=sum(max(0, each.lag) for each in offsets.values()),
            unanswered=unanswered,
        )

    def _coordinator_of(self, group_id: str) -> tuple[int, int]:
        """Return the leader of the group's partition, and its number. Raises Refusal."""
        topic = self._image.topics.get(OFFSETS_TOPIC)
        if topic is None or not group_id:
            raise not_found(f"there is no group '{group_id}'")
        number = partition_of_group(group_id, topic.partitions)
        partition = self._image.partition(topic.topic_id, number)
        if partition is None or partition.leader == NO_LEADER:
            raise unavailable(f"group '{group_id}' has no coordinator: {OFFSETS_TOPIC}-{number} has no leader")
        return partition.leader, number

    async def _find_latest_offsets(self, offsets: Mapping[Partition, pb.GroupOffset], call: Call) -> list[str]:
        """Fill in end offsets and lags. Return a line for each logstore that does not answer, and for each error."""
        by_leader: dict[int, list[Partition]] = {}
        queries: dict[int, list[administration_pb2.EndOffsetQuery]] = {}
        unanswered: list[str] = []
        for name, number in sorted(offsets):
            topic = self._image.topics.get(name)
            partition = None if topic is None else self._image.partition(topic.topic_id, number)
            if topic is None or partition is None:
                unanswered.append(f"{name}-{number} does not exist any more")
            elif partition.leader == NO_LEADER:
                unanswered.append(f"{name}-{number} has no leader")
            else:
                by_leader.setdefault(partition.leader, []).append((name, number))
                # The same answer says how far it can be read, whatever the epoch.
                query = administration_pb2.EndOffsetQuery(
                    topic_id=topic.topic_id,
                    partition=number,
                    current_leader_epoch=-1,
                    leader_epoch=partition.leader_epoch,
                )
                queries.setdefault(partition.leader, []).append(query)
        answered, silent = await gather_answers(
            {
                leader: self._questions.administer(
                    leader,
                    "EndOffsets",
                    administration_pb2.EndOffsetsRequest(partitions=asked),
                    administration_pb2.EndOffsetsResponse,
                    call.timeout_ms,
                )
                for leader, asked in queries.items()
            }
        )
        for leader, response in answered.items():
            for (name, number), answer in zip(by_leader[leader], response.partitions, strict=True):
                if answer.error_code or not answer.HasField("latest"):
                    why = ErrorCode(answer.error_code).name if answer.error_code else "it is not known yet"
                    unanswered.append(f"logstore {leader} has no end offset of {name}-{number}: {why}")
                    continue
                offset = offsets[name, number]
                # Records after the high watermark can't be read: they are no lag, and Kafka's tools don't count them.
                offset.log_end_offset = answer.latest.offset
                if offset.committed_offset >= 0:
                    offset.lag = max(0, answer.latest.offset - offset.committed_offset)
        return silent + unanswered


def _summary(group: ListedGroup, node_id: int) -> pb.GroupSummary:
    return pb.GroupSummary(
        group_id=group.group_id,
        state=group.group_state,
        protocol_type=group.protocol_type,
        group_type=group.group_type,
        coordinator=node_id,
    )


def _members(group: DescribedGroup) -> tuple[list[pb.GroupMember], dict[Partition, str]]:
    """Return members, and the owner of each partition."""
    members: list[pb.GroupMember] = []
    owners: dict[Partition, str] = {}
    for member in group.members:
        assigned = read_assignment(member.member_assignment) if group.protocol_type == "consumer" else {}
        owners |= {(topic, number): member.member_id for topic, numbers in assigned.items() for number in numbers}
        members.append(
            pb.GroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id or "",
                client_id=member.client_id,
                client_host=member.client_host,
                assignments=[
                    pb.TopicPartitions(topic=topic, partitions=sorted(numbers))
                    for topic, numbers in sorted(assigned.items())
                ],
            )
        )
    return members, owners


def _offsets(
    fetched: Response | ErrorCode, owners: Mapping[Partition, str]
) -> tuple[dict[Partition, pb.GroupOffset], list[str]]:
    """Return all that is committed or assigned, and the reasons why something is missing."""
    offsets = {(topic, number): _offset(topic, number, member_id=owner) for (topic, number), owner in owners.items()}
    if not isinstance(fetched, OffsetFetchResponse):
        return offsets, [f"the coordinator does not return committed offsets: {_error_name(fetched)}"]
    for name, committed in _committed(fetched):
        key = (name, committed.partition)
        committed.member_id = owners.get(key, "")
        offsets[key] = committed
    errors = [ErrorCode(group.error_code).name for group in fetched.groups if group.error_code]
    return offsets, [f"the coordinator does not return committed offsets: {error}" for error in errors]


def _committed(fetched: OffsetFetchResponse) -> Iterable[tuple[str, pb.GroupOffset]]:
    for group in fetched.groups:
        for topic in group.topics:
            for each in topic.partitions:
                offset = _offset(topic.name, each.partition_index, each.committed_offset)
                offset.committed_leader_epoch = each.committed_leader_epoch
                offset.metadata = each.metadata or ""
                yield topic.name, offset


def _offset(topic: str, partition: int, committed_offset: int = -1, member_id: str = "") -> pb.GroupOffset:
    return pb.GroupOffset(
        topic=topic,
        partition=partition,
        committed_offset=committed_offset,
        committed_leader_epoch=-1,
        log_end_offset=-1,
        lag=-1,
        member_id=member_id,
    )


def _error_name(answer: Response | ErrorCode) -> str:
    return answer.name if isinstance(answer, ErrorCode) else type(answer).__name__
