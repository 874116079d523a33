"""What confluent-kafka (librdkafka), kafka-python, aiokafka and kcat are made to say, each all that it can."""

from __future__ import annotations

import asyncio
import subprocess
import time
import warnings
from collections.abc import Callable
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin as librdkafka_admin


def attempt(what: Callable[[], Any]) -> Any:
    """A refusal is worth recording as well."""
    try:
        return what()
    except Exception as error:
        print(f"  {type(error).__name__}: {str(error)[:150]}")
        return None


def wait_all(futures: Any) -> None:
    for future in futures.values() if isinstance(futures, dict) else [futures]:
        attempt(lambda future=future: future.result(20))


def librdkafka(bootstrap: str) -> None:
    shared = {"bootstrap.servers": bootstrap, "client.id": "librdkafka-client"}
    topic = "of-librdkafka"
    admin = librdkafka_admin.AdminClient(shared)
    wait_all(admin.create_topics([librdkafka_admin.NewTopic(topic, 2, 1, config={"retention.ms": "100000"})]))
    wait_all(admin.create_partitions([librdkafka_admin.NewPartitions(topic, 3)]))
    for settings in (
        {"acks": "all"},
        {"enable.idempotence": True},
        {"acks": 0},
        {"transactional.id": "librdkafka-txn"},
    ):
        producer = confluent_kafka.Producer({**shared, "compression.type": "lz4", **settings})
        if "transactional.id" in settings:
            producer.init_transactions(20)
            producer.begin_transaction()
        producer.produce(topic, b"value", key=b"key", partition=0, headers={"header": b"of the record"})
        producer.flush(10)
        if "transactional.id" in settings:
            consumer = confluent_kafka.Consumer({**shared, "group.id": "librdkafka-group"})
            offsets = [confluent_kafka.TopicPartition(topic, 0, 1)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            producer.commit_transaction(20)
            consumer.close()
    for protocol in ({}, {"group.protocol": "consumer", "group.remote.assignor": "uniform"}):
        group = "librdkafka-" + protocol.get("group.protocol", "classic")
        settings = {**shared, "group.id": group, "auto.offset.reset": "earliest", **protocol}
        consumer = confluent_kafka.Consumer(settings)
        consumer.subscribe([topic])
        deadline = time.monotonic() + 10
        while consumer.poll(0.5) is None and time.monotonic() < deadline:
            pass
        attempt(lambda consumer=consumer: consumer.commit(asynchronous=False))
        partitions = [confluent_kafka.TopicPartition(topic, 0, 0)]
        attempt(lambda consumer=consumer, partitions=partitions: consumer.committed(partitions, 10))
        attempt(lambda consumer=consumer, partitions=partitions: consumer.offsets_for_times(partitions, 10))
        consumer.close()
    resource = librdkafka_admin.ConfigResource(confluent_kafka.admin.ResourceType.TOPIC, topic)
    wait_all(admin.describe_configs([resource]))
    resource.add_incremental_config(
        librdkafka_admin.ConfigEntry(
            "retention.ms", "90000", incremental_operation=librdkafka_admin.AlterConfigOpType.SET
        )
    )
    wait_all(admin.incremental_alter_configs([resource]))
    legacy = librdkafka_admin.ConfigResource(
        confluent_kafka.admin.ResourceType.TOPIC, topic, set_config={"retention.ms": "80000"}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        attempt(lambda: wait_all(admin.alter_configs([legacy])))
    binding = librdkafka_admin.AclBinding(
        librdkafka_admin.ResourceType.TOPIC,
        topic,
        librdkafka_admin.ResourcePatternType.LITERAL,
        "User:someone",
        "*",
        librdkafka_admin.AclOperation.READ,
        librdkafka_admin.AclPermissionType.ALLOW,
    )
    every = librdkafka_admin.AclBindingFilter(
        librdkafka_admin.ResourceType.TOPIC,
        topic,
        librdkafka_admin.ResourcePatternType.ANY,
        None,
        None,
        librdkafka_admin.AclOperation.ANY,
        librdkafka_admin.AclPermissionType.ANY,
    )
    wait_all(admin.create_acls([binding]))
    wait_all(admin.describe_acls(every))
    wait_all(admin.delete_acls([every]))
    scram = librdkafka_admin.ScramCredentialInfo(librdkafka_admin.ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = librdkafka_admin.UserScramCredentialUpsertion("someone", scram, b"password", b"salt")
    attempt(lambda: wait_all(admin.alter_user_scram_credentials([upsertion])))
    attempt(lambda: wait_all(admin.describe_user_scram_credentials(["someone"])))
    wait_all(admin.list_consumer_groups())
    wait_all(admin.describe_consumer_groups(["librdkafka-classic", "librdkafka-consumer"]))
    committed = confluent_kafka.ConsumerGroupTopicPartitions("librdkafka-classic")
    attempt(lambda: wait_all(admin.list_consumer_group_offsets([committed])))
    wait_all(admin.delete_consumer_groups(["librdkafka-classic"]))
    partition = confluent_kafka.TopicPartition(topic, 0, 1)
    wait_all(admin.list_offsets({partition: librdkafka_admin.OffsetSpec.latest()}))
    attempt(lambda: wait_all(admin.delete_records([partition])))
    wait_all(admin.describe_cluster())
    wait_all(admin.describe_topics(confluent_kafka.TopicCollection([topic])))
    attempt(lambda: wait_all(admin.elect_leaders(confluent_kafka.ElectionType.PREFERRED, [partition])))
    wait_all(admin.delete_topics([topic]))


def kafka_python(bootstrap: str) -> None:
    import kafka
    import kafka.admin as admin_of

    shared = {"bootstrap_servers": bootstrap, "client_id": "kafka-python-client"}
    topic = "of-kafka-python"
    admin = kafka.KafkaAdminClient(**shared)
    attempt(lambda: admin.create_topics([admin_of.NewTopic(topic, 1, 1)]))
    attempt(lambda: admin.create_partitions({topic: admin_of.NewPartitions(2)}))
    for settings in ({"acks": "all"}, {"acks": 0, "enable_idempotence": False}, {"transactional_id": "python-txn"}):
        producer = kafka.KafkaProducer(**shared, compression_type="gzip", **settings)
        if "transactional_id" in settings:
            producer.init_transactions()
            producer.begin_transaction()
        producer.send(topic, b"value", key=b"key", partition=0, headers=[("header", b"of the record")])
        producer.flush()
        if "transactional_id" in settings:
            offsets = {kafka.TopicPartition(topic, 0): kafka.structs.OffsetAndMetadata(1, "", -1)}
            attempt(lambda producer=producer, offsets=offsets: producer.send_offsets_to_transaction(offsets, "pyg"))
            producer.commit_transaction()
        producer.close()
    consumer = kafka.KafkaConsumer(
        topic, **shared, group_id="kafka-python-group", auto_offset_reset="earliest", consumer_timeout_ms=6000
    )
    for _ in consumer:
        break
    consumer.commit()
    consumer.end_offsets([kafka.TopicPartition(topic, 0)])
    consumer.close()
    resource = admin_of.ConfigResource(admin_of.ConfigResourceType.TOPIC, topic, {"retention.ms": "90000"})
    attempt(lambda: admin.describe_configs([resource]))
    attempt(lambda: admin.alter_configs([resource]))
    attempt(lambda: admin.alter_configs([resource], incremental=False))
    attempt(lambda: admin.list_config_resources())
    pattern = admin_of.ResourcePattern(admin_of.ResourceType.TOPIC, topic)
    acl = admin_of.ACL("User:someone", "*", admin_of.ACLOperation.READ, admin_of.ACLPermissionType.ALLOW, pattern)
    every = admin_of.ACLFilter(
        None,
        None,
        admin_of.ACLOperation.ANY,
        admin_of.ACLPermissionType.ANY,
        admin_of.ResourcePatternFilter(admin_of.ResourceType.TOPIC, topic, admin_of.ACLResourcePatternType.ANY),
    )
    attempt(lambda: admin.create_acls([acl]))
    attempt(lambda: admin.describe_acls(every))
    attempt(lambda: admin.delete_acls([every]))
    attempt(lambda: admin.describe_user_scram_credentials())
    attempt(lambda: admin.list_groups())
    attempt(lambda: admin.describe_groups(["kafka-python-group"]))
    attempt(lambda: admin.list_group_offsets({"kafka-python-group": None}))
    attempt(lambda: admin.delete_group_offsets("kafka-python-group", [kafka.TopicPartition(topic, 0)]))
    attempt(lambda: admin.delete_groups(["kafka-python-group"]))
    attempt(lambda: admin.describe_cluster())
    attempt(lambda: admin.describe_log_dirs())
    attempt(lambda: admin.describe_metadata_quorum())
    attempt(lambda: admin.describe_features())
    attempt(lambda: admin.list_transactions())
    attempt(lambda: admin.describe_transactions(["python-txn"]))
    attempt(lambda: admin.describe_producers([kafka.TopicPartition(topic, 0)]))
    attempt(lambda: admin.describe_topic_partitions([topic]))
    attempt(lambda: admin.delete_records({kafka.TopicPartition(topic, 0): 1}))
    attempt(lambda: admin.list_partition_reassignments())
    attempt(lambda: admin.elect_leaders(0, {topic: [0]}))
    attempt(lambda: admin.delete_topics([topic]))
    admin.close()


def aiokafka_client(bootstrap: str) -> None:
    asyncio.run(_aiokafka(bootstrap))


async def _aiokafka(bootstrap: str) -> None:
    shared = {"bootstrap_servers": bootstrap, "client_id": "aiokafka-client"}
    topic = "of-aiokafka"
    admin = aiokafka.admin.AIOKafkaAdminClient(**shared)
    await admin.start()
    await admin.create_topics([aiokafka.admin.NewTopic(topic, 1, 1)])
    await admin.create_partitions({topic: aiokafka.admin.NewPartitions(2)})
    for settings in ({"acks": "all"}, {"enable_idempotence": True}, {"transactional_id": "aiokafka-txn"}):
        producer = aiokafka.AIOKafkaProducer(**shared, compression_type="zstd", **settings)
        await producer.start()
        if "transactional_id" in settings:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"value", partition=0)
                await producer.send_offsets_to_transaction({aiokafka.TopicPartition(topic, 0): 1}, "aiokafka-group")
        else:
            await producer.send_and_wait(topic, b"value", key=b"key", partition=0, headers=[("header", b"value")])
        await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(topic, **shared, group_id="aiokafka-group", auto_offset_reset="earliest")
    await consumer.start()
    await asyncio.wait_for(consumer.getmany(timeout_ms=3000), 10)
    await consumer.commit()
    await consumer.end_offsets([aiokafka.TopicPartition(topic, 0)])
    await admin.describe_consumer_groups(["aiokafka-group"])
    await consumer.stop()
    resource = aiokafka.admin.config_resource.ConfigResource("topic", topic, {"retention.ms": "90000"})
    await admin.describe_configs([resource])
    await admin.alter_configs([resource])
    await admin.describe_cluster()
    await admin.list_consumer_groups()
    await admin.list_consumer_group_offsets("aiokafka-group")
    await admin.delete_records({aiokafka.TopicPartition(topic, 0): aiokafka.admin.RecordsToDelete(1)})
    await admin.delete_topics([topic])
    await admin.close()


def kcat(bootstrap: str) -> None:
    run = ["kcat", "-b", bootstrap, "-X", "client.id=kcat-client"]
    for arguments, stdin in (
        (["-P", "-t", "of-kcat", "-z", "snappy"], b"one\ntwo\n"),
        (["-L"], b""),
        (["-C", "-t", "of-kcat", "-e", "-q"], b""),
        (["-Q", "-t", "of-kcat:0:-1"], b""),
        (["-G", "kcat-group", "-e", "-q", "-X", "auto.offset.reset=earliest", "of-kcat"], b""),
    ):
        subprocess.run([*run, *arguments], input=stdin, stdout=subprocess.DEVNULL, check=False, timeout=30)


def authenticate(name: str, bootstrap: str) -> None:
    """Each of them by SASL PLAIN."""
    match name:
        case "librdkafka":
            shared = {"bootstrap.servers": bootstrap, "client.id": "librdkafka-client"}
            login = {"sasl.mechanism": "PLAIN", "sasl.username": "someone", "sasl.password": "secret"}
            admin = librdkafka_admin.AdminClient({**shared, "security.protocol": "sasl_plaintext", **login})
            attempt(lambda: admin.list_topics(timeout=5))
        case "kafka-python":
            import kafka

            kafka.KafkaAdminClient(
                bootstrap_servers=bootstrap,
                client_id="kafka-python-client",
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="PLAIN",
                sasl_plain_username="someone",
                sasl_plain_password="secret",
            ).close()
        case "aiokafka":
            asyncio.run(_authenticate_aiokafka(bootstrap))
        case "kcat":
            words = "security.protocol=sasl_plaintext sasl.mechanism=PLAIN sasl.username=someone sasl.password=secret"
            settings = [part for setting in ("client.id=kcat-client", *words.split()) for part in ("-X", setting)]
            subprocess.run(
                ["kcat", "-b", bootstrap, *settings, "-L"], stdout=subprocess.DEVNULL, check=False, timeout=30
            )


async def _authenticate_aiokafka(bootstrap: str) -> None:
    client = aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        client_id="aiokafka-client",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="someone",
        sasl_plain_password="secret",
    )
    await client.start()
    await client.stop()
