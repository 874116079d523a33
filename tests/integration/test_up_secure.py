"""`barnabas up --secure`: what it prints is enough for every client, and without it none is served."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from barnabas.cluster.jaas import SCRAM_MODULE
from barnabas.runtime.configuration.properties import parse_properties
from barnabas_cli.__main__ import main
from tests.integration.kafka_tools import KafkaTools
from tests.integration.running_cluster import RunningCluster

pytestmark = pytest.mark.deep
"""`test_secure_listeners` has a client on such a listener."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1, secure=True) as running:
        yield running


def properties(cluster: RunningCluster, name: str) -> dict[str, str]:
    return parse_properties((cluster.directory.secrets_path / name).read_text())


def test_the_commands_find_their_secrets(cluster: RunningCluster) -> None:
    assert cluster.cli("produce", "greetings", stdin="hello\n").returncode == 0
    assert cluster.cli("consume", "greetings", "--count", "1").stdout == "hello\n"
    assert cluster.status().healthy


@pytest.mark.parametrize("name", ["client.properties", "librdkafka.properties"])
def test_a_client_elsewhere_needs_the_file_alone(cluster: RunningCluster, name: str) -> None:
    path = str(cluster.directory.secrets_path / name)
    consumed = cluster.cli("produce", f"by-{name}", "--config", path, stdin="hello\n")
    assert consumed.returncode == 0, consumed.stderr
    assert cluster.cli("consume", f"by-{name}", "--config", path, "--exit").stdout == "hello\n"


def test_without_it_a_command_is_refused_and_says_why(cluster: RunningCluster) -> None:
    refused = cluster.cli("consume", "greetings", "--bootstrap", cluster.bootstrap, "--exit")
    assert refused.returncode == 1
    assert "does it need TLS" in refused.stderr


def test_another_password_is_refused(cluster: RunningCluster) -> None:
    path = cluster.directory.path.parent / "guess.properties"
    given = properties(cluster, "librdkafka.properties") | {"sasl.password": "guess"}
    path.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    refused = cluster.cli("consume", "greetings", "--config", str(path), "--exit")
    assert refused.returncode == 1
    assert "invalid credentials" in refused.stderr


def test_librdkafka_by_the_printed_properties(cluster: RunningCluster) -> None:
    from confluent_kafka import Producer

    config: dict[str, Any] = dict(properties(cluster, "librdkafka.properties"))
    producer = Producer(config)
    failures: list[Any] = []
    producer.produce("greetings", b"x", on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(20) == 0
    assert not failures


def test_kcat_by_the_printed_properties(cluster: RunningCluster) -> None:
    """Debian's, whose librdkafka 2.0.2 fails with SCRAM, by PLAIN, as the file says."""
    program = shutil.which("kcat")
    if program is None:
        pytest.skip("no kcat on PATH")
    path = str(cluster.directory.secrets_path / "librdkafka.properties")
    command = [program, "-F", path, "-X", "sasl.mechanism=PLAIN", "-L"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert listed.returncode == 0, listed.stderr
    assert f"broker 0 at 127.0.0.1:{cluster.local.layout.kafka_port + 1}" in listed.stdout


def test_javas_tools_by_the_printed_properties(cluster: RunningCluster, kafka_tools: KafkaTools) -> None:
    path = str(cluster.directory.client_properties_path)
    said = kafka_tools.output(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", cluster.bootstrap, "--command-config", path,
        "--create", "--topic", "java",
    )  # fmt: skip
    assert "Created topic java" in said


def test_prometheus_scrapes_by_its_written_configuration_and_none_without(cluster: RunningCluster) -> None:
    """All services, by TLS with a certificate; the archive of `barnabas doctor --bundle` has the same."""
    (job,) = json.loads((cluster.directory.secrets_path / "prometheus.yml").read_text())["scrape_configs"]
    files, (targets,) = job["tls_config"], [each["targets"] for each in job["static_configs"]]
    assert len(targets) == 4
    without = ssl.create_default_context(cafile=files["ca_file"])
    trusted = ssl.create_default_context(cafile=files["ca_file"])
    trusted.load_cert_chain(files["cert_file"], files["key_file"])
    for target in targets:
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted)
        )
        with opener.open(f"{job['scheme']}://{target}/metrics", timeout=60) as response:
            assert b"barnabas_build_info" in response.read()
        refusing = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=without)
        )
        with pytest.raises(OSError):
            refusing.open(f"https://{target}/metrics", timeout=60)
    written = cluster.directory.path / "bundle.tar.gz"
    assert cluster.cli("doctor", "--bundle", str(written)).returncode == 0
    with tarfile.open(written) as archive:
        scraped = [each for each in archive.getmembers() if "/metrics/" in each.name and each.size > 1000]
    assert len(scraped) == 4


def test_the_gateway_returns_its_health_to_certificates_alone(cluster: RunningCluster) -> None:
    secrets, address = cluster.directory.secrets_path, f"127.0.0.1:{cluster.local.layout.gateway_ops_port}"
    scraper = str(secrets / "scraper.pem")
    trusting = ("--tls-authority", str(secrets / "ca.crt"))
    own = ("--tls-certificate", scraper, "--tls-key", scraper)
    assert CliRunner().invoke(main, ["probe", address, *trusting, *own]).output == "SERVING\n"
    assert CliRunner().invoke(main, ["probe", address, *trusting]).exit_code == 1
    assert CliRunner().invoke(main, ["probe", address]).exit_code == 1


def test_delegation_tokens_by_kafkas_own_tool(cluster: RunningCluster, kafka_tools: KafkaTools) -> None:
    """The key that `up` made is a secret: neither in the configuration nor in the output of any command."""
    admin = ("--bootstrap-server", cluster.bootstrap, "--command-config", str(cluster.directory.client_properties_path))
    tool = "org.apache.kafka.tools.DelegationTokenCommand"
    created = kafka_tools.output(
        tool, *admin, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
    )
    token_id, hmac, *rest = created.strip().splitlines()[-1].split()
    assert rest[0] == "User:admin"
    described = kafka_tools.output(tool, *admin, "--describe", "--owner-principal", "User:admin")
    assert token_id in described
    path = cluster.directory.path / "token.properties"
    jaas = f'{SCRAM_MODULE} required username="{token_id}" password="{hmac}" tokenauth="true";'
    lines = {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": str(cluster.directory.secrets_path / "ca.crt"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": jaas,
    }
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    produced = cluster.cli("produce", "by-token", "--config", str(path), stdin="hello\n")
    assert produced.returncode == 0, produced.stderr
    key = properties(cluster, "gateway.properties")["delegation.token.secret.key"]
    assert key not in cluster.directory.config_path("gateway").read_text()
    assert key not in cluster.cli("up", "--secure").stdout


def test_a_start_after_a_stop_has_the_same_secrets(cluster: RunningCluster) -> None:
    before = cluster.directory.client_properties_path.read_text()
    assert cluster.cli("produce", "kept", stdin="hello\n").returncode == 0
    cluster.stop("gateway")
    cluster.up()
    assert cluster.directory.client_properties_path.read_text() == before
    assert cluster.cli("consume", "kept", "--count", "1").stdout == "hello\n"


def test_only_the_owner_reads_the_secrets(cluster: RunningCluster) -> None:
    path = cluster.directory.secrets_path
    assert path.stat().st_mode & 0o077 == 0
    for name in ("ca.key", "gateway.pem", "gateway.properties", "client.properties", "librdkafka.properties"):
        assert (path / name).stat().st_mode & 0o077 == 0


def test_only_the_owner_reads_records_logs_and_sockets(cluster: RunningCluster) -> None:
    assert cluster.cli("produce", "private", stdin="hello\n").returncode == 0
    found = [cluster.directory.path, *cluster.directory.path.rglob("*")]
    assert any(path.name.endswith(".log") and path.parent.name == "private-0" for path in found)
    assert [str(path) for path in found if path.lstat().st_mode & 0o077 and not path.is_symlink()] == []


def test_another_user_may_do_what_its_acls_say(cluster: RunningCluster, kafka_tools: KafkaTools) -> None:
    """SCRAM says who it is, an ACL what it may do: both by Kafka's own tools, as the user that `up` has created."""
    admin = ("--bootstrap-server", cluster.bootstrap, "--command-config", str(cluster.directory.client_properties_path))
    kafka_tools.output(
        "org.apache.kafka.tools.ConfigCommand", *admin, "--alter", "--entity-type", "users", "--entity-name", "dave",
        "--add-config", "SCRAM-SHA-512=[password=dave-secret]",
    )  # fmt: skip
    given = properties(cluster, "librdkafka.properties") | {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "dave",
        "sasl.password": "dave-secret",
    }
    path = cluster.directory.path.parent / "dave.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    assert cluster.cli("produce", "daves", stdin="x\n").returncode == 0
    denied = cluster.cli("consume", "daves", "--config", str(path), "--exit")
    assert denied.returncode == 1
    assert "TOPIC_AUTHORIZATION_FAILED" in denied.stderr
    kafka_tools.output(
        "org.apache.kafka.tools.AclCommand", *admin, "--add", "--allow-principal", "User:dave",
        "--operation", "Read", "--topic", "daves",
    )  # fmt: skip
    assert cluster.cli("consume", "daves", "--config", str(path), "--exit").stdout == "x\n"
    assert cluster.cli("produce", "daves", "--config", str(path), stdin="y\n").returncode == 1
