"""Access tokens of OAUTHBEARER: what Kafka's BrokerJwtValidator checks, and more (`barnabas.runtime.tokens`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.runtime.tokens.token_verifier import ClaimRules, TokenRefused, TokenVerifier, UnknownKey
from barnabas.runtime.tokens.verification_keys import VerificationKeys
from barnabas_gateway.core.model.config import OAuthConfig
from barnabas_gateway.core.sasl.oauthbearer import AccessToken, InvalidToken


class KeySource(Protocol):
    """Where the keys of an issuer come from."""

    keys: VerificationKeys | None
    """None: none could be read yet."""

    def key_missing(self) -> None:
        """A token names a key that is not among them: there may be new ones."""


class AccessTokenValidator:
    """Validates the tokens of one listener."""

    def __init__(self, config: OAuthConfig, source: KeySource, wall_ms: Callable[[], int]) -> None:
        self._scope_claim = config.scope_claim
        self._source = source
        rules = ClaimRules(config.issuer, config.audiences, config.clock_skew_s, config.subject_claim, True)
        self._verifier = TokenVerifier(rules, lambda: wall_ms() // 1000)

    def validate(self, token: str) -> AccessToken:
        """Raises InvalidToken."""
        try:
            verified = self._verifier.verify(token, self._source.keys)
        except UnknownKey as unknown:
            self._source.key_missing()
            raise InvalidToken(str(unknown)) from None
        except TokenRefused as refused:
            raise InvalidToken(str(refused)) from None
        scope = verified.claims.get(self._scope_claim, [])
        scopes = [scope] if isinstance(scope, str) else scope
        if not isinstance(scopes, list) or not all(isinstance(each, str) and each.strip() for each in scopes):
            raise InvalidToken("its scope is no text and no list of texts")
        return AccessToken(verified.subject, int(verified.expires_s * 1000))
