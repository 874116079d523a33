"""ACLs as Kafka's own tools and real clients use them: created, in effect at once, listed, removed, and kept."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas_cli.local.layout import HOST
from tests.integration.kafka_tools import Done, KafkaTools
from tests.integration.running_cluster import RunningCluster
from tests.integration.test_ops_api import OPERATIONS, ReflectedService

pytestmark = [pytest.mark.integration, pytest.mark.deep]

PROCESSORS = 2
USERS = ("admin", "alice", "bob")
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required " + " ".join(
    f'user_{user}="{user}-secret"' for user in USERS
)


class Site:
    """A cluster with a listener that authenticates, and one super user."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bootstrap = ""

    def properties(self, first_port: int) -> dict[str, str]:
        self.bootstrap = f"{HOST}:{first_port}"
        return {
            "listeners": f"PLAINTEXT://{HOST}:{first_port - 80},SASL_PLAINTEXT://{self.bootstrap}",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{JAAS};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
            "audit.topic": "audit",
        }

    def librdkafka(self, user: str) -> dict[str, str]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
        }

    def java(self, user: str) -> str:
        path = self.directory / f"{user}.properties"
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={module} required username="{user}" password="{user}-secret";\n'
        )
        return str(path)

    def acls(self, tools: KafkaTools, user: str, *arguments: str) -> Done:
        """Run kafka-acls.sh."""
        return tools.run(
            "org.apache.kafka.tools.AclCommand",
            "--bootstrap-server",
            self.bootstrap,
            "--command-config",
            self.java(user),
            *arguments,
        )

    def produce(self, user: str, topic: str) -> str:
        """Return the name of the error; empty if the record is written."""
        from confluent_kafka import Producer

        errors: list[str] = []
        config = {**self.librdkafka(user), "enable.idempotence": "true", "message.timeout.ms": "20000"}
        producer = Producer(config)
        producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error.name() if error else ""))
        assert producer.flush(30) == 0
        return errors[0]

    def consume(self, user: str, topic: str, group: str) -> str:
        """Return the first value, or the name of the error."""
        from confluent_kafka import Consumer

        consumer = Consumer({**self.librdkafka(user), "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        value = (message.value() or b"").decode()
        consumer.close()
        return error.name() if error else value


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("clients"))


@pytest.fixture(scope="module")
def cluster(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1, site.properties) as running:
        yield running


def create(site: Site, tools: KafkaTools, topic: str) -> None:
    tools.output(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", site.bootstrap, "--command-config", site.java("admin")),
        *("--create", "--topic", topic, "--partitions", "2"),
    )


def test_kafka_acls_and_clients(cluster: RunningCluster, site: Site, kafka_tools: KafkaTools) -> None:
    create(site, kafka_tools, "orders-1")
    assert site.produce("alice", "orders-1") == "TOPIC_AUTHORIZATION_FAILED"
    for what in (("Read", "--topic", "orders-"), ("Write", "--topic", "orders-"), ("Read", "--group", "team-")):
        operation, *resource = what
        added = site.acls(
            kafka_tools,
            "admin",
            *("--add", "--allow-principal", "User:alice", "--operation", operation, *resource),
            *("--resource-pattern-type", "prefixed"),
        )
        assert added.status == 0, added.stdout + added.stderr
    # In effect when the tool ends, in every processor.
    for _ in range(2 * PROCESSORS):
        assert site.produce("alice", "orders-1") == ""
    assert site.consume("alice", "orders-1", "team-a") == "value"
    assert site.consume("alice", "orders-1", "other") == "GROUP_AUTHORIZATION_FAILED"
    assert site.produce("bob", "orders-1") == "TOPIC_AUTHORIZATION_FAILED"
    listed = site.acls(kafka_tools, "admin", "--list", "--topic", "orders-1", "--resource-pattern-type", "match")
    assert "(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)" in listed.stdout
    denied = site.acls(
        kafka_tools, "admin", "--add", "--deny-principal", "User:alice", "--operation", "Write", "--topic", "orders-1"
    )
    assert denied.status == 0, denied.stdout + denied.stderr
    assert site.produce("alice", "orders-1") == "TOPIC_AUTHORIZATION_FAILED"
    assert site.consume("alice", "orders-1", "team-b") == "value"
    removed = site.acls(
        kafka_tools, "admin", "--remove", "--force", "--deny-principal", "User:alice", "--topic", "orders-1",
        "--operation", "Write",
    )  # fmt: skip
    assert removed.status == 0, removed.stdout + removed.stderr
    assert site.produce("alice", "orders-1") == ""


def test_only_who_may_change_acls_does(cluster: RunningCluster, site: Site, kafka_tools: KafkaTools) -> None:
    done = site.acls(
        kafka_tools, "bob", "--add", "--allow-principal", "User:bob", "--operation", "All", "--topic", "orders-1"
    )
    assert "Cluster authorization failed" in done.stdout + done.stderr
    assert "Cluster authorization failed" in "".join(site.acls(kafka_tools, "bob", "--list")[1:])


def test_acls_outlive_the_controller_and_the_gateway(
    cluster: RunningCluster, site: Site, kafka_tools: KafkaTools
) -> None:
    create(site, kafka_tools, "kept")
    site.acls(kafka_tools, "admin", "--add", "--allow-principal", "User:bob", "--producer", "--topic", "kept")
    for service in ("controller", "gateway"):
        cluster.stop(service)
        cluster.up()
    assert site.produce("bob", "kept") == ""
    assert site.produce("alice", "kept") == "TOPIC_AUTHORIZATION_FAILED"


def test_a_denial_is_a_line_in_the_log(cluster: RunningCluster, site: Site, kafka_tools: KafkaTools) -> None:
    create(site, kafka_tools, "secret")
    assert site.produce("bob", "secret") == "TOPIC_AUTHORIZATION_FAILED"
    logs = "".join(path.read_text(errors="replace") for path in cluster.directory.path.rglob("*gateway*.log"))
    lines = [line for line in logs.splitlines() if "authorization denied" in line and "secret" in line]
    assert lines
    assert all(word in lines[-1] for word in ("User:bob", "127.0.0.1", "TOPIC", "denied"))


def test_records_of_the_audit_are_in_their_topic(cluster: RunningCluster, site: Site, kafka_tools: KafkaTools) -> None:
    """Also what happened before the topic was there, and only who may read it does."""
    from confluent_kafka import Consumer

    create(site, kafka_tools, "audited")
    assert site.produce("bob", "audited") == "TOPIC_AUTHORIZATION_FAILED"
    create(site, kafka_tools, "audit")
    operator = ReflectedService(cluster.ops_address)
    operator("ListTopics")
    operator.close()
    consumer = Consumer({**site.librdkafka("admin"), "group.id": "auditors", "auto.offset.reset": "earliest"})
    consumer.subscribe(["audit"])
    wanted = {
        ("authenticated", "User:bob", ""),
        ("authorization denied", "User:bob", "audited"),
        ("topic created", "User:admin", "audit"),
        ("operator's call", "anonymous", f"/{OPERATIONS}/ListTopics"),
    }
    until_s = time.monotonic() + 60
    while wanted and time.monotonic() < until_s:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            record = json.loads(message.value() or b"")
            about = record.get("resource") or record.get("operation", "")
            wanted.discard((record["event"], record["principal"], about))
    consumer.close()
    assert not wanted
    assert site.consume("bob", "audit", "team-a") != "value"
