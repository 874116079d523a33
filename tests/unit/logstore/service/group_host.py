"""A logstore that coordinates groups, its gateway, and its purgatory pod, in a test's hand."""

from __future__ import annotations

from itertools import count
from typing import Any

from barnabas.channel.messages import (
    CoordinateRequest,
    CoordinateResponse,
    GroupAnswer,
    GroupCall,
    GroupCollect,
    GroupState,
    Hello,
    WatchedGroup,
    WatchRequest,
)
from barnabas.wire.codec import decode_response_body, encode_body
from barnabas.wire.messages import Request, Response, api_key_of
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.streams.outbox import Outputs
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.service.support import CLUSTER_ID, EXCHANGE, READ, WATCH, Host, topic

COORDINATE = 4
OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_TOPIC_ID = b"offsets of group"
GROUP = "shoppers"
CONSUMED = "carts"

_VERSIONS: dict[type[Request], int] = {
    JoinGroupRequest: 7,
    SyncGroupRequest: 5,
    HeartbeatRequest: 4,
    OffsetCommitRequest: 8,
}


def offsets_topic(leader_epoch: int = 0, partition_epoch: int = 0, **fields: Any) -> Any:
    return topic(leader_epoch, partition_epoch, name=OFFSETS_TOPIC, topic_id=OFFSETS_TOPIC_ID, **fields)


class GroupHost(Host):
    """Everything that was answered is in `answers`, by request id."""

    def __init__(self, disk: DiskModel | None = None, **config: Any) -> None:
        self.answers: dict[int, GroupAnswer] = {}
        self.group_states: list[GroupState] = []
        self.call_ids = count(1)
        self._calls: dict[int, tuple[int, int]] = {}
        config.setdefault("groups", GroupConfig(initial_rebalance_delay_ms=0))
        super().__init__(disk, **config)
        self.core.on_coordinate(COORDINATE, CoordinateRequest(Hello(CLUSTER_ID, "gateway")))
        self.greet(EXCHANGE, READ, WATCH)

    def collect(self) -> Outputs:
        out = super().collect()
        for response in coordinated(out):
            for answer in response.answers:
                assert answer.request_id not in self.answers, "a request is answered once"
                self.answers[answer.request_id] = answer
        for _, watched in out.watches:
            self.group_states += watched.group_states
        return out

    def later(self, ms: int) -> None:
        """So much later, with all that follows."""
        self.now_ms += ms
        self.core.tick(self.now_ms)
        self.settle()

    # --- calls ---

    def call(
        self,
        request: Request,
        version: int | None = None,
        *,
        stream_id: int = COORDINATE,
        verification_guard: int = 0,
    ) -> int:
        """Ask, in no turn yet; the id of the request."""
        version = _VERSIONS[type(request)] if version is None else version
        request_id, api_key = next(self.call_ids), int(api_key_of(type(request)))
        self._calls[request_id] = api_key, version
        body = encode_body(request, version)
        call = GroupCall(request_id, 0, api_key, version, "client", "/10.0.0.7", body, verification_guard)
        self.core.on_coordinate(stream_id, CoordinateRequest(calls=[call]))
        return request_id

    def ask(self, request: Request, version: int | None = None) -> Any:
        """The body of the answer, or the error of the whole call."""
        request_id = self.call(request, version)
        self.settle()
        return self.answer_of(request_id)

    def answer_of(self, request_id: int) -> Any:
        answer = self.answers[request_id]
        if answer.error_code or answer.wait is not None:
            return answer.wait or answer.error_code
        response = decode_response_body(*self._calls[request_id], memoryview(answer.body))
        assert isinstance(response, Response)
        return response

    def collect_of(self, request_id: int) -> Any:
        """The collect for the request that has to wait."""
        wait = self.answers[request_id].wait
        assert wait is not None
        collect_id = next(self.call_ids)
        self._calls[collect_id] = api_key, version = self._calls[request_id]
        collect = GroupCollect(
            collect_id,
            0,
            api_key,
            version,
            wait.coordinator_epoch,
            wait.group_id,
            wait.member_id,
            wait.generation_id,
        )
        self.core.on_coordinate(COORDINATE, CoordinateRequest(collects=[collect]))
        self.settle()
        return self.answer_of(collect_id)

    # --- groups ---

    def joined(self, member_id: str = "", *, group_id: str = GROUP) -> JoinGroupResponse:
        """One member, alone in its group, from its first request to its generation."""
        reported = self.ask(join_request(member_id, group_id=group_id))
        if isinstance(reported, JoinGroupResponse) and reported.member_id and reported.error_code:
            request_id = self.call(join_request(reported.member_id, group_id=group_id))
            self.settle()
            reported = self.answer_of(request_id)
            if not isinstance(reported, JoinGroupResponse):
                reported = self.collect_of(request_id)
        assert isinstance(reported, JoinGroupResponse)
        assert reported.error_code == 0, reported
        return reported

    def synced(self, joined: JoinGroupResponse, *, group_id: str = GROUP) -> SyncGroupResponse:
        given = [SyncGroupRequestAssignment(joined.member_id, b"all of it")]
        reported = self.ask(
            SyncGroupRequest(group_id, joined.generation_id, joined.member_id, None, "consumer", "range", given)
        )
        assert isinstance(reported, SyncGroupResponse)
        return reported

    def heartbeat(self, joined: JoinGroupResponse, *, group_id: str = GROUP) -> Any:
        return self.ask(HeartbeatRequest(group_id, joined.generation_id, joined.member_id))

    def commit(self, offset: int, joined: JoinGroupResponse | None = None, **fields: str) -> int:
        """Commit an offset, in no turn yet."""
        return self.call(commit_request(offset, joined, **fields))

    def committed(self, *, group_id: str = GROUP, consumed: str = CONSUMED) -> Any:
        """The offset that is found; -1: none. Or the error of the call."""
        reported = self.ask(fetch_request(group_id=group_id, consumed=consumed), 8)
        if not isinstance(reported, OffsetFetchResponse):
            return reported
        assert reported.groups[0].error_code == 0
        return reported.groups[0].topics[0].partitions[0].committed_offset

    def watch_group(self, group_id: str = GROUP, *, stream_id: int = WATCH) -> None:
        watched = WatchedGroup(OFFSETS_TOPIC_ID, 0, group_id)
        self.core.on_watch(stream_id, WatchRequest(group_watches=[watched]))
        self.settle()

    def take_states(self) -> list[tuple[int, int]]:
        """What purgatory received since the last call: (coordinator epoch, step)."""
        states, self.group_states = self.group_states, []
        return [(state.coordinator_epoch, state.step) for state in states]


def coordinated(out: Outputs, stream_id: int = COORDINATE) -> list[CoordinateResponse]:
    return [response for id_, response in out.coordinations if id_ == stream_id]


def join_request(member_id: str = "", *, group_id: str = GROUP, session_timeout_ms: int = 10_000) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return JoinGroupRequest(group_id, session_timeout_ms, 20_000, member_id, None, "consumer", protocols)


def commit_request(
    offset: int, joined: JoinGroupResponse | None = None, *, group_id: str = GROUP, consumed: str = CONSUMED
) -> OffsetCommitRequest:
    generation_id, member_id = (-1, "") if joined is None else (joined.generation_id, joined.member_id)
    partitions = [OffsetCommitRequestPartition(0, offset, committed_metadata="")]
    topics = [OffsetCommitRequestTopic(consumed, partitions=partitions)]
    return OffsetCommitRequest(group_id, generation_id, member_id, topics=topics)


def fetch_request(*, group_id: str = GROUP, consumed: str = CONSUMED) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(consumed, partition_indexes=[0])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=topics)])
