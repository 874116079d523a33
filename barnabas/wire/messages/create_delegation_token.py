"""CreateDelegationToken, API key 38, versions 1 to 3; flexible from 2.

Creates a delegation token (KIP-48).

- v0 is gone from Kafka 4. v3: a superuser may create it for another owner, and the requester is told (KIP-373).
- Not for connections that authenticated by such a token themselves: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_38_create_delegation_token.py`.

Source: Kafka's CreateDelegationTokenRequest.json and CreateDelegationTokenResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class CreatableRenewers:
    principal_type: str = wire("string")
    principal_name: str = wire("string")


@dataclass(slots=True)
class CreateDelegationTokenRequest(Request):
    owner_principal_type: str | None = wire("string", "3+", nullable="3+")
    """None for the principal that asks."""
    owner_principal_name: str | None = wire("string", "3+", nullable="3+")
    renewers: list[CreatableRenewers] = wire([CreatableRenewers])
    max_lifetime_ms: int = wire("int64")
    """-1 for the broker's own."""


@dataclass(slots=True)
class CreateDelegationTokenResponse(Response):
    error_code: int = wire("int16")
    principal_type: str = wire("string")
    principal_name: str = wire("string")
    token_requester_principal_type: str = wire("string", "3+")
    token_requester_principal_name: str = wire("string", "3+")
    issue_timestamp_ms: int = wire("int64")
    expiry_timestamp_ms: int = wire("int64")
    max_timestamp_ms: int = wire("int64")
    token_id: str = wire("string")
    hmac: bytes = wire("bytes")
    throttle_time_ms: int = wire("int32")
