"""AlterUserScramCredentials, API key 51, version 0 (KIP-554).

- Sets and deletes credentials; a user is changed as a whole or not at all. The answer is given when all gateways know
  the credentials. Connections that have authenticated by one that is deleted stay, until they have to authenticate
  again.
- The controller decides: DUPLICATE_RESOURCE, UNACCEPTABLE_CREDENTIAL (4096 to 16384 iterations), RESOURCE_NOT_FOUND,
  UNSUPPORTED_SASL_MECHANISM, as Kafka's. It gets the keys of a credential, never the salted password.

Deviations: names of users and salts have bounds (1,000). A request of more than 100 changes is done in several parts.
Credentials of one user for two mechanisms in one request are both set, or deleted; Kafka 4.3.0 answers
DUPLICATE_RESOURCE. An empty salted password, whose keys are known to all, is UNACCEPTABLE_CREDENTIAL; Kafka's HMAC
fails on it, so that it answers UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.cluster.acls import CLUSTER, Operation
from barnabas.cluster.scram import (
    MECHANISMS_BY_NUMBER,
    AlterScramCredentialsRequest,
    AlterScramCredentialsResponse,
    ScramUser,
    UserScramCredential,
    credential_of,
)
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import Connection
from barnabas_gateway.core.model.error_messages import client_message
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.requests.config_alterations import TIMEOUT_MS
from barnabas_gateway.core.requests.controller_request import ControllerHandler, PendingControllerRequest

_CHANGES_OF_USER_MAX: Final = 10
"""A user has a credential for each mechanism, so that more are altered twice."""

_UserChanges = list[ScramUser | UserScramCredential]


class PendingAlterScramCredentials(PendingControllerRequest[_UserChanges]):
    """A query is what is to be changed of one user."""

    __slots__ = ("results",)

    def __init__(
        self, handler: ControllerHandler, connection: Connection, header: RequestHeader, frame_bytes: int
    ) -> None:
        super().__init__(handler, connection, header, frame_bytes)
        self.results: dict[str, AlterUserScramCredentialsResult] = {}

    def set(self, user: str, error_code: int, message: str = "") -> None:
        text = client_message(error_code, message)
        self.results[user] = AlterUserScramCredentialsResult(user, error_code, text)

    def request_of(self, queries: Sequence[_UserChanges], timeout_ms: int) -> AlterScramCredentialsRequest:
        changes = [each for query in queries for each in query]
        return AlterScramCredentialsRequest(
            [each for each in changes if isinstance(each, ScramUser)],
            [each for each in changes if isinstance(each, UserScramCredential)],
            timeout_ms,
        )

    def fill_results(self, queries: Sequence[_UserChanges], answer: ControllerAnswer) -> int:
        assert isinstance(answer, AlterScramCredentialsResponse)
        for result in answer.results:
            self.set(result.user, result.error_code, result.error_message)
        return answer.revision

    def complete(self) -> None:
        response = AlterUserScramCredentialsResponse(results=list(self.results.values()))
        self.handler.responder.respond(self, response)


class AlterUserScramCredentialsHandler(ControllerHandler):
    api_key = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    request_class = PendingAlterScramCredentials

    def start(self, pending: PendingAlterScramCredentials, request: AlterUserScramCredentialsRequest) -> Steps[None]:
        is_allowed = self.authorizer.authorize(pending, Operation.ALTER, CLUSTER)
        by_user: dict[str, _UserChanges] = {}
        without_password: set[str] = set()
        asked: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
        for each in asked:
            changes = by_user.setdefault(each.name, [])
            if len(changes) < _CHANGES_OF_USER_MAX:
                changes.append(_change(each))
            if isinstance(each, ScramCredentialUpsertion) and not each.salted_password:
                without_password.add(each.name)
            yield 2
        for user, changes in by_user.items():
            if not is_allowed:
                pending.set(user, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            elif user in without_password:
                pending.set(user, ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty")
            else:
                pending.set(user, ErrorCode.REQUEST_TIMED_OUT)
                pending.add_query(changes, len(changes))
            yield 1
        pending.send_calls(TIMEOUT_MS)


def _change(asked: ScramCredentialDeletion | ScramCredentialUpsertion) -> ScramUser | UserScramCredential:
    return ScramUser(asked.name, asked.mechanism) if isinstance(asked, ScramCredentialDeletion) else _credential(asked)


def _credential(upsertion: ScramCredentialUpsertion) -> UserScramCredential:
    """Derive the keys here: what is not stored is not passed on."""
    mechanism = MECHANISMS_BY_NUMBER.get(upsertion.mechanism)
    salt = bytes(upsertion.salt)
    if mechanism is None:
        return UserScramCredential(upsertion.name, upsertion.mechanism, upsertion.iterations, salt, b"", b"")
    derived = credential_of(mechanism, bytes(upsertion.salted_password), salt, upsertion.iterations)
    return UserScramCredential(
        upsertion.name, upsertion.mechanism, upsertion.iterations, salt, derived.stored_key, derived.server_key
    )
