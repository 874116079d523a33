"""SaslAuthenticate, API key 36, versions 0 to 2; flexible from 2.

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
