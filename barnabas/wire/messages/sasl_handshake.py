"""SaslHandshake, API key 17, versions 0 to 1; never flexible.

Source: Kafka's SaslHandshakeRequest.json and SaslHandshakeResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.wire.schema import Request, Response, wire


@dataclass(slots=True)
class SaslHandshakeRequest(Request):
    mechanism: str = wire("string")


@dataclass(slots=True)
class SaslHandshakeResponse(Response):
    error_code: int = wire("int16")
    mechanisms: list[str] = wire(["string"])
