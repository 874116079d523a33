"""OffsetFetch, API key 9, versions 1 to 10.

- Each group's own coordinator is asked, groups of one partition of `__consumer_offsets` together, whatever the
  version by v8 (with `require_stable`) or v9 (with member epochs), and the answers are put into the client's form.
- By id (v10): an unknown topic is UNKNOWN_TOPIC_ID. If all topics are requested, those without an id are left out, and
  in every version those that may not be described.
- An error of a group stands at the group (v8), at the top (v2), or in each partition (v1). Any failure to reach the
  coordinator is NOT_COORDINATOR: nothing was changed, and consumers before Kafka 3.9 know no other error
  that they may repeat (the coordinator's own COORDINATOR_LOAD_IN_PROGRESS aside).

Deviations: a group named twice is answered once, as named last, and so is a topic or partition that is named twice.
Each answer may be large, and a small request for the same one many times must not become a response that no memory
holds.
"""

from __future__ import annotations

from barnabas.cluster.acls import Operation, ResourceType
from barnabas.wire.api_keys import ApiKey
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
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.requests.group_request import GROUP_CALL_ELEMENTS_MAX, GroupHandler, PendingGroupsRequest

_VERSION_WITH_TOP_LEVEL_ERROR = 2
_VERSION_WITH_GROUPS = 8
_VERSION_WITH_NAMES = 9
_VERSION_WITH_TOPIC_IDS = 10


class PendingOffsetFetch(PendingGroupsRequest[OffsetFetchRequestGroup]):
    __slots__ = ("added", "asked", "by_name", "require_stable", "results")

    def __init__(self, handler: GroupHandler, connection: Connection, header: RequestHeader, frame_bytes: int) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.call_version = min(max(header.api_version, _VERSION_WITH_GROUPS), _VERSION_WITH_NAMES)
        self.require_stable = False
        self.asked: dict[str, OffsetFetchRequestGroup] = {}
        """What the client requests, by group."""
        self.added: dict[str, None] = {}
        """The groups that are requested."""
        self.by_name: dict[tuple[str, str], OffsetFetchResponseTopics] = {}
        """What is answered so far, by group and topic: a topic may be requested in several parts."""
        self.results: dict[str, OffsetFetchResponseGroup] = {}
        """By group, beginning with what is refused here."""

    @property
    def by_id(self) -> bool:
        return self.header.api_version >= _VERSION_WITH_TOPIC_IDS

    def request_of(self, queries: list[OffsetFetchRequestGroup]) -> OffsetFetchRequest:
        return OffsetFetchRequest(groups=queries, require_stable=self.require_stable)

    def fill_results(self, queries: list[OffsetFetchRequestGroup], response: Response) -> None:
        assert isinstance(response, OffsetFetchResponse)
        answered = {group.group_id: group for group in response.groups}
        for query in queries:
            group = answered.get(query.group_id)
            if group is None or group.error_code:
                self.fail_queries([query], ErrorCode.NOT_COORDINATOR if group is None else group.error_code)
                continue
            result = self.results[query.group_id]
            if result.error_code:
                # The error of another part holds for the whole group.
                continue
            is_all = self.asked[query.group_id].topics is None
            for topic in group.topics:
                known = self.by_name.get((query.group_id, topic.name))
                if known is not None:
                    known.partitions += topic.partitions
                elif self._may_be_returned(topic, is_all=is_all):
                    self.by_name[query.group_id, topic.name] = topic
                    result.topics.append(topic)

    def _may_be_returned(self, topic: OffsetFetchResponseTopics, *, is_all: bool) -> bool:
        if is_all and not self.handler.authorizer.authorize(self, Operation.DESCRIBE, (ResourceType.TOPIC, topic.name)):
            return False
        if self.by_id:
            known = self.handler.image.topics_by_name.get(topic.name)
            if known is None:
                return False
            topic.topic_id = known.topic_id
        return True

    def fail_queries(self, queries: list[OffsetFetchRequestGroup], error: int) -> None:
        error_code = ErrorCode.NOT_COORDINATOR if error == ErrorCode.COORDINATOR_NOT_AVAILABLE else error
        for query in queries:
            self.results[query.group_id] = OffsetFetchResponseGroup(query.group_id, [], error_code)

    def complete(self) -> None:
        self.handler.responder.begin_steps(self, self._respond())

    def _respond(self) -> Steps[None]:
        version = self.header.api_version
        if version >= _VERSION_WITH_GROUPS:
            response = OffsetFetchResponse(groups=list(self.results.values()))
        else:
            ((group_id, result),) = self.results.items()
            if result.error_code and version < _VERSION_WITH_TOP_LEVEL_ERROR:
                for topic in self.asked[group_id].topics or []:
                    yield from _refuse(result, topic, result.error_code)
            response = OffsetFetchResponse(error_code=result.error_code)
            yield from _old_topics(result.topics, response.topics)
        self.handler.responder.respond(self, response)


class OffsetFetchHandler(GroupHandler):
    api_key = ApiKey.OFFSET_FETCH
    request_class = PendingOffsetFetch

    def start(self, pending: PendingOffsetFetch, request: OffsetFetchRequest) -> Steps[None]:
        pending.require_stable = request.require_stable
        if pending.header.api_version >= _VERSION_WITH_GROUPS:
            groups = request.groups
        else:
            topics = None
            if request.topics is not None:
                topics = []
                for each in request.topics:
                    topics.append(OffsetFetchRequestTopics(each.name, partition_indexes=each.partition_indexes))
                    yield 1
            groups = [OffsetFetchRequestGroup(request.group_id, topics=topics)]
        for group in groups:
            pending.asked[group.group_id] = group
            yield 1
        for group in pending.asked.values():
            yield from _add_group(pending, group)
        pending.send_calls()


def _add_group(pending: PendingOffsetFetch, group: OffsetFetchRequestGroup) -> Steps[None]:
    pending.results[group.group_id] = result = OffsetFetchResponseGroup(group.group_id)
    if not pending.handler.authorizer.authorize(pending, Operation.DESCRIBE, (ResourceType.GROUP, group.group_id)):
        pending.fail_queries([group], ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return
    if group.topics is None:
        _ask(pending, group, None)
        return
    wanted: dict[tuple[str, bytes], dict[int, None]] = {}
    for topic in group.topics:
        indexes = wanted.setdefault((topic.name, topic.topic_id), {})
        for index in topic.partition_indexes:
            indexes[index] = None
            yield 1
        yield 1
    part: list[OffsetFetchRequestTopics] = []
    room = GROUP_CALL_ELEMENTS_MAX
    for (name, topic_id), partitions in wanted.items():
        known = _name_of(pending, name, topic_id)
        indexes_left = list(partitions)
        if isinstance(known, ErrorCode):
            yield from _refuse(result, OffsetFetchRequestTopics(name, topic_id, indexes_left), known)
            continue
        while True:
            indexes_now, indexes_left = indexes_left[: room - 1], indexes_left[room - 1 :]
            part.append(OffsetFetchRequestTopics(known, partition_indexes=indexes_now))
            room -= 1 + len(indexes_now)
            yield 1 + len(indexes_now)
            if room > 1 and not indexes_left:
                break
            _ask(pending, group, part)
            part, room = [], GROUP_CALL_ELEMENTS_MAX
            if not indexes_left:
                break
    if part or group.group_id not in pending.added:
        _ask(pending, group, part)


def _ask(
    pending: PendingOffsetFetch, group: OffsetFetchRequestGroup, topics: list[OffsetFetchRequestTopics] | None
) -> None:
    elements = 1 + sum(1 + len(topic.partition_indexes) for topic in topics or ())
    query = OffsetFetchRequestGroup(group.group_id, group.member_id, group.member_epoch, topics)
    pending.added[group.group_id] = None
    pending.add_query(group.group_id, query, elements)


def _name_of(pending: PendingOffsetFetch, name: str, topic_id: bytes) -> str | ErrorCode:
    """Return the topic by name, or why it is refused."""
    if pending.by_id:
        known = pending.handler.image.topics_by_id.get(topic_id)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        name = known.topic
    if not pending.handler.authorizer.authorize(pending, Operation.DESCRIBE, (ResourceType.TOPIC, name)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return name


def _refuse(result: OffsetFetchResponseGroup, topic: OffsetFetchRequestTopics, error: int) -> Steps[None]:
    refused = OffsetFetchResponseTopics(topic.name, topic.topic_id, [])
    result.topics.append(refused)
    for index in topic.partition_indexes:
        refused.partitions.append(OffsetFetchResponsePartitions(index, -1, -1, "", error))
        yield 1


def _old_topics(topics: list[OffsetFetchResponseTopics], old_topics: list[OffsetFetchResponseTopic]) -> Steps[None]:
    for topic in topics:
        old = OffsetFetchResponseTopic(topic.name, [])
        old_topics.append(old)
        for each in topic.partitions:
            old.partitions.append(
                OffsetFetchResponsePartition(
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.metadata,
                    each.error_code,
                )
            )
            yield 1
