"""The topic that a replay writes to."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from barnabas.cluster.access.client_properties import librdkafka_properties
from barnabas_pipeline.core.errors import ClusterUnreachable, TopicMissing
from barnabas_pipeline.core.replay import ReplayError, SourceRecord, without_time
from barnabas_pipeline.core.settings import PRODUCER_LOG_LEVEL, ClientSettings
from barnabas_pipeline.kafka.cluster_client import ClusterClient
from barnabas_pipeline.kafka.deliveries import Deliveries
from barnabas_pipeline.kafka.librdkafka_config import librdkafka_config

_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.1
_DELIVERY_MS_MAX = 120_000
"""After this time a record counts as not written: Java's default."""
_QUEUED_RECORDS_MAX = 20_000
_RECORD_BYTES_MAX = 1_000_000_000
"""librdkafka's limit: the topic's own decides what is too large."""


def _client_settings(cluster: ClientSettings) -> dict[str, Any]:
    """Quiet: the relevant part of librdkafka's messages is in our own one line."""
    security = librdkafka_config(librdkafka_properties(dict(cluster.security)))
    return {"bootstrap.servers": cluster.bootstrap_servers, "log_level": PRODUCER_LOG_LEVEL, **security}


def create_topic(cluster: ClientSettings, topic: str, partitions: int) -> None:
    """Create it with the cluster's own replication; an existing one is unchanged. Raises ReplayError."""
    admin = AdminClient(_client_settings(cluster))
    made = admin.create_topics([NewTopic(topic, partitions, -1)], request_timeout=_TIMEOUT_SECONDS)
    try:
        made[topic].result(2 * _TIMEOUT_SECONDS)  # the request itself fails first, with a reason
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
            reason = error.args[0].str()
            raise ReplayError(
                f"topic {topic} can't be created in the cluster at {cluster.bootstrap_servers}: {reason}"
            ) from None


@dataclass(frozen=True, slots=True)
class Target:
    """The present state of a topic: its id, and by partition the first and the next offset."""

    topic: str
    topic_id: str
    begins: Mapping[int, int]
    ends: Mapping[int, int]


def look_at(client: ClusterClient, bootstrap_servers: str, topic: str) -> Target:
    """Raises TopicMissing. A topic that was created a moment ago is waited for."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        topics = client.topics([topic])
        if topic in topics:
            extent = client.extents(topics)[topic]
            return Target(topic, extent.topic_id, extent.earliest, extent.latest)
        if time.monotonic() > deadline:
            raise TopicMissing(
                f"the cluster at {bootstrap_servers} has no topic {topic}; --create PARTITIONS creates it"
            )
        time.sleep(_POLL_SECONDS)


def disturbed(topic: str, partition: int, expected: int, found: int) -> str:
    """The error if a replay can't be trusted because other records are in its topic."""
    return (
        f"partition {partition} of {topic} is at offset {found}, but this replay alone would have reached "
        f"{expected}: another program writes to it, or records of an earlier run arrived after its end; delete "
        "both the target and the state, and stop other writers"
    )


def check_ends(client: ClusterClient, target: Target, expected: Mapping[int, int]) -> None:
    """Check the target once more: it must have the replay's records and nothing else. Raises ReplayError."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        found = client.extents(client.topics([target.topic])).get(target.topic)
        if found is None or found.topic_id != target.topic_id:
            raise ReplayError(f"{target.topic} was deleted while it was written to: delete the state to start over")
        # At a failover, acknowledged records may be invisible for a moment; they never appear too early.
        behind = any(found.latest[partition] < end for partition, end in expected.items())
        if not behind or time.monotonic() > deadline:
            break
        time.sleep(_POLL_SECONDS)
    for partition, end in sorted(expected.items()):
        if found.latest[partition] != end:
            raise ReplayError(disturbed(target.topic, partition, end, found.latest[partition]))


def retention_ms(cluster: ClientSettings, topic: str) -> int | None:
    """Return after which time the topic deletes records; None if never or unknown."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient(_client_settings(cluster))
    try:
        configs = admin.describe_configs([resource], request_timeout=_TIMEOUT_SECONDS)[resource].result(
            2 * _TIMEOUT_SECONDS
        )
    except KafkaException:
        # A principal that may write may not be allowed to read this, which is only for a warning.
        return None
    time_ms = int(configs["retention.ms"].value)
    return None if time_ms < 0 or "delete" not in configs["cleanup.policy"].value else time_ms


def last_records(cluster: ClientSettings, target: Target, starts: Mapping[int, int]) -> dict[int, SourceRecord]:
    """Return the newest record of each partition with any since `starts`. Raises ReplayError, ClusterUnreachable."""
    wanted = [
        TopicPartition(target.topic, partition, end - 1)
        for partition, end in target.ends.items()
        if end > starts.get(partition, 0)
    ]
    if not wanted:
        return {}
    for each in wanted:
        if target.begins[each.partition] > each.offset:
            raise ReplayError(
                f"partition {each.partition} of {target.topic} has lost what this replay wrote: delete it and the "
                "state, and recreate it with retention.ms=-1"
            )
    consumer = Consumer({**_client_settings(cluster), "group.id": "barnabas-replay", "enable.auto.commit": False})
    found: dict[int, SourceRecord] = {}
    try:
        consumer.assign(wanted)
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while len(found) < len(wanted):
            message = consumer.poll(_POLL_SECONDS)
            if time.monotonic() > deadline:
                raise ClusterUnreachable(
                    f"the last records of {target.topic} can't be read from {cluster.bootstrap_servers}"
                )
            if message is not None and message.error() is None:
                record = _record(message)
                found.setdefault(record.partition, record)
    finally:
        consumer.close()
    return found


def _record(message: Any) -> SourceRecord:
    headers = tuple((name, value) for name, value in message.headers() or ())
    return SourceRecord(
        message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value(), headers
    )


@dataclass(slots=True)
class Writer:
    """An idempotent producer of complete records, the only writer of its topic. The first failure ends it."""

    cluster: ClientSettings
    topic: str
    ends: dict[int, int]
    """By partition the offset that the next record must get: another one means that another program writes."""
    _failures: list[str] = field(default_factory=list)
    _deliveries: Deliveries = field(default_factory=Deliveries)
    _producer: Any = None

    def __post_init__(self) -> None:
        self._producer = Producer(
            {
                **_client_settings(self.cluster),
                "error_cb": self._deliveries.met,
                "enable.idempotence": True,
                "enable.gapless.guarantee": True,
                "compression.type": "lz4",
                "linger.ms": 20,
                "message.max.bytes": _RECORD_BYTES_MAX,
                "message.timeout.ms": _DELIVERY_MS_MAX,
                # It counts from when a record is passed to librdkafka: a slow cluster may accept many in that time.
                "queue.buffering.max.messages": _QUEUED_RECORDS_MAX,
            }
        )

    def write(self, partition: int, record: SourceRecord) -> None:
        """Raises ReplayError."""
        if record.timestamp_ms <= 0:
            raise without_time(record.partition, record.offset)
        while True:
            try:
                self._producer.produce(
                    self.topic,
                    record.value,
                    record.key,
                    partition,
                    on_delivery=self._delivered,
                    timestamp=record.timestamp_ms,
                    headers=list(record.headers),
                )
                break
            except BufferError:
                self._serve(_POLL_SECONDS)
            except KafkaException as error:
                raise ReplayError(
                    f"record {record.partition}/{record.offset} can't be written to {self.topic}: {error.args[0].str()}"
                ) from None
        self._raise_first()

    def poll(self) -> None:
        """Raises ReplayError."""
        self._serve(0)

    def finish(self) -> None:
        """Wait until everything is acknowledged. Raises ReplayError."""
        # Not by `flush`: it continues after a fatal error, and callbacks then raise its exception.
        while len(self._producer):
            self._serve(_POLL_SECONDS)
        self._raise_first()

    def _serve(self, seconds: float) -> None:
        try:
            self._producer.poll(seconds)
        except KafkaException as error:
            # A failure first makes the producer unusable, and is delivered then.
            while len(self._producer) and not self._failures:
                self._producer.poll(_POLL_SECONDS)
            self._failures.append(f"records were not written to {self.topic}: {self._why(error.args[0])}")
        self._raise_first()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and error.name() == "MSG_SIZE_TOO_LARGE":
            self._failures.append(
                f"a record of {len(message.value() or b''):,} bytes is larger than {self.topic} accepts: "
                "raise its max.message.bytes"
            )
        elif error is not None:
            self._failures.append(f"a record was not written to {self.topic}: {self._why(error)}")
        elif message.timestamp()[0] != TIMESTAMP_CREATE_TIME:
            self._failures.append(f"topic {self.topic} replaces records' timestamps: set CreateTime for a replay")
        else:
            self._count(message.partition(), message.offset())

    def _why(self, error: Any) -> str:
        return f"{self._deliveries.why(error.str())}; run again to continue from there"

    def _count(self, partition: int, offset: int) -> None:
        expected = self.ends[partition]
        # Unknown for a batch that the broker already had when it was sent again.
        if offset >= 0 and offset != expected:
            self._failures.append(disturbed(self.topic, partition, expected, offset))
        self.ends[partition] = expected + 1

    def _raise_first(self) -> None:
        if self._failures:
            raise ReplayError(self._failures[0])
