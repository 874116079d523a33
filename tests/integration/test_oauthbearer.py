"""OAUTHBEARER by real clients: Java's own login with a token in a file, and librdkafka with a callback."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from barnabas.cli.local.layout import HOST
from tests.integration.kafka_tools import KafkaTools
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.deep]

ISSUER = "https://issuer.example"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


class Site:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bootstrap = ""
        self.keys: list[RSAKey | ECKey] = [RSAKey.generate_key(2048, {"kid": "rsa-1"})]
        self.publish()

    def publish(self) -> None:
        values = {"keys": [key.as_dict(private=False) for key in self.keys]}
        (self.directory / "new.json").write_text(json.dumps(values))
        (self.directory / "new.json").replace(self.directory / "keys.json")

    def properties(self, first_port: int) -> dict[str, str]:
        self.bootstrap = f"{HOST}:{first_port}"
        return {
            "listeners": f"PLAINTEXT://{HOST}:{first_port - 80},SASL_PLAINTEXT://{self.bootstrap}",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.sasl_plaintext.sasl.oauthbearer.jwks.endpoint.url": (self.directory / "keys.json").as_uri(),
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": "kafka",
        }

    def token(self, seconds: float = 600, key: RSAKey | ECKey | None = None, **changed: Any) -> str:
        key = key or self.keys[-1]
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": "kafka", "sub": "alice", "iat": now, "exp": now + seconds, **changed}
        algorithm = "RS256" if isinstance(key, RSAKey) else "ES256"
        return jwt.encode({"alg": algorithm, "kid": key.kid}, claims, key)

    def librdkafka(self, create: Callable[[], str], seconds: float = 600) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (create(), time.time() + seconds),
        }

    def lines(self, running: RunningCluster, event: str) -> list[str]:
        return [line for line in running.directory.log_path("gateway").read_text().splitlines() if event in line]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, RunningCluster]]:
    made = Site(tmp_path_factory.mktemp("issuer"))
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1, made.properties) as running:
        yield made, running


def test_javas_own_login(site: tuple[Site, RunningCluster], monkeypatch: pytest.MonkeyPatch) -> None:
    at, running = site
    token_file = at.directory / "token.jwt"
    url = token_file.as_uri().replace("file:///", "file:/")
    monkeypatch.setenv(
        "JAVA_TOOL_OPTIONS",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url},{token_file.as_uri()} "
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={token_file}",
    )
    config = at.directory / "java.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={MODULE} ;\nsasl.login.callback.handler.class={LOGIN}\n"
        f"sasl.oauthbearer.token.endpoint.url={token_file.as_uri()}\n"
    )
    topics = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", at.bootstrap)
    topics = (*topics, "--command-config", str(config))
    with KafkaTools() as tools:
        token_file.write_text(at.token())
        assert tools.run(*topics, "--create", "--topic", "java").status == 0
        assert "java" in tools.output(*topics, "--list")
        token_file.write_text(at.token(aud="somebody"))
        refused = tools.run(*topics, "--list")
        assert '{"status":"invalid_token"}' in refused.stdout + refused.stderr
    assert any("User:alice" in line for line in at.lines(running, "authenticated"))
    assert any("invalid_claim" in line for line in at.lines(running, "authentication failed"))


def test_librdkafka_authenticates_again_before_its_token_ends(site: tuple[Site, RunningCluster]) -> None:
    """KIP-368: a session lasts as long as the token, and the producer does not notice."""
    from confluent_kafka import Producer

    at, running = site
    producer = Producer(at.librdkafka(lambda: at.token(4, sub="bob"), 4))
    failures: list[Any] = []
    until = time.monotonic() + 10
    while time.monotonic() < until:
        producer.produce("sessions", b"x", on_delivery=lambda error, _: failures.append(error) if error else None)
        producer.poll(0.1)
    assert producer.flush(20) == 0
    assert not failures
    assert len([line for line in at.lines(running, "authenticated") if "User:bob" in line]) >= 3


def test_a_new_key_of_the_issuer_is_found(site: tuple[Site, RunningCluster]) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    at, running = site
    stranger = RSAKey.generate_key(2048, {"kid": "rsa-1"})
    admin = AdminClient(at.librdkafka(lambda: at.token(key=stranger)))
    admin.poll(0)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
    at.keys.append(ECKey.generate_key("P-256", {"kid": "ec-1"}))
    at.publish()
    deadline = time.monotonic() + 20
    while not any("keys=2" in line or '"keys": 2' in line for line in at.lines(running, "keys of access tokens read")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    admin = AdminClient(at.librdkafka(lambda: at.token(sub="carol")))
    admin.poll(0)
    assert admin.list_topics(timeout=20).topics is not None
    assert any("User:carol" in line for line in at.lines(running, "authenticated"))
    text = running.directory.log_path("gateway").read_text()
    assert "eyJ" not in text, "a token in the log"
