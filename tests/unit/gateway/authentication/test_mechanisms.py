"""PLAIN and SCRAM by themselves: the vectors of the RFCs, and what a client must not get away with."""

from __future__ import annotations

from base64 import b64decode, b64encode

import pytest

from barnabas.client.sasl import SaslRefusal, ScramClient
from barnabas.cluster.scram import ScramCredential, ScramMechanism, credential_of, salted_password
from barnabas_gateway.core.sasl.plain import PlainServer
from barnabas_gateway.core.sasl.sasl_server import SaslFailure
from barnabas_gateway.core.sasl.scram import ScramIdentity, ScramServer

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "rOprNGfwEbeRWgbNEkqO"
EXPIRES_MS = 5_000
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def credential(mechanism: ScramMechanism, password: str = "pencil", iterations: int = 4096) -> ScramCredential:
    return credential_of(mechanism, salted_password(mechanism, password, SALT, iterations), SALT, iterations)


def server(mechanism: ScramMechanism = SHA_256, **users: ScramCredential) -> ScramServer:
    users = users or {"user": credential(mechanism)}

    def find(name: str, is_token: bool) -> ScramIdentity | None:
        if is_token:
            return ScramIdentity("owner", users[name], EXPIRES_MS) if name in users else None
        return ScramIdentity(name, users[name]) if name in users else None

    return ScramServer(mechanism, find, SERVER_NONCE, b"secret")


def client(mechanism: ScramMechanism = SHA_256, user: str = "user", password: str = "pencil") -> ScramClient:
    return ScramClient(mechanism, user, password, NONCE)


def log_in(at: ScramServer, by: ScramClient) -> None:
    token: bytes | None = by.first_token()
    while token is not None:
        token = by.next_token(at.respond(token))


def test_the_exchange_of_rfc_7677_for_sha_256() -> None:
    at = server()
    first = at.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == (b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    final = at.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert at.user == "user"


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_client_with_the_password_is_the_user(mechanism: ScramMechanism) -> None:
    at, by = server(mechanism), client(mechanism)
    log_in(at, by)
    assert at.user == "user"
    assert by.is_complete


def test_a_name_with_commas_and_equals_signs() -> None:
    at = server(**{"a,b=c": credential(SHA_256)})
    log_in(at, client(user="a,b=c"))
    assert at.user == "a,b=c"


def test_another_password_is_refused_without_a_reason_for_the_client() -> None:
    with pytest.raises(SaslFailure) as caught:
        log_in(server(), client(password="crayon"))
    assert caught.value.message == ""


def test_an_unknown_user_is_asked_for_a_proof_with_the_same_salt_each_time() -> None:
    first = server().respond(client(user="other").first_token())
    assert first == server().respond(client(user="other").first_token())
    assert first != server().respond(client(user="third").first_token())
    with pytest.raises(SaslFailure, match="unknown user"):
        log_in(server(), client(user="other"))


def test_a_nonce_that_only_ends_like_the_servers_is_refused() -> None:
    """CVE-2024-56128: the nonce was not compared. Then `endsWith` accepted one of the client's choice in front."""
    at, by = server(), client()
    proof = by.next_token(at.respond(by.first_token()))
    assert proof is not None
    with pytest.raises(SaslFailure, match="nonce"):
        at.respond(proof.replace(b"r=rOpr", b"r=x,rOpr").replace(b"r=x,", b"r=x"))


@pytest.mark.parametrize("header", ["y,,", "p=tls-unique,,", "n,a=user,"])
def test_a_final_header_that_differs_from_the_first_is_refused(header: str) -> None:
    at, by = server(), client()
    proof = by.next_token(at.respond(by.first_token()))
    assert proof is not None
    with pytest.raises(SaslFailure, match="header"):
        at.respond(proof.replace(b"c=biws", b"c=" + b64encode(header.encode())))


def test_an_authorization_id_is_the_user_or_refused() -> None:
    """CVE-2017-12610: a client may not act for another one."""
    server().respond(b"n,a=user,n=user,r=" + NONCE.encode())
    with pytest.raises(SaslFailure) as caught:
        server().respond(b"n,a=admin,n=user,r=" + NONCE.encode())
    assert "authorization id" in caught.value.message


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\xff",
        b"n,,",
        b"n,,n=user",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"n,,r=abc,n=user",
        b"n,,n=us=er,r=abc",
        b"n,,n=user,r=a\x7fb",
        b"p=tls-exporter,,n=user,r=abc",
        b"x,,n=user,r=abc",
        b"n,user,n=user,r=abc,",
    ],
)
def test_a_malformed_first_message_is_refused(token: bytes) -> None:
    with pytest.raises(SaslFailure):
        server().respond(token)


@pytest.mark.parametrize(
    "token", [b"", b"c=biws", b"c=biws,r=x", b"c=biws,r=x,p=", b"c=!,r=x,p=!", b"r=x,c=biws,p=AA==", b"\xff,p=AA=="]
)
def test_a_malformed_final_message_is_refused(token: bytes) -> None:
    at = server()
    at.respond(client().first_token())
    with pytest.raises(SaslFailure):
        at.respond(token)


def test_a_proof_of_another_length_is_refused() -> None:
    at, by = server(), client()
    proof = by.next_token(at.respond(by.first_token()))
    assert proof is not None
    with pytest.raises(SaslFailure, match="wrong password"):
        at.respond(proof.partition(b",p=")[0] + b",p=AAAA")


def test_a_client_refuses_a_server_that_does_not_know_the_credential() -> None:
    at, by = server(), client()
    proof = by.next_token(at.respond(by.first_token()))
    assert proof is not None
    with pytest.raises(SaslRefusal):
        by.next_token(b"v=AAAA")
    with pytest.raises(SaslRefusal):
        client().next_token(b"r=other,s=AAAA,i=4096")
    with pytest.raises(SaslRefusal):
        client().next_token(b"r=" + NONCE.encode() + b"x,s=AAAA,i=2000000000")


def test_a_credential_shows_no_key() -> None:
    shown = repr(credential(SHA_256))
    assert "4096" in shown
    assert "key" not in shown


def test_plain() -> None:
    at = PlainServer({"alice": "secret", "bob": "ü"})
    assert at.respond(b"\0alice\0secret") == b""
    assert at.user == "alice"
    at = PlainServer({"bob": "ü"})
    at.respond("bob\0bob\0ü".encode())
    assert at.user == "bob"


@pytest.mark.parametrize(
    "token",
    [b"", b"alice\0secret", b"\0alice\0wrong", b"\0carol\0secret", b"\0\0secret", b"\0alice\0", b"\0alice\0secret\0",
     b"bob\0alice\0secret", b"\0\xff\0secret", b"\0carol\0\0"],
)  # fmt: skip
def test_plain_refuses(token: bytes) -> None:
    at = PlainServer({"alice": "secret"})
    with pytest.raises(SaslFailure) as caught:
        at.respond(token)
    assert at.user is None
    assert "secret" not in str(caught.value) + caught.value.message


def test_a_token_is_its_owner_until_it_expires() -> None:
    at = server()
    log_in(at, ScramClient(SHA_256, "user", "pencil", NONCE, is_token=True))
    assert (at.user, at.claimed_user, at.is_token_authenticated, at.expires_ms) == ("owner", "user", True, EXPIRES_MS)
    unknown = server()
    with pytest.raises(SaslFailure, match="unknown or expired token"):
        log_in(unknown, ScramClient(SHA_256, "other", "pencil", NONCE, is_token=True))
    assert unknown.user is None
