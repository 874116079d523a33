"""Calls of librdkafka's clients that are made again while leaders, coordinators and connections move.

librdkafka repeats a request a few times within a second or two, then reports the error though the call's own timeout is
far away. On a loaded machine an election, or the start of a killed process, takes longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.cluster.internal_topics import TRANSACTION_STATE_TOPIC, partition_of_group

SECONDS_MAX = 90.0

Result = TypeVar("Result")

_RETRIABLE = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
"""What passes while the cluster is well. `KafkaError.retriable` is true for errors of the transactional calls alone.

INVALID_REPLICATION_FACTOR is among them because a logstore that was killed is back a moment after its process.
"""


def retried(call: Callable[[], Result], seconds_max: float = SECONDS_MAX) -> Result:
    """Return what `call` returns, as soon as it ends without a retriable error. Raises the last KafkaException."""
    until = time.monotonic() + seconds_max
    while True:
        try:
            return call()
        except KafkaException as failed:
            error: KafkaError = failed.args[0]
            if not (error.retriable() or error.code() in _RETRIABLE) or time.monotonic() > until:
                raise
            time.sleep(0.1)


def create_topic(bootstrap: str, new: NewTopic) -> None:
    """Create a topic. A request whose answer was lost may have created it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    attempts = 0

    def create() -> None:
        nonlocal attempts
        attempts += 1
        try:
            admin.create_topics([new], operation_timeout=SECONDS_MAX)[new.topic].result(SECONDS_MAX)
        except KafkaException as failed:
            if attempts == 1 or failed.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    retried(create)


def end_offset(consumer: Consumer, topic: str, partition: int) -> int:
    wanted = TopicPartition(topic, partition)
    return int(retried(lambda: consumer.get_watermark_offsets(wanted, timeout=SECONDS_MAX))[1])


def committed_offsets(consumer: Consumer, topic: str, partitions: int) -> list[int]:
    """Return the offsets that the consumer's group has committed, by partition."""
    wanted = [TopicPartition(topic, partition) for partition in range(partitions)]

    def committed() -> list[TopicPartition]:
        found: list[TopicPartition] = consumer.committed(wanted, SECONDS_MAX)
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
        return found

    return [each.offset for each in retried(committed)]


def transaction_coordinator(bootstrap: str, transactional_id: str) -> int:
    """Return the id of the logstore that coordinates `transactional_id`."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def leader() -> int:
        topic = admin.list_topics(TRANSACTION_STATE_TOPIC, SECONDS_MAX).topics[TRANSACTION_STATE_TOPIC]
        if topic.error is not None:
            raise KafkaException(topic.error)
        found: int = topic.partitions[partition_of_group(transactional_id, len(topic.partitions))].leader
        if found < 0:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return found

    return retried(leader)
