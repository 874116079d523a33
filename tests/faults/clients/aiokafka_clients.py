"""An idempotent producer and a reader of aiokafka, on one event loop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.faults.clients.plan import Plan
from tests.faults.history import READER, Guarantee, Recorder, Type

SENDS_PER_SECOND = 10
OUTSTANDING_MAX = 500
_POLL_MS = 200
_RECORDS_MAX = 500
_ERROR_PAUSE_SECONDS = 0.1


async def run(plan: Plan, stopping: asyncio.Event) -> None:
    """Run until stopped, and then until what was sent is delivered, or for `plan.seconds_max`."""
    await asyncio.gather(_produce(plan, stopping), _read(plan, stopping))


async def _produce(plan: Plan, stopping: asyncio.Event) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError

    proc = "aiokafka-producer/1"
    producer = AIOKafkaProducer(
        bootstrap_servers=plan.bootstrap_servers, enable_idempotence=True, acks="all", linger_ms=5
    )
    await producer.start()
    number = 0
    outstanding: set[asyncio.Future[Any]] = set()
    with Recorder(Path(plan.directory) / "aiokafka-producer.jsonl", plan.seed) as recorder:
        recorder.open(proc, Guarantee.IDEMPOTENT)

        def report(value: str, partition: int, sent: asyncio.Future[Any]) -> None:
            outstanding.discard(sent)
            error = None if sent.cancelled() else sent.exception()
            if sent.cancelled() or error is not None:
                name = "cancelled" if error is None else type(error).__name__
                recorder.record(proc, Type.INFO, "send", value=value, partition=partition, error=name)
            else:
                offset = sent.result().offset
                known = offset if offset >= 0 else None
                recorder.record(proc, Type.OK, "send", value=value, partition=partition, offset=known)

        while not stopping.is_set():
            await asyncio.sleep(1 / SENDS_PER_SECOND)
            if len(outstanding) >= OUTSTANDING_MAX:
                continue
            number += 1
            value, partition = f"{plan.topic}|{proc}|{number}", number % plan.partitions
            recorder.record(proc, Type.INVOKE, "send", value=value, partition=partition)
            try:
                sent = await producer.send(plan.topic, value.encode(), partition=partition)
            except KafkaError as error:
                name = type(error).__name__
                recorder.record(proc, Type.INFO, "send", value=value, partition=partition, error=name)
                continue
            outstanding.add(sent)
            sent.add_done_callback(lambda sent, value=value, partition=partition: report(value, partition, sent))
        if outstanding:
            await asyncio.wait(outstanding, timeout=plan.seconds_max)
        try:
            await asyncio.wait_for(producer.stop(), plan.seconds_max)
        except TimeoutError:
            recorder.record(proc, Type.INFO, "flush", error="TimeoutError")


async def _read(plan: Plan, stopping: asyncio.Event) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.errors import KafkaError

    proc = "aiokafka-reader/1"
    consumer = AIOKafkaConsumer(bootstrap_servers=plan.bootstrap_servers, auto_offset_reset="none")
    await consumer.start()
    partitions = [TopicPartition(plan.topic, partition) for partition in range(plan.partitions)]
    consumer.assign(partitions)
    with Recorder(Path(plan.directory) / "aiokafka-reader.jsonl", plan.seed) as recorder:
        recorder.open(proc, READER)
        for each in partitions:
            consumer.seek(each, 0)
            recorder.record(proc, Type.OK, "assign", partition=each.partition, offset=0)
        while not stopping.is_set():
            try:
                polled = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_RECORDS_MAX)
            except KafkaError as error:
                recorder.record(proc, Type.INFO, "poll", error=type(error).__name__)
                await asyncio.sleep(_ERROR_PAUSE_SECONDS)
                continue
            for each, records in polled.items():
                if records:
                    reads = [(record.offset, record.value.decode()) for record in records]
                    recorder.record(proc, Type.OK, "poll", value=reads, partition=each.partition)
        await consumer.stop()
