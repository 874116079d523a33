"""Access tokens of OAUTHBEARER: JWTs (RFC 7519) whose signature is that of a key of the issuer (RFC 7517).

What Kafka's BrokerJwtValidator checks, and more: an algorithm with a public key, of a list; issuer and audience always;
one signature is verified at most, of a token of at most 16 KiB, by a key of at most 8192 bits.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas_gateway.core.model.config import OAuthConfig
from barnabas_gateway.core.sasl.oauthbearer import AccessToken, InvalidToken

if TYPE_CHECKING:
    from joserfc.jwk import Key

ALGORITHMS: Final = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA", "Ed25519"),
}
"""By the type of a key. Neither `none` nor one with a shared secret."""
_CURVE_BY_ALGORITHM: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_RSA_BITS: Final = range(2048, 8192 + 1)
_KEYS_MAX: Final = 100
TOKEN_BYTES_MAX: Final = 16 << 10
_HEADER_BYTES_MAX: Final = 4096
_SIGNATURE_BYTES_MAX: Final = 1400
"""Of the largest key, in base64."""
_KEY_ID_LENGTH_MAX: Final = 1_000
_PRINCIPAL_LENGTH_MAX: Final = 1_000
_EXPIRES_S_MAX: Final = 2**43


class VerificationKeys:
    """The keys of one JWK set that signatures can be verified with."""

    def __init__(self, keys: list[Key]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """Return the key that a token names; of one that names none, the first that fits its algorithm."""
        for key in self._keys:
            if (key_id is None or key.kid == key_id) and _fits(key, algorithm):
                return key
        return None


def read_keys(content: bytes) -> VerificationKeys:
    """Return the usable keys of a JWK set, without those of other kinds. Raises ValueError if there are none."""
    try:
        values = json.loads(content)["keys"][:_KEYS_MAX]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"not a set of keys: {type(error).__name__}") from None
    found = [key for key in map(_usable_key, values) if key is not None]
    if not found:
        raise ValueError("no key to verify signatures with")
    return VerificationKeys(found)


def _usable_key(value: Any) -> Key | None:
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry, RSAKey

    try:
        if value.get("kty") not in ALGORITHMS or value.get("use", "sig") != "sig":
            return None
        key = JWKRegistry.import_key(value)
        return key if not isinstance(key, RSAKey) or key.public_key.key_size in _RSA_BITS else None
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        return None


class KeySource(Protocol):
    """Where the keys of an issuer come from."""

    keys: VerificationKeys | None
    """None: none could be read yet."""

    def key_missing(self) -> None:
        """A token names a key that is not among them: there may be new ones."""


class AccessTokenValidator:
    """Validates the tokens of one listener."""

    def __init__(self, config: OAuthConfig, source: KeySource, wall_ms: Callable[[], int]) -> None:
        from joserfc.jws import JWSRegistry
        from joserfc.jwt import JWTClaimsRegistry

        self._config = config
        self._source = source
        self._registry = JWSRegistry(
            algorithms=[name for names in ALGORITHMS.values() for name in names], strict_check_header=False
        )
        self._registry.max_header_length = _HEADER_BYTES_MAX
        self._registry.max_signature_length = _SIGNATURE_BYTES_MAX
        self._claims = JWTClaimsRegistry(
            lambda: wall_ms() // 1000,
            config.clock_skew_s,
            iss={"essential": True, "value": config.issuer},
            aud={"essential": True, "values": list(config.audiences)},
            exp={"essential": True},
            iat={"essential": True},
        )

    def validate(self, token: str) -> AccessToken:
        """Raises InvalidToken."""
        from joserfc import jws
        from joserfc.errors import JoseError

        if len(token) > TOKEN_BYTES_MAX:
            raise InvalidToken("it is too long")
        try:
            extracted = jws.extract_compact(token.encode(), registry=self._registry)
            key = self._key_of(extracted.headers())
            if not jws.validate_compact(extracted, key, registry=self._registry):
                raise InvalidToken("its signature is wrong")
            claims = json.loads(extracted.payload)
            if not isinstance(claims, dict):
                raise InvalidToken("its claims are no object")
            self._claims.validate(claims)
            return self._access_token(claims)
        except JoseError as error:
            raise InvalidToken(error.error) from None
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
            raise InvalidToken(f"it is malformed: {type(error).__name__}") from None

    def _key_of(self, header: dict[str, Any]) -> Key:
        """Raises InvalidToken."""
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or not any(algorithm in names for names in ALGORITHMS.values()):
            raise InvalidToken("its algorithm is not allowed")
        if key_id is not None and (not isinstance(key_id, str) or len(key_id) > _KEY_ID_LENGTH_MAX):
            raise InvalidToken("its key id is no name")
        if "b64" in header or "crit" in header:
            raise InvalidToken("its header asks for an extension")
        keys = self._source.keys
        if keys is None:
            raise InvalidToken("the issuer's keys are not known yet")
        key = keys.find(key_id, algorithm)
        if key is None:
            self._source.key_missing()
            raise InvalidToken("its key is not known")
        return key

    def _access_token(self, claims: dict[str, Any]) -> AccessToken:
        """Raises InvalidToken."""
        subject = claims.get(self._config.subject_claim)
        if not isinstance(subject, str) or not subject.strip() or len(subject) > _PRINCIPAL_LENGTH_MAX:
            raise InvalidToken("it has no subject")
        scope = claims.get(self._config.scope_claim, [])
        scopes = [scope] if isinstance(scope, str) else scope
        if not isinstance(scopes, list) or not all(isinstance(each, str) and each.strip() for each in scopes):
            raise InvalidToken("its scope is no text and no list of texts")
        if not 0 < claims["exp"] <= _EXPIRES_S_MAX:
            raise InvalidToken("its end is no time")
        return AccessToken(subject.strip(), int(claims["exp"] * 1000))


def _fits(key: Key, algorithm: str) -> bool:
    if algorithm not in ALGORITHMS[key.key_type] or key.alg not in (None, algorithm):
        return False
    curve = _CURVE_BY_ALGORITHM.get(algorithm)
    return curve is None or key.get("crv") == curve
