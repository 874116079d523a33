"""TokenVerifier: JWTs (RFC 7519) whose signature is that of a key of the issuer.

A token has issuer, audience, expiry and subject always, an algorithm with a public key, of a list, and at most 16 KiB;
one signature is verified at most, by a key of at most 8192 bits that allows that algorithm.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from barnabas.runtime.tokens.verification_keys import ALGORITHMS, VerificationKeys

if TYPE_CHECKING:
    from joserfc.jwk import Key

TOKEN_BYTES_MAX: Final = 16 << 10
_HEADER_BYTES_MAX: Final = 4096
_SIGNATURE_BYTES_MAX: Final = 1400
"""Of the largest key, in base64."""
_KEY_ID_LENGTH_MAX: Final = 1_000
_SUBJECT_LENGTH_MAX: Final = 1_000
_EXPIRES_S_MAX: Final = 2**43


class TokenRefused(Exception):  # noqa: N818  (an outcome)
    """Why, in one line that begins with "it" and has nothing of the token."""


class UnknownKey(TokenRefused):
    """The token names a key that is not among the issuer's as they are known: there may be new ones."""


@dataclass(slots=True, frozen=True)
class ClaimRules:
    """What the claims of a token have to say; one of `audiences` is enough."""

    issuer: str
    audiences: tuple[str, ...]
    clock_skew_s: int = 30
    subject_claim: str = "sub"
    needs_issue_time: bool = False
    """Whether `iat` has to be there. If it is, it is not in the future."""


@dataclass(slots=True, frozen=True)
class VerifiedToken:
    """What a valid token says; `expires_s` is of the wall clock."""

    subject: str
    expires_s: float
    claims: Mapping[str, Any]


class TokenVerifier:
    """Verifies tokens by rules and the keys that each call brings. It keeps no state."""

    def __init__(self, rules: ClaimRules, now_s: Callable[[], int]) -> None:
        from joserfc.jws import JWSRegistry
        from joserfc.jwt import JWTClaimsRegistry

        self._rules = rules
        self._registry = JWSRegistry(
            algorithms=[name for names in ALGORITHMS.values() for name in names], strict_check_header=False
        )
        self._registry.max_header_length = _HEADER_BYTES_MAX
        self._registry.max_signature_length = _SIGNATURE_BYTES_MAX
        self._claims = JWTClaimsRegistry(
            now_s,
            rules.clock_skew_s,
            iss={"essential": True, "value": rules.issuer},
            aud={"essential": True, "values": list(rules.audiences)},
            exp={"essential": True},
            iat={"essential": rules.needs_issue_time},
        )

    def verify(self, token: str, keys: VerificationKeys | None) -> VerifiedToken:
        """`keys` None: none could be read yet, and no token is valid. Raises TokenRefused."""
        from joserfc import jws
        from joserfc.errors import JoseError

        if len(token) > TOKEN_BYTES_MAX:
            raise TokenRefused("it is too long")
        try:
            extracted = jws.extract_compact(token.encode(), registry=self._registry)
            key = _key_of(extracted.headers(), keys)
            if not jws.validate_compact(extracted, key, registry=self._registry):
                raise TokenRefused("its signature is wrong")
            claims = json.loads(extracted.payload)
            if not isinstance(claims, dict):
                raise TokenRefused("its claims are no object")
            self._claims.validate(claims)
            return self._verified(claims)
        except JoseError as error:
            raise TokenRefused(error.error) from None
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
            raise TokenRefused(f"it is malformed: {type(error).__name__}") from None

    def _verified(self, claims: dict[str, Any]) -> VerifiedToken:
        """Raises TokenRefused."""
        subject = claims.get(self._rules.subject_claim)
        if not isinstance(subject, str) or not subject.strip() or len(subject) > _SUBJECT_LENGTH_MAX:
            raise TokenRefused("it has no subject")
        if not 0 < claims["exp"] <= _EXPIRES_S_MAX:
            raise TokenRefused("its end is no time")
        return VerifiedToken(subject.strip(), claims["exp"], claims)


def _key_of(header: dict[str, Any], keys: VerificationKeys | None) -> Key:
    """Raises TokenRefused."""
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or not any(algorithm in names for names in ALGORITHMS.values()):
        raise TokenRefused("its algorithm is not allowed")
    if key_id is not None and (not isinstance(key_id, str) or len(key_id) > _KEY_ID_LENGTH_MAX):
        raise TokenRefused("its key id is no name")
    if "b64" in header or "crit" in header:
        raise TokenRefused("its header asks for an extension")
    if keys is None:
        raise TokenRefused("the issuer's keys are not known yet")
    key = keys.find(key_id, algorithm)
    if key is None:
        raise UnknownKey("its key is not known")
    return key
