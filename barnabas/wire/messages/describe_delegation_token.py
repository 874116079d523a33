"""DescribeDelegationToken, API key 41, versions 1 to 3; flexible from 2.

Delegation tokens with their HMACs (KIP-48).

- v0 is gone from Kafka 4. v3: who requested the token (KIP-373).
- Null owners ask for all that the principal may see, an empty list for none.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_41_describe_delegation_token.py`.

Source: Kafka's DescribeDelegationTokenRequest.json and DescribeDelegationTokenResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class DescribeDelegationTokenOwner:
    principal_type: str = wire("string")
    principal_name: str = wire("string")


@dataclass(slots=True)
class DescribeDelegationTokenRequest(Request):
    owners: list[DescribeDelegationTokenOwner] | None = wire([DescribeDelegationTokenOwner], nullable="0+")
    """None asks for all."""


@dataclass(slots=True)
class DescribedDelegationTokenRenewer:
    principal_type: str = wire("string")
    principal_name: str = wire("string")


@dataclass(slots=True)
class DescribedDelegationToken:
    principal_type: str = wire("string")
    principal_name: str = wire("string")
    token_requester_principal_type: str = wire("string", "3+")
    token_requester_principal_name: str = wire("string", "3+")
    issue_timestamp: int = wire("int64")
    expiry_timestamp: int = wire("int64")
    max_timestamp: int = wire("int64")
    token_id: str = wire("string")
    hmac: bytes = wire("bytes")
    renewers: list[DescribedDelegationTokenRenewer] = wire([DescribedDelegationTokenRenewer])


@dataclass(slots=True)
class DescribeDelegationTokenResponse(Response):
    error_code: int = wire("int16")
    tokens: list[DescribedDelegationToken] = wire([DescribedDelegationToken])
    throttle_time_ms: int = wire("int32")
