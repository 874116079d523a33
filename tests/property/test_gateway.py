"""The gateway's laws under any interleaving: order, at most once, truthful success, nothing leaked.

And those of a producer's order (ADR 0020): what is undecided of a connection and partition is under one leader and one
epoch, nothing follows a producer's first batch before that is decided, and nothing is written behind a batch whose
producer has yet to learn that it failed.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from barnabas.channel.messages import Append, Credit, Outcome, ParkProduce, ReadResponse
from barnabas.cluster.messages import TopicMetadata
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas_gateway.core.backends.partition_appends import HELD_BACK_MS, IN_FLIGHT_MAX, LOSSES
from barnabas_gateway.core.model.outputs import LogLevel
from barnabas_gateway.core.model.request_context import ANY_NODE
from tests.tiers import Cost, examples
from tests.unit.gateway.world import Client, World, topic

NODES = (1, 2)
PARTITIONS = 2
CLIENT_PORTS = (ANY_NODE, ANY_NODE, 1)
"""One of the clients has come to a broker's own port."""
CLIENTS = len(CLIENT_PORTS)
DECIDED_MS = 5_000
"""What is in flight or parked for longer may have been given up; so may a fence."""

Record = tuple[int, int, int]
"""Client, correlation id and partition."""

PRODUCE = st.tuples(
    st.just("produce"),
    st.integers(0, CLIENTS - 1),
    st.sampled_from([(0,), (1,), (0, 1)]),
    st.sampled_from([(-1, 0), (-1, 0), (-1, 2), (1, 0), (1, 1), (0, 0)]),
)
APPEND_RESULT = st.tuples(
    st.just("append_result"), st.sampled_from(NODES), st.integers(0, 9), st.sampled_from(["done", "wait", "bad"])
)
STATE_ANSWER = st.tuples(st.just("state_answer"), st.sampled_from(NODES), st.booleans(), st.booleans())
ACTIONS = st.one_of(
    PRODUCE,
    PRODUCE,
    PRODUCE,
    APPEND_RESULT,
    APPEND_RESULT,
    st.tuples(st.just("fetch"), st.integers(0, CLIENTS - 1), st.integers(0, PARTITIONS - 1), st.just(0)),
    st.tuples(st.just("barrier"), st.integers(0, CLIENTS - 1), st.just(0), st.just(0)),
    st.tuples(st.just("read_result"), st.sampled_from(NODES), st.booleans(), st.just(0)),
    st.tuples(st.just("down"), st.sampled_from(NODES), st.just(0), st.just(0)),
    st.tuples(st.just("up"), st.sampled_from(NODES), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("grant"), st.sampled_from(NODES), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("lead"), st.integers(0, PARTITIONS - 1), st.sampled_from(NODES), st.booleans()),
    st.tuples(st.just("lead_on"), st.integers(0, PARTITIONS - 1), st.booleans(), st.just(0)),
    st.tuples(st.just("complete"), st.sampled_from(Outcome), st.just(0), st.just(0)),
    st.tuples(st.just("pod_down"), st.just(0), st.just(0), st.just(0)),
    st.tuples(st.just("pod_up"), st.just(0), st.just(0), st.just(0)),
    STATE_ANSWER,
    STATE_ANSWER,
    st.tuples(st.just("pass_ms"), st.sampled_from([1, 60, 700, 6000]), st.just(0), st.just(0)),
    st.tuples(st.just("leave"), st.integers(0, CLIENTS - 1), st.just(0), st.just(0)),
)


class WatchedWorld(World):
    """One whose turns are looked at, each for itself."""

    def __init__(self, model: Model, *topics: TopicMetadata) -> None:
        self.model: Model | None = None
        super().__init__(*topics, nodes=NODES, pods=("p-0",))
        self.model = model

    def turn(self) -> None:
        super().turn()
        if self.model is not None:
            self.model.look()


@dataclass
class Asked:
    """A request, as its client knows it."""

    kind: str
    acks: int
    position: int
    """Of a produce, among the produces of its connection."""
    sequences: dict[int, int]
    """Of a produce, by partition."""


class Model:
    """Scripts the world around the core, and remembers what really happened."""

    def __init__(self) -> None:
        self.leaders = [NODES[index % len(NODES)] for index in range(PARTITIONS)]
        self.epochs = [1] * PARTITIONS
        self.led_since = [1] * PARTITIONS
        """The first of the epochs under which the leader has led without a break."""
        self.sent: dict[int, list[Asked]] = defaultdict(list)
        """By client; a request's correlation id is its place, from 1."""
        self.sequences: dict[tuple[int, int], int] = defaultdict(int)
        """The next one, by client and partition: each connection has a producer of its own."""
        self.failed: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        """Of each (client, partition) the position and the sequence of what was answered as lost, and when."""
        self.answers_seen: dict[int, int] = defaultdict(int)
        self.seen: set[Record] = set()
        """Every record that a logstore was given."""
        self.appended: dict[Record, tuple[int, int]] = {}
        """Where: node and leader epoch."""
        self.order: dict[tuple[int, int], list[int]] = defaultdict(list)
        """The correlation ids of each (client, partition) as the logstores were given them."""
        self.undecided: dict[tuple[int, int], dict[int, tuple[int, int, int, int]]] = defaultdict(dict)
        """By (client, partition) and correlation id what cannot have been decided: node, epoch, sequence, and when."""
        self.committed: set[Record] = set()
        self.is_up = dict.fromkeys(NODES, True)
        self.pod_is_up = True
        self.world = WatchedWorld(self, self._topic())
        self.clients = [self.world.client(node_id) for node_id in CLIENT_PORTS]
        self.gone: list[Client] = []

    def _topic(self) -> TopicMetadata:
        known = topic(leaders=tuple(self.leaders))
        for index, partition in enumerate(known.partitions):
            known.partitions[index] = msgspec.structs.replace(partition, leader_epoch=self.epochs[index])
        return known

    def act(self, kind: str, first: Any, second: Any, third: Any) -> None:
        getattr(self, f"_{kind}")(first, second, third)

    def look(self) -> None:
        """Note the answers and the new appends of a turn, and hold them to the laws of order."""
        for client in self.world.clients.values():
            self._note_answers(client)
        for node_id, logstore in self.world.logstores.items():
            for append in logstore.appends:
                client_id, correlation_id = struct.unpack_from(">ii", append.records)
                record = (client_id, correlation_id, append.partition)
                if record not in self.seen:
                    self._note_append(record, node_id, append)

    def _note_append(self, record: Record, node_id: int, append: Append) -> None:
        client, correlation_id, partition = record
        key = (client, partition)
        self.seen.add(record)
        self.appended[record] = node_id, append.leader_epoch
        asked = self.sent[client][correlation_id - 1]
        sequence = asked.sequences[partition]
        now_ms = self.world.now_ms
        for other_node, other_epoch, other_sequence, since_ms in self.undecided[key].values():
            if now_ms - since_ms < DECIDED_MS:
                at = (other_node, other_epoch)
                assert at == (node_id, append.leader_epoch), "undecided under two leaders"
                assert other_sequence != 0, "something followed a producer's first batch"
        assert not self.order[key] or self.order[key][-1] < correlation_id, "appends overtook each other"
        self._hold_to_barriers(client, correlation_id)
        self._hold_to_fences(key, asked, sequence)
        self.order[key].append(correlation_id)
        self.undecided[key][correlation_id] = node_id, append.leader_epoch, sequence, now_ms

    def _hold_to_fences(self, key: tuple[int, int], asked: Asked, sequence: int) -> None:
        client, partition = key
        for position, failed_sequence, since_ms in self.failed[key]:
            between = [
                each.sequences[partition]
                for each in self.sent[client]
                if position < each.position < asked.position and partition in each.sequences
            ]
            is_known = asked.position - position >= IN_FLIGHT_MAX or self.world.now_ms - since_ms >= HELD_BACK_MS
            # The fence is that of the first one; those behind it add nothing.
            is_behind = any(
                0 < position - other < IN_FLIGHT_MAX and other_sequence < failed_sequence
                for other, other_sequence, _ in self.failed[key]
            )
            is_free = is_behind or position > asked.position or any(each <= failed_sequence for each in between)
            assert is_known or is_free or sequence <= failed_sequence, "written behind a batch that has to come again"

    def _note_answers(self, client: Client) -> None:
        first = self.answers_seen[client.connection_id]
        self.answers_seen[client.connection_id] = len(client.answers)
        for place, answer in zip(client.correlation_ids[first:], client.answers[first:], strict=True):
            asked = self.sent[client.connection_id][place - 1]
            if asked.kind == "produce":
                for partition in answer.responses[0].partition_responses:
                    key = (client.connection_id, partition.index)
                    self.undecided[key].pop(place, None)
                    if partition.error_code in LOSSES:
                        failed = (asked.position, asked.sequences[partition.index], self.world.now_ms)
                        self.failed[key].append(failed)

    def _hold_to_barriers(self, client: int, correlation_id: int) -> None:
        answered = self.world.clients[client].correlation_ids
        for place, asked in enumerate(self.sent[client][: correlation_id - 1], 1):
            assert asked.kind == "produce" or place in answered, "an append did not wait for a barrier before it"

    def _decided(self, partition: int, correlation_id: int | None = None) -> None:
        """It may have been; of which client is not known."""
        for (_, each), undecided in self.undecided.items():
            if each == partition:
                for place in [place for place in undecided if correlation_id in (None, place)]:
                    del undecided[place]

    def _produce(self, client: int, partitions: Any, how: Any) -> None:
        """`how`: its acks, and how many of the last batches come again."""
        acks, again = how
        asking = self._asking(client)
        connection_id = asking.connection_id
        sent = self.sent[connection_id]
        sequences = {}
        data = []
        for partition in partitions:
            key = (connection_id, partition)
            sequence = max(0, self.sequences[key] - again)
            self.sequences[key] = sequence + 1
            sequences[partition] = sequence
            records = struct.pack(">ii", connection_id, len(sent) + 1) + bytes(8) + b"\x02" + bytes(26)
            records += struct.pack(">qhi", connection_id, 0, sequence) + bytes(4)
            data.append(PartitionProduceData(partition, records))
        sent.append(Asked("produce", acks, 1 + sum(each.kind == "produce" for each in sent), sequences))
        request = ProduceRequest(None, acks, 20_000, [TopicProduceData("t", partition_data=data)])
        asking.ask(request, ApiKey.PRODUCE, 11)

    def _fetch(self, client: int, partition: int, _: object) -> None:
        asking = self._asking(client)
        self.sent[asking.connection_id].append(Asked("fetch", 1, 0, {}))
        asking.fetch(partition)

    def _barrier(self, client: int, _: int, __: object) -> None:
        asking = self._asking(client)
        self.sent[asking.connection_id].append(Asked("barrier", 1, 0, {}))
        asking.ask(ApiVersionsRequest("c", "1"), ApiKey.API_VERSIONS, 3)

    def _append_result(self, node_id: int, index: int, outcome: object) -> None:
        logstore = self.world.logstores[node_id]
        if not logstore.appends:
            return
        append = self._oldest_of_its_partition(logstore.appends, index)
        logstore.appends.remove(append)
        logstore.appends.insert(0, append)
        client, correlation_id = struct.unpack_from(">ii", append.records)
        partition = append.partition
        known = self.undecided[client, partition]
        leads_on = self.led_since[partition] <= append.leader_epoch <= self.epochs[partition]
        if self.leaders[partition] != node_id or not leads_on:
            known.pop(correlation_id, None)
            logstore.append_result(
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                leader_epoch=self.epochs[partition],
                leader_id=self.leaders[partition],
            )
        elif outcome == "bad":
            known.pop(correlation_id, None)
            logstore.append_result(error_code=ErrorCode.CORRUPT_MESSAGE)
        else:
            if outcome == "done":
                self.committed.add((client, correlation_id, partition))
            if outcome == "done" or append.acks != -1:
                known.pop(correlation_id, None)
            logstore.append_result(
                committed=outcome == "done", required_offset=correlation_id, leader_epoch=self.epochs[partition]
            )

    def _oldest_of_its_partition(self, appends: list[Append], index: int) -> Append:
        """Appends of one partition keep their order at a logstore; those of different ones do not."""
        chosen = appends[index % len(appends)]
        return next(each for each in appends if each.partition == chosen.partition)

    def _read_result(self, node_id: int, has_records: int, _: object) -> None:
        logstore = self.world.logstores[node_id]
        if logstore.reads:
            count = len(logstore.reads[0].partitions)
            logstore.read_result(*[b"x" if has_records else b""] * count)

    def _down(self, node_id: int, _: int, __: object) -> None:
        if self.is_up[node_id]:
            self.is_up[node_id] = False
            for append in self.world.logstores[node_id].appends:
                client, correlation_id = struct.unpack_from(">ii", append.records)
                self.undecided[client, append.partition].pop(correlation_id, None)
            self.world.logstores[node_id].down()

    def _up(self, node_id: int, requests: int, _: object) -> None:
        if not self.is_up[node_id]:
            self.is_up[node_id] = True
            self.world.logstores[node_id].up(Credit(requests, 1 << 21))

    def _grant(self, node_id: int, requests: int, _: object) -> None:
        if self.is_up[node_id]:
            self.world.logstores[node_id].grant(requests, 1 << 20)
            # Reads have a credit of their own: one that came up with none of it keeps fetches waiting.
            response = ReadResponse(credit=Credit(requests, 1 << 20))
            self.world.processor.read_response(node_id, response, self.world.now_ms)
            self.world.turn()

    def _lead(self, partition: int, node_id: int, is_reported: object) -> None:
        """Another leader, or the same one after a restart; the gateway may not know yet."""
        self.leaders[partition] = node_id
        self.epochs[partition] += 1
        self.led_since[partition] = self.epochs[partition]
        if is_reported:
            self.world.update(self._topic())

    def _lead_on(self, partition: int, is_reported: object, _: object) -> None:
        """The same leader under another epoch, as when a reassignment ends."""
        self.epochs[partition] += 1
        if is_reported:
            self.world.update(self._topic())

    def _complete(self, outcome: Outcome, _: int, __: object) -> None:
        pod = self.world.pod
        if pod.produces:
            self._complete_produce(pod.produces.pop(0), outcome)
        elif pod.fetches:
            pod.complete(pod.fetches.pop(0).entry_id, outcome)

    def _complete_produce(self, entry: ParkProduce, outcome: Outcome) -> None:
        """Purgatory speaks the truth: the condition says which request it was, by its offset."""
        codes = {
            Outcome.SATISFIED: ErrorCode.NONE,
            Outcome.FENCED: ErrorCode.NOT_LEADER_OR_FOLLOWER,
            Outcome.EXPIRED: ErrorCode.REQUEST_TIMED_OUT,
        }
        for each in entry.conditions:
            if outcome is Outcome.SATISFIED:
                self._commit(each.partition, each.required_offset)
            if outcome is not Outcome.FENCED:
                self._decided(each.partition, each.required_offset)
        self.world.pod.complete(entry.entry_id, outcome, *[codes[outcome]] * len(entry.conditions))

    def _commit(self, partition: int, correlation_id: int) -> None:
        self.committed.update((client, correlation_id, partition) for client in self.world.clients)

    def _pod_down(self, *_: object) -> None:
        if self.pod_is_up:
            self.pod_is_up = False
            self.world.pod.down()

    def _pod_up(self, *_: object) -> None:
        if not self.pod_is_up:
            self.pod_is_up = True
            self.world.pod.up()

    def _state_answer(self, node_id: int, is_satisfied: bool, holds_append: bool) -> None:
        logstore = self.world.logstores[node_id]
        if not logstore.state_queries:
            return
        query = logstore.state_queries[0]
        partition = query.partition
        leading = self.leaders[partition] == node_id
        if is_satisfied and leading:
            led = range(self.led_since[partition], self.epochs[partition] + 1)
            self.committed.update(
                record
                for record, (node, epoch) in self.appended.items()
                if record[2] == partition and node == node_id and epoch in led
            )
            if holds_append:
                self._commit(partition, query.required_offset)
        self._decided(partition, query.required_offset)
        logstore.state_answer(
            1 << 30 if is_satisfied else 0,
            leader_epoch=self.epochs[partition],
            leading=leading,
            holds_append=holds_append,
            earlier_epochs_led=self.epochs[partition] - self.led_since[partition] if leading else 0,
        )

    def _pass_ms(self, duration_ms: int, _: int, __: object) -> None:
        self.world.pass_ms(duration_ms)

    def _leave(self, client: int, _: int, __: object) -> None:
        if not self.clients[client].is_closed:
            self.clients[client].close()

    def _asking(self, client: int) -> Client:
        """The client in this place: another one when it is closed."""
        if self.clients[client].is_closed:
            self.gone.append(self.clients[client])
            self.clients[client] = self.world.client(CLIENT_PORTS[client])
        return self.clients[client]

    def end(self) -> None:
        """Everything heals, time passes, and every request has had its one answer."""
        for node_id in NODES:
            self.act("up", node_id, 100, 0)
            self.act("grant", node_id, 100, 0)
        self.act("pod_up", 0, 0, 0)
        for _ in range(40):
            for node_id in NODES:
                while self.world.logstores[node_id].appends:
                    self.act("append_result", node_id, 0, "done")
                while self.world.logstores[node_id].reads:
                    self.act("read_result", node_id, 1, 0)
                while self.world.logstores[node_id].state_queries:
                    self.act("state_answer", node_id, False, False)
            self.act("pass_ms", 2_000, 0, 0)
        for client in (*self.clients, *self.gone):
            self._hold_to_answers(client)

    def _hold_to_answers(self, client: Client) -> None:
        sent = self.sent[client.connection_id]
        assert client.correlation_ids == sorted(client.correlation_ids), "answers overtook each other"
        if not client.is_closed:
            expected = [place for place, asked in enumerate(sent, 1) if asked.acks != 0]
            assert client.correlation_ids == expected, "each request has one answer"
            assert not client.is_paused
        for place, answer in zip(client.correlation_ids, client.answers, strict=True):
            asked = sent[place - 1]
            if asked.kind == "produce":
                for partition in answer.responses[0].partition_responses:
                    record = (client.connection_id, place, partition.index)
                    if partition.error_code == ErrorCode.NONE:
                        assert record in self.seen
                        assert asked.acks != -1 or record in self.committed, "success without a commit"

    def hold_to_nothing_left(self) -> None:
        for client in self.clients:
            if not client.is_closed:
                client.close()
        processor = self.world.processor
        assert processor.request_memory.held_bytes == 0
        assert processor.fetch_memory.reserved_bytes == 0
        assert processor.fetch_memory.unsent_bytes == 0
        assert processor.next_deadline_ms() is None
        for logstore in processor.logstores.all_logstores():
            assert not logstore.appends.waiting
            assert not logstore.appends.in_flight
        assert not any(lane.waiting for lane in processor.reads.lanes.values())
        assert not processor.appends.has_unrouted()
        assert not processor.purgatory.has_entries()


# Long lists: with a minimum of 0 Hypothesis draws five actions on average, in which nothing happens.
@given(st.lists(ACTIONS, min_size=40, max_size=80))
def test_order_truth_and_nothing_leaked(actions: list[tuple[str, Any, Any, Any]]) -> None:
    model = Model()
    for kind, first, second, third in actions:
        model.act(kind, first, second, third)
    model.end()
    model.hold_to_nothing_left()


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_any_bytes_harm_no_other(chunks: list[bytes]) -> None:
    world = World()
    bad, good = world.client(), world.client()
    for chunk in chunks:
        bad.send(chunk)
    good.ask(ApiVersionsRequest("c", "1"), ApiKey.API_VERSIONS, 3)
    assert good.correlation_ids == [1]
    bad.close()
    good.close()
    assert world.processor.request_memory.held_bytes == 0


@given(st.sampled_from(sorted(ApiKey)), st.integers(-1, 19), st.binary(max_size=80), st.integers(0, 40))
@examples(Cost.LOW)
def test_any_body_of_any_request_harms_no_other(api_key: ApiKey, version: int, body: bytes, cut: int) -> None:
    world = World(pods=("p-0",))
    bad, good = world.client(), world.client()
    frame = struct.pack(">hhih", api_key, version, 1, -1) + body
    frame = frame[: max(0, len(frame) - cut)]
    bad._asked.clear()
    world.clients[bad.connection_id].take = lambda buffers: None  # type: ignore[method-assign]
    bad.send(struct.pack(">i", len(frame)) + frame)
    assert all(log.level is not LogLevel.ERROR for log in world.logs)
    good.ask(ApiVersionsRequest("c", "1"), ApiKey.API_VERSIONS, 3)
    assert good.correlation_ids == [1]
    bad.close()
    good.close()
    assert world.processor.request_memory.held_bytes == 0
    assert world.processor.fetch_memory.reserved_bytes == 0


@given(st.data())
def test_frames_cut_anywhere_give_the_same_answers(data: st.DataObject) -> None:
    world = World()
    whole, cut = world.client(), world.client()
    stream = b""
    for _ in range(3):
        stream += whole.frame(ApiVersionsRequest("c", "1"), ApiKey.API_VERSIONS, 3)
    cut._asked.update(whole._asked)
    whole.send(stream)
    position = 0
    while position < len(stream):
        size = data.draw(st.integers(1, len(stream)))
        cut.send(stream[position : position + size])
        position += size
    assert cut.correlation_ids == whole.correlation_ids == [1, 2, 3]
    assert cut.written == whole.written
