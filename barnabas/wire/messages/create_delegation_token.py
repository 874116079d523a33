"""CreateDelegationToken, API key 38, versions 1 to 3; flexible from 2.

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
    owner_principal_name: str | None = wire("string", "3+", nullable="3+")
    renewers: list[CreatableRenewers] = wire([CreatableRenewers])
    max_lifetime_ms: int = wire("int64")


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
