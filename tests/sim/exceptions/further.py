"""What some rounds of tours have besides: clients with further questions, and what goes wrong for them.

The hours do without, so that their seeds stay what they are. It is for what hardly any run comes to otherwise: records
that are read in an old format, replicas that are preferred by rack, many tokens at once, requests whose time is over
before they are answered, a client that is slow to read, a disk that hangs for longer than a controller waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Final

from barnabas.client.sasl import OAuthBearerClient
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message_set import encode_message
from barnabas.wire.messages import MESSAGES, Response
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas_controller.core.state.operator_requests import DrainNode, ReturnNode
from tests.sim.clients.client import Client, ClientEnvironment
from tests.sim.exceptions.questions import Question
from tests.sim.exceptions.surroundings import RACKS
from tests.sim.nodes.client_socket import SLOW_CLIENT_SHARE
from tests.sim.nodes.identities import TOKEN
from tests.sim.process import WALL_START_MS
from tests.sim.scheduler import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.nodes.gateway import GatewayNode
    from tests.sim.nodes.logstore import LogstoreNode

TOPIC: Final = "old.format"
COLLIDING: Final = "old_format"
"""Collides with that topic in the names of metrics, so that its creation is always refused."""
RECREATED: Final = "recreated"
BEARERS: Final = 12
"""More than the tokens that a turn checks."""
IMPATIENT: Final = 3
HANG_US: Final = 75 * SECOND
"""Longer than two controllers wait for an answer, one after the other."""
HANG_AT_US: Final = 5 * SECOND
DRAIN_US: Final = 3 * SECOND
LOST_SHARE: Final = 0.2
"""Of the calls to logstores: so many get no answer."""
SLOW_SHARE: Final = 0.5
"""Of what clients are sent: so much is read late."""
_RECREATED_REPLICAS: Final = 2
"""On so many of the first logstores is the topic that comes and goes."""
_OPERATION_MS: Final = 5_000
_AT_ONCE: Final = 20
"""More than a turn answers."""
_BEYOND: Final = 1 << 40
_BUSY_US: Final = 3 * MS
_EVERY_US: Final = 500 * MS

IDEMPOTENT: Final = Question(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 1_000))
"""Of the guest: nothing says that it may, but that it may write to some topic."""


def begin(
    cluster: Cluster, environment: ClientEnvironment, pause_us: int, until_us: int, *, has_faults: bool
) -> list[Client]:
    """Start the clients, and return them. `environment`: of those that authenticate."""
    gateway = cluster.gateways[0]
    bearing = replace(environment, gateways=[each for each in environment.gateways if each.startswith(gateway.name)])
    clients: list[Client] = [OldClient("old-client", cluster.client_environment, pause_us)]
    clients += [Bearer(f"bearer-{each}", bearing) for each in range(BEARERS)]
    if has_faults:
        # Elsewhere no request's time may be over.
        clients += [Impatient(f"impatient-{each}", cluster.client_environment, pause_us) for each in range(IMPATIENT)]
        clients.append(Recreator("recreator", cluster.client_environment, pause_us))
        random = cluster.scheduler.random
        for each in cluster.gateways:
            each.loses_call = lambda: random.random() < LOST_SHARE
            each.slow_share = SLOW_SHARE
        _hang_a_disk(cluster, until_us)
        _drain_in_turn(cluster, until_us)
    for client in clients:
        client.start()
    _keep_busy(gateway, until_us)
    return clients


def end(cluster: Cluster) -> None:
    """The last act is played without any of it."""
    for gateway in cluster.gateways:
        gateway.loses_call = lambda: False
        gateway.slow_share = SLOW_CLIENT_SHARE
        gateway.stall_us = None
    for logstore in cluster.logstores:
        logstore.disk_stall_us = None


def _hang_a_disk(cluster: Cluster, until_us: int) -> None:
    """Where the run is long enough: all that is asked of one disk waits."""
    scheduler = cluster.scheduler
    end_us = scheduler.now_us + HANG_AT_US + HANG_US
    if until_us < end_us:
        return
    node = scheduler.random.choice(cluster.logstores[:_RECREATED_REPLICAS])

    def stall_us() -> int:
        return max(0, end_us - scheduler.now_us)

    scheduler.plan(HANG_AT_US, f"the disk of {node.name} hangs", partial(_hang, node, stall_us))
    scheduler.plan(HANG_AT_US + HANG_US, f"the disk of {node.name} goes on", partial(_hang, node, None))


def _hang(node: LogstoreNode, stall_us: Callable[[], int] | None) -> None:
    node.disk_stall_us = stall_us


def _drain_in_turn(cluster: Cluster, until_us: int) -> None:
    """Have one logstore after the other emptied, and returned. The last act returns all."""
    scheduler = cluster.scheduler

    def operate(request: DrainNode | ReturnNode) -> None:
        active = next((each for each in cluster.controllers if each.alive and not each.paused and each.is_active), None)
        if active is not None:
            active.operate(request, lambda response: None)

    def drain() -> None:
        if scheduler.now_us + DRAIN_US > until_us:
            return
        node_id = scheduler.random.choice(cluster.logstores).node_id
        operate(DrainNode(node_id, True, _OPERATION_MS))
        returning = partial(operate, ReturnNode(node_id, True, _OPERATION_MS))
        scheduler.plan(DRAIN_US // 2, f"logstore {node_id} is returned", returning)
        scheduler.plan(DRAIN_US, "another logstore is drained", drain)

    scheduler.plan(DRAIN_US, "a logstore is drained", drain)


def _keep_busy(gateway: GatewayNode, until_us: int) -> None:
    """Have its turns take long as the bearers send their tokens."""
    scheduler = gateway.scheduler

    def stall_us() -> int:
        return _BUSY_US

    def begin_again() -> None:
        if scheduler.now_us + _EVERY_US > until_us:
            return
        if gateway.stall_us is None:
            gateway.stall_us = stall_us
        scheduler.plan(2 * _BUSY_US, f"{gateway.name} has its CPU back", recover)
        scheduler.plan(_EVERY_US, f"{gateway.name} is busy", begin_again)

    def recover() -> None:
        if gateway.stall_us is stall_us:
            gateway.stall_us = None

    scheduler.plan(_EVERY_US - scheduler.now_us % _EVERY_US, f"{gateway.name} is busy", begin_again)


class _Asker(Client):
    """Asks one thing after the other."""

    def __init__(self, name: str, environment: ClientEnvironment, pause_us: int) -> None:
        super().__init__(name, environment)
        self._pause_us = pause_us
        self._has_topic = False
        self._gathered: bytearray | None = None
        self.is_stopping = False

    def work(self) -> None:
        if self._has_topic:
            self.meanwhile(self.scheduler.below(2 * self._pause_us) + 1, "asks further", self._go_on)
        else:
            self._ask(_CREATION, self._created)

    def _created(self, response: Response) -> None:
        assert isinstance(response, CreateTopicsResponse)
        self._has_topic = response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        self.meanwhile(self._pause_us, "goes on", self.work)

    def _go_on(self) -> None:
        raise AssertionError("every one of them has questions")

    def _ask(self, question: Question, answered: Callable[[Response], None]) -> None:
        response_type: type[Response] = MESSAGES[question.api_key][1]

        def responded(response: Response | None) -> None:
            if response is not None:
                answered(response)

        self.ask(question.api_key, question.request, question.version, response_type, responded)

    def _ask_at_once(self, questions: Sequence[Question], answered: Callable[[Response], None]) -> None:
        """In one write; `answered` is about the last."""
        self._gathered = bytearray()
        for each in questions[:-1]:
            self._ask(each, lambda response: None)
        self._ask(questions[-1], answered)
        data, self._gathered = bytes(self._gathered), None
        super()._send(data)

    def _send(self, data: bytes) -> None:
        if self._gathered is not None:
            self._gathered += data
        else:
            super()._send(data)


class OldClient(_Asker):
    """One of before Kafka 0.11, which reads what it has written. It tells its rack, as it would not."""

    def __init__(self, name: str, environment: ClientEnvironment, pause_us: int) -> None:
        super().__init__(name, environment, pause_us)
        self._offset = 0
        """Of the record that it has written last."""

    def _go_on(self) -> None:
        random = self.scheduler.random
        match self.scheduler.below(6):
            case 0:
                self._ask(_produce(encode_message(0, 1, b"k", b"v", timestamp_ms=WALL_START_MS)), self._produced)
            case 1:
                self._ask(_produce(encode_message(0, 1, b"k", b"v", timestamp_ms=-2)), self._answered)
            case 2:
                self._ask(_fetch(random.choice((2, 3)), self._offset), self._answered)
            case 3:
                self._ask_at_once([*[_VERSIONS] * _AT_ONCE], self._answered)
            case _:
                # Beyond the end a preferred replica has no answer, and is avoided.
                offset = random.choice((self._offset, self._offset, _BEYOND))
                self._ask(_fetch(12, offset, f"rack-{random.randrange(RACKS)}"), self._answered)

    def _produced(self, response: Response) -> None:
        assert isinstance(response, ProduceResponse)
        written = response.responses[0].partition_responses[0]
        if not written.error_code:
            self._offset = written.base_offset
        self.work()

    def _answered(self, response: Response) -> None:
        self.work()


class Impatient(_Asker):
    """Asks what can't be answered in the time that it gives."""

    def _go_on(self) -> None:
        self._ask(self.scheduler.random.choice(_HASTY), lambda response: self.work())


class Recreator(_Asker):
    """Has a topic come and go: a logstore that still deletes its log waits with the next one of that name."""

    def __init__(self, name: str, environment: ClientEnvironment, pause_us: int) -> None:
        super().__init__(name, environment, pause_us)
        self._next = cycle(_RECREATION)

    def _go_on(self) -> None:
        self._ask(next(self._next), lambda response: self.work())


class Bearer(Client):
    """Shows its token when the others do."""

    def __init__(self, name: str, environment: ClientEnvironment) -> None:
        super().__init__(name, environment)
        self.is_stopping = False

    def work(self) -> None:
        request = SaslHandshakeRequest("OAUTHBEARER")
        self.ask(ApiKey.SASL_HANDSHAKE, request, 1, SaslHandshakeResponse, self._welcomed)

    def _welcomed(self, response: SaslHandshakeResponse | None) -> None:
        if response is not None and not response.error_code:
            delay_us = _EVERY_US - self.scheduler.now_us % _EVERY_US
            self.meanwhile(delay_us, "shows its token", self._show)

    def _show(self) -> None:
        request = SaslAuthenticateRequest(OAuthBearerClient(TOKEN).first_token())
        self.ask(ApiKey.SASL_AUTHENTICATE, request, 2, SaslAuthenticateResponse, self._known)

    def _known(self, response: SaslAuthenticateResponse | None) -> None:
        if response is not None:
            self.meanwhile(0, "has shown it", lambda: self.disconnect("it has shown its token"))


def _produce(records: bytes) -> Question:
    data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, records)])]
    return Question(ApiKey.PRODUCE, 2, ProduceRequest(None, -1, 2_000, data))


def _fetch(version: int, offset: int, rack_id: str = "") -> Question:
    topics = [FetchTopic(TOPIC, partitions=[FetchPartition(0, fetch_offset=offset)])]
    request = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=topics, rack_id=rack_id)
    return Question(ApiKey.FETCH, version, request)


_CREATION: Final = Question(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(TOPIC, 1, 2)], 5_000))
_RECREATION: Final = (
    Question(
        ApiKey.CREATE_TOPICS,
        7,
        CreateTopicsRequest([CreatableTopic(RECREATED, -1, -1, [CreatableReplicaAssignment(0, [2, 1])])], 2_000),
    ),
    Question(ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest([DeleteTopicState(RECREATED)], timeout_ms=2_000)),
)
_VERSIONS: Final = Question(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("old", "1"))
_HASTY: Final = (
    Question(
        ApiKey.LIST_OFFSETS,
        10,
        ListOffsetsRequest(-1, 0, [ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, timestamp=0)])], timeout_ms=1),
    ),
    Question(
        ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest([DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 0)])], 1)
    ),
    Question(ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(bytes(16), COLLIDING)])),
    Question(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(COLLIDING, 1, 2)], 1)),
    Question(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        IncrementalAlterConfigsRequest(
            [AlterConfigsResource(8, str(node_id), [AlterableConfig("logstore", 0, "DEBUG")]) for node_id in (1, 2)]
        ),
    ),
)
