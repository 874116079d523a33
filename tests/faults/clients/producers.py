"""Producers of librdkafka that record their requests and the answers."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.faults.clients.plan import Plan
from tests.faults.history import Guarantee, Recorder, Type, outcome_of

OUTSTANDING_MAX = 200
"""Per partition: a partition without a leader takes no memory, and hides no other."""
POLL_SECONDS = 0.01
PURGE_SECONDS = 2.0

_COMMON: dict[str, Any] = {
    "linger.ms": 5,
    "max.in.flight.requests.per.connection": 5,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "socket.connection.setup.timeout.ms": 3000,
    "socket.timeout.ms": 10_000,
    "request.timeout.ms": 10_000,
    "broker.address.family": "v4",
    "log_level": 0,
}
_BY_GUARANTEE: dict[Guarantee, dict[str, Any]] = {
    Guarantee.IDEMPOTENT: {"acks": "all", "enable.idempotence": True, "message.timeout.ms": 120_000},
    Guarantee.ACKS_ALL: {"acks": "all", "retries": 0, "message.timeout.ms": 10_000},
    Guarantee.ACKS_1: {"acks": 1, "message.timeout.ms": 10_000},
}


class RecordingProducer:
    """One client, of one life after another, in a thread of its own."""

    def __init__(self, name: str, guarantee: Guarantee, plan: Plan, sends_per_second: float, seed: int) -> None:
        self._name = name
        self._guarantee = guarantee
        self._plan = plan
        self._period_seconds = 1.0 / sends_per_second
        self._random = random.Random(seed)
        self._recorder = Recorder(Path(plan.directory) / f"{name}.jsonl", seed)
        self._outstanding = [0] * plan.partitions
        self._life = 0
        self._number = 0
        self.acknowledged = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Begin to; `join` waits for it."""
        self._stopping.set()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        with self._recorder:
            while not self._stopping.is_set():
                self._live()

    def _live(self) -> None:
        """From one InitProducerId to the next."""
        self._life += 1
        proc = f"{self._name}/{self._life}"
        self._recorder.open(proc, self._guarantee)
        settings = {"bootstrap.servers": ",".join(self._plan.bootstrap_servers), **_COMMON}
        producer = Producer({**settings, **_BY_GUARANTEE[self._guarantee]})
        self._outstanding = [0] * self._plan.partitions
        until = self._end_of_life()
        due = time.monotonic()
        while not self._stopping.is_set() and time.monotonic() < until:
            while due <= time.monotonic():
                due += self._period_seconds
                if not self._send(producer, proc):
                    until = 0.0
            producer.poll(POLL_SECONDS)
        if self._stopping.is_set():
            producer.flush(self._plan.seconds_max)
        producer.purge()
        producer.flush(PURGE_SECONDS)

    def _end_of_life(self) -> float:
        if not self._plan.mix.life_seconds:
            return float("inf")
        return time.monotonic() + self._plan.mix.life_seconds * self._random.uniform(0.5, 1.5)

    def _send(self, producer: Producer, proc: str) -> bool:
        """False when this producer can send no more: librdkafka calls that a fatal error."""
        self._number += 1
        partition = self._number % self._plan.partitions
        if self._outstanding[partition] >= OUTSTANDING_MAX:
            return True
        value = f"{self._plan.topic}|{proc}|{self._number}"

        def reported(error: KafkaError | None, message: Message) -> None:
            self._reported(proc, value, partition, error, message)

        self._recorder.record(proc, Type.INVOKE, "send", value=value, partition=partition)
        key = self._random.randbytes(max(0, self._plan.mix.record_bytes - len(value)))
        try:
            producer.produce(self._plan.topic, value, key, partition, on_delivery=reported)
        except BufferError:
            self._recorder.record(proc, Type.FAIL, "send", value=value, partition=partition, error="_QUEUE_FULL")
            return True
        except KafkaException as refused:
            name = refused.args[0].name()
            self._recorder.record(proc, Type.FAIL, "send", value=value, partition=partition, error=name)
            return False
        self._outstanding[partition] += 1
        return True

    def _reported(self, proc: str, value: str, partition: int, error: KafkaError | None, message: Message) -> None:
        self._outstanding[partition] -= 1
        if error is None:
            self.acknowledged += 1
            # librdkafka does not know the offset where the leader answered DUPLICATE_SEQUENCE_NUMBER.
            offset = message.offset()
            known = offset if offset is not None and offset >= 0 else None
            self._recorder.record(proc, Type.OK, "send", value=value, partition=partition, offset=known)
            return
        name = _KAFKA_NAMES.get(error.name(), error.name())
        # Without retries too: after NOT_LEADER_OR_FOLLOWER, which proves nothing, librdkafka sends again for free.
        outcome = outcome_of(name, may_have_been_sent_before=True)
        self._recorder.record(proc, outcome, "send", value=value, partition=partition, error=name)


_KAFKA_NAMES = {
    "MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "INVALID_MSG": "CORRUPT_MESSAGE",
    "RECORD_LIST_TOO_LARGE": "RECORD_LIST_TOO_LARGE",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "TOPIC_EXCEPTION": "INVALID_TOPIC_EXCEPTION",
}
"""What librdkafka calls them otherwise."""


def recording_producers(plan: Plan) -> list[RecordingProducer]:
    mix = plan.mix
    guarantees = [
        *[Guarantee.IDEMPOTENT] * mix.idempotent,
        *[Guarantee.ACKS_ALL] * mix.acks_all,
        *[Guarantee.ACKS_1] * mix.acks_1,
    ]
    names = [f"{guarantee.name.lower().replace('_', '-')}-{number}" for number, guarantee in enumerate(guarantees)]
    rate = mix.sends_per_second / max(1, len(guarantees))
    return [
        RecordingProducer(name, guarantee, plan, rate, plan.seed * 1000 + number)
        for number, (name, guarantee) in enumerate(zip(names, guarantees, strict=True))
    ]
