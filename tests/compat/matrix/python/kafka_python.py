"""kafka-python."""

from __future__ import annotations

import threading
import time
from typing import Any

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePattern,
    ResourceType,
)
from kafka.errors import NoError, SecurityDisabledError
from kafka.structs import OffsetAndMetadata

from tests.compat.matrix.python.checks import (
    CODECS,
    PARTITIONS,
    RECORDS,
    SECONDS,
    equal,
    run,
    target_of_arguments,
    until,
    values_of,
)

TARGET = target_of_arguments()
ADMIN = KafkaAdminClient(bootstrap_servers=TARGET.bootstrap)
TOPIC, GROUP_TOPIC = TARGET.name("topic"), TARGET.name("shared")
GROUP = TARGET.name("group")
FIRST = TopicPartition(TOPIC, 0)


class Member:
    """A consumer on a thread of its own."""

    def __init__(self, group: str) -> None:
        self.seen: list[bytes] = []
        self.partitions = 0
        self._over = threading.Event()
        self._group = group
        self._thread = threading.Thread(target=self._consume)
        self._thread.start()

    def _consume(self) -> None:
        consumer = group_consumer(self._group, GROUP_TOPIC)
        while not self._over.is_set():
            for records in consumer.poll(timeout_ms=100).values():
                self.seen += [record.value for record in records]
            self.partitions = len(consumer.assignment())
        consumer.close()

    def leave(self) -> None:
        self._over.set()
        self._thread.join()


def group_consumer(group: str, topic: str) -> KafkaConsumer:
    return KafkaConsumer(
        topic,
        bootstrap_servers=TARGET.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=10_000,
        heartbeat_interval_ms=500,
    )


def produce(topic: str, values: list[bytes], partitions: int = 1, **settings: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=TARGET.bootstrap, **{"acks": "all", **settings})
    futures = [producer.send(topic, value, partition=number % partitions) for number, value in enumerate(values)]
    producer.flush(SECONDS)
    for future in futures:
        future.get(timeout=SECONDS)
    producer.close()


def consume(topic: str, count: int, offset: int = 0, **settings: Any) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=TARGET.bootstrap, **settings)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, offset)
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=200).values():
            found += [record.value for record in records]
    consumer.close()
    return found


def create(topic: str) -> None:
    ADMIN.create_topics([NewTopic(topic, PARTITIONS, TARGET.replication)])


def round_trip(name: str, **settings: Any) -> None:
    topic = TARGET.name(name)
    create(topic)
    produce(topic, values_of(name), **settings)
    equal(consume(topic, RECORDS), values_of(name))


def create_topic() -> None:
    create(TOPIC)
    create(GROUP_TOPIC)


def list_topics() -> None:
    assert {TOPIC, GROUP_TOPIC} <= set(ADMIN.list_topics())


def partitions_of(topic: str) -> list[Any]:
    (described,) = ADMIN.describe_topics([topic])
    found: list[Any] = described["partitions"]
    return found


def describe_topics() -> None:
    equal([len(each["replica_nodes"]) for each in partitions_of(TOPIC)], [TARGET.replication] * PARTITIONS)


def create_partitions() -> None:
    ADMIN.create_partitions({TOPIC: NewPartitions(PARTITIONS + 2)})
    until(lambda: len(partitions_of(TOPIC)) == PARTITIONS + 2, "two partitions more")


def consume_assigned() -> None:
    produce(TOPIC, values_of("seek"))
    equal(consume(TOPIC, RECORDS // 2, RECORDS // 2), values_of("seek")[RECORDS // 2 :])


def list_offsets() -> None:
    for spec, offset in ((OffsetSpec.EARLIEST, 0), (OffsetSpec.LATEST, RECORDS)):
        equal(ADMIN.list_partition_offsets({FIRST: spec})[FIRST].offset, offset)


def offsets_by_time() -> None:
    partition, begin = TopicPartition(TARGET.name("timed"), 0), int(time.time() * 1000) - 3_600_000
    create(partition.topic)
    producer = KafkaProducer(bootstrap_servers=TARGET.bootstrap)
    for number, value in enumerate(values_of("timed")):
        producer.send(partition.topic, value, partition=0, timestamp_ms=begin + 10 * number)
    producer.flush(SECONDS)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=TARGET.bootstrap)
    for number in (0, 7, RECORDS - 1):
        equal(consumer.offsets_for_times({partition: begin + 10 * number - 3})[partition].offset, number)
    equal(consumer.offsets_for_times({partition: begin + 10 * RECORDS})[partition], None)
    consumer.close()


def transactional(name: str) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=TARGET.bootstrap, transactional_id=TARGET.name(name))
    producer.init_transactions()
    return producer


def transactions() -> None:
    topic = TARGET.name("transactions")
    create(topic)
    producer = transactional("records")
    for of, end in (
        ("one", producer.commit_transaction),
        ("aborted", producer.abort_transaction),
        ("two", producer.commit_transaction),
    ):
        producer.begin_transaction()
        for value in values_of(of):
            producer.send(topic, value, partition=0)
        producer.flush(SECONDS)
        end()
    producer.close()
    one, aborted, two = values_of("one"), values_of("aborted"), values_of("two")
    equal(consume(topic, 2 * RECORDS, isolation_level="read_committed"), [*one, *two])
    equal(consume(topic, 3 * RECORDS, isolation_level="read_uncommitted"), [*one, *aborted, *two])


def transactional_offsets() -> None:
    partition, group = TopicPartition(TARGET.name("transactional-offsets"), 0), TARGET.name("transactional-group")
    create(partition.topic)
    producer = transactional("offsets")
    consumer = KafkaConsumer(bootstrap_servers=TARGET.bootstrap, group_id=group)
    for offset, end, expected in ((5, producer.abort_transaction, None), (7, producer.commit_transaction, 7)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction({partition: OffsetAndMetadata(offset, "", -1)}, group)
        end()
        equal(consumer.committed(partition), expected)
    consumer.close()
    producer.close()


def group_share() -> None:
    """One has all, two have half each and read everything, and when one leaves the other has all again."""
    values = values_of("shared", 3 * RECORDS)
    produce(GROUP_TOPIC, values[:RECORDS], PARTITIONS)
    first = Member(TARGET.name("share"))
    try:
        until(lambda: first.partitions == PARTITIONS and len(set(first.seen)) == RECORDS, "the first member has all")
        second = Member(TARGET.name("share"))
        try:
            until(lambda: first.partitions == second.partitions == PARTITIONS // 2, "both have half")
            produce(GROUP_TOPIC, values[RECORDS : 2 * RECORDS], PARTITIONS)
            until(lambda: len({*first.seen, *second.seen}) == 2 * RECORDS, "both together read all")
            assert second.seen, "the second member read nothing"
        finally:
            second.leave()
        produce(GROUP_TOPIC, values[2 * RECORDS :], PARTITIONS)
        until(lambda: {*first.seen, *second.seen} == set(values), "who is left reads all")
    finally:
        first.leave()


def group_resume() -> None:
    def read(count: int) -> list[bytes]:
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=TARGET.bootstrap,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        found: list[bytes] = []
        deadline = time.monotonic() + SECONDS
        while len(found) < count and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=200, max_records=count - len(found)).values():
                found += [record.value for record in records]
            consumer.commit()
        consumer.close()
        return found

    half = RECORDS // 2
    equal(read(half), values_of("seek")[:half])
    equal(read(half), values_of("seek")[half:])


def listed_groups() -> set[str]:
    return {group["group_id"] for group in ADMIN.list_groups()}


def list_groups() -> None:
    assert GROUP in listed_groups()


def describe_groups() -> None:
    name = TARGET.name("described")
    member = Member(name)
    try:
        until(lambda: member.partitions == PARTITIONS, "the member has all")
        described = ADMIN.describe_groups([name])[name]
        equal((described["group_state"], len(described["members"])), ("Stable", 1))
    finally:
        member.leave()


def list_group_offsets() -> None:
    equal(ADMIN.list_group_offsets(GROUP)[GROUP][FIRST].offset, RECORDS)


def alter_group_offsets() -> None:
    equal(ADMIN.alter_group_offsets(GROUP, {FIRST: OffsetAndMetadata(7, "", -1)})[FIRST], NoError)
    equal(ADMIN.list_group_offsets(GROUP)[GROUP][FIRST].offset, 7)


def delete_group_offsets() -> None:
    equal(ADMIN.delete_group_offsets(GROUP, [FIRST])[FIRST], NoError)
    assert FIRST not in ADMIN.list_group_offsets(GROUP)[GROUP]


def delete_groups() -> None:
    equal(ADMIN.delete_groups([GROUP]), {GROUP: "OK"})
    assert GROUP not in listed_groups()


def described_configs(resource_type: ConfigResourceType, name: str) -> dict[str, Any]:
    found = ADMIN.describe_configs([ConfigResource(resource_type, name)], config_filter="all")
    of_resource: dict[str, Any] = found[resource_type.name.lower()][name]
    return of_resource


def describe_configs() -> None:
    equal(described_configs(ConfigResourceType.TOPIC, TOPIC)["cleanup.policy"]["value"], "delete")
    node = ADMIN.describe_cluster()["brokers"][0]["broker_id"]
    assert described_configs(ConfigResourceType.BROKER, str(node))


def alter_configs() -> None:
    ADMIN.alter_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC, configs={"retention.ms": "123456"})])
    until(
        lambda: described_configs(ConfigResourceType.TOPIC, TOPIC)["retention.ms"]["value"] == "123456",
        "the config is returned",
    )


def delete_records() -> None:
    equal(ADMIN.delete_records({FIRST: 10})[FIRST]["low_watermark"], 10)
    equal(consume(TOPIC, RECORDS - 10, 10), values_of("seek")[10:])


def describe_cluster() -> None:
    described = ADMIN.describe_cluster()
    assert described["cluster_id"]
    assert len(described["brokers"]) >= TARGET.replication


def describe_log_dirs() -> None:
    assert all(broker["log_dirs"] for broker in ADMIN.describe_log_dirs())


def acls_are_disabled() -> None:
    """As with Kafka that has no authorizer."""
    acl = ACL("User:a", "*", ACLOperation.READ, ACLPermissionType.ALLOW, ResourcePattern(ResourceType.TOPIC, TOPIC))
    any_acl = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, ResourcePattern(ResourceType.TOPIC, TOPIC))
    equal(refusal(lambda: ADMIN.describe_acls(any_acl)), SecurityDisabledError)
    equal(ADMIN.create_acls([acl])["failed"], [SecurityDisabledError])
    equal(ADMIN.delete_acls([any_acl]), [(any_acl, [], SecurityDisabledError)])


def refusal(call: Any) -> Any:
    try:
        answer = call()
    except Exception as error:
        return type(error)
    return answer


def describe_scram() -> None:
    equal(ADMIN.describe_user_scram_credentials(), {})


def delete_topic() -> None:
    ADMIN.delete_topics([TOPIC])
    until(lambda: TOPIC not in ADMIN.list_topics(), "the topic is gone")


run(
    kafka.__version__,
    {
        "create-topic": create_topic,
        "list-topics": list_topics,
        "describe-topics": describe_topics,
        "produce": lambda: round_trip("produce", enable_idempotence=False),
        "produce-acks-0": lambda: round_trip("acks-0", acks=0, enable_idempotence=False),
        "produce-acks-1": lambda: round_trip("acks-1", acks=1, enable_idempotence=False),
        "produce-idempotent": lambda: round_trip("idempotent", enable_idempotence=True),
        **{
            f"produce-{codec}": lambda codec=codec: round_trip(codec, compression_type=codec)  # type: ignore[misc]
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
        "alter-group-offsets": alter_group_offsets,
        "delete-group-offsets": delete_group_offsets,
        "delete-groups": delete_groups,
        "describe-configs": describe_configs,
        "alter-configs": alter_configs,
        "delete-records": delete_records,
        "create-partitions": create_partitions,
        "describe-cluster": describe_cluster,
        "describe-log-dirs": describe_log_dirs,
        "acls": acls_are_disabled,
        "scram": describe_scram,
        "delete-topic": delete_topic,
    },
)
