"""A blocking, single-threaded client of a Kafka cluster that looks up topics, offsets, leaders and coordinators.

Records are read by `barnabas_pipeline.kafka.reading`, over this client's connections. librdkafka is not used, since it
returns one object per record, which costs more than all else; see `barnabas_pipeline.kafka.columns`. Retries last until
`api_timeout_ms`: then the caller gets the last reason in one `ClusterUnreachable`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from barnabas.client.client_security import client_security
from barnabas.client.kafka_connection import ConnectionBroken, KafkaConnection
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.find_coordinator import CoordinatorType, FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas_pipeline.core.cluster import OffsetAtTime, Topic, TopicExtent, topic_id_text
from barnabas_pipeline.core.errors import ClusterUnreachable, RequestRefused, TopicMissing, WrongOption
from barnabas_pipeline.core.positions import TopicPartition
from barnabas_pipeline.core.settings import ClientSettings

log = logging.getLogger(__name__)

EARLIEST: Final = EARLIEST_TIMESTAMP
LATEST: Final = LATEST_TIMESTAMP

_RESPONSE_BYTES_MAX: Final = 1 << 30

_T = TypeVar("_T")


class Retry(Exception):  # noqa: N818 - it says what to do
    """This attempt failed in a way that may be temporary; the reason is its text."""


class ClusterClient:
    """Connections are opened as brokers are needed, and kept. Use it as a context manager, or `close` it."""

    def __init__(self, settings: ClientSettings) -> None:
        """Raises WrongOption: the settings for TLS and SASL, whose files are read here."""
        self.settings = settings
        try:
            self._security = client_security(dict(settings.security))
        except ValueError as error:
            raise WrongOption(f"option 'kafka.{error}'") from None
        self._connections: dict[tuple[str, int], KafkaConnection] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        self._topics: dict[str, Topic] = {}
        self._first = 0

    def __enter__(self) -> ClusterClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """Return those of `names` that exist; None: all. A topic without metadata yet is waited for."""
        wanted = None if names is None else list(names)
        return self.retrying("metadata", lambda: self._topics_once(wanted))

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAtTime]:
        """Return for each partition the offset at a time in ms, or at EARLIEST or LATEST. Raises TopicMissing.

        Under READ_COMMITTED the latest offset is the last stable one.
        """
        found: dict[TopicPartition, OffsetAtTime] = {}

        def attempt() -> dict[TopicPartition, OffsetAtTime]:
            self._offsets_once({each: time_ms for each, time_ms in wanted.items() if each not in found}, found)
            return found

        return self.retrying("ListOffsets", attempt)

    def extents(self, topics: Mapping[str, Topic]) -> dict[str, TopicExtent]:
        """Return the first and the next offset of all partitions of `topics`."""
        all_partitions = [TopicPartition(name, index) for name, topic in topics.items() for index in topic.leaders]
        earliest = self.offsets(dict.fromkeys(all_partitions, EARLIEST))
        latest = self.offsets(dict.fromkeys(all_partitions, LATEST))
        return {
            name: TopicExtent(
                topic.topic_id,
                {index: earliest[TopicPartition(name, index)].offset for index in sorted(topic.leaders)},
                {index: latest[TopicPartition(name, index)].offset for index in sorted(topic.leaders)},
            )
            for name, topic in topics.items()
        }

    def leader(self, partition: TopicPartition) -> KafkaConnection:
        """Return a connection to the leader, as far as known. Raises Retry and TopicMissing: for use within
        `retrying`.
        """
        if self._leader_id(partition) < 0 and partition.topic not in self._topics_once([partition.topic]):
            raise TopicMissing(f"{partition} does not exist in the cluster at {self.settings.bootstrap_servers}")
        return self.broker(self._leader_id(partition))

    def broker(self, node_id: int) -> KafkaConnection:
        if node_id not in self._brokers:
            raise Retry(f"broker {node_id} is unknown")
        return self._connect(self._brokers[node_id])

    def coordinator(self, group_id: str) -> KafkaConnection:
        """Return a connection to a group's coordinator. Raises Retry: for use within `retrying`."""
        request = FindCoordinatorRequest(group_id, CoordinatorType.GROUP, [group_id])
        connection = self.any_broker()
        response = connection.call(request, FindCoordinatorResponse)
        if response.coordinators:
            found = response.coordinators[0]
            code, address = found.error_code, (found.host, found.port)
        else:
            code, address = response.error_code, (response.host, response.port)
        self.check(code, f"the coordinator of group {group_id}")
        return self._connect(address)

    def forget(self, topic: str) -> None:
        """The leaders of its partitions have to be looked up again."""
        self._topics.pop(topic, None)

    def check(self, code: int, what: str) -> None:
        """Raises Retry or RequestRefused unless `code` is NONE."""
        if code == ErrorCode.NONE:
            return
        try:
            error = ErrorCode(code)
        except ValueError:
            raise RequestRefused(f"{what}: the cluster answers with error {code}") from None
        text = f"{what}: {error.name}: {error.message}"
        raise Retry(text) if error.retriable else RequestRefused(text)

    def retrying(self, what: str, attempt: Callable[[], _T]) -> _T:
        """Return what `attempt` returns, as soon as it neither raises Retry nor breaks a connection, within the
        timeout.
        """
        deadline = time.monotonic() + self.settings.api_timeout_ms / 1000
        backoff_ms = self.settings.retry_backoff_ms
        while True:
            try:
                return attempt()
            except (Retry, ConnectionBroken) as error:
                reason = str(error)
            self.ask_another()
            if time.monotonic() + backoff_ms / 1000 > deadline:
                raise ClusterUnreachable(
                    f"no answer to {what} from the cluster at {self.settings.bootstrap_servers} within "
                    f"{self.settings.api_timeout_ms} ms (kafka.default.api.timeout.ms); the last attempt: {reason}"
                )
            log.info("%s: %s; again in %d ms", what, reason, backoff_ms)
            time.sleep(backoff_ms / 1000)
            backoff_ms = min(2 * backoff_ms, self.settings.retry_backoff_max_ms)

    def ask_another(self) -> None:
        """Start over at the next bootstrap server: open connections may be broken, metadata may be outdated, and so may
        the broker that returned it."""
        self.close()
        self._topics.clear()
        self._first = (self._first + 1) % len(self.settings.bootstrap)

    def any_broker(self) -> KafkaConnection:
        """Return a connection that is already open, or one to the first bootstrap server that can be reached."""
        if self._connections:
            return next(iter(self._connections.values()))
        reasons = []
        for address in self.settings.bootstrap[self._first :] + self.settings.bootstrap[: self._first]:
            try:
                return self._connect(address)
            except ConnectionBroken as error:
                reasons.append(str(error))
        raise Retry("; ".join(reasons))

    def _connect(self, address: tuple[str, int]) -> KafkaConnection:
        connection = self._connections.get(address)
        if connection is None:
            timeout_seconds = self.settings.request_timeout_ms / 1000
            connection = KafkaConnection(
                *address, timeout_seconds, self.settings.client_id, _RESPONSE_BYTES_MAX, self._security
            )
            try:
                connection.learn_versions("barnabas-pipeline", "0.1")
            except BaseException:
                connection.close()
                raise
            self._connections[address] = connection
        return connection

    def _leader_id(self, partition: TopicPartition) -> int:
        topic = self._topics.get(partition.topic)
        return topic.leaders.get(partition.partition, -1) if topic else -1

    def _topics_once(self, names: list[str] | None) -> dict[str, Topic]:
        connection = self.any_broker()
        if connection.version_of(ApiKey.METADATA) < 1:
            raise Retry(f"{connection.address} does not support Metadata of version 1 or newer")
        asked = None if names is None else [MetadataRequestTopic(bytes(16), name) for name in names]
        request = MetadataRequest(asked, allow_auto_topic_creation=False)
        response = connection.call(request, MetadataResponse)
        self._brokers = {each.node_id: (each.host, each.port) for each in response.brokers}
        found: dict[str, Topic] = {}
        for each in response.topics:
            if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or each.name is None:
                continue
            self.check(each.error_code, f"topic {each.name}")
            leaders = {part.partition_index: part.leader_id for part in each.partitions}
            found[each.name] = Topic(each.name, topic_id_text(each.topic_id), each.is_internal, leaders)
        self._topics.update(found)
        return found

    def _offsets_once(self, wanted: Mapping[TopicPartition, int], found: dict[TopicPartition, OffsetAtTime]) -> None:
        """Fill `found`; those that could not be asked now raise Retry at the end."""
        topics = sorted({each.topic for each in wanted})
        unknown = [topic for topic in topics if topic not in self._topics]
        if unknown:
            self._topics_once(unknown)
        by_leader: dict[int, list[TopicPartition]] = {}
        for each in sorted(wanted):
            topic = self._topics.get(each.topic)
            if topic is None or each.partition not in topic.leaders:
                raise TopicMissing(f"{each} does not exist in the cluster at {self.settings.bootstrap_servers}")
            by_leader.setdefault(topic.leaders[each.partition], []).append(each)
        for node_id, partitions in by_leader.items():
            if node_id < 0:
                raise Retry(f"{partitions[0]} has no leader now")
            self._offsets_at(node_id, {each: wanted[each] for each in partitions}, found)

    def _offsets_at(
        self, node_id: int, wanted: Mapping[TopicPartition, int], found: dict[TopicPartition, OffsetAtTime]
    ) -> None:
        by_topic: dict[str, list[ListOffsetsPartition]] = {}
        for each, time_ms in wanted.items():
            by_topic.setdefault(each.topic, []).append(ListOffsetsPartition(each.partition, -1, time_ms))
        request = ListOffsetsRequest(
            -1,
            self.settings.isolation,
            [ListOffsetsTopic(topic, partitions) for topic, partitions in by_topic.items()],
            self.settings.request_timeout_ms,
        )
        response = self.broker(node_id).call(request, ListOffsetsResponse)
        for topic in response.topics:
            for part in topic.partitions:
                partition = TopicPartition(topic.name, part.partition_index)
                self.check(part.error_code, f"offsets of {partition}")
                found[partition] = OffsetAtTime(part.offset, part.timestamp)
