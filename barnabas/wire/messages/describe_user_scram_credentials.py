"""DescribeUserScramCredentials, API key 50, version 0; flexible.

SCRAM mechanisms and iterations of users, without any secret (KIP-554).

- Null or no users ask for all.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_50_describe_user_scram_credentials.py`.

Source: Kafka's DescribeUserScramCredentialsRequest.json and DescribeUserScramCredentialsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class UserName:
    name: str = wire("string")


@dataclass(slots=True)
class DescribeUserScramCredentialsRequest(Request):
    users: list[UserName] | None = wire([UserName], nullable="0+")
    """None asks for all."""


@dataclass(slots=True)
class CredentialInfo:
    mechanism: int = wire("int8")
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""
    iterations: int = wire("int32")


@dataclass(slots=True)
class DescribeUserScramCredentialsResult:
    user: str = wire("string")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    credential_infos: list[CredentialInfo] = wire([CredentialInfo])


@dataclass(slots=True)
class DescribeUserScramCredentialsResponse(Response):
    throttle_time_ms: int = wire("int32")
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    results: list[DescribeUserScramCredentialsResult] = wire([DescribeUserScramCredentialsResult])
