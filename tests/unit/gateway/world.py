"""A processor's core with everything around it scripted: clients, logstores, purgatory pods, controller, clock.

Nothing answers by itself. A test reads what the core asked (`logstore.appends`), and says what comes back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from barnabas.channel.messages import (
    Append,
    AppendResult,
    Completion,
    CoordinateResponse,
    Credit,
    ExchangeResponse,
    GroupAnswer,
    GroupCall,
    GroupCollect,
    GroupWait,
    OffsetQuery,
    Outcome,
    ParkFetch,
    ParkGroup,
    ParkProduce,
    ParkResponse,
    PartitionState,
    Read,
    ReadPartitionResult,
    ReadPiece,
    ReadResponse,
    StateAnswer,
    StateQuery,
)
from barnabas.channel.timing import Timed, Times
from barnabas.cluster.administration import AdministrationResponse
from barnabas.cluster.messages import Broker, PartitionMetadata, Purgatory, TopicMetadata, UpdateMetadata
from barnabas.containment import ContainedException
from barnabas.runtime.compression import CODECS
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_request, decode_response, encode_body, encode_request
from barnabas.wire.frames import FrameSplitter
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas_gateway.core.model.config import GatewayConfig, Listener
from barnabas_gateway.core.model.outputs import (
    ControllerAnswer,
    ControllerCall,
    Conversion,
    Log,
    LogLevel,
    LogstoreCall,
    Outputs,
    PatternMatching,
    RareOutputs,
    TokenCheck,
)
from barnabas_gateway.core.model.request_context import ANY_NODE
from barnabas_gateway.core.processor import GatewayCore
from barnabas_gateway.core.sasl.gssapi import BeginContext, without_kerberos
from barnabas_gateway.core.sasl.oauthbearer import ValidateToken, refuse_all

LISTENER = Listener("PLAINTEXT", "127.0.0.1", 9092, "kafka.example", 9092)
CONFIG = GatewayConfig("gateway-0", (LISTENER,))
WALL_MS = 1_800_000_000_000
TOPIC_ID = b"0123456789abcdef"
AMPLE = Credit(1000, 1 << 30)
BATCH = bytes(16) + b"\x02" + bytes(26) + b"\xff" * 14 + bytes(4)
"""Records that the gateway takes for a batch without compression, of a producer that is not idempotent."""


def topic(
    name: str = "t", topic_id: bytes = TOPIC_ID, leaders: tuple[int, ...] = (1,), epoch: int = 5
) -> TopicMetadata:
    partitions = [
        PartitionMetadata(index, leader, epoch, 0, (max(leader, 1),), (max(leader, 1),))
        for index, leader in enumerate(leaders)
    ]
    return TopicMetadata(name, topic_id, {}, partitions)


@dataclass
class Client:
    """One connection, with what it has received."""

    world: World
    connection_id: int
    answers: list[Any] = field(default_factory=list)
    correlation_ids: list[int] = field(default_factory=list)
    is_closed: bool = False
    is_aborted: bool = False
    is_paused: bool = False
    takes_answers: bool = True
    """Whether the socket takes what is written at once; `leave_unread(0)` takes the rest."""
    written: bytearray = field(default_factory=bytearray)
    _asked: dict[int, tuple[int, int]] = field(default_factory=dict)
    _splitter: FrameSplitter = field(default_factory=lambda: FrameSplitter(1 << 30))
    _next_correlation_id: int = 1

    def frame(self, request: Any, api_key: ApiKey, version: int) -> bytes:
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        self._asked[correlation_id] = (api_key, version)
        return b"".join(encode_request(request, version, correlation_id, "client"))

    def ask(self, request: Any, api_key: ApiKey, version: int) -> None:
        self.send(self.frame(request, api_key, version))

    def send(self, data: bytes) -> None:
        """Raw bytes, then one turn."""
        self.world.processor.bytes_received(self.connection_id, data, self.world.now_ms)
        self.world.turn()

    def produce(
        self,
        *partitions: int,
        acks: int = 1,
        timeout_ms: int = 30_000,
        records: bytes | None = BATCH,
        name: str = "t",
        version: int = 11,
    ) -> None:
        data = [PartitionProduceData(index, records) for index in partitions or (0,)]
        topics = [TopicProduceData(name, partition_data=data)]
        self.ask(ProduceRequest(None, acks, timeout_ms, topics), ApiKey.PRODUCE, version)

    def fetch(
        self,
        *partitions: int,
        offset: int = 0,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        partition_max_bytes: int = 1 << 20,
        version: int = 12,
    ) -> None:
        asked = [
            FetchPartition(index, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
            for index in partitions or (0,)
        ]
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            topics=[FetchTopic("t", partitions=asked)],
        )
        self.ask(request, ApiKey.FETCH, version)

    def close(self) -> None:
        self.world.processor.connection_closed(self.connection_id, self.world.now_ms)
        self.is_closed = True
        self.world.turn()

    def leave_unread(self, unsent_bytes: int) -> None:
        """The host says how much this client has not taken."""
        self.world.processor.unsent_bytes(self.connection_id, unsent_bytes, self.world.now_ms)
        self.world.turn()

    def take(self, buffers: list[Any]) -> None:
        data = b"".join(buffers)
        self.written += data
        for frame in self._splitter.feed(data):
            correlation_id = int.from_bytes(frame[:4], "big")
            api_key, version = self._asked.get(correlation_id, (ApiKey.API_VERSIONS, 0))
            self.correlation_ids.append(correlation_id)
            self.answers.append(decode_response(api_key, version, frame)[1])

    def error_codes(self) -> list[list[int]]:
        """Of each Produce answer, by partition."""
        return [
            [partition.error_code for topic in answer.responses for partition in topic.partition_responses]
            for answer in self.answers
        ]


@dataclass
class ScriptedLogstore:
    """What one logstore was asked and has not answered."""

    world: World
    node_id: int
    appends: list[Append] = field(default_factory=list)
    offset_queries: list[OffsetQuery] = field(default_factory=list)
    state_queries: list[StateQuery] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    cancels: list[int] = field(default_factory=list)
    calls: list[LogstoreCall] = field(default_factory=list)
    group_calls: list[GroupCall] = field(default_factory=list)
    collects: list[GroupCollect] = field(default_factory=list)
    messages: int = 0
    timed: list[Timed] = field(default_factory=list)
    """What is asked about requests of any kind; a test answers by `times`."""
    times: list[Times] = field(default_factory=list)
    """To go along with the next answer."""

    def up(self, credit: Credit | None = AMPLE) -> None:
        processor, now_ms = self.world.processor, self.world.now_ms
        processor.exchange_up(self.node_id, now_ms)
        processor.read_up(self.node_id, now_ms)
        processor.coordinate_up(self.node_id, now_ms)
        processor.exchange_response(self.node_id, ExchangeResponse(credit=credit), now_ms)
        processor.read_response(self.node_id, ReadResponse(credit=credit), now_ms)
        processor.coordinate_response(self.node_id, CoordinateResponse(credit=credit), now_ms)
        self.world.turn()

    def down(self) -> None:
        self.world.processor.exchange_down(self.node_id, self.world.now_ms)
        self.world.processor.read_down(self.node_id, self.world.now_ms)
        self.world.processor.coordinate_down(self.node_id, self.world.now_ms)
        self.appends.clear()
        self.group_calls.clear()
        self.collects.clear()
        self.reads.clear()
        self.state_queries.clear()
        self.offset_queries.clear()
        self.world.turn()

    def took(self, queue_us: int, work_us: int, wait_us: int = 0) -> None:
        """Tell of the oldest timed request how long it was here, with the next answer."""
        self.times.append(Times(self.timed.pop(0).request_id, queue_us, work_us, wait_us))

    def say(self, response: ExchangeResponse) -> None:
        response.times, self.times = self.times, []
        self.world.processor.exchange_response(self.node_id, response, self.world.now_ms)
        self.world.turn()

    def grant(self, requests: int, byte_count: int) -> None:
        self.say(ExchangeResponse(credit=Credit(requests, byte_count)))

    def append_result(self, **result: Any) -> None:
        """Answer the oldest append."""
        self.append_results(1, **result)

    def append_results(self, count: int, **result: Any) -> None:
        """Answer the oldest appends in one message, all in the same way."""
        appends, self.appends = self.appends[:count], self.appends[count:]
        known = {"base_offset": 7, "log_start_offset": 0, "required_offset": 8}
        results = [
            AppendResult(each.request_id, **({"leader_epoch": each.leader_epoch} | known | result)) for each in appends
        ]
        self.say(ExchangeResponse(append_results=results))

    def read_result(self, *records: bytes, error_code: int = 0, **result: Any) -> None:
        """Answer the oldest read with these records, by partition."""
        read = self.reads.pop(0)
        known = {"high_watermark": 10, "last_stable_offset": 10, "log_start_offset": 0, "leader_epoch": 5}
        partitions = [
            ReadPartitionResult(index, error_code, records=data, **(known | result))
            for index, data in enumerate(records)
        ]
        piece = ReadPiece(read.request_id, True, partitions)
        response = ReadResponse(pieces=[piece])
        response.times, self.times = self.times, []
        self.world.processor.read_response(self.node_id, response, self.world.now_ms)
        self.world.turn()

    def coordinate(self, response: CoordinateResponse) -> None:
        response.times, self.times = self.times, []
        self.world.processor.coordinate_response(self.node_id, response, self.world.now_ms)
        self.world.turn()

    def group_request(self) -> Any:
        """What the oldest call of a group asks."""
        call = self.group_calls[0]
        return decode_request(call.api_key, call.api_version, memoryview(call.body), 0)

    def group_answer(self, response: Any = None, *, error_code: int = 0, wait: GroupWait | None = None) -> None:
        """Answer the oldest call of a group by a response, an error or a wait."""
        self._answer_group(self.group_calls.pop(0), response, error_code, wait)

    def collect_answer(self, response: Any = None, *, error_code: int = 0, wait: GroupWait | None = None) -> None:
        """Answer the oldest collection of what a member has waited for."""
        self._answer_group(self.collects.pop(0), response, error_code, wait)

    def _answer_group(
        self, asked: GroupCall | GroupCollect, response: Any, error_code: int, wait: GroupWait | None
    ) -> None:
        body = b"" if response is None else encode_body(response, asked.api_version)
        # As a slice of what came with other answers.
        answer = GroupAnswer(asked.request_id, error_code, memoryview(body), wait)
        self.coordinate(CoordinateResponse(answers=[answer]))

    def answer_call(self, answer: AdministrationResponse | None) -> None:
        """Answer the oldest call."""
        call = self.calls.pop(0)
        self.world.processor.logstore_answered(call.call_id, answer, self.world.now_ms)
        self.world.turn()

    def state_answer(
        self,
        high_watermark: int,
        *,
        leader_epoch: int = 5,
        leading: bool = True,
        holds_append: bool = False,
        earlier_epochs_led: int = 0,
    ) -> None:
        """Answer the oldest state query."""
        query = self.state_queries.pop(0)
        state = PartitionState(
            query.topic_id,
            query.partition,
            leader_epoch,
            high_watermark,
            leading=leading,
            online=True,
            in_sync_replicas_at_minimum=True,
            earlier_epochs_led=earlier_epochs_led,
        )
        answer = StateAnswer(query.request_id, 0, state, holds_append)
        self.say(ExchangeResponse(state_answers=[answer]))


@dataclass
class ScriptedPod:
    world: World
    pod_id: str
    produces: list[ParkProduce] = field(default_factory=list)
    fetches: list[ParkFetch] = field(default_factory=list)
    groups: list[ParkGroup] = field(default_factory=list)
    cancels: list[int] = field(default_factory=list)
    traced: list[Timed] = field(default_factory=list)

    def up(self) -> None:
        self.world.processor.purgatory_up(self.pod_id, self.world.now_ms)
        self.world.turn()

    def down(self) -> None:
        self.world.processor.purgatory_down(self.pod_id, self.world.now_ms)
        self.produces.clear()
        self.fetches.clear()
        self.groups.clear()
        self.world.turn()

    def complete(self, entry_id: int, outcome: Outcome, *error_codes: int) -> None:
        response = ParkResponse(completions=[Completion(entry_id, outcome, list(error_codes))])
        self.world.processor.park_response(self.pod_id, response, self.world.now_ms)
        self.world.turn()


class World:
    def __init__(
        self,
        *topics: TopicMetadata,
        nodes: tuple[int, ...] = (1,),
        pods: tuple[str, ...] = (),
        validate_token: ValidateToken = refuse_all,
        begin_context: BeginContext = without_kerberos,
        **config: Any,
    ) -> None:
        self.now_ms = 1_000_000
        session_ids = count(1)
        self.wall_ms = WALL_MS
        """The wall clock, which stands still unless a test moves it."""
        self.clock_us = 0
        """Passes when a test says so; all requests are timed by it."""
        self.processor = GatewayCore(
            replace(CONFIG, **config),
            lambda: next(session_ids),
            lambda: self.clock_us,
            lambda count: b"\x01" * count,
            lambda: self.wall_ms,
            validate_token,
            begin_context,
        )
        self.logs: list[Log] = []
        self.contained: list[ContainedException] = []
        self.expects_fault = False
        """Whether a request may find a fault of ours."""
        self.calls: list[ControllerCall] = []
        self.conversions: list[Conversion] = []
        """Begun and not run."""
        self.token_checks: list[TokenCheck] = []
        """The same of tokens that may block."""
        self.pattern_matchings: list[PatternMatching] = []
        self.clients: dict[int, Client] = {}
        self.logstores = {node_id: ScriptedLogstore(self, node_id) for node_id in nodes}
        self.pods = {pod_id: ScriptedPod(self, pod_id) for pod_id in pods}
        self.revision = 0
        self.update(*(topics or (topic(),)))
        for logstore in self.logstores.values():
            logstore.up()
        for pod in self.pods.values():
            pod.up()

    @property
    def logstore(self) -> ScriptedLogstore:
        return self.logstores[1]

    @property
    def pod(self) -> ScriptedPod:
        return next(iter(self.pods.values()))

    def update(self, *topics: TopicMetadata, **changes: Any) -> None:
        """A full update: these topics are all there are."""
        self.revision += 1
        brokers = [Broker(node_id, f"logstore-{node_id}:9400", node_id) for node_id in self.logstores]
        purgatories = [Purgatory(pod_id, f"{pod_id}:9600") for pod_id in self.pods]
        update = UpdateMetadata(self.revision, True, "cluster", 1, brokers, purgatories, list(topics))
        self.processor.metadata_updated(replace(update, **changes), self.now_ms)
        self.turn()

    def client(self, node_id: int = ANY_NODE) -> Client:
        """A connection that came to the bootstrap port, or to a broker's own."""
        client = Client(self, len(self.clients) + 1)
        self.clients[client.connection_id] = client
        self.processor.connection_opened(client.connection_id, "PLAINTEXT", "10.0.0.1:5000", self.now_ms, node_id)
        return client

    def convert(self, elapsed_ms: float = 3.0) -> None:
        """Run the oldest conversion, as the host's worker does."""
        conversion = self.conversions.pop(0)
        conversion.run(CODECS)
        self.processor.converted(conversion, elapsed_ms, self.now_ms)
        self.turn()

    def check_token(self, fault: str = "") -> None:
        """Answer the oldest token, as the host's worker does; or fail with `fault`."""
        check = self.token_checks.pop(0)
        check.fault = fault
        if not fault:
            check.run()
        self.processor.token_checked(check, self.now_ms)
        self.turn()

    def controller_answers(self, answer: ControllerAnswer | None) -> None:
        """Answer the oldest call."""
        self.processor.controller_answered(self.calls.pop(0).call_id, answer, self.now_ms)
        self.turn()

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass, stopping at each deadline of the core."""
        end_ms = self.now_ms + duration_ms
        while True:
            deadline_ms = self.processor.next_deadline_ms()
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self.processor.expire(self.now_ms)
            self.turn()
        self.now_ms = end_ms

    def turn(self) -> None:
        self.carry_out(self.processor.take_outputs())

    def carry_out(self, outputs: Outputs) -> None:
        rare = outputs.rare or RareOutputs()
        self.logs += outputs.logs
        self.contained += rare.contained
        faults = [log for log in outputs.logs if log.level is LogLevel.ERROR]
        assert self.expects_fault or not (faults or rare.contained), (faults, rare.contained)
        self.calls += rare.controller_calls
        for logstore_call in rare.logstore_calls:
            self.logstores[logstore_call.node_id].calls.append(logstore_call)
        for logstore in self.logstores.values():
            logstore.calls = [call for call in logstore.calls if call.call_id not in rare.logstore_cancels]
        for node_id, exchange in outputs.exchanges:
            logstore = self.logstores[node_id]
            logstore.messages += 1
            logstore.appends += exchange.appends
            logstore.timed += exchange.timed
            logstore.offset_queries += exchange.offset_queries
            logstore.state_queries += exchange.state_queries
        for node_id, read in outputs.reads:
            self.logstores[node_id].reads += read.reads
            self.logstores[node_id].timed += read.timed
            self.logstores[node_id].cancels += read.cancels
        for node_id, coordinate in outputs.coordinates:
            self.logstores[node_id].group_calls += coordinate.calls
            self.logstores[node_id].timed += coordinate.timed
            self.logstores[node_id].collects += coordinate.collects
        for pod_id, park in outputs.parks.items():
            self.pods[pod_id].produces += park.produces
            self.pods[pod_id].groups += park.groups
            self.pods[pod_id].fetches += park.fetches
            self.pods[pod_id].cancels += park.cancels
            self.pods[pod_id].traced += park.traced
        self.conversions += rare.conversions
        self.token_checks += rare.token_checks
        self.pattern_matchings += rare.pattern_matchings
        for connection_id, buffers in outputs.writes:
            client = self.clients[connection_id]
            client.take(buffers)
            if not client.takes_answers:
                self.processor.unsent_bytes(connection_id, len(client.written), self.now_ms)
        for connection_id in (*rare.closes, *rare.aborts):
            self.clients[connection_id].is_closed = True
        for connection_id in rare.aborts:
            self.clients[connection_id].is_aborted = True
        for connection_id in rare.pauses:
            self.clients[connection_id].is_paused = True
        for connection_id in rare.resumes:
            self.clients[connection_id].is_paused = False
        self.processor.turn_over()
