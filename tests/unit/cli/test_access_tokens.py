"""Access tokens of the command line and the pipeline: from a token endpoint by client credentials, or from a file."""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from barnabas.client.access_tokens import TokenSource
from barnabas.client.sasl import OAuthBearerClient
from barnabas.cluster.access.client_properties import SECURITY_PROPERTIES, librdkafka_properties
from barnabas.cluster.access.token_properties import TOKEN_PROPERTIES, TokenSettings, token_settings
from barnabas_pipeline.kafka.librdkafka_config import librdkafka_config

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
URL = "https://login.example.com/token"
JAVAS = {
    "sasl.oauthbearer.token.endpoint.url": URL,
    "sasl.oauthbearer.client.credentials.client.id": "orders",
    "sasl.oauthbearer.client.credentials.client.secret": "s3:cret",
    "sasl.oauthbearer.scope": "kafka",
}
LIBRDKAFKAS = {
    "sasl.oauthbearer.method": "OIDC",
    "sasl.oauthbearer.token.endpoint.url": URL,
    "sasl.oauthbearer.client.id": "orders",
    "sasl.oauthbearer.client.secret": "s3:cret",
    "sasl.oauthbearer.scope": "kafka",
}
IN_JAAS = {
    "sasl.oauthbearer.token.endpoint.url": URL,
    "sasl.jaas.config": f'{MODULE} clientId="orders" clientSecret="s3:cret" scope="kafka";',
}


def jwt(expires_s: float) -> str:
    parts = ({"alg": "RS256"}, {"exp": expires_s}, {})
    return ".".join(urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts)


class Issuer(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Endpoint)
        self.status = 200
        self.answers: list[Any] = []
        self.requests: list[tuple[str, dict[str, list[str]]]] = []

    @property
    def settings(self) -> TokenSettings:
        return TokenSettings(f"http://127.0.0.1:{self.server_port}/token", "orders", "s3:cret", "kafka")


class _Endpoint(BaseHTTPRequestHandler):
    server: Issuer

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.requests.append((self.headers["Authorization"], form))
        answer = self.server.answers.pop(0)
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    server = Issuer()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("given", [JAVAS, LIBRDKAFKAS, IN_JAAS])
def test_client_credentials_by_javas_and_by_librdkafkas_names(given: dict[str, str]) -> None:
    found = token_settings(given)
    assert (found.url, found.client_id, found.client_secret, found.scope) == (URL, "orders", "s3:cret", "kafka")
    assert "s3:cret" not in repr(found)


def test_what_librdkafka_is_given_says_the_same() -> None:
    extensions = {"sasl.oauthbearer.extensions": "logicalCluster=lkc-1,poolId=p2"}
    given = JAVAS | extensions | {"sasl.oauthbearer.header.urlencode": "TRUE", "https.ca.location": "/ca.pem"}
    renamed = librdkafka_properties({"sasl.mechanism": "OAUTHBEARER", "ssl.truststore.location": "/kafka.pem"} | given)
    assert renamed.pop("sasl.mechanisms") == "OAUTHBEARER"
    assert renamed.pop("ssl.ca.location") == "/kafka.pem"
    assert token_settings(renamed) == token_settings(given)
    assert token_settings(given).extensions == (("logicalCluster", "lkc-1"), ("poolId", "p2"))
    assert set(TOKEN_PROPERTIES) < set(SECURITY_PROPERTIES)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"token.endpoint.url=: expected https://HOST"),
        ({"sasl.oauthbearer.token.endpoint.url": "token.jwt"}, "expected https://HOST"),
        ({"sasl.oauthbearer.token.endpoint.url": "file://host/token"}, "expected https://HOST"),
        ({"sasl.oauthbearer.token.endpoint.url": URL}, "client.secret are needed"),
        (JAVAS | {"sasl.oauthbearer.jwt.retriever.class": "x.JwtBearerJwtRetriever"}, "expected .*DefaultJwtRetriever"),
        (JAVAS | {"sasl.login.callback.handler.class": "com.example.Login"}, "expected .*OAuthBearerLoginCallback"),
        (LIBRDKAFKAS | {"sasl.oauthbearer.grant.type": "jwt-bearer"}, "expected client_credentials"),
        (IN_JAAS | {"sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="a";'}, "unsecuredLoginStringClaim"),
        (IN_JAAS | {"sasl.jaas.config": "x.Other required;"}, "OAuthBearerLoginModule"),
        (JAVAS | {"sasl.oauthbearer.extensions": "auth=x"}, "nor auth"),
    ],
)
def test_what_can_not_be_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        token_settings(given)
    assert "s3:cret" not in str(raised.value)


def test_a_token_is_requested_by_client_credentials_and_used_until_most_of_its_life_is_over(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s)
    issuer.answers = [{"access_token": "one", "expires_in": 100}, {"access_token": jwt(now_s + 500)}]
    source = TokenSource(issuer.settings)
    assert source.token().text == "one"
    assert source.token().expires_s == now_s + 100
    now_s += 79
    assert source.token().text == "one"
    now_s += 2
    assert source.token().expires_s == pytest.approx(now_s + 500 - 81)
    authorization, form = issuer.requests[0]
    assert b64decode(authorization.removeprefix("Basic ")) == b"orders:s3:cret"
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}
    assert len(issuer.requests) == 2


def test_id_and_secret_are_encoded_where_the_issuer_needs_it(issuer: Issuer) -> None:
    issuer.answers = [{"access_token": "one"}]
    settings = issuer.settings
    source = TokenSource(TokenSettings(settings.url, "a b", "s3:cret", is_header_encoded=True))
    assert source.token().text == "one"
    authorization, form = issuer.requests[0]
    assert b64decode(authorization.removeprefix("Basic ")) == b"a+b:s3%3Acret"
    assert form == {"grant_type": ["client_credentials"]}


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (401, {"error": "invalid_client", "error_description": "no\nsuch"}, "HTTP 401 invalid_client: nosuch"),
        (500, b"<html>", "HTTP 500 Internal Server Error"),
        (302, b"", "HTTP 302"),
        (200, b"<html>", "no access_token"),
        (200, {"token": "x"}, "no access_token"),
        (200, [1], "no access_token"),
        (200, {"access_token": "a\x01b c"}, "no access token"),
        (200, {"access_token": ""}, "no access token"),
        (200, b" " * (2 << 20), "larger than"),
    ],
)
def test_an_endpoint_that_gives_no_token_is_named(issuer: Issuer, status: int, answer: Any, message: str) -> None:
    issuer.status, issuer.answers = status, [answer]
    with pytest.raises(OSError, match=message) as raised:
        TokenSource(issuer.settings).token()
    assert issuer.settings.url in str(raised.value)
    assert "s3:cret" not in str(raised.value)


def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    path.write_text(f"{jwt(1234)}\n")
    source = TokenSource(token_settings({"sasl.oauthbearer.token.endpoint.url": path.as_uri()}))
    assert source.token().expires_s == 1234
    path.write_text("opaque")
    assert (source.token().text, source.token().expires_s) == ("opaque", None)
    path.write_text("\n")
    with pytest.raises(OSError, match="has no access token"):
        source.token()
    path.unlink()
    with pytest.raises(OSError, match="a token"):
        source.token()


def test_clients_of_librdkafka_get_their_tokens_by_a_callback(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(jwt(1234))
    given = {
        "sasl.mechanism": "OAUTHBEARER",
        "security.protocol": "SASL_SSL",
        "sasl.oauthbearer.token.endpoint.url": path.as_uri(),
        "sasl.oauthbearer.extensions": "poolId=p2",
    }
    config = librdkafka_config(librdkafka_properties(given))
    assert config.pop("oauth_cb")("") == (jwt(1234), 1234, "", {"poolId": "p2"})
    assert config == {"sasl.mechanisms": "OAUTHBEARER", "security.protocol": "SASL_SSL"}
    assert librdkafka_config({"sasl.mechanisms": "PLAIN"}) == {"sasl.mechanisms": "PLAIN"}


def test_the_exchange() -> None:
    client = OAuthBearerClient("a.b.c", [("poolId", "p2")])
    assert client.first_token() == b"n,,\x01auth=Bearer a.b.c\x01poolId=p2\x01\x01"
    assert client.next_token(b'{"status":"invalid_token"}') == b"\x01"
    assert client.next_token(b"") is None
