"""AlterUserScramCredentials, API key 51, version 0; flexible.

Sets and deletes SCRAM credentials of users (KIP-554).

- The client salts the password; 4096 to 16384 iterations, UNACCEPTABLE_CREDENTIAL otherwise.
- A credential that is altered twice in a request is DUPLICATE_RESOURCE, and not altered at all.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_51_alter_user_scram_credentials.py`.

Source: Kafka's AlterUserScramCredentialsRequest.json and AlterUserScramCredentialsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class ScramCredentialDeletion:
    name: str = wire("string")
    mechanism: int = wire("int8")


@dataclass(slots=True)
class ScramCredentialUpsertion:
    name: str = wire("string")
    mechanism: int = wire("int8")
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""
    iterations: int = wire("int32")
    salt: bytes = wire("bytes")
    salted_password: bytes = wire("bytes")


@dataclass(slots=True)
class AlterUserScramCredentialsRequest(Request):
    deletions: list[ScramCredentialDeletion] = wire([ScramCredentialDeletion])
    upsertions: list[ScramCredentialUpsertion] = wire([ScramCredentialUpsertion])


@dataclass(slots=True)
class AlterUserScramCredentialsResult:
    user: str = wire("string")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)


@dataclass(slots=True)
class AlterUserScramCredentialsResponse(Response):
    throttle_time_ms: int = wire("int32")
    results: list[AlterUserScramCredentialsResult] = wire([AlterUserScramCredentialsResult])
