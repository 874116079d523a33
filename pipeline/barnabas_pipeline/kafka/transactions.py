"""One transaction of a task: its records, and the offset by which a repeated task notices that they are written.

librdkafka keeps the order that makes this safe: `init_transactions` ends what an earlier attempt of the same task has
begun and fences that attempt; only then is the group's offset read, and it is a stable one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import KafkaError

from barnabas_pipeline.core.epochs import Epoch, Written, metadata_of, parse_written, task_of
from barnabas_pipeline.core.errors import RequestRefused
from barnabas_pipeline.core.settings import PRODUCER_LOG_LEVEL
from barnabas_pipeline.kafka.deliveries import Deliveries
from barnabas_pipeline.kafka.librdkafka_config import librdkafka_config

_CALL_SECONDS: Final = 10.0
_SECONDS_MAX: Final = 120.0
"""For all attempts of a call. A coordinator that moves takes a few seconds."""
_RETRY_SECONDS: Final = 0.1
_PARTITION: Final = 0
"""The offset is committed for this partition of each topic that the transaction wrote to: it exists."""
_RETRIED: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._WAIT_COORD,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Of the calls that are no part of a transaction: librdkafka says of the others whether they may be repeated."""


class TaskTransaction:
    """Use it as a context manager: what is not committed is aborted. All methods raise RequestRefused."""

    def __init__(self, settings: Mapping[str, str], epoch: Epoch, deliveries: Deliveries) -> None:
        """`settings` are the producer's."""
        self._epoch = epoch
        self._deliveries = deliveries
        self._topics: set[str] = set()
        self.producer = Producer(
            {**librdkafka_config(settings), "transactional.id": epoch.task_id, "error_cb": deliveries.met}
        )
        self._consumer = Consumer(
            {**_consumers(settings), "group.id": epoch.task_id, "isolation.level": "read_committed"}
        )
        self._is_begun = False

    def __enter__(self) -> TaskTransaction:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._is_begun:
                # An abort that fails is done by the coordinator, when the next attempt begins or the time is over.
                self.producer.abort_transaction(_CALL_SECONDS)
        except KafkaException:
            pass
        finally:
            self._consumer.close()

    def fence(self, topic: str) -> Written | None:
        """Fence earlier attempts of the task, and return the last batch that one of them wrote to `topic`."""
        self._retrying("init_transactions", lambda: self.producer.init_transactions(_CALL_SECONDS))
        place = TopicPartition(topic, _PARTITION)
        (found,) = self._retrying("reading the last batch", lambda: self._consumer.committed([place], _CALL_SECONDS))
        if found.error is not None:
            raise RequestRefused(f"the last batch of '{self._epoch.task_id}': {found.error.str()}")
        return parse_written(self._epoch.task_id, found.offset, found.metadata)

    def begin(self) -> None:
        self._retrying("begin_transaction", self.producer.begin_transaction)
        self._is_begun = True

    def wrote_to(self, topic: str) -> None:
        self._topics.add(topic)

    def commit(self, records_count: int) -> None:
        """Return when the records and the batch's id are committed."""
        metadata = metadata_of(self._epoch, records_count)
        offsets = [
            TopicPartition(topic, _PARTITION, self._epoch.batch_id, metadata=metadata) for topic in sorted(self._topics)
        ]
        group = self._consumer.consumer_group_metadata()
        self._retrying(
            "send_offsets_to_transaction",
            lambda: self.producer.send_offsets_to_transaction(offsets, group, _CALL_SECONDS),
        )
        self._retrying("commit_transaction", lambda: self.producer.commit_transaction(_CALL_SECONDS))
        self._is_begun = False

    def _retrying(self, what: str, attempt: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + _SECONDS_MAX
        while True:
            # A callback gets the clients their access tokens, and is called by a poll, by no call of a transaction.
            self.producer.poll(0)
            self._consumer.poll(0)
            try:
                return attempt()
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                may_retry = reason.retriable() or reason.code() in _RETRIED
                if not may_retry or time.monotonic() > deadline:
                    failure = self._deliveries.failure or self._deliveries.why(reason.str())
                    raise RequestRefused(f"{what} of '{self._epoch.task_id}' failed: {failure}") from None
                time.sleep(_RETRY_SECONDS)


def batches_of_tasks(settings: Mapping[str, str], transactional_id: str) -> dict[int, Written]:
    """Return the newest batch that each task has written. Raises RequestRefused."""
    admin = AdminClient(_consumers(settings))
    try:
        groups = admin.list_consumer_groups(request_timeout=_CALL_SECONDS).result().valid
        found: dict[int, Written] = {}
        for group in groups:
            task = task_of(transactional_id, group.group_id)
            if task is not None:
                newest = _newest_batch(admin, group.group_id)
                if newest is not None:
                    found[task] = newest
        return found
    except KafkaException as error:
        raise RequestRefused(f"the batches of '{transactional_id}-…' can't be read: {error.args[0].str()}") from None


def _newest_batch(admin: AdminClient, group_id: str) -> Written | None:
    from confluent_kafka import ConsumerGroupTopicPartitions

    asked = [ConsumerGroupTopicPartitions(group_id)]
    (answer,) = admin.list_consumer_group_offsets(asked, require_stable=True, request_timeout=_CALL_SECONDS).values()
    written = [parse_written(group_id, each.offset, each.metadata) for each in answer.result().topic_partitions]
    return max((each for each in written if each is not None), key=lambda each: each.batch_id, default=None)


def _consumers(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the producer's settings for another client, without its warnings of those that only a producer has."""
    return {**librdkafka_config(settings), "log_level": PRODUCER_LOG_LEVEL}
