"""Kafka's API for SCRAM credentials: what a gateway asks the controller, what it describes, and who is let in then."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.sasl import ScramClient
from barnabas.cluster.scram import (
    AlterScramCredentialsRequest,
    AlterScramCredentialsResponse,
    ScramMechanism,
    ScramUser,
    ScramUserResult,
    UserScramCredential,
    salted_password,
)
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from tests.unit.gateway.authentication.test_sasl_connections import authenticate, handshake, world
from tests.unit.gateway.world import Client, World

SALT = b"0123456789"


def upsertion(user: str, mechanism: int = 1, password: str = "pencil") -> ScramCredentialUpsertion:
    hashed_by = ScramMechanism.SHA_512 if mechanism == 2 else ScramMechanism.SHA_256
    salted = salted_password(hashed_by, password, SALT, 4096)
    return ScramCredentialUpsertion(user, mechanism, 4096, SALT, salted)


def describe(client: Client, *users: str) -> Any:
    request = DescribeUserScramCredentialsRequest([UserName(user) for user in users] if users else None)
    client.ask(request, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0)
    return client.answers[-1]


def test_the_controller_gets_keys_and_never_the_salted_password() -> None:
    at = World()
    client = at.client()
    asked = upsertion("alice")
    request = AlterUserScramCredentialsRequest([ScramCredentialDeletion("bob", 2)], [asked, upsertion("alice", 2)])
    client.ask(request, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
    sent = at.calls[0].request
    assert isinstance(sent, AlterScramCredentialsRequest)
    assert sent.deletions == [ScramUser("bob", 2)]
    assert [(each.user, each.mechanism) for each in sent.upsertions] == [("alice", 1), ("alice", 2)]
    assert asked.salted_password not in [key for each in sent.upsertions for key in (each.stored_key, each.server_key)]
    results = [
        ScramUserResult("bob", ErrorCode.RESOURCE_NOT_FOUND, "none"),
        ScramUserResult("alice", ErrorCode.NONE),
    ]
    at.controller_answers(AlterScramCredentialsResponse(results, at.revision + 1))
    assert not client.answers, "the processor does not know them yet"
    at.update(scram_credentials=sent.upsertions)
    (answer,) = client.answers
    assert {each.user: each.error_code for each in answer.results} == {"bob": ErrorCode.RESOURCE_NOT_FOUND, "alice": 0}


def test_a_credential_by_no_password_is_refused() -> None:
    """Its keys are known to all."""
    at = World()
    client = at.client()
    without = ScramCredentialUpsertion("eve", 1, 4096, SALT, b"")
    client.ask(
        AlterUserScramCredentialsRequest([], [without, upsertion("eve", 2)]), ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0
    )
    assert not at.calls
    assert [(each.user, each.error_code, each.error_message) for each in client.answers[0].results] == [
        ("eve", ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty")
    ]


def test_without_a_controller_it_is_not_known_whether_it_was_done() -> None:
    at = World()
    client = at.client()
    client.ask(AlterUserScramCredentialsRequest([], [upsertion("alice")]), ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
    at.controller_answers(None)
    assert [each.error_code for each in client.answers[0].results] == [ErrorCode.REQUEST_TIMED_OUT]


def test_no_changes_are_answered_at_once() -> None:
    client = World().client()
    client.ask(AlterUserScramCredentialsRequest([], []), ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
    assert client.answers[0].results == []


def credentials(*of: tuple[str, int]) -> list[UserScramCredential]:
    return [UserScramCredential(user, mechanism, 4096 * mechanism, SALT, b"", b"") for user, mechanism in of]


def test_users_are_described() -> None:
    at = World()
    at.update(scram_credentials=credentials(("alice", 1), ("bob", 1), ("bob", 2)))
    client = at.client()
    everyone = {each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
                for each in describe(client).results}  # fmt: skip
    assert everyone == {"alice": [(1, 4096)], "bob": [(1, 4096), (2, 8192)]}
    some = {each.user: each.error_code for each in describe(client, "bob", "carol", "alice", "alice").results}
    assert some == {"bob": 0, "carol": ErrorCode.RESOURCE_NOT_FOUND, "alice": ErrorCode.DUPLICATE_RESOURCE}


@pytest.mark.parametrize("password", ["pencil", "other"])
def test_who_was_set_is_let_in_until_it_is_deleted(password: str) -> None:
    at = world()
    client = at.client()
    request = AlterUserScramCredentialsRequest([], [upsertion("dave", password=password)])
    admin = World()
    admin.client().ask(request, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
    sent = admin.calls[0].request
    assert isinstance(sent, AlterScramCredentialsRequest)
    at.update(scram_credentials=sent.upsertions)

    def log_in(client: Client) -> int:
        scram = ScramClient(ScramMechanism.SHA_256, "dave", password, "nonce")
        handshake(client, "SCRAM-SHA-256")
        proof = scram.next_token(authenticate(client, scram.first_token()).auth_bytes)
        assert proof is not None
        authenticate(client, proof)
        at.pass_ms(200)
        return int(client.answers[-1].error_code)

    assert log_in(client) == 0
    at.update(full=False, removed_scram_credentials=[ScramUser("dave", 1)])
    assert log_in(at.client()) == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not client.is_closed
