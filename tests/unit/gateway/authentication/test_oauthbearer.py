"""OAUTHBEARER (RFC 7628) on connections, its configuration, and where the keys come from."""

from __future__ import annotations

import asyncio
import http.server
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from barnabas.runtime.tokens.verification_keys import KEYS_BYTES_MAX
from barnabas.wire.codec import encode_request
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas_cli.local.certificates import create_authority, issue, write_authority
from barnabas_gateway.core.model.config import OAuthConfig, SaslConfig
from barnabas_gateway.core.requests.costly_tokens import CHECKS_PER_TURN
from barnabas_gateway.core.sasl.oauthbearer import AccessToken, InvalidToken, OAuthBearerServer
from barnabas_gateway.core.sasl.sasl_server import SaslFailure
from barnabas_gateway.shell import containment
from barnabas_gateway.shell.oauth import key_sources
from barnabas_gateway.shell.oauth.key_sources import JwksSource
from tests.unit.gateway.authentication.access_tokens import EC, RSA, jwks
from tests.unit.gateway.authentication.test_listener_security import listeners, refusal
from tests.unit.gateway.authentication.test_sasl_connections import authenticate, handshake, is_served, principal
from tests.unit.gateway.world import LISTENER, WALL_MS, World
from tests.unit.runtime.containment_counts import Counted

CONFIG = OAuthConfig("file:///keys", "issuer", ("kafka",))
STATUS = b'{"status":"invalid_token"}'


def validate(oauth: OAuthConfig, token: str) -> AccessToken:
    if token != "good":
        raise InvalidToken("it is not good")
    return AccessToken("alice", WALL_MS + 60_000)


def message(token: str = "good", header: str = "n,,", *pairs: str) -> bytes:
    return "\x01".join([header, f"auth=Bearer {token}", *pairs, "", ""]).encode()


def server() -> OAuthBearerServer:
    return OAuthBearerServer(CONFIG, validate)


@pytest.mark.parametrize(
    "token",
    [
        message(),
        message("good", "n,a=alice,"),
        message("good", "n,,", "traceId=123", "k=v"),
        b"n,,\x01auth=bearer  good\x01\x01",
    ],
)
def test_who_has_a_valid_token_is_its_principal(token: bytes) -> None:
    at = server()
    assert at.respond(token) == b""
    assert (at.user, at.expires_ms) == ("alice", WALL_MS + 60_000)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\xff",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer good",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,\x01auth=Bearer good\x01\x01\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"n,a=,\x01auth=Bearer good\x01\x01",
        b"n,a=b=,\x01auth=Bearer good\x01\x01",
        message("good", "n,a=mallory,"),
        message("good", "n,,", "k1=v"),
        message("good", "n,,", "key"),
        message("good", "n,,", *["k=v"] * 101),
        "n,,\x01auth=Bearer göod\x01\x01".encode(),
    ],
)
def test_what_is_refused(token: bytes) -> None:
    at = server()
    with pytest.raises(SaslFailure):
        at.respond(token)
    assert at.user is None


def framed(*buffers: bytes | memoryview) -> bytes:
    return b"".join(buffers)


def world() -> World:
    sasl = SaslConfig(("OAUTHBEARER",), oauth=CONFIG, reauthentication_ms_by_mechanism={"OAUTHBEARER": 600_000})
    return World(listeners=(replace(LISTENER, sasl=sasl),), validate_token=validate)


def test_a_session_ends_with_the_token() -> None:
    at = world()
    client = at.client()
    assert handshake(client, "OAUTHBEARER").error_code == 0
    answer = authenticate(client, message())
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 60_000)
    assert principal(at, client) == "User:alice"
    assert is_served(client)
    at.pass_ms(30_000)
    assert handshake(client, "OAUTHBEARER").error_code == 0
    assert authenticate(client, message()).error_code == 0
    at.pass_ms(61_000)
    assert not is_served(client)


def test_a_client_with_another_token_gets_a_status_and_is_refused() -> None:
    at = world()
    client = at.client()
    handshake(client, "OAUTHBEARER")
    answer = authenticate(client, message("stolen"))
    assert (answer.error_code, bytes(answer.auth_bytes)) == (0, STATUS)
    assert principal(at, client) == "User:ANONYMOUS"
    assert authenticate(client, b"\x01") is None
    at.pass_ms(200)
    refused = client.answers[-1]
    assert (refused.error_code, refused.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, STATUS.decode())
    (line,) = [each for each in at.logs if each.event == "authentication failed"]
    assert line.fields["reason"] == "invalid token: it is not good"
    assert "stolen" not in str(at.logs)


def test_of_many_tokens_at_once_a_few_are_checked_in_each_turn() -> None:
    at = world()
    checked: list[str] = []

    def count_and_validate(oauth: OAuthConfig, token: str) -> AccessToken:
        checked.append(token)
        return validate(oauth, token)

    at = World(listeners=at.processor.config.listeners, validate_token=count_and_validate)
    clients = [at.client() for _ in range(3 * CHECKS_PER_TURN)]
    for client in clients:
        handshake(client, "OAUTHBEARER")
        client.take = lambda _buffers: None  # type: ignore[method-assign]
    requests = [SaslAuthenticateRequest(message("good" if number % 2 else "bad")) for number in range(len(clients))]
    for client, request in zip(clients, requests, strict=True):
        frame = encode_request(request, 2, 9, "c")
        at.processor.bytes_received(client.connection_id, framed(*frame), at.now_ms)
    assert len(checked) == CHECKS_PER_TURN
    clients[-1].close()
    at.turn()
    for turns in range(1, 4):
        assert len(checked) <= (turns + 1) * CHECKS_PER_TURN
        at.pass_ms(10)
    at.pass_ms(200)
    assert len(checked) == len(clients) - 1
    users = [principal(at, each) for each in clients[:-1]]
    assert users == (["User:ANONYMOUS", "User:alice"] * len(clients))[: len(users)]


def test_a_token_that_meets_a_fault_in_a_later_turn_costs_its_connection() -> None:
    """That turn belongs to no connection: what leaves it ends the processor."""
    asked: list[str] = []

    def fail_in_later_turns(oauth: OAuthConfig, token: str) -> AccessToken:
        asked.append(token)
        if len(asked) > CHECKS_PER_TURN:
            raise RuntimeError("a fault of ours")
        return validate(oauth, token)

    at = World(listeners=world().processor.config.listeners, validate_token=fail_in_later_turns)
    at.expects_fault = True
    clients = [at.client() for _ in range(CHECKS_PER_TURN + 2)]
    for client in clients:
        handshake(client, "OAUTHBEARER")
    frame = encode_request(SaslAuthenticateRequest(message()), 2, 9, "c")
    for client in clients:
        client.take = lambda _buffers: None  # type: ignore[method-assign]
        at.processor.bytes_received(client.connection_id, framed(*frame), at.now_ms)
    at.turn()
    at.pass_ms(10)
    assert [client.is_closed for client in clients] == [False] * CHECKS_PER_TURN + [True] * 2
    assert [each.place.name for each in at.contained] == ["gateway.connection"] * 2


def test_a_client_that_does_not_wait_for_the_check_is_refused() -> None:
    """Its tokens have no headers: nothing else holds the second one back."""
    at = world()
    fillers = [at.client() for _ in range(CHECKS_PER_TURN)]
    for each in fillers:
        handshake(each, "OAUTHBEARER")
        each.take = lambda _buffers: None  # type: ignore[method-assign]
    client = at.client()
    handshake(client, "OAUTHBEARER", 0)
    for each in fillers:
        frame = encode_request(SaslAuthenticateRequest(message("bad")), 2, 9, "c")
        at.processor.bytes_received(each.connection_id, framed(*frame), at.now_ms)
    token = framed(len(message()).to_bytes(4, "big"), message())
    at.processor.bytes_received(client.connection_id, token, at.now_ms)
    at.processor.bytes_received(client.connection_id, token, at.now_ms)
    at.pass_ms(300)
    assert client.is_closed
    assert not any(line.event == "authenticated" for line in at.logs)


def test_after_a_status_no_token_is_taken() -> None:
    at = server()
    assert at.respond(message("stolen")) == STATUS
    with pytest.raises(SaslFailure):
        at.respond(message())
    assert at.user is None


# --- configuration ---

KEYS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://issuer.example/keys",
    "sasl.oauthbearer.expected.issuer": "https://issuer.example",
    "sasl.oauthbearer.expected.audience": "kafka,other",
}
OWN = "listener.name.clients."
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


def test_keys_for_all_listeners_for_one_and_for_its_mechanism() -> None:
    own = {
        OWN + "sasl.oauthbearer.expected.audience": "mine",
        OWN + "oauthbearer.sasl.oauthbearer.clock.skew.seconds": "5",
        OWN + "oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
        OWN + "oauthbearer.sasl.jaas.config": f"{MODULE} required ;",
    }
    sasl = listeners(**KEYS, **own)["CLIENTS"].sasl
    assert sasl is not None
    issuer = "https://issuer.example"
    assert sasl.oauth == OAuthConfig(f"{issuer}/keys", issuer, ("mine",), clock_skew_s=5)


@pytest.mark.parametrize("prefix", [OWN, OWN + "oauthbearer."])
def test_keys_of_kafka_that_allow_any_issuer_and_audience_change_nothing(prefix: str) -> None:
    """As in Kafka 4.4, where the issuer and the audience are set. Where they are not, a gateway does not start."""
    keys = {key: text for key, text in KEYS.items() if "expected" not in key}
    expected = {key: text for key, text in KEYS.items() if "expected" in key}
    allowed = {prefix + f"sasl.oauthbearer.allow.unverified.{each}": "true" for each in ("issuer", "audience")}
    assert listeners(**keys, **expected, **allowed) == listeners(**KEYS)
    for missing in expected:
        said = refusal(**{key: text for key, text in (KEYS | allowed).items() if key != missing})
        assert f"{missing} is needed for OAUTHBEARER" in said
        assert f"{missing.replace('expected', 'allow.unverified')} does not replace it" in said


@pytest.mark.parametrize("missing", list(KEYS)[1:])
def test_without_keys_issuer_and_audience_a_gateway_does_not_start(missing: str) -> None:
    assert missing in refusal(**{key: text for key, text in KEYS.items() if key != missing})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": "http://issuer.example/keys"}, "expected https"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "keys.json"}, "expected https"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file://elsewhere/keys"}, "expected https"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "https:///keys"}, "expected https"),
        ({OWN + "sasl.oauthbearer.clock.skew.seconds": "-1"}, "expected a number"),
        ({OWN + "sasl.oauthbearer.expected.audience": " , "}, "audience"),
        (
            {
                OWN + "oauthbearer.sasl.server.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
                "internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
            },
            "expected org.apache",
        ),
        (
            {
                OWN + "oauthbearer.sasl.jaas.config": f'{MODULE} required unsecuredLoginStringClaim_sub="x";',
            },
            "unsecuredLoginStringClaim_sub is an option of clients",
        ),
    ],
)
def test_what_a_gateway_refuses(changed: dict[str, str], said: str) -> None:
    assert said in refusal(**(KEYS | changed))


# --- keys ---


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


def count(source: JwksSource) -> int:
    return 0 if source.keys is None else len(source.keys)


def test_keys_of_a_file_are_read_when_it_is_there_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sources, "_FILE_S", 0.05)
    path = tmp_path / "key set.json"

    async def scene() -> None:
        source = JwksSource(replace(CONFIG, jwks_url=path.as_uri(), retry_ms=10))
        await asyncio.sleep(0.1)
        assert source.keys is None
        path.write_bytes(jwks(RSA))
        await until(lambda: count(source) == 1)
        path.write_bytes(b"{")
        await asyncio.sleep(0.2)
        assert count(source) == 1, "the last good ones stay"
        path.write_bytes(jwks(RSA, EC))
        await until(lambda: count(source) == 2)
        path.write_bytes(jwks(RSA) + b" " * KEYS_BYTES_MAX)
        await asyncio.sleep(0.2)
        assert count(source) == 2
        source.stop()

    asyncio.run(scene())


class Endpoint:
    """An HTTPS server with keys, and a path that redirects to them."""

    def __init__(self, directory: Path) -> None:
        self.content = jwks(RSA)
        self.raw = b""
        """Written as it is, instead of an answer."""
        self.requests = 0
        at = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                at.requests += 1
                if at.raw:
                    self.wfile.write(at.raw)
                    return
                if self.path == "/moved":
                    self.send_response(302)
                    self.send_header("Location", "/keys")
                    self.end_headers()
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(at.content)))
                self.end_headers()
                self.wfile.write(at.content)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(http.server.HTTPServer):
            def handle_error(self, *_: Any) -> None:
                """A client has refused the handshake."""

        self.server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "issuer.pem")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path: str = "/keys") -> str:
        return f"https://127.0.0.1:{self.server.server_port}{path}"


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    now = datetime.fromtimestamp(time.time(), UTC)
    authority = create_authority("test", now)
    write_authority(tmp_path, authority)
    (tmp_path / "issuer.pem").write_bytes(issue(authority, "issuer", ("127.0.0.1",), now))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))
    made = Endpoint(tmp_path)
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_keys_by_https_are_read_again_in_time_and_when_one_is_missing(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_sources, "MISSING_KEY_S", 0.1)

    async def scene() -> None:
        source = JwksSource(replace(CONFIG, jwks_url=endpoint.url()))
        await until(lambda: count(source) == 1)
        endpoint.content = jwks(RSA, EC)
        await asyncio.sleep(0.3)
        assert (count(source), endpoint.requests) == (1, 1)
        source.key_missing()
        source.key_missing()
        await until(lambda: count(source) == 2)
        assert endpoint.requests == 2
        source.stop()
        often = JwksSource(replace(CONFIG, jwks_url=endpoint.url(), refresh_ms=50))
        await until(lambda: endpoint.requests >= 5)
        often.stop()

    asyncio.run(scene())


@pytest.mark.parametrize("raw", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n{"])
def test_an_issuer_that_does_not_speak_http_is_asked_again(endpoint: Endpoint, raw: bytes) -> None:
    """It was never asked again: the exceptions of http.client were none of those that are expected of the network."""

    async def scene() -> None:
        source = JwksSource(replace(CONFIG, jwks_url=endpoint.url(), retry_ms=10))
        endpoint.raw = raw
        await until(lambda: endpoint.requests >= 3)
        endpoint.raw = b""
        await until(lambda: count(source) == 1)
        source.stop()

    counted = Counted()
    asyncio.run(scene())
    assert counted.at(containment.KEYS) == 0


def test_neither_a_redirection_nor_an_unknown_authority_is_followed(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(url: str) -> int:
        source = JwksSource(replace(CONFIG, jwks_url=url, retry_ms=50))
        await asyncio.sleep(0.4)
        source.stop()
        return count(source)

    assert asyncio.run(scene(endpoint.url("/moved"))) == 0
    monkeypatch.delenv("SSL_CERT_FILE")
    assert asyncio.run(scene(endpoint.url())) == 0
