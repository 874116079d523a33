"""One member of the group, in a process of its own: `python -m tests.faults.groups.consumer PLAN`, a Plan as JSON.

It reads by the group's assignments and commits as it goes, and records the answers. SIGTERM, or the end of its standard
input, has it commit, leave the group and end.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tests.faults.groups.history import GroupRecorder

POLL_SECONDS = 0.1
COMMIT_SECONDS = 0.25
"""Between two commits, where there is something to commit."""
COMMIT_RECORDS_MAX = 20
_METADATA_MAGIC = b"CGMDv2:"

_SETTINGS: dict[str, Any] = {
    "enable.auto.commit": False,
    # A group whose offsets are lost starts over, and what is read twice shows it.
    "auto.offset.reset": "earliest",
    # The least that brokers allow by default: so long nothing is read of what a killed member had.
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 1000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "socket.connection.setup.timeout.ms": 3000,
    "socket.timeout.ms": 10_000,
    "broker.address.family": "v4",
    "fetch.wait.max.ms": 250,
    "log_level": 0,
}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    bootstrap_servers: list[str]
    group_id: str
    topic: str
    consumer: str
    """Its name, of this life alone."""
    history: str
    """The path of it."""


class Member:
    def __init__(self, plan: Plan, recorder: GroupRecorder) -> None:
        self._topic = plan.topic
        self._recorder = recorder
        self._read: dict[int, int] = {}
        """By partition: what is to be committed."""
        self._uncommitted_records = 0
        self._commit_at = 0.0
        servers = {"bootstrap.servers": ",".join(plan.bootstrap_servers), "group.id": plan.group_id}
        self._consumer = Consumer({**_SETTINGS, **servers})
        self._consumer.subscribe([plan.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            message = self._consumer.poll(POLL_SECONDS)
            if message is not None:
                self._take(message)
            is_due = self._uncommitted_records >= COMMIT_RECORDS_MAX or time.monotonic() >= self._commit_at
            if self._read and is_due:
                self._commit()
        self._consumer.close()

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            self._recorder.error(error.name())
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        self._recorder.read(partition, offset, "" if value is None else value.decode(errors="backslashreplace"))
        if not self._read:
            self._commit_at = time.monotonic() + COMMIT_SECONDS
        self._read[partition] = offset + 1
        self._uncommitted_records += 1

    def _commit(self) -> None:
        offsets = self._forget_read()
        self._recorder.commit(offsets)
        wanted = [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
        try:
            results = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as refused:
            self._recorder.not_committed(offsets, refused.args[0].name())
            return
        for result in results:
            offset = {result.partition: offsets[result.partition]}
            if result.error is None:
                self._recorder.committed(offset)
            else:
                self._recorder.not_committed(offset, result.error.name())

    def _forget_read(self) -> dict[int, int]:
        offsets, self._read = self._read, {}
        self._uncommitted_records = 0
        return offsets

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        generation = generation_of(consumer.consumer_group_metadata())
        self._recorder.assigned(generation, [each.partition for each in partitions])

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        if self._read:
            self._commit()
        self._recorder.revoked([each.partition for each in partitions])

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._forget_read()
        self._recorder.revoked([each.partition for each in partitions])


def generation_of(metadata: bytes) -> int:
    """From what librdkafka gives to transactional producers: its magic, the generation in the host's order, names."""
    assert metadata.startswith(_METADATA_MAGIC), metadata
    (generation,) = struct.unpack_from("=i", metadata, len(_METADATA_MAGIC))
    assert isinstance(generation, int)
    return generation


def main(argument: str) -> None:
    plan = msgspec.json.decode(argument, type=Plan)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())

    def stop_at_the_end_of_input() -> None:
        # Not sys.stdin: its lock, held by a thread that waits, aborts the interpreter's end.
        while os.read(0, 1024):
            pass
        stopping.set()

    threading.Thread(target=stop_at_the_end_of_input, daemon=True).start()
    with GroupRecorder(Path(plan.history), plan.consumer) as recorder:
        Member(plan, recorder).run(stopping)


if __name__ == "__main__":
    main(sys.argv[1])
