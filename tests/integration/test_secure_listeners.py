"""Real clients on secured listeners: each protocol, with each way to authenticate."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from barnabas_cli.local.certificates import Authority, create_authority, issue, write_authority
from barnabas_cli.local.layout import HOST
from tests.integration.kafka_tools import KafkaTools
from tests.integration.running_cluster import RunningCluster

PLAIN_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";'
PORTS = {"SASL_PLAINTEXT": 0, "SSL": 10, "SASL_SSL": 20, "MUTUAL": 30}
"""By listener: the offset of its bootstrap port, behind which are the ports of the brokers."""
CONFLUENT: dict[str, dict[str, str]] = {
    "plain": {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "alice-secret"},
    "scram-256": {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "bob", "sasl.password": "bob-secret"},
    "scram-512": {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "bob", "sasl.password": "bob-secret-512"},
}


class Secured:
    """The cluster, its authority, and how a client reaches each listener."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.first_port = 0
        self.authority: Authority = create_authority("test", datetime.fromtimestamp(time.time(), UTC))
        write_authority(directory, self.authority)
        self.renew()
        self.write("client.pem", "alice", ())

    def renew(self) -> None:
        self.write("gateway.pem", "gateway", (HOST, "localhost"))

    def write(self, name: str, common_name: str, hosts: tuple[str, ...]) -> None:
        pem = issue(self.authority, common_name, hosts, datetime.fromtimestamp(time.time(), UTC))
        (self.directory / name).write_bytes(pem)

    def properties(self, first_port: int) -> dict[str, str]:
        self.first_port = first_port
        listeners = [f"{name}://{HOST}:{first_port + offset}" for name, offset in PORTS.items()]
        return {
            "listeners": ",".join([f"PLAINTEXT://{HOST}:{first_port - 80}", *listeners]),
            "listener.security.protocol.map": "MUTUAL:SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms": "4000",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_JAAS,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN_JAAS,
            "ssl.keystore.location": str(self.directory / "gateway.pem"),
            "listener.name.mutual.ssl.truststore.location": str(self.directory / "ca.crt"),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
        }

    def bootstrap(self, listener: str) -> str:
        return f"{HOST}:{self.first_port + PORTS[listener]}"

    def librdkafka(self, listener: str, how: str = "") -> dict[str, Any]:
        protocol = "SSL" if listener == "MUTUAL" else listener
        config: dict[str, Any] = {"bootstrap.servers": self.bootstrap(listener), "security.protocol": protocol}
        if "SSL" in protocol:
            config["ssl.ca.location"] = str(self.directory / "ca.crt")
        if listener == "MUTUAL":
            config["ssl.certificate.location"] = config["ssl.key.location"] = str(self.directory / "client.pem")
        return config | CONFLUENT.get(how, {})

    def java(self, listener: str, how: str = "") -> str:
        """Return the path of a properties file for Kafka's tools."""
        protocol = "SSL" if listener == "MUTUAL" else listener
        lines = [f"security.protocol={protocol}"]
        if "SSL" in protocol:
            lines += [f"ssl.truststore.location={self.directory / 'ca.crt'}", "ssl.truststore.type=PEM"]
        if listener == "MUTUAL":
            lines += [f"ssl.keystore.location={self.directory / 'client.pem'}", "ssl.keystore.type=PEM"]
        if how:
            wanted = CONFLUENT[how]
            module = "plain.PlainLoginModule" if how == "plain" else "scram.ScramLoginModule"
            lines += [
                f"sasl.mechanism={wanted['sasl.mechanism']}",
                f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
                f'username="{wanted["sasl.username"]}" password="{wanted["sasl.password"]}";',
            ]
        path = self.directory / f"{listener}-{how}.properties"
        path.write_text("\n".join(lines) + "\n")
        return str(path)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(tmp_path_factory.mktemp("secrets"))


@pytest.fixture(scope="module")
def cluster(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1, secured.properties) as running:
        yield running


CONFIGS = "org.apache.kafka.tools.ConfigCommand"
"""kafka-configs.sh"""


@pytest.fixture(scope="module")
def bob(cluster: RunningCluster, secured: Secured) -> None:
    """A user with a credential of either mechanism, set by librdkafka's admin client."""
    from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    admin = AdminClient(secured.librdkafka("SASL_SSL", "plain"))
    upsertions = [
        UserScramCredentialUpsertion("bob", ScramCredentialInfo(mechanism, 4096), password)
        for mechanism, password in (
            (ScramMechanism.SCRAM_SHA_256, b"bob-secret"),
            (ScramMechanism.SCRAM_SHA_512, b"bob-secret-512"),
        )
    ]
    for future in admin.alter_user_scram_credentials(upsertions).values():
        future.result(timeout=20)


WAYS = [
    pytest.param("SASL_PLAINTEXT", "plain", marks=pytest.mark.deep),
    pytest.param("SASL_PLAINTEXT", "scram-256", marks=pytest.mark.deep),
    pytest.param("SASL_PLAINTEXT", "scram-512", marks=pytest.mark.deep),
    pytest.param("SSL", "", marks=pytest.mark.deep),
    pytest.param("SASL_SSL", "plain", marks=pytest.mark.deep),
    pytest.param("SASL_SSL", "scram-256", marks=pytest.mark.deep),
    ("SASL_SSL", "scram-512"),
    ("MUTUAL", ""),
]


@pytest.mark.parametrize(("listener", "how"), WAYS)
def test_librdkafka_produces_and_consumes(
    cluster: RunningCluster, secured: Secured, bob: None, listener: str, how: str
) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    config, topic = secured.librdkafka(listener, how), f"librdkafka-{listener}-{how}"
    values = [f"{number}".encode() * 100 for number in range(2_000)]
    producer = Producer(config)
    failures: list[Any] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
        producer.poll(0)
    assert producer.flush(30) == 0
    assert not failures
    consumer = Consumer({**config, "group.id": "none", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    read: list[bytes] = []
    while len(read) < len(values):
        messages = consumer.consume(500, timeout=20)
        assert messages
        assert all(message.error() is None for message in messages), [message.error() for message in messages]
        read += [message.value() or b"" for message in messages]
    consumer.close()
    assert read == values


@pytest.mark.deep
@pytest.mark.parametrize(("listener", "how"), WAYS)
def test_javas_tools(
    cluster: RunningCluster, secured: Secured, kafka_tools: KafkaTools, bob: None, listener: str, how: str
) -> None:
    config, bootstrap = secured.java(listener, how), secured.bootstrap(listener)
    topic = f"java-{listener}-{how}"
    kafka_tools.output(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", bootstrap, "--command-config", config,
        "--create", "--topic", topic,
    )  # fmt: skip
    said = kafka_tools.output(
        "org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", bootstrap, "--command-config", config,
        "--topic", topic, "--num-records", "5000", "--record-size", "1000", "--throughput", "-1",
    )  # fmt: skip
    assert "5000 records sent" in said
    said = kafka_tools.output(
        "org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", bootstrap, "--command-config", config,
        "--topic", topic, "--num-records", "5000", "--timeout", "30000",
    )  # fmt: skip
    assert "5000" in said


def error_of(config: dict[str, Any]) -> str:
    """What librdkafka reports of a client that is to be refused."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    errors: list[str] = []
    admin = AdminClient({**config, "error_cb": lambda error: errors.append(str(error)), "log_level": 0})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)
    admin.poll(0)
    return " ".join(errors)


def test_who_is_not_let_in(cluster: RunningCluster, secured: Secured) -> None:
    wrong = secured.librdkafka("SASL_SSL", "plain") | {"sasl.password": "guess"}
    assert "Authentication failed: Invalid username or password" in error_of(wrong)
    clear = {"bootstrap.servers": secured.bootstrap("SASL_SSL"), "security.protocol": "PLAINTEXT"}
    assert "brokers are down" in error_of(clear)
    unknown = {**secured.librdkafka("MUTUAL")}
    del unknown["ssl.certificate.location"], unknown["ssl.key.location"]
    assert "ssl" in error_of(unknown).lower()
    log = cluster.directory.log_path("gateway").read_text()
    assert "authentication failed" in log
    assert "wrong password" in log
    assert "the client does not speak TLS" in log
    assert "PEER_DID_NOT_RETURN_A_CERTIFICATE" in log
    assert "guess" not in log
    assert "alice-secret" not in log


@pytest.mark.deep
def test_a_certificate_is_replaced_while_the_gateway_runs(cluster: RunningCluster, secured: Secured) -> None:
    def serial() -> str:
        context = ssl.create_default_context(cafile=str(secured.directory / "ca.crt"))
        host, _, port = secured.bootstrap("SSL").rpartition(":")
        with (
            socket.create_connection((host, int(port))) as plain,
            context.wrap_socket(plain, server_hostname=host) as tls,
        ):
            found: Any = tls.getpeercert()
            return str(found["serialNumber"])

    before = serial()
    secured.renew()
    deadline = time.monotonic() + 20
    while serial() == before:
        assert time.monotonic() < deadline, "the certificate was not replaced"
        time.sleep(0.5)


@pytest.mark.deep
def test_kafka_configs_sets_describes_and_deletes_a_user(
    cluster: RunningCluster, secured: Secured, kafka_tools: KafkaTools
) -> None:
    admin = (CONFIGS, "--bootstrap-server", secured.bootstrap("SASL_SSL"))
    admin = (*admin, "--command-config", secured.java("SASL_SSL", "plain"), "--entity-type", "users")
    carol = (*admin, "--entity-name", "carol")
    set_both = "SCRAM-SHA-256=[iterations=8192,password=carol-secret],SCRAM-SHA-512=[password=other]"
    assert "Completed updating config for user carol" in kafka_tools.output(*carol, "--alter", "--add-config", set_both)
    described = kafka_tools.output(*admin, "--describe")
    assert "SCRAM credential configs for user-principal 'carol' are SCRAM-SHA-256=iterations=8192" in described
    assert "SCRAM-SHA-512=iterations=4096" in described
    config = secured.librdkafka("SASL_SSL", "scram-256") | {"sasl.username": "carol", "sasl.password": "carol-secret"}
    from confluent_kafka.admin import AdminClient

    assert AdminClient(config).list_topics(timeout=20).topics is not None
    kafka_tools.output(*carol, "--alter", "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM-SHA-256" not in kafka_tools.output(*carol, "--describe")
    said = error_of(config)
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in said
    again = kafka_tools.run(*carol, "--alter", "--delete-config", "SCRAM-SHA-256")
    assert "does not exist" in again.stdout + again.stderr


@pytest.mark.deep
def test_a_client_authenticates_again_while_it_produces(cluster: RunningCluster, secured: Secured, bob: None) -> None:
    """KIP-368, by librdkafka: sessions last 4 s here, and the client does not notice."""
    from confluent_kafka import Producer

    producer = Producer(secured.librdkafka("SASL_PLAINTEXT", "scram-512"))
    failures: list[Any] = []
    until = time.monotonic() + 10
    while time.monotonic() < until:
        producer.produce("sessions", b"x", on_delivery=lambda error, _: failures.append(error) if error else None)
        producer.poll(0.1)
    assert producer.flush(20) == 0
    assert not failures
    lines = cluster.directory.log_path("gateway").read_text().splitlines()
    sessions = [line for line in lines if "session_ms=4000" in line and "User:bob" in line]
    assert len(sessions) >= 3


@pytest.mark.filterwarnings("ignore:.*is deprecated. Use files:DeprecationWarning")
@pytest.mark.deep
def test_a_client_of_python_alone(cluster: RunningCluster, secured: Secured, bob: None) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    config: dict[str, Any] = {
        "bootstrap_servers": secured.bootstrap("SASL_SSL"),
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(secured.directory / "ca.crt"),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "bob",
        "sasl_plain_password": "bob-secret-512",
    }
    producer = KafkaProducer(**config)
    producer.send("python", b"hello").get(timeout=20)
    producer.close()
    consumer = KafkaConsumer("python", auto_offset_reset="earliest", consumer_timeout_ms=20_000, **config)
    assert next(consumer).value == b"hello"
    consumer.close()
