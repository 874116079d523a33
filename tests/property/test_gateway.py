"""The gateway's laws under any interleaving: order, at most once, truthful success, nothing leaked."""

from __future__ import annotations

import struct
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.channel.messages import Append, Credit, Outcome, ParkProduce, ReadResponse
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from services.gateway.core.effects import LogLevel
from tests.unit.gateway.world import Client, World, topic

NODES = (1, 2)
PARTITIONS = 2
CLIENTS = 2

PRODUCE = st.tuples(
    st.just("produce"), st.integers(0, CLIENTS - 1), st.integers(0, PARTITIONS - 1), st.sampled_from([-1, -1, 1, 0])
)
APPEND_RESULT = st.tuples(
    st.just("append_result"), st.sampled_from(NODES), st.integers(0, 9), st.sampled_from(["done", "wait", "bad"])
)
STATE_ANSWER = st.tuples(st.just("state_answer"), st.sampled_from(NODES), st.booleans(), st.just(0))
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
    st.tuples(st.just("complete"), st.booleans(), st.just(0), st.just(0)),
    st.tuples(st.just("pod_down"), st.just(0), st.just(0), st.just(0)),
    st.tuples(st.just("pod_up"), st.just(0), st.just(0), st.just(0)),
    STATE_ANSWER,
    STATE_ANSWER,
    st.tuples(st.just("pass_ms"), st.sampled_from([1, 60, 700, 6000]), st.just(0), st.just(0)),
    st.tuples(st.just("leave"), st.integers(0, CLIENTS - 1), st.just(0), st.just(0)),
)


class Model:
    """Scripts the world around the core, and remembers what really happened."""

    def __init__(self) -> None:
        self.leaders = [NODES[index % len(NODES)] for index in range(PARTITIONS)]
        self.epochs = [1] * PARTITIONS
        self.world = World(self._topic(), nodes=NODES, pods=("p-0",))
        self.clients = [self.world.client() for _ in range(CLIENTS)]
        self.gone: list[Client] = []
        self.sent: dict[int, list[tuple[str, int]]] = defaultdict(list)
        """By client, each request: its kind and acks; its correlation id is its place, from 1."""
        self.seen: list[tuple[int, int]] = []
        """Every record that a logstore was given: client and correlation id."""
        self.appended: dict[tuple[int, int], tuple[int, int]] = {}
        """Where: partition and leader epoch."""
        self.order: dict[tuple[int, int], list[int]] = defaultdict(list)
        """The correlation ids of each (client, partition) as the logstores were given them."""
        self.open: dict[tuple[int, int], list[int]] = defaultdict(list)
        """The nodes that hold an unanswered append of each (client, partition)."""
        self.committed: set[tuple[int, int]] = set()
        self.is_up = dict.fromkeys(NODES, True)
        self.pod_is_up = True

    def _topic(self):  # type: ignore[no-untyped-def]
        known = topic(leaders=tuple(self.leaders))
        for index, partition in enumerate(known.partitions):
            object.__setattr__(partition, "leader_epoch", self.epochs[index])
        return known

    def act(self, kind: str, first: int, second: int, third: object) -> None:
        getattr(self, f"_{kind}")(first, second, third)
        self._look()

    def _look(self) -> None:
        """Note new appends, and hold them to the laws of order."""
        for node_id, logstore in self.world.logstores.items():
            for append in logstore.appends:
                client, correlation_id = struct.unpack_from(">ii", append.records)
                if (client, correlation_id) in self.seen:
                    continue
                key = (client, append.partition)
                self.seen.append((client, correlation_id))
                self.appended[client, correlation_id] = append.partition, append.leader_epoch
                assert all(node == node_id for node in self.open[key]), "two streams hold appends of one partition"
                assert not self.order[key] or self.order[key][-1] < correlation_id, "appends overtook each other"
                self._hold_to_barriers(client, correlation_id)
                self.order[key].append(correlation_id)
                self.open[key].append(node_id)

    def _hold_to_barriers(self, client: int, correlation_id: int) -> None:
        answered = self.world.clients[client].correlation_ids
        for place, (kind, _) in enumerate(self.sent[client][: correlation_id - 1], 1):
            assert kind == "produce" or place in answered, "an append did not wait for a barrier before it"

    def _produce(self, client: int, partition: int, acks: object) -> None:
        asking = self._asking(client)
        assert isinstance(acks, int)
        self.sent[asking.connection_id].append(("produce", acks))
        place = len(self.sent[asking.connection_id])
        records = struct.pack(">ii", asking.connection_id, place) + bytes(53)
        asking.produce(partition, acks=acks, timeout_ms=20_000, records=records)

    def _fetch(self, client: int, partition: int, _: object) -> None:
        asking = self._asking(client)
        self.sent[asking.connection_id].append(("fetch", 1))
        asking.fetch(partition)

    def _barrier(self, client: int, _: int, __: object) -> None:
        asking = self._asking(client)
        self.sent[asking.connection_id].append(("barrier", 1))
        asking.ask(ApiVersionsRequest("c", "1"), ApiKey.API_VERSIONS, 3)

    def _append_result(self, node_id: int, index: int, outcome: object) -> None:
        logstore = self.world.logstores[node_id]
        if not logstore.appends:
            return
        append = self._oldest_of_its_partition(logstore.appends, index)
        logstore.appends.remove(append)
        logstore.appends.insert(0, append)
        client, correlation_id = struct.unpack_from(">ii", append.records)
        self.open[client, append.partition].remove(node_id)
        if self.leaders[append.partition] != node_id or self.epochs[append.partition] != append.leader_epoch:
            logstore.append_result(
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                leader_epoch=self.epochs[append.partition],
                leader_id=self.leaders[append.partition],
            )
        elif outcome == "bad":
            logstore.append_result(error_code=ErrorCode.CORRUPT_MESSAGE)
        else:
            if outcome == "done":
                self.committed.add((client, correlation_id))
            logstore.append_result(committed=outcome == "done", required_offset=correlation_id)

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
            for nodes in self.open.values():
                nodes[:] = [node for node in nodes if node != node_id]
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

    def _lead(self, partition: int, node_id: int, is_told: object) -> None:
        """Another leader, or the same one after a restart; the gateway may not have been told yet."""
        self.leaders[partition] = node_id
        self.epochs[partition] += 1
        if is_told:
            self.world.update(self._topic())

    def _complete(self, is_satisfied: int, _: int, __: object) -> None:
        pod = self.world.pod
        if pod.produces:
            self._complete_produce(pod.produces.pop(0), bool(is_satisfied))
        elif pod.fetches:
            pod.complete(pod.fetches.pop(0).entry_id, Outcome.SATISFIED if is_satisfied else Outcome.EXPIRED)

    def _complete_produce(self, entry: ParkProduce, is_satisfied: bool) -> None:
        """Purgatory speaks the truth: the condition says which request it was, by its offset."""
        condition = entry.conditions[0]
        if is_satisfied:
            parked = self.world.pod
            self.committed.update((client, condition.required_offset) for client in self.world.clients)
            parked.complete(entry.entry_id, Outcome.SATISFIED, 0)
        else:
            self.world.pod.complete(entry.entry_id, Outcome.EXPIRED, ErrorCode.REQUEST_TIMED_OUT)

    def _pod_down(self, *_: object) -> None:
        if self.pod_is_up:
            self.pod_is_up = False
            self.world.pod.down()

    def _pod_up(self, *_: object) -> None:
        if not self.pod_is_up:
            self.pod_is_up = True
            self.world.pod.up()

    def _state_answer(self, node_id: int, is_satisfied: int, _: object) -> None:
        logstore = self.world.logstores[node_id]
        if logstore.state_queries:
            partition = logstore.state_queries[0].partition
            leading = self.leaders[partition] == node_id
            if is_satisfied and leading:
                here = {
                    request for request in self.seen if self.appended[request] == (partition, self.epochs[partition])
                }
                self.committed.update(here)
            watermark = 1 << 30 if is_satisfied else 0
            logstore.state_answer(watermark, leader_epoch=self.epochs[partition], leading=leading)

    def _pass_ms(self, duration_ms: int, _: int, __: object) -> None:
        self.world.pass_ms(duration_ms)

    def _leave(self, client: int, _: int, __: object) -> None:
        if not self.clients[client].is_closed:
            self.clients[client].close()

    def _asking(self, client: int) -> Client:
        """The client in this place: another one when it is closed."""
        if self.clients[client].is_closed:
            self.gone.append(self.clients[client])
            self.clients[client] = self.world.client()
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
                    self.act("state_answer", node_id, 0, 0)
            self.act("pass_ms", 2_000, 0, 0)
        for client in (*self.clients, *self.gone):
            self._hold_to_answers(client)

    def _hold_to_answers(self, client: Client) -> None:
        sent = self.sent[client.connection_id]
        assert client.correlation_ids == sorted(client.correlation_ids), "answers overtook each other"
        if not client.is_closed:
            expected = [place for place, (_, acks) in enumerate(sent, 1) if acks != 0]
            assert client.correlation_ids == expected, "each request has one answer"
            assert not client.is_paused
        for place, answer in zip(client.correlation_ids, client.answers, strict=True):
            kind, acks = sent[place - 1]
            if kind == "produce":
                code = answer.responses[0].partition_responses[0].error_code
                was_given = (client.connection_id, place) in self.seen
                if code == ErrorCode.NONE:
                    assert was_given
                    assert acks != -1 or (client.connection_id, place) in self.committed, "success without a commit"
                elif code == ErrorCode.REQUEST_TIMED_OUT and not was_given:
                    assert acks in (-1, 1)

    def hold_to_nothing_left(self) -> None:
        for client in self.clients:
            if not client.is_closed:
                client.close()
        processor = self.world.processor
        assert processor.request_memory.held_bytes == 0
        assert processor.fetch_memory.reserved_bytes == 0
        assert processor.fetch_memory.unsent_bytes == 0
        assert processor.next_deadline_ms() is None
        for logstore in processor.logstores.all():
            assert not logstore.waiting_orders
            assert not logstore.waiting_reads
            assert not logstore.appends_in_flight
        assert not processor.appends.has_unrouted()
        assert not processor.parking.has_entries()


# Long lists: with a minimum of 0 Hypothesis draws five actions on average, in which nothing happens.
@given(st.lists(ACTIONS, min_size=40, max_size=80))
@settings(max_examples=200, deadline=None)
def test_order_truth_and_nothing_leaked(actions: list[tuple[str, int, int, object]]) -> None:
    model = Model()
    for kind, first, second, third in actions:
        model.act(kind, int(first), int(second), third)
    model.end()
    model.hold_to_nothing_left()


@given(st.lists(st.binary(max_size=60), max_size=6))
@settings(max_examples=200, deadline=None)
def test_any_bytes_harm_nobody_else(chunks: list[bytes]) -> None:
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
@settings(max_examples=400, deadline=None)
def test_any_body_of_any_request_harms_nobody_else(api_key: ApiKey, version: int, body: bytes, cut: int) -> None:
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
@settings(max_examples=100, deadline=None)
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
