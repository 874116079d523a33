"""GSSAPI (RFC 4752): the server's states with a scripted security context, connections, and Kafka's keys."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas_gateway.core.model.config import KerberosConfig, SaslConfig
from barnabas_gateway.core.model.kerberos_names import DEFAULT_RULES, parse_short_name_rules
from barnabas_gateway.core.sasl.gssapi import TOKEN_BYTES_MAX, GssapiServer, SecurityContextError
from barnabas_gateway.core.sasl.sasl_server import SaslFailure
from barnabas_gateway.shell.kerberos.acceptors import KerberosAcceptors
from barnabas_gateway.shell.listener_security import kerberos_configs
from tests.unit.gateway.authentication.test_listener_security import listeners, properties, refusal
from tests.unit.gateway.authentication.test_sasl_connections import authenticate, handshake, is_served, principal
from tests.unit.gateway.world import LISTENER, WALL_MS, World

CONFIG = KerberosConfig("/kafka.keytab", "kafka/host@REALM")
CHOICE = b"wrapped:\x01\0\0\0"
OFFER = b"wrapped:\x01\0\0\0"
TICKET_MS = 60_000


@dataclass
class ScriptedContext:
    """Established by `ticket`, after `rounds` tokens; wraps by a prefix."""

    answer: bytes = b"mutual"
    name: str = "alice@REALM"
    rounds: int = 1
    default_realm: str = "REALM"
    is_established: bool = False
    accepted: list[bytes] = field(default_factory=list)

    def accept(self, token: bytes) -> bytes:
        if not token.startswith(b"ticket"):
            raise SecurityContextError("Request is a replay", is_retriable=token == b"replay")
        self.accepted.append(token)
        self.is_established = len(self.accepted) == self.rounds
        return self.answer if self.is_established else b"more"

    def initiator(self) -> str:
        return self.name

    def expires_ms(self) -> int | None:
        return WALL_MS + TICKET_MS

    def wrap(self, message: bytes) -> bytes:
        return b"wrapped:" + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"wrapped:"):
            raise SecurityContextError("A token had an invalid signature")
        return message.removeprefix(b"wrapped:")


def server(context: ScriptedContext | None = None, *rules: str) -> GssapiServer:
    parsed = parse_short_name_rules(rules) if rules else DEFAULT_RULES
    return GssapiServer(context or ScriptedContext(), parsed, is_limited=True)


def reason(at: GssapiServer, *tokens: bytes) -> str:
    """What the last of these tokens is refused for."""
    for token in tokens[:-1]:
        at.respond(token)
    with pytest.raises(SaslFailure) as caught:
        at.respond(tokens[-1])
    assert at.user is None
    return str(caught.value)


@pytest.mark.parametrize("authzid", [b"", b"alice@REALM", b"mallory@REALM", b"kafka@host", b"\xff"])
def test_the_user_is_that_of_the_ticket_whatever_the_authorization_id(authzid: bytes) -> None:
    at = server()
    assert at.respond(b"ticket") == b"mutual"
    assert at.respond(b"") == OFFER
    assert at.respond(CHOICE + authzid) == b""
    assert (at.user, at.claimed_user, at.expires_ms) == ("alice", "alice@REALM", WALL_MS + TICKET_MS)


def test_without_mutual_authentication_the_offer_comes_at_once() -> None:
    at = server(ScriptedContext(answer=b""))
    assert at.respond(b"ticket") == OFFER
    assert at.respond(CHOICE) == b""
    assert at.user == "alice"


def test_a_context_may_take_more_than_one_token() -> None:
    at = server(ScriptedContext(rounds=2))
    assert at.respond(b"ticket") == b"more"
    assert at.respond(b"ticket 2") == b"mutual"
    assert "too many" in reason(server(ScriptedContext(rounds=9)), *[b"ticket"] * 5)


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        ((b"",), "an empty token"),
        ((b"nonsense",), "Request is a replay"),
        ((b"ticket" + bytes(TOKEN_BYTES_MAX),), "a token of"),
        ((b"ticket", b"more"), "where an empty one is expected"),
        ((b"ticket", CHOICE), "where an empty one is expected"),
        ((b"ticket", b"", b"\x01\0\0\0"), "invalid signature"),
        ((b"ticket", b"", b"wrapped:\x01\0\0"), "too short"),
        ((b"ticket", b"", b"wrapped:\x02\0\0\0"), "not offered: 2"),
        ((b"ticket", b"", b"wrapped:\x03\0\0\0"), "not offered: 3"),
        ((b"ticket", b"", b"wrapped:\0\0\0\0"), "not offered: 0"),
    ],
)
def test_what_is_refused(tokens: tuple[bytes, ...], why: str) -> None:
    assert why in reason(server(), *tokens)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("alice@OTHER", "no rule"),
        ("a/b/c@REALM", "more than two components"),
        ("al\\/ice@REALM", "within a component"),
        ("a\\@REALM@REALM", "within a component"),
    ],
)
def test_a_principal_that_is_no_user_is_refused(name: str, why: str) -> None:
    assert why in reason(server(ScriptedContext(name=name)), b"ticket", b"", CHOICE)


def test_rules_make_the_user() -> None:
    at = server(ScriptedContext(name="Bob/admin@REALM"), "RULE:[2:$1](.*)/L")
    for token in (b"ticket", b"", CHOICE + b"Bob/admin@REALM"):
        at.respond(token)
    assert at.user == "bob"


def world(limit_ms: int = 0, **context: Any) -> World:
    sasl = SaslConfig(("GSSAPI",), kerberos=CONFIG, reauthentication_ms_by_mechanism={"GSSAPI": limit_ms})
    return World(listeners=(replace(LISTENER, sasl=sasl),), begin_context=lambda _: ScriptedContext(**context))


def log_in(at: World, client: Any) -> Any:
    assert handshake(client, "GSSAPI").error_code == 0
    for token in (b"ticket", b"", CHOICE):
        assert authenticate(client, token) is None, "not on the loop"
        at.check_token()
    return client.answers[-1]


def test_tokens_are_answered_by_the_worker() -> None:
    at = world()
    client = at.client()
    answer = log_in(at, client)
    assert (answer.error_code, bytes(answer.auth_bytes), answer.session_lifetime_ms) == (0, b"", 0)
    assert principal(at, client) == "User:alice"
    assert is_served(client)


def test_a_session_ends_with_the_ticket_where_sessions_end() -> None:
    at = world(limit_ms=10 * TICKET_MS)
    client = at.client()
    assert log_in(at, client).session_lifetime_ms == TICKET_MS
    at.pass_ms(TICKET_MS // 2)
    assert log_in(at, client).error_code == 0
    at.pass_ms(TICKET_MS + 1_000)
    assert not is_served(client)
    at = world(limit_ms=TICKET_MS // 2)
    assert log_in(at, at.client()).session_lifetime_ms == TICKET_MS // 2


def test_another_principal_is_refused_when_a_client_authenticates_again() -> None:
    names = iter(("alice@REALM", "bob@REALM"))
    at = world(limit_ms=TICKET_MS)
    servers = at.processor.authentications
    client = at.client()
    create = servers.create_server

    def create_server(sasl: SaslConfig, mechanism: str) -> Any:
        made = create(sasl, mechanism)
        made._context.name = next(names)  # type: ignore[attr-defined]
        return made

    servers.create_server = create_server
    log_in(at, client)
    at.pass_ms(2_000)
    log_in(at, client)
    at.pass_ms(200)
    assert "Cannot change principals" in client.answers[-1].error_message
    assert client.is_closed


def test_a_failure_is_answered_after_the_delay_and_logged() -> None:
    at = world()
    client = at.client()
    handshake(client, "GSSAPI")
    authenticate(client, b"nonsense")
    at.check_token()
    assert not client.is_closed
    at.pass_ms(200)
    assert client.is_closed
    assert client.answers[-1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.answers[-1].error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
    )
    (line,) = [each for each in at.logs if each.event == "authentication failed"]
    assert line.fields["reason"] == "Request is a replay"


def test_a_failure_that_may_pass_closes_without_an_answer_as_in_kafka() -> None:
    at = world()
    client = at.client()
    handshake(client, "GSSAPI")
    authenticate(client, b"replay")
    at.check_token()
    assert not client.is_closed
    at.pass_ms(200)
    assert client.is_closed
    assert len(client.answers) == 1, "the handshake's"
    assert [line.event for line in at.logs] == ["authentication failed"]


def test_a_client_that_leaves_meanwhile() -> None:
    at = world()
    client = at.client()
    handshake(client, "GSSAPI")
    authenticate(client, b"ticket")
    client.close()
    at.check_token()
    assert at.logs == []


def test_a_client_whose_time_is_over_before_the_worker_answers() -> None:
    at = world()
    client = at.client()
    handshake(client, "GSSAPI")
    authenticate(client, b"ticket")
    at.pass_ms(11_000)
    assert client.is_closed
    at.check_token()
    assert len(client.answers) == 1


def test_an_internal_error_is_a_failure_that_shows_nothing() -> None:
    at = world()
    client = at.client()
    handshake(client, "GSSAPI")
    authenticate(client, b"ticket")
    at.check_token("Traceback …")
    at.pass_ms(200)
    assert client.answers[-1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Traceback" not in client.answers[-1].error_message


MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
JAAS_KEY = "listener.name.clients.gssapi.sasl.jaas.config"
OPTIONS = 'useKeyTab=true storeKey=true keyTab="/etc/kafka.keytab" principal="kafka/host@REALM"'
GSSAPI = {"sasl.enabled.mechanisms": "GSSAPI", JAAS_KEY: f"{MODULE} {OPTIONS};"}


def test_kafkas_keys() -> None:
    keys = {
        **GSSAPI,
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1@$0](.*@OTHER)s/@.*//, DEFAULT",
        "listener.name.clients.sasl.enabled.mechanisms": "GSSAPI,SCRAM-SHA-256",
    }
    sasl = listeners(**keys)["CLIENTS"].sasl
    assert sasl is not None
    assert sasl.kerberos is not None
    assert (sasl.kerberos.keytab, sasl.kerberos.principal) == ("/etc/kafka.keytab", "kafka/host@REALM")
    assert len(sasl.kerberos.rules) == 2
    own = {**keys, "listener.name.clients.gssapi.sasl.kerberos.principal.to.local.rules": "DEFAULT"}
    sasl = listeners(**own)["CLIENTS"].sasl
    assert sasl is not None
    assert sasl.kerberos is not None
    assert sasl.kerberos.rules == DEFAULT_RULES


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({JAAS_KEY: ""}, "keyTab is needed for GSSAPI"),
        ({JAAS_KEY: f'{MODULE} keyTab="/k";'}, "principal is needed for GSSAPI"),
        ({JAAS_KEY: f"{MODULE} {OPTIONS} keytab=x ticketcache=y;"}, "unknown options of Krb5LoginModule: keytab, tick"),
        ({JAAS_KEY: f"{MODULE} {OPTIONS.replace('storeKey=true', 'storeKey=false')};"}, "storeKey=false"),
        ({JAAS_KEY: f"x.Other required {OPTIONS};"}, "expected com.sun.security.auth.module.Krb5LoginModule"),
        ({"sasl.kerberos.service.name": "http"}, "the service name http is not that of principal=kafka/host@REALM"),
        (
            {JAAS_KEY: f"{MODULE} {OPTIONS} serviceName=kafka;", "sasl.kerberos.service.name": "other"},
            "serviceName=kafka and sasl.kerberos.service.name=other differ",
        ),
        ({"sasl.kerberos.principal.to.local.rules": "RULE:[1:$1"}, "sasl.kerberos.principal.to.local.rules: 'RULE:[1"),
    ],
)
def test_what_does_not_fit_together_is_refused(given: dict[str, str], message: str) -> None:
    assert message in refusal(**(GSSAPI | given))


def test_without_the_library_a_gateway_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", fail)
    configs = kerberos_configs(properties(**GSSAPI).security())
    with pytest.raises(OSError, match=r"pip install 'barnabas\[gssapi\]'"):
        KerberosAcceptors(configs, lambda: 0)
    KerberosAcceptors([], lambda: 0)
