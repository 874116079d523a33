"""OperatorTokens: bearer tokens of an OpenID Connect provider, and the roles that they have.

Keys come from a file, which is read again when it changes, or by HTTPS: again every ten minutes, and early when a token
names a key that is not known. While no key has been read every token is refused.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.logs import get_logger
from barnabas.runtime.tokens.token_verifier import ClaimRules, TokenRefused, TokenVerifier, UnknownKey
from barnabas.runtime.tokens.verification_keys import VerificationKeys, fetch_keys, read_key_file, read_keys

_REFRESH_MS: Final = 600_000
_UNKNOWN_KEY_MS: Final = 10_000
"""How often an unknown key may cause a request to the provider: a caller can name any."""

_log = get_logger("tokens")


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


class OperatorTokens:
    """Verifies tokens of operators; on one event loop."""

    def __init__(self, rules: TokenRules, now_s: Callable[[], int]) -> None:
        """Raises OSError if the library for it is not installed."""
        if importlib.util.find_spec("joserfc") is None:
            raise OSError("joserfc, which verifies tokens, is not installed: pip install 'barnabas[controller]'")
        self._rules = rules
        self._verifier = TokenVerifier(ClaimRules(rules.issuer, (rules.audience,)), now_s)
        self._keys: VerificationKeys | None = None
        self._seen: tuple[int, int, int] | None = None
        self._asked_ms = 0
        self._reading = asyncio.Lock()

    async def verify(self, token: str) -> TokenSubject:
        """Raises TokenRefused."""
        try:
            try:
                verified = self._verifier.verify(token, await self._current_keys())
            except UnknownKey:
                verified = self._verifier.verify(token, await self._current_keys(_UNKNOWN_KEY_MS))
        except TokenRefused as refused:
            raise TokenRefused(f"the token is not valid: {refused}") from None
        return TokenSubject(verified.subject, _roles(verified.claims, self._rules.roles_claim))

    async def _current_keys(self, age_ms_max: int = _REFRESH_MS) -> VerificationKeys | None:
        """Return the keys, read again if they are older than that, or a file has changed."""
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
                await self._read(lambda: read_key_file(self._rules.keys))
        return self._keys

    async def _read(self, read: Callable[[], bytes]) -> None:
        """Replace the keys; those before stay if that fails."""
        try:
            self._keys = await asyncio.to_thread(lambda: read_keys(read()))
        except (OSError, ValueError) as error:
            _log.error("keys of tokens can't be read", keys=self._rules.keys, reason=str(error), limit_key="token keys")

    def _fetch(self) -> bytes:
        return fetch_keys(self._rules.keys, self._rules.authority)


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
