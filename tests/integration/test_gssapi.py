"""GSSAPI with a real KDC of MIT Kerberos: Java's clients and tools, aiokafka, kcat, `barnabas`."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from barnabas_cli.local.layout import HOST
from tests.integration.kafka_tools import Done, KafkaTools, kafka_libs
from tests.integration.kerberos_realm import REALM, SERVICE, KerberosRealm, need_kerberos
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.deep]

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
TOPICS = "org.apache.kafka.tools.TopicCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
SESSION_MS = 4_000


@dataclass
class Site:
    realm: KerberosRealm
    directory: Path
    bootstrap: str = ""

    def properties(self, first_port: int) -> dict[str, str]:
        self.bootstrap = f"localhost:{first_port}"
        keytab = self.realm.keytab(SERVICE, "gateway")
        options = f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{SERVICE}@{REALM}"'
        return {
            "listeners": f"PLAINTEXT://{HOST}:{first_port - 80},SASL_PLAINTEXT://{HOST}:{first_port}",
            "advertised.listeners": f"SASL_PLAINTEXT://localhost:{first_port}",
            "sasl.enabled.mechanisms": "GSSAPI,SCRAM-SHA-256",
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": f"{MODULE} {options};",
            "listener.name.sasl_plaintext.gssapi.connections.max.reauth.ms": str(SESSION_MS),
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.principal.to.local.rules": "RULE:[2:$1](.*)s/$/-service/L,DEFAULT",
            "delegation.token.secret.key": "the-key-of-all-tokens",
        }

    def config_of(self, principal: str, service: str = "kafka") -> str:
        """Return the properties of a Java client."""
        path = self.directory / f"{principal.replace('/', '-')}-{service}.properties"
        keytab = self.realm.keytab(principal)
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n"
            f"sasl.kerberos.service.name={service}\nsasl.jaas.config={MODULE} useKeyTab=true storeKey=true "
            f'keyTab="{keytab}" principal="{principal}@{REALM}";\n'
        )
        return str(path)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, RunningCluster]]:
    need_kerberos()
    with KerberosRealm(tmp_path_factory.mktemp("realm")) as realm, pytest.MonkeyPatch.context() as environment:
        for name, value in realm.environment.items():
            environment.setenv(name, value)
        for principal in ("alice", "Bob/admin", "carol", "dave", "erna"):
            realm.add_principal(principal)
        realm.add_principal("other/localhost")
        made = Site(realm, tmp_path_factory.mktemp("clients"))
        with RunningCluster(tmp_path_factory.mktemp("cluster"), 1, made.properties) as running:
            yield made, running


@pytest.fixture(scope="module")
def java(site: tuple[Site, RunningCluster]) -> Iterator[KafkaTools]:
    """A JVM of the realm."""
    kafka_libs()
    with pytest.MonkeyPatch.context() as environment, KafkaTools() as tools:
        environment.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={site[0].realm.krb5_conf}")
        yield tools


def lines(running: RunningCluster, event: str) -> list[str]:
    text = running.directory.log_path("gateway").read_text()
    return [line for line in text.splitlines() if f'"{event}"' in line or f" {event} " in line]


def topics(java: KafkaTools, at: Site, config: str, *arguments: str) -> Done:
    return java.run(TOPICS, "--bootstrap-server", at.bootstrap, "--command-config", config, *arguments)


def test_javas_admin_client(site: tuple[Site, RunningCluster], java: KafkaTools) -> None:
    at, running = site
    config = at.config_of("alice")
    created = topics(java, at, config, "--create", "--topic", "kerberos")
    assert created.status == 0, created
    assert "kerberos" in topics(java, at, at.config_of("Bob/admin"), "--list").stdout
    found = lines(running, "authenticated")
    assert any("User:alice" in line for line in found)
    assert any("User:bob-service" in line for line in found)


def test_a_ticket_for_another_service_is_refused(site: tuple[Site, RunningCluster], java: KafkaTools) -> None:
    at, running = site
    refused = topics(java, at, at.config_of("carol", "other"), "--list")
    assert "invalid credentials with SASL mechanism GSSAPI" in refused.stdout + refused.stderr
    assert any("other/localhost" in line for line in lines(running, "authentication failed"))
    assert not any("carol" in line for line in lines(running, "authenticated"))


def test_a_delegation_token_after_a_ticket(site: tuple[Site, RunningCluster], java: KafkaTools) -> None:
    at, running = site
    command = ("--bootstrap-server", at.bootstrap, "--command-config", at.config_of("alice"))
    created = java.run(TOKENS, *command, "--create", "--max-life-time-period", "-1")
    assert created.status == 0, created
    token_id, secret = next(line for line in created.stdout.splitlines() if "User:alice" in line).split()[:2]
    path = at.directory / "token.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={SCRAM} username="{token_id}" password="{secret}" tokenauth="true";\n'
    )
    assert topics(java, at, str(path), "--list").status == 0
    assert any("SCRAM-SHA-256" in line and "User:alice" in line for line in lines(running, "authenticated"))


def test_javas_console_clients_authenticate_again(site: tuple[Site, RunningCluster], java: KafkaTools) -> None:
    """KIP-368: the consumer waits for more than a session's length."""
    at, running = site
    config = at.config_of("carol")
    producer = ("--bootstrap-server", at.bootstrap, "--command-config", config, "--topic", "carols")
    sent = java.run(
        "org.apache.kafka.tools.ProducerPerformance",
        *producer,
        *("--num-records", "60", "--record-size", "10", "--throughput", "5"),
    )
    assert sent.status == 0, sent
    consumed = java.run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *producer,
        *("--from-beginning", "--timeout-ms", str(2 * SESSION_MS)),
    )
    assert "60 messages" in consumed.stdout + consumed.stderr, consumed
    assert len([line for line in lines(running, "authenticated") if "User:carol" in line]) >= 4


async def test_python_clients(site: tuple[Site, RunningCluster], monkeypatch: pytest.MonkeyPatch) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    at, _ = site
    monkeypatch.setenv("KRB5CCNAME", at.realm.ticket_cache("alice"))
    common = {
        "bootstrap_servers": at.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl_kerberos_domain_name": "localhost",
    }
    async with AIOKafkaProducer(**common) as producer:
        await producer.send_and_wait("pythons", b"one")
    async with AIOKafkaConsumer("pythons", auto_offset_reset="earliest", **common) as consumer:
        assert (await asyncio.wait_for(consumer.getone(), 60)).value == b"one"


def test_librdkafka(site: tuple[Site, RunningCluster]) -> None:
    """By kcat: the wheels of confluent-kafka have librdkafka without GSSAPI."""
    kcat = shutil.which("kcat") or shutil.which("kafkacat")
    if (
        kcat is None
        or "sasl_gssapi" not in subprocess.run([kcat, "-V"], capture_output=True, text=True, check=False).stdout
    ):
        pytest.skip("no kcat whose librdkafka has GSSAPI: `make kerberos` installs it")
    at, running = site
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": str(at.realm.keytab("dave")),
        "sasl.kerberos.principal": f"dave@{REALM}",
    }
    common = [kcat, "-b", at.bootstrap, *(word for key, value in settings.items() for word in ("-X", f"{key}={value}"))]
    environment = {**os.environ, "KRB5CCNAME": str(at.directory / "dave.ccache")}

    def run(*arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            [*common, *arguments], input=stdin, capture_output=True, text=True, env=environment, timeout=90, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("-P", "-t", "daves", stdin="one\ntwo\n")
    assert run("-C", "-t", "daves", "-c", "2") == "one\ntwo\n"
    assert any("User:dave" in line for line in lines(running, "authenticated"))


@pytest.mark.parametrize("has_keytab", [True, False])
def test_the_command_line(site: tuple[Site, RunningCluster], monkeypatch: pytest.MonkeyPatch, has_keytab: bool) -> None:
    """By a key table, and by a ticket in a cache."""
    at, running = site
    config = at.directory / "cli.properties"
    options = "useTicketCache=true"
    if has_keytab:
        options = f'useKeyTab=true keyTab="{at.realm.keytab("erna")}" principal="erna@{REALM}"'
    else:
        monkeypatch.setenv("KRB5CCNAME", at.realm.ticket_cache("erna"))
    config.write_text(
        f"bootstrap.servers={at.bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n"
        f"sasl.kerberos.service.name=kafka\nsasl.jaas.config={MODULE} {options};\n"
    )
    topic = f"ernas-{has_keytab}"
    produced = running.cli("produce", topic, "--config", str(config), stdin="hello\n")
    assert produced.returncode == 0, produced.stderr
    assert running.cli("consume", topic, "--config", str(config), "--exit").stdout == "hello\n"
    assert any("User:erna" in line for line in lines(running, "authenticated"))


def test_the_command_line_without_a_ticket_says_so(site: tuple[Site, RunningCluster]) -> None:
    at, running = site
    config = at.directory / "without.properties"
    config.write_text(f"bootstrap.servers={at.bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n")
    refused = running.cli("consume", "ernas", "--config", str(config), "--exit")
    assert refused.returncode == 1
    assert "No Kerberos credentials available" in refused.stderr


def test_a_key_that_the_key_table_lacks_is_named_and_found_when_it_is_there(
    site: tuple[Site, RunningCluster], java: KafkaTools
) -> None:
    at, running = site
    at.realm.change_key(SERVICE)
    refused = topics(java, at, at.config_of("alice"), "--list")
    assert refused.status != 0
    deadline = time.monotonic() + 60
    while not any("Cannot find key for kafka/localhost" in line for line in lines(running, "authentication failed")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    at.realm.keytab(SERVICE, "gateway")
    assert topics(java, at, at.config_of("alice"), "--list").status == 0


def test_a_key_table_without_the_principal_ends_the_start(site: tuple[Site, RunningCluster]) -> None:
    _, running = site
    running.stop("gateway")
    service = running.local.service("gateway")
    key = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
    right = service.properties[key]
    service.properties[key] = right.replace(SERVICE, "kafka/elsewhere")
    running.start("gateway")
    log = running.directory.log_path("gateway")
    deadline = time.monotonic() + 60
    while "No key table entry found for kafka/elsewhere" not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.1)
    service.properties[key] = right
