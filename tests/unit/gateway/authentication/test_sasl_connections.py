"""SASL on connections: what a client may send and when, sessions, failures (KIP-43, KIP-152, KIP-306, KIP-368)."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from barnabas.client.sasl import ScramClient
from barnabas.cluster.scram import ScramMechanism, UserScramCredential, credential_of, salted_password
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas_gateway.core.model.config import SaslConfig
from tests.unit.gateway.world import LISTENER, Client, World

USERS = {"alice": "secret", "bob": "other"}
SASL = SaslConfig(("PLAIN", "SCRAM-SHA-256"), USERS)
VERSIONS = ApiVersionsRequest("test", "1")
SESSION_MS = 60_000


def world(sasl: SaslConfig = SASL, **config: Any) -> World:
    made = World(listeners=(replace(LISTENER, sasl=sasl),), **config)
    salt = b"0123456789"
    salted = salted_password(ScramMechanism.SHA_256, "pencil", salt, 4096)
    keys = credential_of(ScramMechanism.SHA_256, salted, salt, 4096)
    carols = UserScramCredential("carol", 1, 4096, salt, keys.stored_key, keys.server_key)
    made.processor.image.scram_credentials["carol", 1] = carols
    return made


def handshake(client: Client, mechanism: str = "PLAIN", version: int = 1) -> Any:
    client.ask(SaslHandshakeRequest(mechanism), ApiKey.SASL_HANDSHAKE, version)
    return client.answers[-1]


def authenticate(client: Client, token: bytes, version: int = 2) -> Any:
    answered = len(client.answers)
    client.ask(SaslAuthenticateRequest(token), ApiKey.SASL_AUTHENTICATE, version)
    return client.answers[answered] if len(client.answers) > answered else None


def log_in(client: Client, user: str = "alice") -> Any:
    assert handshake(client).error_code == 0
    return authenticate(client, f"\0{user}\0{USERS[user]}".encode())


def is_served(client: Client) -> bool:
    answered = len(client.answers)
    client.ask(MetadataRequest([]), ApiKey.METADATA, 12)
    return len(client.answers) > answered


def principal(of: World, client: Client) -> str:
    connection = of.processor.connections.find_connection(client.connection_id)
    assert connection is not None
    return str(connection.context.principal)


def test_a_client_with_a_password_is_served() -> None:
    at = world()
    client = at.client()
    client.ask(VERSIONS, ApiKey.API_VERSIONS, 4)
    answer = log_in(client)
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
    assert principal(at, client) == "User:alice"
    assert is_served(client)
    (line,) = [each for each in at.logs if each.event == "authenticated"]
    assert line.fields["principal"] == "User:alice"
    at.pass_ms(20_000)
    assert not client.is_closed


def test_scram_by_saslauthenticate() -> None:
    at = world()
    client, scram = at.client(), ScramClient(ScramMechanism.SHA_256, "carol", "pencil", "abc")
    assert handshake(client, "SCRAM-SHA-256").mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    token: bytes | None = scram.first_token()
    while token is not None:
        token = scram.next_token(authenticate(client, token).auth_bytes)
    assert scram.is_complete
    assert principal(at, client) == "User:carol"
    assert is_served(client)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_tokens_without_headers_after_a_handshake_v0(mechanism: str) -> None:
    at = world()
    client = at.client()
    assert handshake(client, mechanism, version=0).error_code == 0
    client.written.clear()

    def send(token: bytes) -> bytes:
        before = len(client.written)
        at.processor.bytes_received(client.connection_id, struct.pack(">i", len(token)) + token, at.now_ms)
        outputs = at.processor.take_outputs()
        for _, buffers in outputs.writes:
            client.written += b"".join(bytes(each) for each in buffers)  # type: ignore[arg-type]
        at.logs += outputs.logs
        frame = bytes(client.written[before:])
        assert struct.unpack(">i", frame[:4])[0] == len(frame) - 4
        return frame[4:]

    if mechanism == "PLAIN":
        assert send(b"\0alice\0secret") == b""
    else:
        scram = ScramClient(ScramMechanism.SHA_256, "carol", "pencil", "abc")
        token: bytes | None = scram.first_token()
        while token is not None:
            token = scram.next_token(send(token))
    assert is_served(client)


@pytest.mark.parametrize("token", [b"", b"\0alice\0wrong", b"\0\x12\0\0" + b"\0" * 40])
def test_a_wrong_token_without_a_header_closes_after_the_delay(token: bytes) -> None:
    """The last one begins like ApiVersions v0: after a handshake v0 it is a token all the same."""
    at = world()
    client = at.client()
    handshake(client, version=0)
    client.send(struct.pack(">i", len(token)) + token)
    assert not client.is_closed
    at.pass_ms(200)
    assert client.is_closed


def test_a_wrong_password_is_answered_after_the_delay_and_closes() -> None:
    at = world(failed_authentication_delay_ms=500)
    client = at.client()
    handshake(client)
    assert authenticate(client, b"\0alice\0wrong") is None
    client.ask(MetadataRequest([]), ApiKey.METADATA, 12)
    at.pass_ms(400)
    assert len(client.answers) == 1
    assert not client.is_closed
    at.pass_ms(200)
    assert client.is_closed
    answer = client.answers[-1]
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert not any("secret" in str(line) or "wrong" in str(line.fields["user"]) for line in at.logs if line.fields)
    assert len(client.answers) == 2, "what came after it is not answered"


def test_without_a_delay_a_failure_is_answered_at_once() -> None:
    at = world(failed_authentication_delay_ms=0)
    client = at.client()
    handshake(client, "SCRAM-SHA-256")
    answer = authenticate(client, b"nonsense")
    assert client.is_closed
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )


def test_a_client_that_leaves_during_the_delay_is_forgotten() -> None:
    at = world()
    client = at.client()
    handshake(client)
    authenticate(client, b"\0alice\0wrong")
    client.close()
    at.pass_ms(10_000)
    assert at.processor.deadlines.next_deadline_ms() is None


def test_a_mechanism_that_is_not_enabled() -> None:
    at = world()
    client = at.client()
    client.ask(SaslHandshakeRequest("SCRAM-SHA-512"), ApiKey.SASL_HANDSHAKE, 1)
    at.pass_ms(200)
    (answer,) = client.answers
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert client.is_closed


@pytest.mark.parametrize("begins_with_versions", [False, True])
def test_anything_else_closes_before_authentication(begins_with_versions: bool) -> None:
    at = world()
    client = at.client()
    if begins_with_versions:
        client.ask(VERSIONS, ApiKey.API_VERSIONS, 3)
        client.ask(VERSIONS, ApiKey.API_VERSIONS, 3)
        assert len(client.answers) == 1, "ApiVersions comes once"
    else:
        client.ask(MetadataRequest([]), ApiKey.METADATA, 12)
        assert not client.answers
    assert client.is_closed
    assert at.logs[-1].fields["reason"] == "it has not authenticated"


def test_an_unknown_version_of_apiversions_is_answered_before_authentication() -> None:
    at = world()
    client = at.client()
    client.send(struct.pack(">ihhihB", 11, ApiKey.API_VERSIONS, 99, 7, -1, 0))
    assert client.answers[0].error_code == ErrorCode.UNSUPPORTED_VERSION
    client.ask(VERSIONS, ApiKey.API_VERSIONS, 3)
    log_in(client)
    assert is_served(client)


def test_requests_sent_along_with_the_last_token_are_served() -> None:
    at = world()
    client = at.client()
    frames = [
        client.frame(SaslHandshakeRequest("PLAIN"), ApiKey.SASL_HANDSHAKE, 1),
        client.frame(SaslAuthenticateRequest(b"\0alice\0secret"), ApiKey.SASL_AUTHENTICATE, 1),
        client.frame(MetadataRequest([]), ApiKey.METADATA, 12),
    ]
    client.send(b"".join(frames))
    assert client.correlation_ids == [1, 2, 3]


def test_a_handshake_within_an_exchange_is_an_illegal_state() -> None:
    at = world()
    client = at.client()
    handshake(client)
    client.ask(SaslHandshakeRequest("PLAIN"), ApiKey.SASL_HANDSHAKE, 1)
    at.pass_ms(200)
    assert client.answers[-1].error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.is_closed


def test_another_request_within_an_exchange_closes() -> None:
    at = world()
    client = at.client()
    handshake(client)
    assert not is_served(client)
    assert client.is_closed


def test_who_does_not_authenticate_in_time_is_closed_however_much_it_sends() -> None:
    at = world()
    client = at.client()
    client.ask(VERSIONS, ApiKey.API_VERSIONS, 3)
    client.send(struct.pack(">i", 100))
    for _ in range(9):
        at.pass_ms(1_000)
        client.send(b"\0")
        assert not client.is_closed
    at.pass_ms(1_100)
    assert client.is_closed


def test_frames_are_small_before_authentication() -> None:
    at = world()
    client = at.client()
    client.send(struct.pack(">i", 20_000))
    assert client.is_closed
    client = at.client()
    handshake(client)
    client.send(struct.pack(">i", 512 * 1024))
    assert not client.is_closed
    client = at.client()
    handshake(client)
    client.send(struct.pack(">i", 512 * 1024 + 1))
    assert client.is_closed
    client = at.client()
    log_in(client)
    client.send(struct.pack(">i", 50 << 20))
    assert not client.is_closed


def test_who_has_not_authenticated_does_not_take_the_memory_of_others() -> None:
    at = world(queued_request_bytes_max=1 << 20)
    good = at.client()
    log_in(good)
    others = [at.client() for _ in range(4)]
    for other in others:
        handshake(other)
        other.send(struct.pack(">i", 500_000) + bytes(400_000))
    assert all(each.is_closed for each in others[:3])
    assert not good.is_paused
    assert is_served(good)


def test_sasl_on_a_listener_without_it() -> None:
    client = World().client()
    assert handshake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert authenticate(client, b"").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert is_served(client)


def test_there_are_no_delegation_tokens_for_a_client_that_has_authenticated() -> None:
    client = world().client()
    log_in(client)
    client.ask(DescribeDelegationTokenRequest(None), ApiKey.DESCRIBE_DELEGATION_TOKEN, 3)
    assert client.answers[-1].error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_how_authentications_end_is_counted() -> None:
    at = world()
    log_in(at.client())
    handshake(at.client())
    wrong = at.client()
    handshake(wrong)
    authenticate(wrong, b"\0alice\0wrong")
    at.client()
    assert len(at.processor.connections.unauthenticated) == 3
    at.pass_ms(11_000)
    counted = at.processor.authentications.counts.items()
    counts = {(mechanism, outcome.value): count for (_, mechanism, outcome), count in counted}
    assert counts == {
        ("PLAIN", "succeeded"): 1,
        ("PLAIN", "failed"): 1,
        ("PLAIN", "timed out"): 1,
        ("", "timed out"): 1,
    }
    assert not at.processor.connections.unauthenticated


def test_a_token_after_authentication_is_an_illegal_state() -> None:
    client = world().client()
    log_in(client)
    assert authenticate(client, b"\0bob\0other").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert is_served(client)


SHORT = replace(SASL, reauthentication_ms_by_mechanism={"PLAIN": SESSION_MS})


def test_a_session_lasts_for_a_while() -> None:
    at = world(SHORT)
    client = at.client()
    assert log_in(client).session_lifetime_ms == SESSION_MS
    at.pass_ms(SESSION_MS - 100)
    assert is_served(client)
    at.pass_ms(200)
    assert not client.is_closed
    assert not is_served(client)
    assert client.is_closed
    assert "expired" in str(at.logs[-1].fields["reason"])


@pytest.mark.parametrize("late_ms", [-5_000, 5_000])
def test_a_client_authenticates_again(late_ms: int) -> None:
    at = world(SHORT)
    client = at.client()
    log_in(client)
    at.pass_ms(SESSION_MS + late_ms)
    assert log_in(client).session_lifetime_ms == SESSION_MS
    at.pass_ms(SESSION_MS - 1_000)
    assert is_served(client)


def test_nothing_else_is_served_while_a_client_authenticates_again() -> None:
    at = world(SHORT)
    client = at.client()
    log_in(client)
    at.pass_ms(2_000)
    handshake(client)
    assert not is_served(client)
    assert client.is_closed


def test_a_client_authenticates_again_once_a_second_at_most() -> None:
    at = world(SHORT)
    client = at.client()
    log_in(client)
    at.pass_ms(2_000)
    log_in(client)
    at.pass_ms(500)
    assert handshake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert is_served(client)


def test_another_user_is_refused_when_a_client_authenticates_again() -> None:
    at = world(SHORT)
    client = at.client()
    log_in(client)
    at.pass_ms(2_000)
    handshake(client)
    authenticate(client, b"\0bob\0other")
    at.pass_ms(200)
    assert client.answers[-1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Cannot change principals" in client.answers[-1].error_message
    assert client.is_closed


def test_another_mechanism_is_refused_when_a_client_authenticates_again() -> None:
    at = world(SHORT)
    client = at.client()
    log_in(client)
    at.pass_ms(2_000)
    assert handshake(client, "SCRAM-SHA-256").error_code == 0
    authenticate(client, b"n,,n=carol,r=abc")
    at.pass_ms(200)
    assert "not supported for re-authentication" in client.answers[-1].error_message
    assert client.is_closed
