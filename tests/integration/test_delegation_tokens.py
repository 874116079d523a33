"""Delegation tokens (KIP-48) by Kafka's own tool and clients: created, described, used, renewed, ended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas_cli.local.layout import HOST
from tests.integration.kafka_tools import Done, KafkaTools
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.deep]

USERS = ("admin", "alice", "bob")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
SECRET_KEY = "the-key-of-all-tokens"


class Site:
    def __init__(self, directory: Path, tools: KafkaTools) -> None:
        self.directory = directory
        self.tools = tools
        self.bootstrap = ""

    def properties(self, first_port: int) -> dict[str, str]:
        self.bootstrap = f"{HOST}:{first_port}"
        users = " ".join(f'user_{user}="{user}-secret"' for user in USERS)
        return {
            "listeners": f"PLAINTEXT://{HOST}:{first_port - 80},SASL_PLAINTEXT://{self.bootstrap}",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{PLAIN} {users};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
            "delegation.token.secret.key": SECRET_KEY,
        }

    def _written(self, name: str, mechanism: str, jaas: str) -> str:
        path = self.directory / f"{name}.properties"
        path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas};\n")
        return str(path)

    def config_of(self, user: str) -> str:
        return self._written(user, "PLAIN", f'{PLAIN} username="{user}" password="{user}-secret"')

    def config_by(self, token_id: str, secret: str, mechanism: str) -> str:
        jaas = f'{SCRAM} username="{token_id}" password="{secret}" tokenauth="true"'
        return self._written("token", mechanism, jaas)

    def tokens(self, config: str, *arguments: str) -> Done:
        """Run kafka-delegation-tokens.sh."""
        return self.tools.run(
            "org.apache.kafka.tools.DelegationTokenCommand",
            "--bootstrap-server",
            self.bootstrap,
            "--command-config",
            config,
            *arguments,
        )

    def created(self, config: str, *arguments: str) -> tuple[str, str]:
        """Return the id and the HMAC of a new token."""
        done = self.tokens(config, "--create", "--max-life-time-period", "-1", *arguments)
        assert done.status == 0, done
        row = re.search(r"^(\S+)\s+([A-Za-z0-9+/]{86}==)\s+User:", done.stdout, re.MULTILINE)
        assert row is not None, done.stdout
        return row[1], row[2]

    def topics(self, config: str) -> Done:
        """Run kafka-topics.sh --list."""
        return self.tools.run(
            "org.apache.kafka.tools.TopicCommand",
            "--bootstrap-server",
            self.bootstrap,
            "--command-config",
            config,
            "--list",
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, kafka_tools: KafkaTools) -> Iterator[tuple[Site, RunningCluster]]:
    made = Site(tmp_path_factory.mktemp("clients"), kafka_tools)
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1, made.properties) as running:
        yield made, running


def test_kafka_delegation_tokens(site: tuple[Site, RunningCluster]) -> None:
    at, running = site
    alice, admin = at.config_of("alice"), at.config_of("admin")
    token_id, secret = at.created(alice, "--renewer-principal", "User:bob")
    # Without an owner the tool asks for the tokens of an empty list of owners, and Kafka too returns none.
    described = at.tokens(alice, "--describe", "--owner-principal", "User:alice").stdout
    assert token_id in described
    assert secret in described
    assert "User:bob" in described
    assert token_id not in at.tokens(at.config_of("admin"), "--describe", "--owner-principal", "User:admin").stdout
    assert token_id in at.tokens(admin, "--describe", "--owner-principal", "User:alice").stdout, "a super user sees all"

    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        by_token = at.config_by(token_id, secret, mechanism)
        assert at.topics(by_token).status == 0
    refused = at.tokens(by_token, "--create", "--max-life-time-period", "-1")
    assert "not allowed" in refused.stdout + refused.stderr
    renewed = at.tokens(at.config_of("bob"), "--renew", "--renew-time-period", "3600000", "--hmac", secret)
    assert renewed.status == 0, renewed
    mine = at.tokens(at.config_of("bob"), "--create", "--max-life-time-period", "-1", "--owner-principal", "User:alice")
    assert "Delegation Token authorization failed" in mine.stdout + mine.stderr
    other = at.tokens(admin, "--renew", "--renew-time-period", "-1", "--hmac", secret)
    assert "not valid Owner/Renewer" in other.stdout + other.stderr

    assert at.tokens(alice, "--expire", "--expiry-time-period", "-1", "--hmac", secret).status == 0
    ended = at.topics(at.config_by(token_id, secret, "SCRAM-SHA-256"))
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in ended.stdout + ended.stderr
    again = at.tokens(alice, "--expire", "--expiry-time-period", "-1", "--hmac", secret)
    assert "not found" in again.stdout + again.stderr
    for log in running.directory.log_path("gateway").parent.glob("*.log"):
        text = log.read_text()
        assert secret not in text, log
        assert SECRET_KEY not in text, log


def test_a_super_user_has_a_token_of_another(site: tuple[Site, RunningCluster]) -> None:
    """KIP-373: the client is then that user, and no super user."""
    at, running = site
    token_id, secret = at.created(at.config_of("admin"), "--owner-principal", "User:bob")
    assert at.topics(at.config_by(token_id, secret, "SCRAM-SHA-512")).status == 0
    log = running.directory.log_path("gateway").read_text()
    assert "User:bob" in log
