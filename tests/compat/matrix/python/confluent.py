"""confluent-kafka, which is librdkafka."""

from __future__ import annotations

import threading
import time
from typing import Any

import confluent_kafka
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

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
SERVERS: dict[str, Any] = {"bootstrap.servers": TARGET.bootstrap}
ADMIN = AdminClient(SERVERS)
TOPIC, GROUP_TOPIC = TARGET.name("topic"), TARGET.name("shared")
GROUP = TARGET.name("group")


class Member:
    """A consumer on a thread of its own."""

    def __init__(self, group: str, **settings: Any) -> None:
        self.seen: list[bytes] = []
        self.partitions = 0
        self._over = threading.Event()
        base = {"group.id": group, "auto.offset.reset": "earliest", "session.timeout.ms": 10_000}
        self._settings = {**SERVERS, **base, **settings}
        self._thread = threading.Thread(target=self._consume)
        self._thread.start()

    def _consume(self) -> None:
        def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            self.partitions = len(partitions)

        def revoked(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            self.partitions = 0

        consumer = Consumer(self._settings)
        consumer.subscribe([GROUP_TOPIC], on_assign=assigned, on_revoke=revoked)
        while not self._over.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.seen.append(message.value() or b"")
        consumer.close()

    def leave(self) -> None:
        self._over.set()
        self._thread.join()


def produce(topic: str, values: list[bytes], **settings: Any) -> None:
    errors: list[Any] = []
    producer = Producer({**SERVERS, "linger.ms": 2, **settings})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS) == 0, "not delivered in time"
    equal(errors, [None] * len(values))


def consume(topic: str, count: int, offset: int = OFFSET_BEGINNING, **settings: Any) -> list[bytes]:
    consumer = Consumer({**SERVERS, "group.id": TARGET.name("assigned"), "enable.auto.commit": False, **settings})
    consumer.assign([TopicPartition(topic, 0, offset)])
    found: list[bytes] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), timeout=0.2):
            assert message.error() is None, message.error()
            found.append(message.value() or b"")
    consumer.close()
    return found


def create(topic: str) -> None:
    ADMIN.create_topics([NewTopic(topic, PARTITIONS, TARGET.replication)])[topic].result(SECONDS)


def round_trip(name: str, **settings: Any) -> None:
    topic = TARGET.name(name)
    create(topic)
    produce(topic, values_of(name), **settings)
    equal(consume(topic, RECORDS), values_of(name))


def create_topic() -> None:
    create(TOPIC)
    create(GROUP_TOPIC)


def list_topics() -> None:
    assert {TOPIC, GROUP_TOPIC} <= set(ADMIN.list_topics(timeout=SECONDS).topics)


def describe_topics() -> None:
    described = ADMIN.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(SECONDS)
    equal([len(each.replicas) for each in described.partitions], [TARGET.replication] * PARTITIONS)


def create_partitions() -> None:
    ADMIN.create_partitions([NewPartitions(TOPIC, PARTITIONS + 2)])[TOPIC].result(SECONDS)
    until(lambda: len(ADMIN.list_topics(TOPIC).topics[TOPIC].partitions) == PARTITIONS + 2, "two partitions more")


def consume_assigned() -> None:
    produce(TOPIC, values_of("seek"))
    equal(consume(TOPIC, RECORDS // 2, RECORDS // 2), values_of("seek")[RECORDS // 2 :])


def list_offsets() -> None:
    partition = TopicPartition(TOPIC, 0)
    for spec, offset in ((OffsetSpec.earliest(), 0), (OffsetSpec.latest(), RECORDS)):
        listed = ADMIN.list_offsets({partition: spec}, isolation_level=IsolationLevel.READ_COMMITTED)
        equal(listed[partition].result(SECONDS).offset, offset)


def offsets_by_time() -> None:
    topic, begin = TARGET.name("timed"), int(time.time() * 1000) - 3_600_000
    create(topic)
    producer = Producer(SERVERS)
    for number, value in enumerate(values_of("timed")):
        producer.produce(topic, value, partition=0, timestamp=begin + 10 * number)
    assert producer.flush(SECONDS) == 0
    consumer = Consumer({**SERVERS, "group.id": TARGET.name("timed")})
    for number, expected in ((0, 0), (7, 7), (RECORDS - 1, RECORDS - 1), (RECORDS, OFFSET_END)):
        asked = [TopicPartition(topic, 0, begin + 10 * number - 3)]
        equal(consumer.offsets_for_times(asked, SECONDS)[0].offset, expected)
    consumer.close()


def transactional(name: str) -> Producer:
    producer = Producer({**SERVERS, "transactional.id": TARGET.name(name)})
    producer.init_transactions(SECONDS)
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
            producer.produce(topic, value, partition=0)
        assert producer.flush(SECONDS) == 0
        end(SECONDS)
    one, aborted, two = values_of("one"), values_of("aborted"), values_of("two")
    equal(consume(topic, 2 * RECORDS, **{"isolation.level": "read_committed"}), [*one, *two])
    equal(consume(topic, 3 * RECORDS, **{"isolation.level": "read_uncommitted"}), [*one, *aborted, *two])


def transactional_offsets() -> None:
    partition = TopicPartition(TARGET.name("transactional-offsets"), 0)
    create(partition.topic)
    producer = transactional("offsets")
    consumer = Consumer({**SERVERS, "group.id": TARGET.name("transactional-group")})
    for offset, end, expected in (
        (5, producer.abort_transaction, OFFSET_INVALID),
        (7, producer.commit_transaction, 7),
    ):
        producer.begin_transaction()
        sent = [TopicPartition(partition.topic, 0, offset)]
        producer.send_offsets_to_transaction(sent, consumer.consumer_group_metadata(), SECONDS)
        end(SECONDS)
        equal(consumer.committed([partition], SECONDS)[0].offset, expected)
    consumer.close()


def spread(of: str, begin: int, count: int) -> set[bytes]:
    """Produce to all partitions of the topic that groups read."""
    producer = Producer(SERVERS)
    values = values_of(of, begin + count)[begin:]
    for number, value in enumerate(values):
        producer.produce(GROUP_TOPIC, value, partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0
    return set(values)


def group_share(strategy: str) -> None:
    """One has all, two have half each and read everything, and when one leaves the other has all again."""
    settings = {"partition.assignment.strategy": strategy}
    group = TARGET.name(f"share-{strategy}")
    values = spread(strategy, 0, RECORDS)
    first = Member(group, **settings)
    try:
        until(lambda: first.partitions == PARTITIONS and set(first.seen) >= values, "the first member has all")
        second = Member(group, **settings)
        try:
            until(lambda: second.partitions == PARTITIONS // 2, "the second member has half")
            values |= spread(strategy, RECORDS, RECORDS)
            until(lambda: {*first.seen, *second.seen} >= values, "both together read all")
            assert second.seen, "the second member read nothing"
        finally:
            second.leave()
        values |= spread(strategy, 2 * RECORDS, RECORDS)
        until(lambda: {*first.seen, *second.seen} >= values, "who is left reads all")
    finally:
        first.leave()


def static_member() -> None:
    """A member with an instance id comes back within its session, and has what it had without a rebalance."""
    group = TARGET.name("static")
    first = Member(group, **{"group.instance.id": "one"})
    second = Member(group, **{"group.instance.id": "two"})
    try:
        until(lambda: first.partitions == second.partitions == PARTITIONS // 2, "half each")
        second.leave()
        second = Member(group, **{"group.instance.id": "two"})
        until(lambda: second.partitions == PARTITIONS // 2, "half for who came back")
        equal(first.partitions, PARTITIONS // 2)
    finally:
        first.leave()
        second.leave()


def group_resume() -> None:
    def read(count: int) -> list[bytes]:
        consumer = Consumer(
            {**SERVERS, "group.id": GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([TOPIC])
        found: list[bytes] = []
        deadline = time.monotonic() + SECONDS
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append(message.value() or b"")
                consumer.commit(message, asynchronous=False)
        consumer.close()
        return found

    half = RECORDS // 2
    equal(read(half), values_of("seek")[:half])
    equal(read(half), values_of("seek")[half:])


def list_groups() -> None:
    listed = ADMIN.list_consumer_groups().result(SECONDS)
    assert GROUP in {each.group_id for each in listed.valid}, listed.errors


def describe_groups() -> None:
    member = Member(TARGET.name("described"))
    try:
        until(lambda: member.partitions == PARTITIONS, "the member has all")
        name = TARGET.name("described")
        described = ADMIN.describe_consumer_groups([name])[name].result(SECONDS)
        equal((described.state.name, len(described.members)), ("STABLE", 1))
        equal(len(described.members[0].assignment.topic_partitions), PARTITIONS)
    finally:
        member.leave()


def group_offsets() -> dict[int, int]:
    found = ADMIN.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])[GROUP].result(SECONDS)
    return {each.partition: each.offset for each in found.topic_partitions}


def list_group_offsets() -> None:
    equal(group_offsets()[0], RECORDS)


def alter_group_offsets() -> None:
    asked = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 0, 7)])
    ADMIN.alter_consumer_group_offsets([asked])[GROUP].result(SECONDS)
    equal(group_offsets()[0], 7)


def delete_groups() -> None:
    ADMIN.delete_consumer_groups([GROUP])[GROUP].result(SECONDS)
    assert GROUP not in {each.group_id for each in ADMIN.list_consumer_groups().result(SECONDS).valid}


def described_config(resource: ConfigResource) -> dict[str, Any]:
    (future,) = ADMIN.describe_configs([resource]).values()
    found: dict[str, Any] = future.result(SECONDS)
    return found


def describe_configs() -> None:
    equal(described_config(ConfigResource(ResourceType.TOPIC, TOPIC))["cleanup.policy"].value, "delete")
    node = next(iter(ADMIN.list_topics().brokers))
    assert described_config(ConfigResource(ResourceType.BROKER, str(node)))


def alter_configs() -> None:
    entry = ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    (future,) = ADMIN.incremental_alter_configs([resource]).values()
    future.result(SECONDS)
    found = ConfigResource(ResourceType.TOPIC, TOPIC)
    until(lambda: described_config(found)["retention.ms"].value == "123456", "the config is returned")


def delete_records() -> None:
    partition = TopicPartition(TOPIC, 0, 10)
    (future,) = ADMIN.delete_records([partition]).values()
    equal(future.result(SECONDS).low_watermark, 10)
    equal(consume(TOPIC, RECORDS - 10), values_of("seek")[10:])


def describe_cluster() -> None:
    described = ADMIN.describe_cluster().result(SECONDS)
    assert len(described.nodes) >= TARGET.replication
    assert described.cluster_id


def acls_are_disabled() -> None:
    """As with Kafka that has no authorizer."""
    one = (ResourceType.TOPIC, TOPIC, ResourcePatternType.LITERAL, "User:a", "*", AclOperation.READ)
    binding = AclBinding(*one, AclPermissionType.ALLOW)
    any_acl = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    # librdkafka leaves the error of DescribeAcls out (rd_kafka_DescribeAclsResponse_parse): there are none.
    equal(ADMIN.describe_acls(any_acl).result(SECONDS), [])
    for future in (ADMIN.create_acls([binding])[binding], ADMIN.delete_acls([any_acl])[any_acl]):
        error = future.exception(SECONDS)
        equal(error.args[0].name() if error is not None else None, "SECURITY_DISABLED")


def describe_scram() -> None:
    equal(ADMIN.describe_user_scram_credentials().result(SECONDS), {})


def delete_topic() -> None:
    ADMIN.delete_topics([TOPIC])[TOPIC].result(SECONDS)
    until(lambda: TOPIC not in ADMIN.list_topics(timeout=SECONDS).topics, "the topic is gone")


run(
    f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})",
    {
        "create-topic": create_topic,
        "list-topics": list_topics,
        "describe-topics": describe_topics,
        "produce": lambda: round_trip("produce", **{"enable.idempotence": False}),
        "produce-acks-0": lambda: round_trip("acks-0", acks=0),
        "produce-acks-1": lambda: round_trip("acks-1", acks=1),
        "produce-idempotent": lambda: round_trip("idempotent", **{"enable.idempotence": True}),
        **{
            f"produce-{codec}": lambda codec=codec: round_trip(codec, **{"compression.type": codec})  # type: ignore[misc]
            for codec in CODECS
        },
        "consume-assigned": consume_assigned,
        "list-offsets": list_offsets,
        "offsets-by-time": offsets_by_time,
        "group-share": lambda: group_share("range"),
        "group-cooperative": lambda: group_share("cooperative-sticky"),
        "static-member": static_member,
        "group-resume": group_resume,
        "transactions": transactions,
        "transactional-offsets": transactional_offsets,
        "list-groups": list_groups,
        "describe-groups": describe_groups,
        "list-group-offsets": list_group_offsets,
        "alter-group-offsets": alter_group_offsets,
        "delete-groups": delete_groups,
        "describe-configs": describe_configs,
        "alter-configs": alter_configs,
        "delete-records": delete_records,
        "create-partitions": create_partitions,
        "describe-cluster": describe_cluster,
        "acls": acls_are_disabled,
        "scram": describe_scram,
        "delete-topic": delete_topic,
    },
)
