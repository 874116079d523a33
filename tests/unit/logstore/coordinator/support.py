"""A group coordinator between a scripted log and clients controlled by a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from barnabas.channel.messages import GroupAnswer, GroupCall, GroupCollect, GroupWait
from barnabas.runtime.compression import decompress
from barnabas.wire.codec import decode_response_body, encode_body
from barnabas.wire.errors import ErrorCode, Refused
from barnabas.wire.messages import Request, Response, api_key_of
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from barnabas.wire.record_batch import Record, build_batch, decode_records, iterate_headers, patch_offsets
from barnabas_logstore.core.coordinator.groups.config import GroupConfig
from barnabas_logstore.core.coordinator.groups.kind import GroupKind
from barnabas_logstore.core.coordinator.groups.member_bytes import MemberBytes
from barnabas_logstore.core.coordinator.groups.pending_joins import PendingJoins
from barnabas_logstore.core.coordinator.groups.records import Entry, read_record
from barnabas_logstore.core.coordinator.groups.registry import Groups
from barnabas_logstore.core.coordinator.groups.shard import GroupShard
from barnabas_logstore.core.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from barnabas_logstore.core.coordinator.runtime.timers import Timers

PARTITION = 7
STREAM = 1
WALL_AT_START_MS = 1_700_000_000_000
DELAY_MS = 100
QUICK = GroupConfig(initial_rebalance_delay_ms=DELAY_MS)

R = TypeVar("R", bound=Response)


@dataclass
class FakeLog:
    """Stores batches; commits them at once or on request; refuses on request."""

    batches: list[bytes] = field(default_factory=list)
    next_offset: int = 0
    committed_upto: int = 0
    commits_at_once: bool = True
    refusal: ErrorCode = ErrorCode.NONE
    """Of `check_append` and `append`."""
    fails_appends: bool = False
    """Though `check_append` has allowed them."""
    bytes_max: int = 1_000_000
    reads: list[int] = field(default_factory=list)

    def check_append(self, expected_epoch: int) -> ErrorCode:
        return self.refusal

    def batch_bytes_max(self) -> int:
        return self.bytes_max

    def append(self, expected_epoch: int, records: list[Record]) -> int | Refused:
        if self.refusal or self.fails_appends:
            return Refused(self.refusal or ErrorCode.KAFKA_STORAGE_ERROR)
        batch = build_batch(records)
        assert len(batch) <= self.bytes_max
        self.add(batch, len(records))
        return self.next_offset

    def add(self, batch: bytes, count: int) -> None:
        """Add it unchanged."""
        patched = bytearray(batch)
        patch_offsets(patched, 0, self.next_offset, 0)
        self.batches.append(bytes(patched))
        self.next_offset += count
        if self.commits_at_once:
            self.committed_upto = self.next_offset

    def read(self, expected_epoch: int, offset: int) -> None:
        assert not self.reads, "one read at a time"
        self.reads.append(offset)

    def end_offset(self) -> int:
        return self.next_offset

    def high_watermark(self) -> int:
        return self.committed_upto

    def data_from(self, offset: int, batches_max: int) -> tuple[bytes, int]:
        found: list[bytes] = []
        next_offset = offset
        for batch in self.batches:
            _, header = next(iter(iterate_headers(batch)))
            if header.base_offset >= offset and len(found) < batches_max:
                found.append(batch)
                next_offset = header.next_offset
        return b"".join(found), next_offset

    def truncate(self) -> None:
        """What is not committed is gone, as under a new leader that had not got it."""
        kept: list[bytes] = []
        for batch in self.batches:
            _, header = next(iter(iterate_headers(batch)))
            if header.next_offset <= self.committed_upto:
                kept.append(batch)
        self.batches = kept
        self.next_offset = self.committed_upto

    def entries(self) -> list[Entry]:
        """What all records say, in order."""
        records = [record for batch in self.batches for record in decode_records(batch)]
        return [entry for record in records if (entry := read_record(record.key, record.value)) is not None]


class World:
    """One coordinator, one partition, and time. `turn` is one turn of the host."""

    def __init__(self, config: GroupConfig = QUICK, log: FakeLog | None = None) -> None:
        self.client_host = "/10.0.0.7"
        self.ids = 0
        self.now_ms = 0
        self.epoch = 0
        self.log = log or FakeLog()
        self.answers: dict[int, GroupAnswer] = {}
        self.calls: dict[int, tuple[int, int]] = {}
        """API key and version of each request."""
        self.last_id = 0
        self.on_answer: Callable[[int], None] = lambda request_id: None
        """Called with a request's id when its answer has come."""
        self.reported_committed = 0
        self.batches_per_read = 1
        self.kind = GroupKind(config, self._make_member_id)
        self.coordinator: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(self.kind, decompress)
        self.lead()

    def _make_member_id(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}-{self.ids}"

    @property
    def wall_ms(self) -> int:
        return WALL_AT_START_MS + self.now_ms

    # --- what is known ------------------------------------------------------------------------------------------------

    @property
    def groups(self) -> Groups:
        led = self.coordinator.find(PARTITION)
        assert led is not None
        return led.shard.groups

    def state_of(self, group_id: str) -> tuple[int, int]:
        """As purgatory pods learn of it: the coordinator's epoch, or -1, and the group's step."""
        led = self.coordinator.find(PARTITION)
        return (-1, 0) if led is None else (led.leader_epoch, led.shard.groups.step_of(group_id))

    @property
    def deadlines(self) -> Timers:
        return self.kind.timers

    @property
    def pending_joins(self) -> PendingJoins:
        return self.kind._parts.pending_joins

    @property
    def member_bytes(self) -> MemberBytes:
        return self.kind._parts.member_bytes

    def delete_topics(self, *topics: str) -> None:
        """They are deleted from the cluster."""
        self.coordinator.begin_pieces(lambda shard: shard.expiry.delete_topics(topics), self.coordinator.shards)

    # --- the log ------------------------------------------------------------------------------------------------------

    def lead(self, *, loads: bool = True) -> None:
        """A new epoch begins here."""
        self.epoch += 1
        self.reported_committed = self.log.committed_upto
        self.log.reads.clear()
        self.coordinator.begin_turn(self.now_ms, self.wall_ms)
        self.coordinator.on_leadership(PARTITION, self.epoch, self.log, self.now_ms)
        if loads:
            self.load()

    def load(self) -> None:
        while self.log.reads or self.coordinator.has_work:
            self.feed()
            self.coordinator.step(self.now_ms)
        self.turn()

    def feed(self) -> None:
        """Give what was asked for."""
        if self.log.reads and not self.coordinator.has_work:
            data, next_offset = self.log.data_from(self.log.reads.pop(), self.batches_per_read)
            self.coordinator.on_read(PARTITION, self.epoch, memoryview(data), next_offset, self.now_ms)

    def lose(self) -> None:
        self.coordinator.on_lost(PARTITION, self.epoch, self.now_ms)
        self.take()

    def reload(self) -> None:
        """The leader goes, and comes again under a new epoch with what was committed."""
        self.lose()
        self.log.truncate()
        self.lead()

    def commit(self, upto: int | None = None) -> None:
        """All in-sync replicas have got it."""
        self.log.committed_upto = self.log.next_offset if upto is None else upto
        self.turn()

    # --- time ---------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        self.coordinator.begin_turn(self.now_ms, self.wall_ms)
        self.coordinator.step(self.now_ms)
        self.tell_committed()
        self.take()

    def tell_committed(self) -> None:
        if self.log.committed_upto > self.reported_committed:
            self.reported_committed = self.log.committed_upto
            self.coordinator.on_committed(PARTITION, self.epoch, self.reported_committed, self.now_ms)

    def take(self) -> None:
        for stream_id, answer in self.coordinator.take_answers():
            assert stream_id == STREAM
            assert answer.request_id not in self.answers, "a request is answered once"
            self.answers[answer.request_id] = answer
            self.on_answer(answer.request_id)

    def advance(self, ms: int) -> None:
        """To every deadline on the way, and then to the end of it."""
        end_ms = self.now_ms + ms
        while (next_ms := self.coordinator.next_deadline_ms()) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self.turn()
        self.now_ms = end_ms
        self.turn()

    # --- requests -----------------------------------------------------------------------------------------------------

    def send(self, request: Request, version: int, *, client_id: str = "client") -> int:
        return self.send_body(int(api_key_of(type(request))), version, encode_body(request, version), client_id)

    def send_body(self, api_key: int, version: int, body: bytes, client_id: str = "client") -> int:
        request_id = self.begin(api_key, version, body, client_id)
        self.turn()
        return request_id

    def begin(self, api_key: int, version: int, body: bytes, client_id: str = "client") -> int:
        """Send, and let others send in the same turn."""
        self.last_id += 1
        self.calls[self.last_id] = api_key, version
        self.coordinator.begin_turn(self.now_ms, self.wall_ms)
        call = GroupCall(self.last_id, PARTITION, api_key, version, client_id, self.client_host, body)
        self.coordinator.on_call(STREAM, call)
        return self.last_id

    def collect(self, request_id: int) -> int:
        """Send a new request for the result of that request's wait."""
        wait = self.wait_of(request_id)
        api_key, version = self.calls[request_id]
        return self.send_collect(wait, api_key, version)

    def send_collect(self, wait: GroupWait, api_key: int, version: int) -> int:
        self.last_id += 1
        self.calls[self.last_id] = api_key, version
        collect = GroupCollect(
            self.last_id,
            PARTITION,
            api_key,
            version,
            wait.coordinator_epoch,
            wait.group_id,
            wait.member_id,
            wait.generation_id,
        )
        self.coordinator.begin_turn(self.now_ms, self.wall_ms)
        self.coordinator.on_collect(STREAM, collect)
        self.turn()
        return self.last_id

    def is_answered(self, request_id: int) -> bool:
        return request_id in self.answers

    def error_of(self, request_id: int) -> ErrorCode:
        """Of the whole call: there is no body."""
        answer = self.answers[request_id]
        assert answer.wait is None
        assert not answer.body
        return ErrorCode(answer.error_code)

    def wait_of(self, request_id: int) -> GroupWait:
        wait = self.answers[request_id].wait
        assert wait is not None
        return wait

    def is_over(self, wait: GroupWait) -> bool:
        """Whether purgatory would wake the waiting request."""
        epoch, step = self.state_of(wait.group_id)
        return epoch != wait.coordinator_epoch or step >= wait.step

    def body_of(self, request_id: int, kind: type[R]) -> R:
        answer = self.answers[request_id]
        assert answer.error_code == ErrorCode.NONE
        assert answer.wait is None
        api_key, version = self.calls[request_id]
        response = decode_response_body(api_key, version, memoryview(answer.body))
        assert isinstance(response, kind)
        return response

    def ask(self, request: Request, version: int, kind: type[R], *, client_id: str = "client") -> R:
        """Send, and have the answer in the same turn."""
        return self.body_of(self.send(request, version, client_id=client_id), kind)

    def awaited(self, request_id: int, kind: type[R]) -> R:
        """Return the result of a waiting request when it comes back, which is due."""
        assert self.is_over(self.wait_of(request_id)), "who waits is not woken"
        return self.body_of(self.collect(request_id), kind)

    # --- shorthand ----------------------------------------------------------------------------------------------------

    def join(self, member_id: str = "", *, version: int = 9, **changes: Any) -> int:
        return self.send(join_request(member_id, **changes), version)

    def first_join(self, **changes: Any) -> tuple[str, int]:
        """A new dynamic member: its id, and the request by which it joins with it."""
        version = changes.pop("version", 9)
        reported = self.ask(join_request(**changes), version, JoinGroupResponse)
        assert reported.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return reported.member_id, self.join(reported.member_id, version=version, **changes)

    def joined(self, request_id: int) -> JoinGroupResponse:
        """What a join has come to, whether it had to wait or not."""
        if self.answers[request_id].wait is not None:
            return self.awaited(request_id, JoinGroupResponse)
        return self.body_of(request_id, JoinGroupResponse)

    def sync(self, joined: JoinGroupResponse, assignments: dict[str, bytes] | None = None, **changes: Any) -> int:
        given = [SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()]
        request = SyncGroupRequest("group", joined.generation_id, joined.member_id, None, None, None, given)
        return self.send(replace(request, **changes), 5)

    def synced(self, request_id: int) -> SyncGroupResponse:
        if self.answers[request_id].wait is not None:
            return self.awaited(request_id, SyncGroupResponse)
        return self.body_of(request_id, SyncGroupResponse)

    def heartbeat(self, joined: JoinGroupResponse, **changes: Any) -> ErrorCode:
        request = replace(HeartbeatRequest("group", joined.generation_id, joined.member_id), **changes)
        return ErrorCode(self.ask(request, 4, HeartbeatResponse).error_code)

    def leave(self, *identities: MemberIdentity, group_id: str = "group") -> list[ErrorCode]:
        response = self.ask(LeaveGroupRequest(group_id, members=list(identities)), 5, LeaveGroupResponse)
        return [ErrorCode(each.error_code) for each in response.members] or [ErrorCode(response.error_code)]

    def stable_group(self, count: int, **changes: Any) -> list[JoinGroupResponse]:
        """Return that many members, stable: the join response of each, the leader first. Static, by `instances`."""
        joined = self.joined_group(count, **changes)
        self.all_sync(joined)
        return joined

    def joined_group(self, count: int, *, instances: bool = False, **changes: Any) -> list[JoinGroupResponse]:
        """As `stable_group`, but no member has synced yet."""
        if instances:
            requests = [self.join(group_instance_id=f"instance {n}", **changes) for n in range(count)]
        else:
            requests = [self.first_join(**changes)[1] for _ in range(count)]
        self.advance(3 * DELAY_MS)
        return sorted(map(self.joined, requests), key=lambda each: each.leader != each.member_id)

    def all_sync(self, joined: list[JoinGroupResponse]) -> list[SyncGroupResponse]:
        assignments = {each.member_id: f"share of {each.member_id}".encode() for each in joined}
        sent = [self.sync(each, assignments if each.leader == each.member_id else None) for each in joined]
        return [self.synced(each) for each in sent]

    def commit_offset(self, offset: int, *, version: int = 9, **changes: Any) -> int:
        return self.send(commit_request(offset, **changes), version)

    def commit_error(self, request_id: int) -> ErrorCode:
        response = self.body_of(request_id, OffsetCommitResponse)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def fetch_offset(self, *, group_id: str = "group", topic: str = "topic", partition: int = 0) -> int:
        topics = [OffsetFetchRequestTopics(topic, partition_indexes=[partition])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=topics)])
        response = self.ask(request, 9, OffsetFetchResponse)
        return response.groups[0].topics[0].partitions[0].committed_offset


def join_request(member_id: str = "", **changes: Any) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", subscription("topic"))]
    return replace(
        JoinGroupRequest("group", 10_000, 60_000, member_id, None, "consumer", protocols, "a test"), **changes
    )


def commit_request(
    offset: int,
    *,
    group_id: str = "group",
    generation_id: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
    topic: str = "topic",
    partition: int = 0,
    metadata: str | None = "",
    retention_ms: int = -1,
) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(partition, offset, 3, metadata)]
    topics = [OffsetCommitRequestTopic(topic, bytes(16), partitions)]
    return OffsetCommitRequest(group_id, generation_id, member_id, instance_id, retention_ms, topics)


def subscription(*topics: str) -> bytes:
    """ConsumerProtocolSubscription v0."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"
