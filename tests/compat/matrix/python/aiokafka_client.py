"""aiokafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.compat.matrix.python.checks import (
    CODECS,
    PARTITIONS,
    RECORDS,
    SECONDS,
    equal,
    run,
    target_of_arguments,
    values_of,
)

TARGET = target_of_arguments()
TOPIC, GROUP_TOPIC = TARGET.name("topic"), TARGET.name("shared")
GROUP = TARGET.name("group")
FIRST = TopicPartition(TOPIC, 0)


class Member:
    """A consumer in a task of its own."""

    def __init__(self, group: str) -> None:
        self.seen: list[bytes] = []
        self.partitions = 0
        self._task = asyncio.create_task(self._consume(group))

    async def _consume(self, group: str) -> None:
        consumer = AIOKafkaConsumer(
            GROUP_TOPIC,
            bootstrap_servers=TARGET.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=500,
        )
        await consumer.start()
        try:
            while True:
                found = await consumer.getmany(timeout_ms=100)
                self.seen += [record.value for records in found.values() for record in records]
                self.partitions = len(consumer.assignment())
        finally:
            await consumer.stop()

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {SECONDS:.0f} s: {what}")
        await asyncio.sleep(0.05)


async def produce(topic: str, values: list[bytes], partitions: int = 1, **settings: Any) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=TARGET.bootstrap, **{"acks": "all", **settings})
    await producer.start()
    try:
        sent = [await producer.send(topic, value, partition=n % partitions) for n, value in enumerate(values)]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


async def consume(topic: str, count: int, offset: int = 0, **settings: Any) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=TARGET.bootstrap, **settings)
    await consumer.start()
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, offset)
    values: list[bytes] = []
    deadline = time.monotonic() + SECONDS
    while len(values) < count and time.monotonic() < deadline:
        found = await consumer.getmany(partition, timeout_ms=200)
        values += [record.value for records in found.values() for record in records]
    await consumer.stop()
    return values


async def create(admin: AIOKafkaAdminClient, topic: str) -> None:
    answer = await admin.create_topics([NewTopic(topic, PARTITIONS, TARGET.replication)])
    equal([error for _, error, *_ in answer.topic_errors], [0])


async def round_trip(admin: AIOKafkaAdminClient, name: str, **settings: Any) -> None:
    topic = TARGET.name(name)
    await create(admin, topic)
    await produce(topic, values_of(name), **settings)
    equal(await consume(topic, RECORDS), values_of(name))


async def create_topic(admin: AIOKafkaAdminClient) -> None:
    await create(admin, TOPIC)
    await create(admin, GROUP_TOPIC)


async def list_topics(admin: AIOKafkaAdminClient) -> None:
    assert {TOPIC, GROUP_TOPIC} <= set(await admin.list_topics())


async def describe_topics(admin: AIOKafkaAdminClient) -> None:
    (described,) = await admin.describe_topics([TOPIC])
    equal([len(each["replicas"]) for each in described["partitions"]], [TARGET.replication] * PARTITIONS)


async def create_partitions(admin: AIOKafkaAdminClient) -> None:
    await admin.create_partitions({TOPIC: NewPartitions(PARTITIONS + 2)})
    (described,) = await admin.describe_topics([TOPIC])
    equal(len(described["partitions"]), PARTITIONS + 2)


async def consume_assigned(admin: AIOKafkaAdminClient) -> None:
    await produce(TOPIC, values_of("seek"))
    equal(await consume(TOPIC, RECORDS // 2, RECORDS // 2), values_of("seek")[RECORDS // 2 :])


async def list_offsets(admin: AIOKafkaAdminClient) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=TARGET.bootstrap)
    await consumer.start()
    try:
        equal(await consumer.beginning_offsets([FIRST]), {FIRST: 0})
        equal(await consumer.end_offsets([FIRST]), {FIRST: RECORDS})
    finally:
        await consumer.stop()


async def offsets_by_time(admin: AIOKafkaAdminClient) -> None:
    partition, begin = TopicPartition(TARGET.name("timed"), 0), int(time.time() * 1000) - 3_600_000
    await create(admin, partition.topic)
    async with AIOKafkaProducer(bootstrap_servers=TARGET.bootstrap) as producer:
        for number, value in enumerate(values_of("timed")):
            await producer.send_and_wait(partition.topic, value, partition=0, timestamp_ms=begin + 10 * number)
    async with AIOKafkaConsumer(bootstrap_servers=TARGET.bootstrap) as consumer:
        for number in (0, 7, RECORDS - 1):
            found = await consumer.offsets_for_times({partition: begin + 10 * number - 3})
            equal(found[partition].offset, number)
        equal((await consumer.offsets_for_times({partition: begin + 10 * RECORDS}))[partition], None)


async def transactions(admin: AIOKafkaAdminClient) -> None:
    topic = TARGET.name("transactions")
    await create(admin, topic)
    settings = {"bootstrap_servers": TARGET.bootstrap, "transactional_id": TARGET.name("records")}
    async with AIOKafkaProducer(**settings) as producer:
        for of, end in (
            ("one", producer.commit_transaction),
            ("aborted", producer.abort_transaction),
            ("two", producer.commit_transaction),
        ):
            await producer.begin_transaction()
            await asyncio.gather(*[await producer.send(topic, value, partition=0) for value in values_of(of)])
            await end()
    one, aborted, two = values_of("one"), values_of("aborted"), values_of("two")
    equal(await consume(topic, 2 * RECORDS, isolation_level="read_committed"), [*one, *two])
    equal(await consume(topic, 3 * RECORDS, isolation_level="read_uncommitted"), [*one, *aborted, *two])


async def transactional_offsets(admin: AIOKafkaAdminClient) -> None:
    partition, group = TopicPartition(TARGET.name("transactional-offsets"), 0), TARGET.name("transactional-group")
    await create(admin, partition.topic)
    settings = {"bootstrap_servers": TARGET.bootstrap, "transactional_id": TARGET.name("offsets")}
    async with AIOKafkaProducer(**settings) as producer:
        for offset, end in ((5, producer.abort_transaction), (7, producer.commit_transaction)):
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({partition: offset}, group)
            await end()
            committed = await admin.list_consumer_group_offsets(group, partitions=[partition])
            equal(committed[partition].offset, 7 if offset == 7 else -1)


async def group_share(admin: AIOKafkaAdminClient) -> None:
    """One has all, two have half each and read everything, and when one leaves the other has all again."""
    values = values_of("shared", 3 * RECORDS)
    await produce(GROUP_TOPIC, values[:RECORDS], PARTITIONS)
    first = Member(TARGET.name("share"))
    try:
        await until(lambda: first.partitions == PARTITIONS and len(set(first.seen)) == RECORDS, "the first has all")
        second = Member(TARGET.name("share"))
        try:
            await until(lambda: first.partitions == second.partitions == PARTITIONS // 2, "both have half")
            await produce(GROUP_TOPIC, values[RECORDS : 2 * RECORDS], PARTITIONS)
            await until(lambda: len({*first.seen, *second.seen}) == 2 * RECORDS, "both together read all")
            assert second.seen, "the second member read nothing"
        finally:
            await second.leave()
        await produce(GROUP_TOPIC, values[2 * RECORDS :], PARTITIONS)
        await until(lambda: {*first.seen, *second.seen} == set(values), "who is left reads all")
    finally:
        await first.leave()


async def group_resume(admin: AIOKafkaAdminClient) -> None:
    async def read(count: int) -> list[bytes]:
        consumer = AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=TARGET.bootstrap,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        values: list[bytes] = []
        deadline = time.monotonic() + SECONDS
        while len(values) < count and time.monotonic() < deadline:
            found = await consumer.getmany(timeout_ms=200, max_records=count - len(values))
            values += [record.value for records in found.values() for record in records]
            await consumer.commit()
        await consumer.stop()
        return values

    half = RECORDS // 2
    equal(await read(half), values_of("seek")[:half])
    equal(await read(half), values_of("seek")[half:])


async def list_groups(admin: AIOKafkaAdminClient) -> None:
    assert GROUP in {group[0] for group in await admin.list_consumer_groups()}


async def describe_groups(admin: AIOKafkaAdminClient) -> None:
    (answer,) = await admin.describe_consumer_groups([GROUP])
    (described,) = answer.to_object()["groups"]
    equal((described["error_code"], described["group"], described["state"]), (0, GROUP, "Empty"))


async def list_group_offsets(admin: AIOKafkaAdminClient) -> None:
    equal((await admin.list_consumer_group_offsets(GROUP))[FIRST].offset, RECORDS)


async def describe_configs(admin: AIOKafkaAdminClient) -> None:
    equal((await described_config(admin, "cleanup.policy")), "delete")


async def described_config(admin: AIOKafkaAdminClient, key: str) -> str:
    (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC)])
    (resource,) = answer.to_object()["resources"]
    by_key = {entry["config_names"]: entry["config_value"] for entry in resource["config_entries"]}
    found: str = by_key[key]
    return found


async def alter_configs(admin: AIOKafkaAdminClient) -> None:
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC, configs={"retention.ms": "123456"})])
    deadline = time.monotonic() + SECONDS
    while await described_config(admin, "retention.ms") != "123456":
        assert time.monotonic() < deadline, "the config is not returned"
        await asyncio.sleep(0.05)


async def delete_records(admin: AIOKafkaAdminClient) -> None:
    equal(await admin.delete_records({FIRST: RecordsToDelete(before_offset=10)}), {FIRST: 10})
    equal(await consume(TOPIC, RECORDS - 10, 10), values_of("seek")[10:])


async def describe_cluster(admin: AIOKafkaAdminClient) -> None:
    described = await admin.describe_cluster()
    assert len(described["brokers"]) >= TARGET.replication


async def delete_topic(admin: AIOKafkaAdminClient) -> None:
    answer = await admin.delete_topics([TOPIC])
    equal([error for _, error, *_ in answer.topic_error_codes], [0])
    assert TOPIC not in await admin.list_topics()


def with_admin(check: Callable[[AIOKafkaAdminClient], Awaitable[None]]) -> Callable[[], None]:
    async def started() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=TARGET.bootstrap)
        await admin.start()
        try:
            await check(admin)
        finally:
            await admin.close()

    return lambda: asyncio.run(started())


CHECKS: dict[str, Callable[[AIOKafkaAdminClient], Awaitable[None]]] = {
    "create-topic": create_topic,
    "list-topics": list_topics,
    "describe-topics": describe_topics,
    "produce": lambda admin: round_trip(admin, "produce"),
    "produce-acks-0": lambda admin: round_trip(admin, "acks-0", acks=0),
    "produce-acks-1": lambda admin: round_trip(admin, "acks-1", acks=1),
    "produce-idempotent": lambda admin: round_trip(admin, "idempotent", enable_idempotence=True),
    **{
        f"produce-{codec}": lambda admin, codec=codec: round_trip(admin, codec, compression_type=codec)  # type: ignore[misc]
        for codec in CODECS
    },
    "consume-assigned": consume_assigned,
    "list-offsets": list_offsets,
    "offsets-by-time": offsets_by_time,
    "group-share": group_share,
    "group-resume": group_resume,
    "transactions": transactions,
    "transactional-offsets": transactional_offsets,
    "list-groups": list_groups,
    "describe-groups": describe_groups,
    "list-group-offsets": list_group_offsets,
    "describe-configs": describe_configs,
    "alter-configs": alter_configs,
    "delete-records": delete_records,
    "create-partitions": create_partitions,
    "describe-cluster": describe_cluster,
    "delete-topic": delete_topic,
}

run(aiokafka.__version__, {capability: with_admin(check) for capability, check in CHECKS.items()})
