"""A process with one of the real producers' state machines: its connections, its metadata, what it sends.

It finds the brokers over any gateway, has one connection to each broker id that it sends to, and one more for Metadata.
An application in it sends records one after the other to partitions by chance, and gets the result of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages import Response
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.record_batch import Record, build_batch
from tests.sim.clients.connection import KafkaConnection
from tests.sim.clients.producers.calls import (
    Answer,
    IdempotentProducer,
    Leader,
    ProduceCall,
    ProducerConfig,
    ProducerIdAndEpoch,
    TopicPartition,
)
from tests.sim.clients.producers.deliveries import Deliveries
from tests.sim.clients.producers.gaps import Gaps
from tests.sim.clients.producers.java_sender import JavaProducer
from tests.sim.clients.producers.librdkafka_producer import LibrdkafkaProducer
from tests.sim.network import Network
from tests.sim.process import Process
from tests.sim.scheduler import MS, Event, Scheduler

_ANY_BROKER: Final = -1
_TOPIC_ID_VERSION: Final = 13
_METADATA_VERSION: Final = 12
_METADATA_INTERVAL_MS: Final = 100
_UNREPORTED_MAX: Final = 120


class Kind(Enum):
    JAVA = "java"
    LIBRDKAFKA = "librdkafka"


@dataclass(slots=True)
class Habits:
    """`version` is that of Produce; every `interval_us` or so up to `burst_max` records are sent, to one partition
    each. After `records_per_life` the application closes its producer, and opens another; 0: it keeps the one.
    """

    kind: Kind
    config: ProducerConfig
    version: int
    interval_us: int
    burst_max: int
    records_per_life: int = 0


class ProducerProcess(Process):
    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        network: Network,
        gateways: list[str],
        deliveries: Deliveries,
        topics: Mapping[str, int],
        habits: Habits,
    ) -> None:
        """`topics`: how many partitions each has."""
        super().__init__(name, scheduler, network)
        self.habits = habits
        self.is_stopping = False
        self.topic_ids: dict[str, bytes] = {}
        self._gateways = gateways
        self._deliveries = deliveries
        self._partitions: list[TopicPartition] = [
            (topic, partition) for topic, count in sorted(topics.items()) for partition in range(count)
        ]
        self._lives = 0
        self._sent = 0
        self._sent_before = 0
        """Records of the producers that are closed."""
        self._producer: IdempotentProducer | None = None

    def boot(self) -> None:
        self._lives += 1
        self._sent_before = self._sent
        kind = {Kind.JAVA: JavaProducer, Kind.LIBRDKAFKA: LibrdkafkaProducer}[self.habits.kind]
        self._producer = kind(self.habits.config, self.scheduler.random.random)
        self._connections: dict[int, KafkaConnection] = {}
        self._addresses: dict[int, str] = {}
        self._may_connect_ms: dict[int, int] = {}
        self._wants_metadata = True
        self._may_ask_ms = 0
        self._is_asking_metadata = False
        self._is_asking_producer_id = False
        self._timer: Event | None = None
        self.gaps = Gaps()
        self.turn_soon()
        self._send_later()

    def died(self) -> None:
        self._producer = None
        self._deliveries.died(self)

    @property
    def producer(self) -> IdempotentProducer:
        assert self._producer is not None
        return self._producer

    @property
    def has_open_batches(self) -> bool:
        return self._producer is not None and self._producer.unreported > 0

    @property
    def unanswered(self) -> int:
        return sum(each.unanswered for each in self._connections.values())

    # --- the application ---------------------------------------------------------------------------------------------

    def _send_later(self) -> None:
        delay_us = self.scheduler.random.randrange(1, 2 * self.habits.interval_us)
        self.after(delay_us, "may send", self._send_some)

    def _send_some(self) -> None:
        self._send_later()
        self._deliveries.check_waits(self.scheduler.now_us)
        random = self.scheduler.random
        if self._is_closing:
            return
        if self.is_stopping or self.producer.unreported > _UNREPORTED_MAX:
            return
        for _ in range(random.randint(1, self.habits.burst_max)):
            self._sent += 1
            partition = random.choice(self._partitions)
            value = f"{self.name}.{self._lives} {self._sent} .".encode()
            self._deliveries.sending(self, partition, value)
            self.producer.append(partition, value, self.now_ms)
        self.turn_soon()

    @property
    def _is_closing(self) -> bool:
        """Whether the application only waits for its results, to close the producer."""
        per_life = self.habits.records_per_life
        return 0 < per_life <= self._sent - self._sent_before

    def _take_reports(self) -> None:
        reports, self.producer.reports = self.producer.reports, []
        for report in reports:
            self._deliveries.reported(self, report)

    # --- turns -------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        step = self.producer.step(self.now_ms)
        self._wants_metadata = self._wants_metadata or step.needs_metadata
        self._take_reports()
        if (self.producer.is_fatal or self._is_closing) and not self.producer.unreported:
            self._begin_again()
            return
        wakes = [] if step.wake_ms is None else [step.wake_ms]
        for call in step.calls:
            self._produce(call)
        for node_id in step.connect:
            wakes += self._connect(node_id)
        if step.needs_producer_id and not self._is_asking_producer_id:
            wakes += self._ask_producer_id()
        if self._wants_metadata and not self._is_asking_metadata:
            wakes += self._ask_metadata()
        self._timer = self.wake_at_ms(min(wakes, default=None), self._timer)

    def _begin_again(self) -> None:
        """What an application does whose producer is closed, or has failed for good."""
        self.kill()
        self.start()

    # --- connections -------------------------------------------------------------------------------------------------

    def _connect(self, node_id: int) -> list[int]:
        """Open a connection, unless there is one that is not ready; when to try again, where it is too early."""
        if node_id in self._connections:
            return []
        may_ms = self._may_connect_ms.get(node_id, 0)
        if self.now_ms < may_ms:
            return [may_ms]
        address = (
            self.scheduler.random.choice(self._gateways) if node_id == _ANY_BROKER else self._addresses.get(node_id)
        )
        if address is None:
            self._wants_metadata = True
            return []
        timeout_us = self.habits.config.request_timeout_ms * MS
        connection = KafkaConnection(
            self, self.network, address, timeout_us, lambda is_timeout: self._lost(node_id, is_timeout=is_timeout)
        )
        self._connections[node_id] = connection

        def ready(response: Response) -> None:
            if node_id != _ANY_BROKER:
                self.producer.connected(node_id, self.now_ms)
            self.turn_soon()

        connection.ask(ApiKey.API_VERSIONS, ApiVersionsRequest(self.habits.kind.value, "1"), 3, ready)
        return []

    def _lost(self, node_id: int, *, is_timeout: bool) -> None:
        connection = self._connections.pop(node_id, None)
        if connection is None or self._producer is None:
            return
        self._may_connect_ms[node_id] = self.now_ms + self.scheduler.random.randrange(50, 150)
        self.gaps.lost(node_id)
        if node_id == _ANY_BROKER:
            self._is_asking_metadata = self._is_asking_producer_id = False
        else:
            self.producer.disconnected(node_id, self.now_ms, is_timeout=is_timeout)
        self._wants_metadata = True
        self.turn_soon()

    # --- what is asked -----------------------------------------------------------------------------------------------

    def _ask_metadata(self) -> list[int]:
        if self.now_ms < self._may_ask_ms:
            return [self._may_ask_ms]
        connection = self._connections.get(_ANY_BROKER)
        if connection is None:
            return self._connect(_ANY_BROKER)
        self._is_asking_metadata, self._wants_metadata = True, False
        self._may_ask_ms = self.now_ms + _METADATA_INTERVAL_MS
        topics = [MetadataRequestTopic(bytes(16), topic) for topic in dict(self._partitions)]
        connection.ask(ApiKey.METADATA, MetadataRequest(topics, False), _METADATA_VERSION, self._got_metadata)
        return []

    def _got_metadata(self, response: Response) -> None:
        assert isinstance(response, MetadataResponse)
        self._is_asking_metadata = False
        for broker in response.brokers:
            self._addresses[broker.node_id] = f"{broker.host}:{broker.port}"
        leaders: dict[TopicPartition, Leader | None] = {}
        for topic in response.topics:
            if topic.error_code or not topic.name:
                self._wants_metadata = True
                continue
            self.topic_ids[topic.name] = topic.topic_id
            for each in topic.partitions:
                leader = Leader(each.leader_id, each.leader_epoch) if each.leader_id >= 0 else None
                leaders[topic.name, each.partition_index] = leader
        self.producer.learn(leaders, self.now_ms)
        self.turn_soon()

    def _ask_producer_id(self) -> list[int]:
        connection = self._connections.get(_ANY_BROKER)
        if connection is None:
            return self._connect(_ANY_BROKER)
        self._is_asking_producer_id = True
        connection.ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, 60_000), 4, self._got_producer_id)
        return []

    def _got_producer_id(self, response: Response) -> None:
        assert isinstance(response, InitProducerIdResponse)
        if response.error_code:
            self.after(_METADATA_INTERVAL_MS * MS, "asks for a producer id again", self._may_ask_producer_id)
            return
        self._is_asking_producer_id = False
        self.producer.producer_id_assigned(ProducerIdAndEpoch(response.producer_id, response.producer_epoch))
        self.turn_soon()

    def _may_ask_producer_id(self) -> None:
        self._is_asking_producer_id = False
        self.turn_soon()

    def _produce(self, call: ProduceCall) -> None:
        has_id = self.habits.version >= _TOPIC_ID_VERSION
        topics: dict[str, TopicProduceData] = {}
        for batch in call.batches:
            topic, partition = batch.partition
            records = [Record(value, value, self.wall_ms) for value in batch.values]
            encoded = build_batch(
                records,
                producer_id=batch.producer.producer_id,
                producer_epoch=batch.producer.epoch,
                base_sequence=batch.base_sequence,
            )
            data = topics.setdefault(
                topic, TopicProduceData("" if has_id else topic, self.topic_ids[topic] if has_id else bytes(16), [])
            )
            data.partition_data.append(PartitionProduceData(partition, encoded))
        request = ProduceRequest(None, -1, self.habits.config.request_timeout_ms, list(topics.values()))
        self.gaps.sent(call)
        connection = self._connections[call.node_id]
        connection.ask(ApiKey.PRODUCE, request, self.habits.version, lambda response: self._answered(call, response))

    def _answered(self, call: ProduceCall, response: Response) -> None:
        assert isinstance(response, ProduceResponse)
        self._deliveries.history.counts.operations += 1
        names = {topic_id: topic for topic, topic_id in self.topic_ids.items()}
        for endpoint in response.node_endpoints:
            self._addresses[endpoint.node_id] = f"{endpoint.host}:{endpoint.port}"
        answers: dict[TopicPartition, Answer] = {}
        for topic in response.responses:
            for each in topic.partition_responses:
                leader = each.current_leader
                is_named = leader is not None and leader.leader_id >= 0
                answers[topic.name or names[topic.topic_id], each.index] = Answer(
                    each.error_code,
                    each.base_offset,
                    each.log_start_offset,
                    Leader(leader.leader_id, leader.leader_epoch) if leader is not None and is_named else None,
                )
        for batch in call.batches:
            self._deliveries.answered(self, batch, answers[batch.partition])
            self.gaps.answered(batch, answers[batch.partition])
        self.producer.answered(call, answers, self.now_ms)
        self._take_reports()
        self.turn_soon()
