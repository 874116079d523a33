"""Delegation tokens at a gateway (KIP-48): who may have one, who may see it, and who is let in by it."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

from barnabas.client.sasl import ScramClient
from barnabas.cluster.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from barnabas.cluster.delegation_tokens import AlterDelegationTokenRequest, AlterDelegationTokenResponse
from barnabas.cluster.scram import ScramMechanism
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from barnabas.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas_gateway.core.model.config import AuthorizerConfig, SaslConfig
from tests.unit.gateway.authentication.test_sasl_connections import (
    authenticate,
    handshake,
    is_served,
    log_in,
    principal,
)
from tests.unit.gateway.world import LISTENER, WALL_MS, Client, World

SASL = SaslConfig(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), {"alice": "secret", "bob": "other"})
HOUR_MS = 3_600_000
OWN = CreateDelegationTokenRequest(None, None, [], -1)


def world(key: str = "key", **config: Any) -> World:
    return World(listeners=(replace(LISTENER, sasl=SASL),), delegation_token_secret_key=key, **config)


def user(at: World, name: str = "alice") -> Client:
    client = at.client()
    log_in(client, name)
    return client


def create(at: World, client: Client, request: CreateDelegationTokenRequest = OWN) -> Any:
    """Create a token that lasts for an hour; the controller is the test."""
    asked, answered = len(at.calls), len(client.answers)
    client.ask(request, ApiKey.CREATE_DELEGATION_TOKEN, 3)
    at.pass_ms(10)
    if len(at.calls) > asked:
        sent = at.calls[-1].request
        assert isinstance(sent, AlterDelegationTokenRequest)
        assert sent.creation is not None
        assert sent.creation.token is not None
        end_ms = WALL_MS + HOUR_MS
        at.controller_answers(AlterDelegationTokenResponse(0, "", WALL_MS, end_ms, end_ms, at.revision + 1))
        assert len(client.answers) == answered, "the gateway does not know it yet"
        token = replace(
            sent.creation.token, issue_timestamp_ms=WALL_MS, expiry_timestamp_ms=end_ms, max_timestamp_ms=end_ms
        )
        known = list(at.processor.image.delegation_tokens.values())
        at.update(delegation_tokens=[*known, token], acls=list(at.processor.image.acls), knows_acls=True)
    return client.answers[-1]


def describe(client: Client, *owners: str) -> Any:
    asked = [DescribeDelegationTokenOwner("User", owner) for owner in owners] if owners else None
    client.ask(DescribeDelegationTokenRequest(asked), ApiKey.DESCRIBE_DELEGATION_TOKEN, 3)
    return client.answers[-1]


def log_in_by(
    at: World, token_id: str, hmac: bytes, mechanism: ScramMechanism = ScramMechanism.SHA_256
) -> tuple[Client, Any]:
    client = at.client()
    scram = ScramClient(mechanism, token_id, b64encode(hmac).decode(), "nonce", is_token=True)
    handshake(client, mechanism.mechanism_name)
    proof = scram.next_token(authenticate(client, scram.first_token()).auth_bytes)
    assert proof is not None
    answer = authenticate(client, proof)
    if answer is None:
        at.pass_ms(200)
        answer = client.answers[-1]
    return client, answer


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_who_has_a_token_is_its_owner(mechanism: ScramMechanism) -> None:
    at = world()
    token = create(at, user(at))
    assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "alice", "alice")
    assert (token.issue_timestamp_ms, token.expiry_timestamp_ms) == (WALL_MS, WALL_MS + HOUR_MS)
    assert len(token.hmac) == 64
    client, answer = log_in_by(at, token.token_id, token.hmac, mechanism)
    assert (answer.error_code, answer.session_lifetime_ms) == (0, HOUR_MS)
    assert principal(at, client) == "User:alice"
    assert is_served(client)
    assert not any(token.hmac.hex() in str(line) or str(token.hmac) in str(line) for line in at.logs)
    at.pass_ms(HOUR_MS + 100)
    assert not is_served(client), "its session is over"


def test_by_a_token_no_other_is_had() -> None:
    at = world()
    token = create(at, user(at))
    client, _ = log_in_by(at, token.token_id, token.hmac)
    not_allowed = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert create(at, client).error_code == not_allowed
    client.ask(RenewDelegationTokenRequest(token.hmac, 1000), ApiKey.RENEW_DELEGATION_TOKEN, 2)
    assert client.answers[-1].error_code == not_allowed
    client.ask(ExpireDelegationTokenRequest(token.hmac, -1), ApiKey.EXPIRE_DELEGATION_TOKEN, 2)
    assert client.answers[-1].error_code == not_allowed
    assert describe(client).error_code == not_allowed


def test_who_is_not_let_in() -> None:
    at = world()
    token = create(at, user(at))
    refused = ErrorCode.SASL_AUTHENTICATION_FAILED
    assert log_in_by(at, token.token_id, b"guess")[1].error_code == refused
    assert log_in_by(at, "another", token.hmac)[1].error_code == refused
    other = world("another key")
    other.update(delegation_tokens=list(at.processor.image.delegation_tokens.values()))
    assert log_in_by(other, token.token_id, token.hmac)[1].error_code == refused
    at.wall_ms += HOUR_MS + 1
    assert log_in_by(at, token.token_id, token.hmac)[1].error_code == refused
    at.wall_ms = WALL_MS
    at.update(full=False, removed_delegation_tokens=[token.token_id])
    assert log_in_by(at, token.token_id, token.hmac)[1].error_code == refused


def test_without_a_secret_key_there_are_none() -> None:
    at = world("")
    client = user(at)
    assert create(at, client).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert describe(client).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert not at.calls


def test_renewers_are_users() -> None:
    at = world()
    request = CreateDelegationTokenRequest(None, None, [CreatableRenewers("Group", "x")], -1)
    assert create(at, user(at), request).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_the_controller_finds_a_token_by_a_digest() -> None:
    at = world()
    client = user(at)
    token = create(at, client)
    client.ask(RenewDelegationTokenRequest(token.hmac, 1000), ApiKey.RENEW_DELEGATION_TOKEN, 2)
    sent = at.calls[-1].request
    assert isinstance(sent, AlterDelegationTokenRequest)
    assert sent.renewal is not None
    assert (sent.renewal.principal, sent.renewal.period_ms) == ("User:alice", 1000)
    assert token.hmac not in (sent.renewal.hmac_digest,)
    at.controller_answers(AlterDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_EXPIRED))
    assert client.answers[-1].error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    client.ask(ExpireDelegationTokenRequest(token.hmac, -1), ApiKey.EXPIRE_DELEGATION_TOKEN, 2)
    sent = at.calls[-1].request
    assert isinstance(sent, AlterDelegationTokenRequest)
    assert sent.expiration is not None
    at.controller_answers(None)
    assert client.answers[-1].error_code == ErrorCode.REQUEST_TIMED_OUT


def allow(who: str, operation: Operation, resource_type: ResourceType, name: str) -> Acl:
    return Acl(resource_type, PatternType.LITERAL, name, who, "*", operation, PermissionType.ALLOW)


def test_acls_decide_who_creates_for_others_and_who_sees_them() -> None:
    at = world(authorizer=AuthorizerConfig(is_enabled=True))
    at.update(acls=[], knows_acls=True)
    alice, bob = user(at), user(at, "bob")
    for_alice = CreateDelegationTokenRequest("User", "alice", [], -1)
    failed = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert create(at, bob, for_alice).error_code == failed
    at.update(acls=[allow("User:bob", Operation.CREATE_TOKENS, ResourceType.USER, "User:alice")], knows_acls=True)
    of_alice = create(at, bob, for_alice)
    assert (of_alice.error_code, of_alice.principal_name, of_alice.token_requester_principal_name) == (
        0,
        "alice",
        "bob",
    )
    at.update(full=False, acls=[], knows_acls=True)
    assert [each.token_id for each in describe(alice).tokens] == [of_alice.token_id]
    (seen,) = describe(bob, "alice").tokens
    assert (seen.hmac, seen.principal_name) == (of_alice.hmac, "alice")
    client, _ = log_in_by(at, of_alice.token_id, of_alice.hmac)
    assert principal(at, client) == "User:alice"


@pytest.mark.parametrize(
    "acl",
    [
        allow("User:bob", Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:alice"),
        allow("User:bob", Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "*"),
    ],
)
def test_others_see_a_token_by_an_acl(acl: Acl) -> None:
    at = world(authorizer=AuthorizerConfig(is_enabled=True))
    at.update(acls=[], knows_acls=True)
    alice, bob = user(at), user(at, "bob")
    token = create(at, alice)
    assert describe(bob).tokens == []
    assert describe(alice, "bob").tokens == []
    at.update(delegation_tokens=list(at.processor.image.delegation_tokens.values()), acls=[acl], knows_acls=True)
    assert [each.token_id for each in describe(bob).tokens] == [token.token_id]


def test_no_owners_see_nothing() -> None:
    at = world()
    client = user(at)
    create(at, client)
    client.ask(DescribeDelegationTokenRequest([]), ApiKey.DESCRIBE_DELEGATION_TOKEN, 3)
    assert client.answers[-1].tokens == []
