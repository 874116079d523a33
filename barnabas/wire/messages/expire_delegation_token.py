"""ExpireDelegationToken, API key 40, versions 1 to 2; flexible from 2.

Sets a delegation token to expire, or with a negative period at once (KIP-48).

- v0 is gone from Kafka 4; v1 and v2 differ only in being flexible.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_40_expire_delegation_token.py`.

Source: Kafka's ExpireDelegationTokenRequest.json and ExpireDelegationTokenResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class ExpireDelegationTokenRequest(Request):
    hmac: bytes = wire("bytes")
    expiry_time_period_ms: int = wire("int64")


@dataclass(slots=True)
class ExpireDelegationTokenResponse(Response):
    error_code: int = wire("int16")
    expiry_timestamp_ms: int = wire("int64")
    throttle_time_ms: int = wire("int32")
