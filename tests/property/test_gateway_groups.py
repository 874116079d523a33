"""Groups at the gateway: every version of every request is answered in a form that its client can read, whatever
happens; members wait under any interleaving and are answered once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from barnabas.channel.messages import CoordinateResponse, Credit, GroupAnswer, GroupCall, Outcome
from barnabas.cluster.internal_topics import java_hash, partition_of_group
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest
from tests.tiers import Cost, examples
from tests.unit.gateway.groups import EPOCH, answer_to_wait, group_world, offsets_topic
from tests.unit.gateway.world import TOPIC_ID, Client, World, topic

NAMES = st.sampled_from(["t", "gone"])
GROUP_IDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PARTITIONS = st.lists(st.integers(0, 3), max_size=3)


def _ids(draw: st.DrawFn) -> bytes:
    return draw(st.sampled_from([TOPIC_ID, b"of no topic here"]))


def _commit(draw: st.DrawFn, group_id: str) -> Any:
    topics = [
        OffsetCommitRequestTopic(
            draw(NAMES), _ids(draw), [OffsetCommitRequestPartition(each, 7, 1, None) for each in draw(PARTITIONS)]
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    return OffsetCommitRequest(group_id, 1, "m", topics=topics)


def _fetch(draw: st.DrawFn, group_id: str) -> Any:
    count = draw(st.integers(0, 2))
    named = [(draw(NAMES), _ids(draw), draw(PARTITIONS)) for _ in range(count)]
    return OffsetFetchRequest(
        group_id,
        [OffsetFetchRequestTopic(name, partitions) for name, _, partitions in named],
        [
            OffsetFetchRequestGroup(each, topics=[OffsetFetchRequestTopics(*topic) for topic in named] or None)
            for each in (group_id, draw(GROUP_IDS))
        ],
    )


def _delete_offsets(draw: st.DrawFn, group_id: str) -> Any:
    topics = [
        OffsetDeleteRequestTopic(draw(NAMES), [OffsetDeleteRequestPartition(each) for each in draw(PARTITIONS)])
        for _ in range(draw(st.integers(0, 3)))
    ]
    return OffsetDeleteRequest(group_id, topics)


REQUESTS: dict[ApiKey, Callable[[st.DrawFn, str], Any]] = {
    ApiKey.OFFSET_COMMIT: _commit,
    ApiKey.OFFSET_FETCH: _fetch,
    ApiKey.FIND_COORDINATOR: lambda draw, group_id: FindCoordinatorRequest(
        group_id, coordinator_keys=[group_id, draw(GROUP_IDS)]
    ),
    ApiKey.JOIN_GROUP: lambda draw, group_id: JoinGroupRequest(
        group_id, 1, 1, "m", protocols=[JoinGroupRequestProtocol("range", draw(st.binary(max_size=64)))]
    ),
    ApiKey.HEARTBEAT: lambda draw, group_id: HeartbeatRequest(group_id, 1, "m"),
    ApiKey.LEAVE_GROUP: lambda draw, group_id: LeaveGroupRequest(group_id, "m", [MemberIdentity("m")]),
    ApiKey.SYNC_GROUP: lambda draw, group_id: SyncGroupRequest(
        group_id, 1, "m", protocol_type="consumer", protocol_name=draw(st.sampled_from([None, "range"]))
    ),
    ApiKey.DESCRIBE_GROUPS: lambda draw, group_id: DescribeGroupsRequest([group_id, draw(GROUP_IDS)]),
    ApiKey.LIST_GROUPS: lambda draw, group_id: ListGroupsRequest(["Stable"]),
    ApiKey.DELETE_GROUPS: lambda draw, group_id: DeleteGroupsRequest([group_id, draw(GROUP_IDS)]),
    ApiKey.OFFSET_DELETE: _delete_offsets,
}
EVERY_VERSION = [(key, version) for key in REQUESTS for version in range(key.version_min, key.version_max + 1)]
FATES = ("refused", "lost", "silent", "nothing", "wait")


@st.composite
def requests(draw: st.DrawFn) -> tuple[ApiKey, int, Any]:
    key, version = draw(st.sampled_from(EVERY_VERSION))
    request = REQUESTS[key](draw, draw(GROUP_IDS))
    if key is ApiKey.LIST_GROUPS and version < 4:
        request = ListGroupsRequest()
    return key, version, request


@examples(Cost.LOW)
@given(requests(), st.sampled_from(FATES), st.sampled_from([int(error) for error in ErrorCode]), st.booleans())
def test_every_request_is_answered_whatever_becomes_of_its_calls(
    asked: tuple[ApiKey, int, Any], fate: str, error: int, there_is_a_topic: bool
) -> None:
    """The client decodes each answer by its schema (`Client.take`)."""
    key, version, request = asked
    world = group_world(1, 2, 1, -1) if there_is_a_topic else World(topic())
    client = world.client()
    client.ask(request, key, version)
    for logstore in world.logstores.values():
        while logstore.group_calls:
            match fate:
                case "refused":
                    logstore.group_answer(error_code=error)
                case "lost":
                    logstore.down()
                case "silent":
                    logstore.group_calls.clear()
                case "nothing":
                    logstore.group_answer()
                case _:
                    logstore.group_answer(wait=answer_to_wait())
    world.pass_ms(20_000)
    assert len(client.answers) == 1
    client.close()
    assert world.processor.next_deadline_ms() is None
    assert world.processor.request_memory.held_bytes == 0


@given(GROUP_IDS, st.integers(1, 100))
def test_every_group_has_a_partition(group_id: str, partitions: int) -> None:
    assert -(1 << 31) <= java_hash(group_id) < 1 << 31
    assert 0 <= partition_of_group(group_id, partitions) < partitions


# --- members that wait -----------------------------------------------------------------------------------------------

JOINED = JoinGroupResponse(0, 0, 3, "consumer", "range", "m-1", False, "m-1", [])
MEMBERS = 4
ACTIONS = st.one_of(
    st.tuples(st.just("join"), st.integers(0, MEMBERS - 1)),
    st.tuples(st.just("join"), st.integers(0, MEMBERS - 1)),
    st.tuples(st.just("answer"), st.sampled_from(["wait", "wait", "joined", "error"])),
    st.tuples(st.just("answer"), st.sampled_from(["wait", "wait", "joined", "error"])),
    st.tuples(st.just("complete"), st.sampled_from(list(Outcome))),
    st.tuples(st.just("leave"), st.integers(0, MEMBERS - 1)),
    st.tuples(st.just("down"), st.just(0)),
    st.tuples(st.just("up"), st.integers(0, 3)),
    st.tuples(st.just("grant"), st.integers(1, 3)),
    st.tuples(st.just("pod_down"), st.just(0)),
    st.tuples(st.just("pod_up"), st.just(0)),
    st.tuples(st.just("lead"), st.just(0)),
    st.tuples(st.just("pass_ms"), st.sampled_from([1, 60, 300, 6_000])),
)


class Model:
    def __init__(self) -> None:
        self.world = group_world(1)
        self.epoch = EPOCH
        self.clients: list[Client] = [self.world.client() for _ in range(MEMBERS)]
        self.asked = dict.fromkeys(range(1, MEMBERS + 1), 0)
        """Joins by connection id."""
        self.joins: list[tuple[int, bytes]] = []
        """Every join that a coordinator was given, by request id."""
        self.is_up = True
        self.pod_is_up = True

    def act(self, kind: str, argument: Any) -> None:
        getattr(self, f"_{kind}")(argument)
        for call in self.world.logstore.group_calls:
            if (call.request_id, bytes(call.body)) not in self.joins:
                self.joins.append((call.request_id, bytes(call.body)))
        bodies = [body for _, body in self.joins]
        assert len(bodies) == len(set(bodies)), "a join was sent twice"
        for client in self.clients:
            assert len(client.answers) <= self.asked[client.connection_id]
            assert client.correlation_ids == list(range(1, len(client.answers) + 1)), "answers out of order"

    def _join(self, index: int) -> None:
        client = self.clients[index]
        self.asked[client.connection_id] += 1
        member_id = f"{client.connection_id}-{self.asked[client.connection_id]}"
        client.ask(JoinGroupRequest("g", 1, 1, member_id), ApiKey.JOIN_GROUP, 9)

    def _answer(self, how: str) -> None:
        logstore = self.world.logstore
        waiting: list[Any] = [*logstore.group_calls, *logstore.collects]
        if not waiting:
            return
        first = waiting[0]
        (logstore.group_calls if isinstance(first, GroupCall) else logstore.collects).pop(0)
        answer = GroupAnswer(first.request_id)
        match how:
            case "wait":
                answer.wait = answer_to_wait(coordinator_epoch=self.epoch)
            case "joined":
                answer.body = encode_body(JOINED, 9)
            case _:
                answer.error_code = ErrorCode.NOT_COORDINATOR
        logstore.coordinate(CoordinateResponse(answers=[answer]))

    def _complete(self, outcome: Outcome) -> None:
        if self.pod_is_up and self.world.pod.groups:
            self.world.pod.complete(self.world.pod.groups.pop(0).entry_id, outcome)

    def _leave(self, index: int) -> None:
        self.clients[index].close()
        self.clients[index] = self.world.client()
        self.asked[self.clients[index].connection_id] = 0

    def _down(self, _: int) -> None:
        if self.is_up:
            self.is_up = False
            self.world.logstore.down()

    def _up(self, requests: int) -> None:
        if not self.is_up:
            self.is_up = True
            self.world.logstore.up(Credit(requests, 1 << 20))

    def _grant(self, requests: int) -> None:
        if self.is_up:
            self.world.logstore.coordinate(CoordinateResponse(credit=Credit(requests, 1 << 20)))

    def _pod_down(self, _: int) -> None:
        if self.pod_is_up:
            self.pod_is_up = False
            self.world.pod.down()

    def _pod_up(self, _: int) -> None:
        if not self.pod_is_up:
            self.pod_is_up = True
            self.world.pod.up()

    def _lead(self, _: int) -> None:
        self.epoch += 1
        self.world.update(topic("t", leaders=(1, 1)), offsets_topic(1, epoch=self.epoch))

    def _pass_ms(self, duration_ms: int) -> None:
        self.world.pass_ms(duration_ms)

    def settle(self) -> None:
        """A world in which nothing fails any more answers every client."""
        self._up(3)
        self._grant(1000)
        self._pod_up(0)
        for _ in range(200):
            self.act("answer", "joined")
            self.act("complete", Outcome.SATISFIED)
            self.act("pass_ms", 300)
        for client in self.clients:
            assert len(client.answers) == self.asked[client.connection_id]
        for client in self.clients:
            client.close()
        assert self.world.processor.next_deadline_ms() is None
        assert not self.world.processor.purgatory.has_entries()
        assert self.world.processor.request_memory.held_bytes == 0


@given(st.lists(ACTIONS, max_size=40))
def test_members_wait_and_are_answered_once(actions: list[tuple[str, Any]]) -> None:
    model = Model()
    for kind, argument in actions:
        model.act(kind, argument)
    model.settle()
