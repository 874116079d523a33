"""Transactional producers of librdkafka that record what they do: writers to all partitions, and copiers."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.faults.history import Type
from tests.faults.transactions.history import ALL, IN, OUT, EventRecorder
from tests.faults.transactions.plan import TRANSACTION_TIMEOUT_MS, Plan

CALL_SECONDS: Final = 5.0
"""One attempt of a call of the transactional API; those that time out are repeated."""
PATIENCE_SECONDS: Final = 60.0
"""How long a call is repeated, before the producer is given up with its transaction of unknown outcome."""
ABORTED_SHARE: Final = 0.15
COPIED_AT_ONCE: Final = 50
_FENCED: Final = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


class GivenUpError(Exception):
    """This producer can go on no more: a fatal error, or an answer that never came."""


class AbortedError(Exception):
    """The transaction could only be aborted, and is."""


def transactional_producer(plan: Plan, number: int, transactional_id: str) -> Producer:
    """Return a producer that has fenced the one before it. Raises GivenUpError."""
    settings = {
        **plan.clients_at(number),
        "transactional.id": transactional_id,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "message.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "linger.ms": 2,
        **({"debug": plan.debug, "log_level": 7} if plan.debug else {}),
    }
    producer = Producer(settings)
    _persist(lambda: producer.init_transactions(CALL_SECONDS))
    return producer


def commit(producer: Producer) -> None:
    """Raises AbortedError, or GivenUpError when the outcome is unknown."""
    try:
        _persist(lambda: producer.commit_transaction(CALL_SECONDS))
    except _AbortRequiredError:
        abort(producer)
        raise AbortedError from None


def abort(producer: Producer) -> None:
    """Raises GivenUpError."""
    try:
        _persist(lambda: producer.abort_transaction(CALL_SECONDS))
    except _AbortRequiredError as reason:
        raise GivenUpError(str(reason)) from None


class _AbortRequiredError(Exception):
    pass


def _persist(call: Callable[[], object]) -> None:
    """Repeat a call of the transactional API for as long as its error says that this may help."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            call()
        except KafkaException as failed:
            error = failed.args[0]
            if error.txn_requires_abort():
                raise _AbortRequiredError(str(error)) from None
            if not error.retriable() or time.monotonic() > deadline:
                raise GivenUpError(str(error)) from None
            time.sleep(0.05)
        else:
            return


class TransactionalClient(ABC):
    """One transactional id and its producers, one after another, in a thread of its own.

    A producer is left with its transaction open now and then. Its successor fences it; then it tries to commit.
    """

    def __init__(self, kind: str, number: int, plan: Plan, seed: int) -> None:
        self.name = f"{kind}-{number}"
        self.number = number
        self.plan = plan
        self.random = random.Random(seed)
        self.recorder = EventRecorder(Path(plan.directory), self.name)
        self.life = 0
        self.committed = 0
        """Transactions."""
        self._stopping = threading.Event()
        self._left_open: tuple[Producer, str] | None = None
        self._thread = threading.Thread(target=self._run, name=self.name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Begin to; `join` waits for it."""
        self._stopping.set()

    def join(self) -> None:
        self._thread.join()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @abstractmethod
    def live(self, producer: Producer, until: float) -> str | None:
        """Work until then or until `is_stopping`. Return the transaction that is left open, None if none is.

        Raises GivenUpError.
        """

    @abstractmethod
    def close(self) -> None:
        """Called when a life is over."""

    @abstractmethod
    def fenced(self, value: str) -> None:
        """Called when a successor has begun: `value`, the transaction left open, can no longer be committed."""

    def _run(self) -> None:
        with self.recorder:
            while not self.is_stopping:
                self._live_once()
            if self._left_open is not None:
                self._succeed()

    def _live_once(self) -> None:
        producer = self._succeed()
        if producer is None:
            return
        self.life += 1
        until = time.monotonic() + self.plan.life_seconds * self.random.uniform(0.5, 1.5)
        try:
            open_transaction = self.live(producer, until)
        except GivenUpError:
            open_transaction = None
        finally:
            self.close()
        if open_transaction is not None:
            self._left_open = (producer, open_transaction)

    def _succeed(self) -> Producer | None:
        """Return the next producer, and have the one before it try to commit; None if the next one can't begin yet."""
        try:
            producer = transactional_producer(self.plan, self.number, f"{self.plan.topic}-{self.name}")
        except (GivenUpError, _AbortRequiredError):
            return None
        if self._left_open is not None:
            zombie, value = self._left_open
            self._left_open = None
            self.fenced(value)
            self._try_to_commit(zombie, value)
        return producer

    def _try_to_commit(self, zombie: Producer, value: str) -> None:
        try:
            zombie.commit_transaction(CALL_SECONDS)
        except KafkaException as refused:
            if refused.args[0].code() in _FENCED:
                self.recorder.record(Type.FAIL, "zombie", value=value)
        else:
            self.recorder.record(Type.OK, "zombie", value=value)


class Writer(TransactionalClient):
    """Writes each transaction to all partitions, one record each, and aborts some of them."""

    def live(self, producer: Producer, until: float) -> str | None:
        number = 0
        while not self.is_stopping:
            number += 1
            value = f"{self.name}|{self.life}|{number}"
            self.recorder.record(Type.INVOKE, "transaction", value=value)
            producer.begin_transaction()
            for partition in range(self.plan.partitions):
                producer.produce(self.plan.topic_of(ALL), value, partition=partition)
            if time.monotonic() > until:
                producer.flush(CALL_SECONDS)
                return value
            if self.random.random() < ABORTED_SHARE:
                producer.flush(self.random.random() * 0.05)
                abort(producer)
                self.recorder.record(Type.FAIL, "transaction", value=value)
                continue
            try:
                commit(producer)
            except AbortedError:
                self.recorder.record(Type.FAIL, "transaction", value=value)
            else:
                self.recorder.record(Type.OK, "transaction", value=value)
                self.committed += 1
            time.sleep(self.random.random() * 0.1)
        return None

    def close(self) -> None:
        """Nothing but the producer was in use, which is left to its successor."""

    def fenced(self, value: str) -> None:
        self.recorder.record(Type.FAIL, "transaction", value=value)


class Copier(TransactionalClient):
    """Consumes the input in a group, produces each record to the same partition of the output, and commits both."""

    _consumer: Consumer

    def live(self, producer: Producer, until: float) -> str | None:
        self._consumer = Consumer(
            {
                **self.plan.clients_at(self.number),
                "group.id": f"{self.plan.topic}-copiers",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 1000,
            }
        )
        self._consumer.subscribe([self.plan.topic_of(IN)])
        while not self.is_stopping:
            messages = [each for each in self._consumer.consume(COPIED_AT_ONCE, 0.3) if each.error() is None]
            if not messages:
                continue
            producer.begin_transaction()
            offsets: dict[int, int] = {}
            for message in messages:
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                producer.produce(self.plan.topic_of(OUT), message.value(), partition=partition)
                offsets[partition] = offset + 1
            if time.monotonic() > until:
                producer.flush(CALL_SECONDS)
                return f"{self.name}|{self.life}"
            self._end(producer, offsets)
        return None

    def _end(self, producer: Producer, offsets: dict[int, int]) -> None:
        """Commit the transaction with these offsets, or abort it and consume its records again. Raises GivenUpError."""
        positions = [TopicPartition(self.plan.topic_of(IN), each, offset) for each, offset in offsets.items()]
        try:
            metadata = self._consumer.consumer_group_metadata()
            _persist(lambda: producer.send_offsets_to_transaction(positions, metadata, CALL_SECONDS))
            if self.random.random() < ABORTED_SHARE:
                raise _AbortRequiredError
            commit(producer)
        except _AbortRequiredError:
            abort(producer)
            self._go_back()
        except AbortedError:
            self._go_back()
        else:
            self.recorder.record(Type.OK, "copied")
            self.committed += 1

    def _go_back(self) -> None:
        """Consume again from where the group's last transaction ended. Raises GivenUpError."""
        assigned = self._consumer.assignment()
        if not assigned:
            return
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                for each in self._consumer.committed(assigned, CALL_SECONDS):
                    self._consumer.seek(TopicPartition(each.topic, each.partition, max(0, each.offset)))
            except KafkaException as failed:
                error = failed.args[0]
                if error.code() in (KafkaError._STATE, KafkaError._UNKNOWN_PARTITION):
                    # Revoked meanwhile: the next assignment begins with what is committed.
                    return
                if time.monotonic() > deadline:
                    raise GivenUpError(str(error)) from None
                time.sleep(0.05)
            else:
                return

    def close(self) -> None:
        self._consumer.close()

    def fenced(self, value: str) -> None:
        """Its records are copied by another transaction: the output shows whether any is there twice."""
