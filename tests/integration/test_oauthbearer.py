"""OAUTHBEARER by real clients: Java's own login with a token in a file, librdkafka with a callback, `barnabas` with a
file and with a token endpoint.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from barnabas_cli.local.layout import HOST
from barnabas_pipeline.core.options import Use, read_options, write_options
from barnabas_pipeline.kafka.cluster_client import ClusterClient
from barnabas_pipeline.kafka.librdkafka_config import librdkafka_config
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


class _TokenEndpoint(BaseHTTPRequestHandler):
    """Grants a token to the client `orders`; `made` has those that were granted."""

    def __init__(self, create: Callable[[], str], made: list[str], *arguments: Any) -> None:
        self._create = create
        self._made = made
        super().__init__(*arguments)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        is_known = self.headers["Authorization"] == "Basic b3JkZXJzOnNlY3JldA=="
        self.send_response(200 if is_known else 401)
        self.end_headers()
        if is_known:
            self._made.append(self._create())
            self.wfile.write(json.dumps({"access_token": self._made[-1], "token_type": "Bearer"}).encode())
        else:
            self.wfile.write(b'{"error": "invalid_client"}')

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def token_endpoint(create: Callable[[], str]) -> Iterator[tuple[str, list[str]]]:
    """Yield its URL and the tokens that it has granted."""
    made: list[str] = []
    with ThreadingHTTPServer((HOST, 0), partial(_TokenEndpoint, create, made)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://{HOST}:{server.server_port}/token", made
        server.shutdown()
        thread.join()


def client_file(at: Site, url: str, **more: str) -> str:
    """Return the path of a client's properties."""
    given = {
        "bootstrap.servers": at.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": url,
        **more,
    }
    path = at.directory / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    return str(path)


def test_the_command_line_by_a_file_with_a_token(site: tuple[Site, RunningCluster]) -> None:
    at, running = site
    token_file = at.directory / "cli.jwt"
    config = client_file(at, token_file.as_uri())
    token_file.write_text(at.token(sub="dora") + "\n")
    produced = running.cli("produce", "by-file", "--config", config, stdin="hello\n")
    assert produced.returncode == 0, produced.stderr
    assert running.cli("consume", "by-file", "--config", config, "--exit").stdout == "hello\n"
    assert any("User:dora" in line for line in at.lines(running, "authenticated"))
    token_file.write_text(at.token(aud="somebody"))
    refused = running.cli("consume", "by-file", "--config", config, "--exit")
    assert refused.returncode == 1
    assert '{"status":"invalid_token"}' in refused.stderr
    token_file.unlink()
    assert "No such file" in running.cli("consume", "by-file", "--config", config, "--exit").stderr


def test_the_command_line_by_client_credentials_authenticates_again(site: tuple[Site, RunningCluster]) -> None:
    """A session ends with its token: a consumer that waits for longer has to have another token by then (KIP-368)."""
    at, running = site
    with token_endpoint(lambda: at.token(5, sub="emil")) as (url, made):
        names = {"id": "sasl.oauthbearer.client.id", "secret": "sasl.oauthbearer.client.secret"}
        config = client_file(at, url, **{names["id"]: "orders", names["secret"]: "secret"})
        assert running.cli("produce", "granted", "--config", config, stdin="1\n").returncode == 0
        granted = len(made)
        late = threading.Timer(9, lambda: running.cli("produce", "granted", "--config", config, stdin="2\n"))
        late.start()
        consumed = running.cli("consume", "granted", "--config", config, "--count", "2")
        late.join()
        assert (consumed.returncode, consumed.stdout) == (0, "1\n2\n"), consumed.stderr
        assert len(made) >= granted + 3
        config = client_file(at, url, **{names["id"]: "orders", names["secret"]: "guess"})
        refused = running.cli("consume", "granted", "--config", config, "--exit")
        assert refused.returncode == 1
        assert "HTTP 401 invalid_client" in refused.stderr
        assert "guess" not in refused.stderr
    assert any("User:emil" in line for line in at.lines(running, "authenticated"))


def test_the_pipelines_clients_by_a_file_with_a_token(site: tuple[Site, RunningCluster]) -> None:
    """Rows are written by librdkafka, whose tokens come from a callback, and read by the pipeline's own client."""
    from confluent_kafka import Producer

    at, running = site
    token_file = at.directory / "pipeline.jwt"
    token_file.write_text(at.token(8, sub="fritz"))
    given = {
        "kafka.bootstrap.servers": at.bootstrap,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": token_file.as_uri(),
    }
    producer = Producer(librdkafka_config(write_options(given).producer))
    with ClusterClient(read_options({**given, "subscribe": "rows"}, Use.BATCH).client) as client:
        for count in (1, 2):
            producer.produce("rows", b"x", partition=0)
            assert producer.flush(30) == 0
            found = client.topics(["rows"])
            assert client.extents(found)["rows"].latest == {0: count}
            # What was connected by the first token has to have another one by now.
            token_file.write_text(at.token(600, sub="fritz"))
            for _ in range(100):
                producer.poll(0.1)
    assert len([line for line in at.lines(running, "authenticated") if "User:fritz" in line]) >= 4
