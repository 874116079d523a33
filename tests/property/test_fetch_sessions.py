"""A consumer in a fetch session always sees what it would see by full fetches, whatever happens in between."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import event, given
from hypothesis import strategies as st

from barnabas.channel.messages import Outcome, ParkFetch, ReadPartition, ReadPartitionResult, ReadPiece, ReadResponse
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from tests.unit.gateway.world import Client, World, topic

BY_NAME, BY_ID = 12, 16
NAMES = ("a", "b")
PARTITIONS = 3
RECORD_BYTES = 10

Key = tuple[str, bytes, int]
"""Topic, the id that the consumer knows of it (nothing, by name) and partition."""


class Seen(NamedTuple):
    """What a consumer knows of a partition after a fetch."""

    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: bytes


@dataclass
class Log:
    start: int = 0
    end: int = 0


@dataclass
class Cluster:
    """One logstore with logs whose records are not read, and a purgatory pod that sees all."""

    world: World
    ids: dict[str, bytes] = field(default_factory=dict)
    logs: dict[tuple[bytes, int], Log] = field(default_factory=dict)
    _ids_given: int = 0

    def create(self, name: str) -> None:
        """A topic, or another one of the same name."""
        self.delete(name)
        self._ids_given += 1
        self.ids[name] = self._ids_given.to_bytes(16, "big")
        self.logs |= {(self.ids[name], partition): Log() for partition in range(PARTITIONS)}
        self.tell()

    def delete(self, name: str) -> None:
        topic_id = self.ids.pop(name, None)
        self.logs = {key: log for key, log in self.logs.items() if key[0] != topic_id}
        self.tell()

    def tell(self) -> None:
        self.world.update(*[topic(name, topic_id, (1,) * PARTITIONS) for name, topic_id in self.ids.items()])
        self.settle()

    def log(self, name: str, partition: int) -> Log | None:
        return self.logs.get((self.ids.get(name, b""), partition))

    def settle(self) -> None:
        """Answer whatever is asked, and end whatever waits for what has come."""
        world = self.world
        is_busy = True
        while is_busy:
            is_busy = False
            for cancelled in world.pod.cancels:
                world.pod.fetches = [park for park in world.pod.fetches if park.entry_id != cancelled]
            while world.logstore.reads:
                is_busy = True
                read = world.logstore.reads.pop(0)
                if read.request_id in world.logstore.cancels:
                    continue
                results = [self._read(index, asked) for index, asked in enumerate(read.partitions)]
                piece = ReadPiece(read.request_id, True, results)
                world.processor.read_response(1, ReadResponse(pieces=[piece]), world.now_ms)
                world.turn()
            for park in list(world.pod.fetches):
                if self._is_over(park):
                    is_busy = True
                    world.pod.fetches.remove(park)
                    world.pod.complete(park.entry_id, Outcome.SATISFIED)

    def _read(self, index: int, asked: ReadPartition) -> ReadPartitionResult:
        log = self.logs.get((asked.topic_id, asked.partition))
        if log is None:
            return ReadPartitionResult(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        is_there = log.start <= asked.fetch_offset <= log.end
        error = ErrorCode.NONE if is_there else ErrorCode.OFFSET_OUT_OF_RANGE
        records = bytes(RECORD_BYTES * (log.end - asked.fetch_offset)) if is_there else b""
        return ReadPartitionResult(index, error, log.end, log.end, log.start, 5, 1, 0, records)

    def _is_over(self, park: ParkFetch) -> bool:
        for condition in park.conditions:
            log = self.logs.get((condition.topic_id, condition.partition))
            if log is None or log.end > condition.fetch_offset or log.start > condition.fetch_offset:
                return True
        return False


class Consumer:
    """Keeps what it fetches and what it has seen of it, as the clients do."""

    def __init__(self, cluster: Cluster, version: int) -> None:
        self.cluster = cluster
        self.version = version
        self.client = cluster.world.client()
        self.offsets: dict[Key, int] = {}
        self.seen: dict[Key, Seen] = {}
        self._in_session: dict[Key, int] = {}
        self._session_id = self._epoch = 0

    def key(self, name: str, partition: int) -> Key:
        topic_id = self.cluster.ids.get(name, f"absent {name}".encode().ljust(16)) if self.version == BY_ID else b""
        return (name, topic_id, partition)

    def poll(self, max_wait_ms: int, *, is_answer_lost: bool = False) -> None:
        asked = dict(self.offsets)
        if self._epoch == 0:
            changed, forgotten = asked, []
        else:
            changed = {key: offset for key, offset in asked.items() if self._in_session.get(key) != offset}
            forgotten = [key for key in self._in_session if key not in asked]
        answer = self._ask(self.client, changed, forgotten, max_wait_ms, self._session_id, self._epoch)
        if is_answer_lost:
            event("answer lost")
            self._epoch = 0
            return
        if answer.error_code:
            event(ErrorCode(answer.error_code).name)
            assert self._epoch > 0
            self._epoch = 0
            self._session_id = 0
            return
        self._take(asked, answer)

    def _take(self, asked: dict[Key, int], answer: FetchResponse) -> None:
        reported = self._partitions_of(answer, asked)
        if self._epoch == 0:
            assert set(reported) == set(asked), "a full answer has everything"
            self.seen = {}
        elif not reported:
            event("nothing to tell")
        self.seen = {key: self.seen[key]._replace(records=b"") for key in asked if key in self.seen} | reported
        assert set(self.seen) == set(asked)
        self._in_session = asked
        is_in_session = answer.session_id != 0
        self._session_id, self._epoch = answer.session_id, self._epoch + 1 if is_in_session else 0
        self._compare(asked)
        for key, seen in self.seen.items():
            self.offsets[key] += len(seen.records) // RECORD_BYTES
            if seen.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self.offsets[key] = seen.log_start_offset

    def _compare(self, asked: dict[Key, int]) -> None:
        full = self._partitions_of(self._ask(self.cluster.world.client(), asked, [], 0, 0, -1), asked)
        for key, expected in full.items():
            seen = self.seen[key]
            if seen.error_code == ErrorCode.INCONSISTENT_TOPIC_ID or (key[1] and expected.error_code):
                # A session remembers the name of a topic that is gone; a full fetch by id never knew it.
                assert bool(seen.error_code) == bool(expected.error_code)
                continue
            if seen.log_start_offset != expected.log_start_offset:
                # Sent later if there is nothing else to send, or if this consumer does not need it.
                assert seen.log_start_offset < expected.log_start_offset <= asked[key]
                seen = seen._replace(log_start_offset=expected.log_start_offset)
            assert seen == expected, key

    def _ask(
        self,
        client: Client,
        named: dict[Key, int],
        forgotten: list[Key],
        max_wait_ms: int,
        session_id: int,
        epoch: int,
    ) -> FetchResponse:
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=epoch,
            topics=[
                FetchTopic(name, topic_id, [FetchPartition(partition, -1, offset, partition_max_bytes=1 << 20)])
                for (name, topic_id, partition), offset in named.items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(name, topic_id, [partition]) for name, topic_id, partition in forgotten
            ],
        )
        before = len(client.answers)
        client.ask(request, ApiKey.FETCH, self.version)
        self.cluster.settle()
        self.cluster.world.pass_ms(max_wait_ms + 10)
        self.cluster.settle()
        assert len(client.answers) == before + 1
        answer = client.answers[-1]
        assert isinstance(answer, FetchResponse)
        return answer

    def _partitions_of(self, answer: FetchResponse, asked: dict[Key, int]) -> dict[Key, Seen]:
        names = {topic_id: name for name, topic_id, _ in asked}
        reported = {}
        for each in answer.responses:
            is_by_id = self.version == BY_ID
            name, topic_id = (names[each.topic_id], each.topic_id) if is_by_id else (each.topic, b"")
            for one in each.partitions:
                reported[name, topic_id, one.partition_index] = Seen(
                    one.error_code,
                    one.high_watermark,
                    one.last_stable_offset,
                    one.log_start_offset,
                    bytes(one.records or b""),
                )
        return reported


names, numbers = st.sampled_from(NAMES), st.integers(0, PARTITIONS)
happenings = st.one_of(
    st.tuples(st.just("poll"), st.sampled_from([0, 0, 400, 400, 400])),
    st.tuples(st.just("poll"), st.sampled_from([0, 400])),
    st.tuples(st.just("lost answer"), st.sampled_from([0, 400])),
    st.tuples(st.just("fetch"), names, numbers),
    st.tuples(st.just("fetch"), names, numbers),
    st.tuples(st.just("stop fetching"), names, numbers),
    st.tuples(st.just("seek"), names, numbers, st.integers(0, 5)),
    st.tuples(st.just("append"), names, numbers, st.integers(1, 3)),
    st.tuples(st.just("trim"), names, numbers),
    st.tuples(st.just("create"), names),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("metadata")),
    st.tuples(st.just("another processor")),
    st.tuples(st.just("another connection")),
)


def happen(cluster: Cluster, consumer: Consumer, happening: tuple[object, ...]) -> None:
    match happening:
        case ("poll", int(max_wait_ms)):
            consumer.poll(max_wait_ms)
        case ("lost answer", int(max_wait_ms)):
            consumer.poll(max_wait_ms, is_answer_lost=True)
        case ("fetch", str(name), int(partition)):
            consumer.offsets.setdefault(consumer.key(name, partition), 0)
        case ("stop fetching", str(name), int(partition)):
            for key in [key for key in consumer.offsets if (key[0], key[2]) == (name, partition)]:
                del consumer.offsets[key]
        case ("seek", str(name), int(partition), int(offset)):
            if consumer.key(name, partition) in consumer.offsets:
                consumer.offsets[consumer.key(name, partition)] = offset
        case ("append", str(name), int(partition), int(count)):
            log = cluster.log(name, partition)
            if log is not None:
                log.end += count
                cluster.settle()
        case ("trim", str(name), int(partition)):
            log = cluster.log(name, partition)
            if log is not None:
                log.start = (log.start + log.end + 1) // 2
                cluster.settle()
        case ("create", str(name)):
            cluster.create(name)
        case ("delete", str(name)):
            cluster.delete(name)
        case ("metadata",):
            cluster.tell()
        case ("another processor",):
            cluster.world.processor.fetch_sessions.close_session(consumer._session_id)
        case ("another connection",):
            consumer.client.close()
            consumer.client = cluster.world.client()
        case _:
            raise AssertionError(happening)


@given(
    version=st.sampled_from([BY_NAME, BY_ID]),
    slots=st.sampled_from([1000, 1000, 1000, 0]),
    happened=st.lists(happenings, min_size=5, max_size=60),
)
def test_a_session_shows_what_full_fetches_would(version: int, slots: int, happened: list[tuple[object, ...]]) -> None:
    cluster = Cluster(World(pods=("pod-0",), fetch_session_slots=slots))
    cluster.create("a")
    cluster.create("b")
    consumer = Consumer(cluster, version)
    consumer.offsets[consumer.key("a", 0)] = 0
    for happening in happened:
        happen(cluster, consumer, happening)
    consumer.poll(400)
    consumer.poll(0)
