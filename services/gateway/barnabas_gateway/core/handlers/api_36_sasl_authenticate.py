"""SaslAuthenticate, API key 36, versions 0 to 2 (KIP-152, KIP-368).

- One token of the exchange that SaslHandshake began, and its answer; v1 on: after the last one, how long the session
  lasts until the client has to authenticate again (`connections.max.reauth.ms`, 0: for as long as it likes).
- A client that is not who it claims to be is SASL_AUTHENTICATION_FAILED, with Kafka's message, which does not say why;
  the answer comes after `connection.failed.authentication.delay.ms`, and the connection is closed.
- ILLEGAL_SASL_STATE without an exchange.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.requests.handler import Handler


class SaslAuthenticateHandler(Handler):
    api_key = ApiKey.SASL_AUTHENTICATE

    def start(self, pending: PendingRequest, request: SaslAuthenticateRequest) -> None:
        """No authorization is needed: the client is about to prove who it is."""
        authentication = pending.connection.authentication
        if authentication is None:
            message = "SaslAuthenticate request received after successful authentication"
            self.responder.respond(pending, SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, message))
        else:
            authentication.token_received(pending, bytes(request.auth_bytes))
