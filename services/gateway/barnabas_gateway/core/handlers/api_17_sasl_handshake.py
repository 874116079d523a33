"""SaslHandshake, API key 17, versions 0 to 1 (KIP-43, KIP-152).

- Chooses a mechanism on a listener with SASL, before anything else but ApiVersions, or to authenticate again (KIP-368).
- v0: the tokens that follow are frames without a header. v1: they are in SaslAuthenticate.
- A mechanism that is not enabled is UNSUPPORTED_SASL_MECHANISM, and the connection is closed after
  `connection.failed.authentication.delay.ms`.
- ILLEGAL_SASL_STATE on a listener without SASL, and less than a second after the connection last began to authenticate
  again.

Deviations: a handshake in the middle of an exchange is answered ILLEGAL_SASL_STATE, as in Kafka; any other request
there closes the connection without an answer.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.requests.handler import Handler


class SaslHandshakeHandler(Handler):
    api_key = ApiKey.SASL_HANDSHAKE

    def start(self, pending: PendingRequest, request: SaslHandshakeRequest) -> None:
        """No authorization is needed: the client is about to say who it is."""
        authentication = pending.connection.authentication
        if authentication is None:
            self.responder.respond(pending, SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE))
        else:
            authentication.handshake(pending, request.mechanism)
