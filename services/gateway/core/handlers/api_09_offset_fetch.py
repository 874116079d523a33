"""OffsetFetch, API key 9, versions 1 to 10.

- Each group is asked of its own coordinator, groups of one partition of `__consumer_offsets` together, whatever the
  version by v8 (with `require_stable`) or v9 (with member epochs), and the answers are put into the client's form.
- By id (v10): an unknown topic is UNKNOWN_TOPIC_ID. Where all topics are asked for, those are left out that have no id
  any more, and in every version those that may not be described.
- An error of a group stands at the group (v8), at the top (v2), or in each partition (v1). Whatever goes wrong on the
  way to the coordinator is NOT_COORDINATOR: nothing was changed, and consumers before Kafka 3.9 know no other error
  that they may repeat (the coordinator's own COORDINATOR_LOAD_IN_PROGRESS aside).

Deviations: a group named twice is answered once, as named last. Each answer may be large, and a small request for the
same one many times must not become a response that no memory holds.
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages import Response
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from services.gateway.core.authorization import Operation, ResourceType, authorize
from services.gateway.core.connection import Connection
from services.gateway.core.group_calls import PendingGroupCalls

_VERSION_WITH_TOP_LEVEL_ERROR = 2
_VERSION_WITH_GROUPS = 8
_VERSION_WITH_NAMES = 9
_VERSION_WITH_TOPIC_IDS = 10


class PendingOffsetFetch(PendingGroupCalls[OffsetFetchRequestGroup]):
    __slots__ = ("asked", "require_stable", "results")

    def __init__(self, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(connection, header, frame_bytes)
        self.call_version = min(max(header.api_version, _VERSION_WITH_GROUPS), _VERSION_WITH_NAMES)
        self.require_stable = False
        self.asked: dict[str, OffsetFetchRequestGroup] = {}
        """What the client asks, by group; likewise the next."""
        self.results: dict[str, OffsetFetchResponseGroup] = {}
        """Begun with what is refused here."""

    @property
    def by_id(self) -> bool:
        return self.header.api_version >= _VERSION_WITH_TOPIC_IDS

    def request_of(self, queries: list[OffsetFetchRequestGroup]) -> OffsetFetchRequest:
        return OffsetFetchRequest(groups=queries, require_stable=self.require_stable)

    def fill(self, queries: list[OffsetFetchRequestGroup], response: Response) -> None:
        assert isinstance(response, OffsetFetchResponse)
        answered = {group.group_id: group for group in response.groups}
        for query in queries:
            group = answered.get(query.group_id)
            if group is None or group.error_code:
                self.fail([query], ErrorCode.NOT_COORDINATOR if group is None else group.error_code)
                continue
            result = self.results[query.group_id]
            is_all = self.asked[query.group_id].topics is None
            result.topics += [topic for topic in group.topics if self._may_be_told(topic, is_all=is_all)]

    def _may_be_told(self, topic: OffsetFetchResponseTopics, *, is_all: bool) -> bool:
        if is_all and not authorize(self.connection.context, Operation.DESCRIBE, (ResourceType.TOPIC, topic.name)):
            return False
        if self.by_id:
            known = self.connection.processor.image.topics_by_name.get(topic.name)
            if known is None:
                return False
            topic.topic_id = known.topic_id
        return True

    def fail(self, queries: list[OffsetFetchRequestGroup], error: int) -> None:
        told = ErrorCode.NOT_COORDINATOR if error == ErrorCode.COORDINATOR_NOT_AVAILABLE else error
        for query in queries:
            self.results[query.group_id] = OffsetFetchResponseGroup(query.group_id, [], told)

    def complete(self) -> None:
        version = self.header.api_version
        if version >= _VERSION_WITH_GROUPS:
            response = OffsetFetchResponse(groups=list(self.results.values()))
        else:
            ((group_id, result),) = self.results.items()
            topics = result.topics
            if result.error_code and version < _VERSION_WITH_TOP_LEVEL_ERROR:
                topics = [_refused(topic, result.error_code) for topic in self.asked[group_id].topics or []]
            response = OffsetFetchResponse(topics=[_old_topic(topic) for topic in topics], error_code=result.error_code)
        self.connection.processor.requests.respond(self, response)


def start(slot: PendingOffsetFetch, request: OffsetFetchRequest) -> None:
    slot.require_stable = request.require_stable
    if slot.header.api_version >= _VERSION_WITH_GROUPS:
        slot.asked = {group.group_id: group for group in request.groups}
    else:
        old_topics = request.topics
        topics = None
        if old_topics is not None:
            topics = [
                OffsetFetchRequestTopics(each.name, partition_indexes=each.partition_indexes) for each in old_topics
            ]
        slot.asked = {request.group_id: OffsetFetchRequestGroup(request.group_id, topics=topics)}
    for group in slot.asked.values():
        _add_group(slot, group)
    slot.ask()


def _add_group(slot: PendingOffsetFetch, group: OffsetFetchRequestGroup) -> None:
    slot.results[group.group_id] = result = OffsetFetchResponseGroup(group.group_id)
    if not authorize(slot.connection.context, Operation.DESCRIBE, (ResourceType.GROUP, group.group_id)):
        slot.fail([group], ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return
    topics: list[OffsetFetchRequestTopics] | None = None
    if group.topics is not None:
        topics = []
        for topic in group.topics:
            known = _known_topic(slot, topic)
            if isinstance(known, ErrorCode):
                result.topics.append(_refused(topic, known))
            else:
                topics.append(known)
    slot.add(group.group_id, OffsetFetchRequestGroup(group.group_id, group.member_id, group.member_epoch, topics))


def _known_topic(slot: PendingOffsetFetch, topic: OffsetFetchRequestTopics) -> OffsetFetchRequestTopics | ErrorCode:
    """The topic by name, or why it is not asked for."""
    name = topic.name
    if slot.by_id:
        known = slot.connection.processor.image.topics_by_id.get(topic.topic_id)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        name = known.topic
    if not authorize(slot.connection.context, Operation.DESCRIBE, (ResourceType.TOPIC, name)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return OffsetFetchRequestTopics(name, partition_indexes=topic.partition_indexes)


def _refused(topic: OffsetFetchRequestTopics, error: int) -> OffsetFetchResponseTopics:
    partitions = [OffsetFetchResponsePartitions(index, -1, -1, "", error) for index in topic.partition_indexes]
    return OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions)


def _old_topic(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        topic.name,
        [
            OffsetFetchResponsePartition(
                each.partition_index,
                each.committed_offset,
                each.committed_leader_epoch,
                each.metadata,
                each.error_code,
            )
            for each in topic.partitions
        ],
    )
