"""Bearer tokens of an OpenID Connect provider: signed JWTs (RFC 7519), verified by the provider's keys (RFC 7517).

A token is accepted only with a signature by an asymmetric algorithm, and with issuer, audience and expiry; what can't
be verified is refused, also while no key has been read yet. Keys come from a file, which is read again when it changes,
or by HTTPS: again every ten minutes, and early when a token names a key that is not known.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import ssl
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.logs import get_logger

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
TOKEN_BYTES_MAX: Final = 16_384
CLOCK_SKEW_S: Final = 30
_KEYS_BYTES_MAX: Final = 1 << 20
_REFRESH_MS: Final = 600_000
_UNKNOWN_KEY_MS: Final = 10_000
"""How often an unknown key may cause a request to the provider: a caller can name any."""
_FETCH_S_MAX: Final = 10.0

_log = get_logger("tokens")


class TokenRefused(Exception):  # noqa: N818  (an outcome)
    """Why, in one line without the token."""


@dataclass(slots=True, frozen=True)
class TokenRules:
    """`keys` is the path of a JWK set or its https URL; `authority` a PEM file for that URL's certificate, or empty.

    `roles_claim` is the claim with the roles of the token's subject; a dot leads into a claim that is an object.
    """

    issuer: str
    audience: str
    keys: str
    roles_claim: str = "roles"
    authority: str = ""

    def check(self) -> None:
        """Raises ValueError."""
        if not self.issuer or not self.audience or not self.keys:
            raise ValueError("issuer, audience and keys are needed to verify tokens")
        if "://" in self.keys and not self.keys.startswith("https://"):
            raise ValueError(f"keys of tokens at {self.keys}: only https and files are possible")


@dataclass(slots=True, frozen=True)
class TokenSubject:
    """Whose token it is."""

    name: str
    roles: tuple[str, ...]


class TokenVerifier:
    """Verifies tokens; on one event loop."""

    def __init__(self, rules: TokenRules, now_s: Callable[[], int]) -> None:
        """Raises OSError if the library for it is not installed."""
        if importlib.util.find_spec("joserfc") is None:
            raise OSError("joserfc, which verifies tokens, is not installed: pip install 'barnabas[controller]'")
        self._rules = rules
        self._now_s = now_s
        self._keys: KeySet | None = None
        self._seen: tuple[int, int, int] | None = None
        self._asked_ms = 0
        self._reading = asyncio.Lock()

    async def verify(self, token: str) -> TokenSubject:
        """Raises TokenRefused."""
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError

        if len(token) > TOKEN_BYTES_MAX:
            raise TokenRefused("the token is too long")
        try:
            keys = await self._current_keys()
            try:
                decoded = jwt.decode(token, keys, algorithms=ALGORITHMS)
            except InvalidKeyIdError:
                decoded = jwt.decode(token, await self._current_keys(_UNKNOWN_KEY_MS), algorithms=ALGORITHMS)
            registry = jwt.JWTClaimsRegistry(
                self._now_s,
                CLOCK_SKEW_S,
                iss={"essential": True, "value": self._rules.issuer},
                aud={"essential": True, "value": self._rules.audience},
                sub={"essential": True},
                exp={"essential": True},
            )
            registry.validate(decoded.claims)
        except JoseError as error:
            raise TokenRefused(f"the token is not valid: {error.error}") from None
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise TokenRefused(f"the token is malformed: {type(error).__name__}") from None
        return TokenSubject(str(decoded.claims["sub"]), _roles(decoded.claims, self._rules.roles_claim))

    async def _current_keys(self, age_ms_max: int = _REFRESH_MS) -> KeySet:
        """Return the keys, read again if they are older than that, or a file has changed. Raises TokenRefused."""
        async with self._reading:
            now_ms = monotonic_ms()
            is_due = self._keys is None or now_ms - self._asked_ms >= age_ms_max
            if self._rules.keys.startswith("https://"):
                # A provider that does not answer is not asked by each call.
                may_ask = not self._asked_ms or now_ms - self._asked_ms >= min(age_ms_max, _UNKNOWN_KEY_MS)
                if is_due and may_ask:
                    self._asked_ms = now_ms
                    await self._read(self._fetch)
            elif (seen := await asyncio.to_thread(_identity, self._rules.keys)) != self._seen:
                self._seen = seen
                await self._read(lambda: Path(self._rules.keys).read_bytes())
        if self._keys is None:
            raise TokenRefused("no keys to verify tokens with")
        return self._keys

    async def _read(self, read: Callable[[], bytes]) -> None:
        """Replace the keys; those before stay if that fails."""
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        try:
            self._keys = KeySet.import_key_set(json.loads(await asyncio.to_thread(read)))
        except (OSError, ValueError, TypeError, KeyError, JoseError) as error:
            _log.error("keys of tokens can't be read", keys=self._rules.keys, reason=str(error), limit_key="token keys")

    def _fetch(self) -> bytes:
        context = ssl.create_default_context(cafile=self._rules.authority or None)
        opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler({}), _NoRedirect()
        )
        with opener.open(self._rules.keys, timeout=_FETCH_S_MAX) as response:
            content: bytes = response.read(_KEYS_BYTES_MAX + 1)
        if len(content) > _KEYS_BYTES_MAX:
            raise ValueError(f"larger than {_KEYS_BYTES_MAX} bytes")
        return content


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Keys come from the URL that is configured."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _identity(path: str) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _roles(claims: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """Return the roles of a claim that is a list or a text with spaces; nothing if there is none."""
    value: Any = claims
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        return tuple(value.split())
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()
