"""TokenSource: access tokens of OAUTHBEARER from a file, or from an issuer's token endpoint by OAuth's client
credentials (RFC 6749, 4.4).
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from base64 import b64encode, urlsafe_b64decode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from barnabas.cluster.access.token_properties import TokenSettings

_ANSWER_BYTES_MAX: Final = 1 << 20
_REASON_CHARACTERS_MAX: Final = 200
_TIMEOUT_S: Final = 10.0
_REFRESH_AFTER: Final = 0.8
"""The part of a token's life after which there is a new one (Java: `sasl.login.refresh.window.factor`)."""


@dataclass(slots=True, frozen=True)
class AccessToken:
    text: str = field(repr=False)
    expires_s: float | None
    """Of the wall clock; None: it does not say."""


class TokenSource:
    """One OAuth client's tokens: a token is used again until most of its life is over, a file is read each time."""

    def __init__(self, settings: TokenSettings) -> None:
        self.extensions = settings.extensions
        self._settings = settings
        self._last: AccessToken | None = None
        self._refresh_at_s = 0.0

    def token(self) -> AccessToken:
        """Return a token that has not ended as far as it says. Raises OSError that names its file or URL, and shows no
        secret.
        """
        settings = self._settings
        if settings.path:
            try:
                text = Path(settings.path).read_text("ascii").strip()
            except UnicodeDecodeError:
                raise OSError(f"{settings.path} has no access token") from None
            return _checked(text, None, settings.path)
        now_s = time.time()
        if self._last is None or now_s >= self._refresh_at_s:
            self._last = _requested(settings)
            expires_s = self._last.expires_s
            self._refresh_at_s = now_s + _REFRESH_AFTER * (expires_s - now_s) if expires_s is not None else now_s
        return self._last


def _requested(settings: TokenSettings) -> AccessToken:
    answer = _post(settings)
    try:
        values = json.loads(answer)
        text, seconds = values["access_token"], values.get("expires_in")
    except (ValueError, TypeError, KeyError, AttributeError):
        raise OSError(f"{settings.url}: its answer has no access_token") from None
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return _checked(text, time.time() + seconds if is_number else None, settings.url)


def _post(settings: TokenSettings) -> bytes:
    """Without redirections and proxies. Raises OSError."""
    form = {"grant_type": "client_credentials"} | ({"scope": settings.scope} if settings.scope else {})
    pair = (settings.client_id, settings.client_secret)
    login = ":".join(map(quote_plus, pair) if settings.is_header_encoded else pair)
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {b64encode(login.encode()).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    opener = urllib.request.OpenerDirector()
    opener.add_handler(urllib.request.HTTPHandler())
    try:
        path, pem = settings.authority_path or None, settings.authority_pem or None
        opener.add_handler(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=path, cadata=pem)))
    except OSError as error:
        raise OSError(f"https.ca.location, https.ca.pem: {settings.authority_path} {error}") from None
    opener.add_handler(urllib.request.HTTPDefaultErrorHandler())
    opener.add_handler(urllib.request.HTTPErrorProcessor())
    request = urllib.request.Request(settings.url, urlencode(form).encode(), headers, method="POST")
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as response:
            answer: bytes = response.read(_ANSWER_BYTES_MAX + 1)
    except urllib.error.HTTPError as refusal:
        with refusal:
            raise OSError(f"{settings.url}: {_reason(refusal)}") from None
    except (OSError, ValueError) as error:
        raise OSError(f"{settings.url}: {error}") from None
    if len(answer) > _ANSWER_BYTES_MAX:
        raise OSError(f"{settings.url}: its answer is larger than {_ANSWER_BYTES_MAX} bytes")
    return answer


def _reason(refusal: urllib.error.HTTPError) -> str:
    """Return status and the issuer's error (RFC 6749, 5.2)."""
    try:
        values = json.loads(refusal.read(_ANSWER_BYTES_MAX))
        said = [values[name] for name in ("error", "error_description") if isinstance(values.get(name), str)]
    except (OSError, ValueError, AttributeError):
        said = []
    printable = "".join(each for each in ": ".join(said)[:_REASON_CHARACTERS_MAX] if each.isprintable())
    return f"HTTP {refusal.code} {printable or refusal.reason}"


def _checked(text: Any, expires_s: float | None, origin: str) -> AccessToken:
    if not isinstance(text, str) or not text or not text.isascii() or any(each.isspace() for each in text):
        raise OSError(f"{origin} has no access token")
    return AccessToken(text, expires_s if expires_s is not None else _expiry(text))


def _expiry(text: str) -> float | None:
    """Return the claim `exp` of a token that is a JWT, whose signature is the broker's to verify."""
    try:
        _, payload, _ = text.split(".")
        expires_s = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"]
        return float(expires_s)
    except (ValueError, TypeError, KeyError):
        return None
