"""Who issues what clients of a simulated gateway prove: a realm of Kerberos, and an issuer of tokens."""

from __future__ import annotations

from typing import Final

from barnabas_gateway.core.model.config import KerberosConfig, OAuthConfig
from barnabas_gateway.core.sasl.gssapi import SecurityContextError
from barnabas_gateway.core.sasl.oauthbearer import AccessToken, InvalidToken
from tests.sim.process import WALL_START_MS

TICKET: Final = b"ticket"
TOKEN: Final = "valid"
GUEST: Final = "guest"
_REALM: Final = "REALM"
_EXPIRES_MS: Final = WALL_START_MS + 86_400_000
_SIGNATURE: Final = b"signed:"


class SimulatedContext:
    """Is established by `TICKET`; a message is wrapped by a prefix."""

    default_realm = _REALM

    def __init__(self) -> None:
        self.is_established = False

    def accept(self, token: bytes) -> bytes:
        if token != TICKET:
            raise SecurityContextError("no ticket of this realm")
        self.is_established = True
        return b"mutual"

    def initiator(self) -> str:
        return f"{GUEST}@{_REALM}"

    def expires_ms(self) -> int | None:
        return _EXPIRES_MS

    def wrap(self, message: bytes) -> bytes:
        return _SIGNATURE + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(_SIGNATURE):
            raise SecurityContextError("a message that is not signed")
        return message.removeprefix(_SIGNATURE)


def begin_context(kerberos: KerberosConfig) -> SimulatedContext:
    return SimulatedContext()


def validate_token(oauth: OAuthConfig, token: str) -> AccessToken:
    if token != TOKEN:
        raise InvalidToken("not from the issuer")
    return AccessToken(GUEST, _EXPIRES_MS)
