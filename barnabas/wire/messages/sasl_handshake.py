"""SaslHandshake, API key 17, versions 0 to 1; never flexible.

Chooses the SASL mechanism of a connection (KIP-43).

- v0: the tokens that follow are raw, without request headers. v1: they travel in SaslAuthenticate (KIP-152).
- Its version can't be raised, since clients up to 2.4 would negotiate it wrongly (KAFKA-9577); for the same reason it
  is never flexible.
- UNSUPPORTED_SASL_MECHANISM comes with the mechanisms that are enabled, and the connection is closed.

State: served by `services/gateway/barnabas_gateway/core/handlers/api_17_sasl_handshake.py`.

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
