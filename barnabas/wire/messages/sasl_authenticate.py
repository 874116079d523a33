"""SaslAuthenticate, API key 36, versions 0 to 2; flexible from 2.

One token of the SASL exchange, either way (KIP-152).

- v1: how long the session lives until it has to authenticate again, 0 for as long as it likes (KIP-368).
- SASL_AUTHENTICATION_FAILED says no more than that in its message, and the connection is closed after a delay.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_36_sasl_authenticate.py`.

Source: Kafka's SaslAuthenticateRequest.json and SaslAuthenticateResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class SaslAuthenticateRequest(Request):
    auth_bytes: bytes = wire("bytes")


@dataclass(slots=True)
class SaslAuthenticateResponse(Response):
    error_code: int = wire("int16")
    error_message: str | None = wire("string", nullable="0+", default=None)
    auth_bytes: bytes = wire("bytes")
    session_lifetime_ms: int = wire("int64", "1+")
