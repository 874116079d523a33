"""One request through the real cores of a gateway and a logstore, and which functions run for it.

The cores are connected as their hosts connect them: what one says is packed and scanned by `barnabas.channel`, effects
are carried out on a model disk, and each core takes its turns. Sockets, streams and IO workers are not there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from barnabas.channel.generated.packing import (
    pack_coordinate_request,
    pack_coordinate_response,
    pack_exchange_request,
    pack_exchange_response,
    pack_read_request,
    pack_read_response,
    scan_coordinate_request,
    scan_coordinate_response,
    scan_exchange_request,
    scan_exchange_response,
    scan_read_request,
    scan_read_response,
)
from barnabas.channel.messages import ExchangeRequest, Hello, ReadRequest
from barnabas.cluster.acls import Acl
from barnabas.cluster.messages import Broker, TopicMetadata, UpdateMetadata
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.messages import api_key_of
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas_gateway.core.model.config import AuthorizerConfig
from barnabas_gateway.core.processor import GatewayCore
from tests.unit.gateway.world import CONFIG
from tests.unit.logstore.service.support import CLUSTER_ID, EXCHANGE, READ, TOPIC, Host, batch, topic

COORDINATE = 4
ROOT = Path(__file__).parents[3]
PRODUCE_VERSION, FETCH_VERSION = 12, 12
RECORDS = 1


@dataclass(frozen=True)
class Function:
    path: str
    """Of its file, below the root of the tree."""
    name: str
    """With its class."""


@dataclass
class Calls:
    """Functions in the order in which they were called first, and which of them called which."""

    functions: dict[Function, None] = field(default_factory=dict)
    pairs: set[tuple[Function, Function]] = field(default_factory=set)


@contextmanager
def calls_of_ours() -> Iterator[Calls]:
    """Collect the calls of functions below the root, those of the tests left out."""
    calls = Calls()
    known: dict[Any, Function | None] = {}

    def function_of(frame: FrameType) -> Function | None:
        code = frame.f_code
        if code not in known:
            path = Path(code.co_filename)
            is_ours = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in ("barnabas", "cli", "services")
            # A comprehension belongs to the function that it stands in.
            name = code.co_qualname.partition(".<locals>")[0]
            known[code] = Function(str(path.relative_to(ROOT)), name) if is_ours else None
        return known[code]

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        function = function_of(frame)
        if function is None:
            return
        calls.functions.setdefault(function)
        caller = None if frame.f_back is None else function_of(frame.f_back)
        if caller is not None:
            calls.pairs.add((caller, function))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(before)


class Cluster:
    """A gateway's processor and the logstore that leads its one partition; with an authorizer, if it has a config."""

    def __init__(
        self, authorizer: AuthorizerConfig | None = None, acls: Sequence[Acl] = (), logstore: Host | None = None
    ) -> None:
        self.now_ms = 0
        self.logstore = logstore or Host()
        topics = self.topics()
        self.logstore.lead(*topics)
        self.processor = GatewayCore(
            replace(CONFIG, metrics_enable=False, authorizer=authorizer or AuthorizerConfig()),
            lambda: 1,
            lambda: 0,
            bytes,
            lambda: 0,
        )
        self.processor.connection_opened(1, "PLAINTEXT", "10.0.0.1:5000", self.now_ms)
        brokers = [Broker(1, "logstore-1:9400", 1)]
        self.metadata = UpdateMetadata(1, True, "cluster", 1, brokers, [], topics, acls=list(acls), knows_acls=True)
        self.processor.metadata_updated(self.metadata, self.now_ms)
        self.logstore.core.on_exchange(EXCHANGE, ExchangeRequest(Hello(CLUSTER_ID, "gateway-0/0")))
        self.logstore.core.on_read(READ, ReadRequest(Hello(CLUSTER_ID, "gateway-0/0")))
        self.processor.exchange_up(1, self.now_ms)
        self.processor.read_up(1, self.now_ms)
        self._correlation_id = 0
        self.run()

    def topics(self) -> list[TopicMetadata]:
        """What there is, all of it led by the logstore."""
        return [topic()]

    def prepare(self) -> None:
        """Serve what comes before the request whose path is taken, so that it runs in a steady state."""
        for _ in range(3):
            self.produce()
            self.fetch()

    def run(self, data: bytes = b"") -> list[bytes]:
        """Hand these bytes of the client to the processor, and take turns until there is an answer or nothing to do."""
        if data:
            self.processor.bytes_received(1, data, self.now_ms)
        answers: list[bytes] = []
        is_idle = False
        while not is_idle:
            is_idle = not self._take_turns(answers)
        return answers

    def _take_turns(self, answers: list[bytes]) -> bool:
        """One turn of each; whether anything went between them."""
        processor, now_ms = self.processor, self.now_ms
        processor.expire(now_ms)
        outputs = processor.take_outputs()
        core = self.logstore.core
        for _, exchange in outputs.exchanges:
            core.on_exchange(EXCHANGE, scan_exchange_request(pack_exchange_request(exchange)))
        for _, read in outputs.reads:
            core.on_read(READ, scan_read_request(pack_read_request(read)))
        for _, calls in outputs.coordinates:
            core.on_coordinate(COORDINATE, scan_coordinate_request(pack_coordinate_request(calls)))
        answers += [b"".join(buffers) for _, buffers in outputs.writes]
        processor.turn_over()
        processor.next_deadline_ms()
        outgoing = self.logstore.turn()
        for _, exchanged in outgoing.exchanges:
            processor.exchange_response(1, scan_exchange_response(pack_exchange_response(exchanged)), now_ms)
        for _, brought in outgoing.reads:
            processor.read_response(1, scan_read_response(pack_read_response(brought)), now_ms)
        for _, answered in outgoing.coordinations:
            processor.coordinate_response(1, scan_coordinate_response(pack_coordinate_response(answered)), now_ms)
        sent = outputs.exchanges or outputs.reads or outputs.coordinates
        brought_back = outgoing.exchanges or outgoing.reads or outgoing.coordinations
        return bool(sent or brought_back or core.has_work)

    def produce(self) -> Any:
        data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch(RECORDS))])]
        return self.ask(ProduceRequest(None, -1, 30_000, data), PRODUCE_VERSION)

    def fetch(self) -> Any:
        """From the beginning: there are records, so that nothing is waited for."""
        asked = [FetchTopic(TOPIC, partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)])]
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=asked)
        return self.ask(request, FETCH_VERSION)

    def ask(self, request: Any, version: int) -> Any:
        """Return the response, when all that follows from the request is over."""
        self._correlation_id += 1
        frame = b"".join(encode_request(request, version, self._correlation_id, "client"))
        (answer,) = self.run(frame)
        _, response = decode_response(api_key_of(type(request)), version, memoryview(answer)[4:])
        return response


class RequestPath:
    """What runs for one request in a steady state.

    - Counted are the files of the gateway, the logstore and the channel between them. The codec of Kafka's protocol,
      the record format and the cluster's image, which they ask, are libraries; packers and scanners are generated.
    - A function that also runs in turns without a request does not run for the request.
    - Requests are not timed: `metrics_enable` is off.
    """

    def __init__(self, cluster: Cluster, ask: Callable[[], Any]) -> None:
        cluster.prepare()
        with calls_of_ours() as idle:
            cluster.run()
        with calls_of_ours() as calls:
            self.response = ask()
        counted = [each for each in calls.functions if each.path.startswith(_COUNTED) and each.path not in _GENERATED]
        self.functions = [each for each in counted if each not in idle.functions]
        """In the order in which they are called first."""
        self.files = _files_of(self.functions)
        """With a function that runs for the request."""
        self.files_of_any_function = _files_of(counted)
        """With what runs in every turn."""
        ours = set(self.functions)
        handing_on = {
            caller for caller, callee in calls.pairs if caller in ours and callee in ours and caller.path != callee.path
        }
        self.files_handing_on = _files_of([each for each in self.functions if each in handing_on])
        """From which the request goes on to another file. The others are asked something, and answer."""


_COUNTED = ("services/gateway/", "services/logstore/", "barnabas/channel/")
_GENERATED = ("barnabas/channel/generated/packing.py", "barnabas/channel/packing_primitives.py")
"""Packers and scanners, and what they call."""


def _files_of(functions: list[Function]) -> list[str]:
    return list(dict.fromkeys(each.path for each in functions))
