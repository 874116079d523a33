"""RenewDelegationToken, API key 39, versions 1 to 2; flexible from 2.

Renews a delegation token up to its maximal lifetime (KIP-48).

- v0 is gone from Kafka 4; v1 and v2 differ only in being flexible.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_39_renew_delegation_token.py`.

Source: Kafka's RenewDelegationTokenRequest.json and RenewDelegationTokenResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class RenewDelegationTokenRequest(Request):
    hmac: bytes = wire("bytes")
    renew_period_ms: int = wire("int64")


@dataclass(slots=True)
class RenewDelegationTokenResponse(Response):
    error_code: int = wire("int16")
    expiry_timestamp_ms: int = wire("int64")
    throttle_time_ms: int = wire("int32")
