"""DescribeDelegationToken, API key 41, versions 1 to 3; flexible from 2.

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
