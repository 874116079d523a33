"""OAUTHBEARER at one listener, by Kafka's keys (KIP-768, KIP-1139).

Without a source of keys, an issuer and an audience a gateway refuses to start: a token is never taken for valid because
something was not configured (Kafka's default accepted unsigned tokens, CVE-2026-33557).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from barnabas_gateway.core.model.config import OAuthConfig

_JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_REFRESH: Final = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
_RETRY: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
_RETRY_MAX: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"
_ISSUER: Final = "sasl.oauthbearer.expected.issuer"
_AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
_SKEW: Final = "sasl.oauthbearer.clock.skew.seconds"
_SCOPE: Final = "sasl.oauthbearer.scope.claim.name"
_SUBJECT: Final = "sasl.oauthbearer.sub.claim.name"
OAUTH_KEYS: Final = (_JWKS_URL, _REFRESH, _RETRY, _RETRY_MAX, _ISSUER, _AUDIENCE, _SKEW, _SCOPE, _SUBJECT)
"""For all listeners or, with a prefix, for one, or for its mechanism `oauthbearer`."""
ALLOW_UNVERIFIED: Final = {
    _ISSUER: "sasl.oauthbearer.allow.unverified.issuer",
    _AUDIENCE: "sasl.oauthbearer.allow.unverified.audience",
}
"""Keys of Kafka 4.4 that replace a key which is not set. Here nothing does; beside it they have no effect in Kafka."""
CALLBACK_KEY: Final = "sasl.server.callback.handler.class"
_VALIDATORS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
_MS_MAX: Final = 2**31 - 1
_SKEW_S_MAX: Final = 3600


def oauth_config(values: Mapping[str, str]) -> OAuthConfig:
    """Return what a listener's keys say, `OAUTH_KEYS` without empty ones. Raises ValueError that names the key."""
    for key in (_JWKS_URL, _ISSUER, _AUDIENCE):
        if not values.get(key, "").strip():
            instead = f"; {ALLOW_UNVERIFIED[key]} does not replace it" if key in ALLOW_UNVERIFIED else ""
            raise ValueError(f"{key} is needed for OAUTHBEARER: no token could be verified without it{instead}")
    url = values[_JWKS_URL].strip()
    parts = urlsplit(url)
    if not (parts.scheme == "https" and parts.hostname) and not (
        parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/")
    ):
        raise ValueError(f"{_JWKS_URL}={url}: expected https://HOST/… or file:///PATH")
    audiences = tuple(each.strip() for each in values[_AUDIENCE].split(",") if each.strip())
    if not audiences:
        raise ValueError(f"{_AUDIENCE}={values[_AUDIENCE]}: expected one audience or more")
    default = OAuthConfig("", "", ())
    return OAuthConfig(
        url,
        values[_ISSUER].strip(),
        audiences,
        _claim(values, _SCOPE, default.scope_claim),
        _claim(values, _SUBJECT, default.subject_claim),
        _number(values, _SKEW, default.clock_skew_s, 0, _SKEW_S_MAX),
        _number(values, _REFRESH, default.refresh_ms, 1, _MS_MAX),
        _number(values, _RETRY, default.retry_ms, 1, _MS_MAX),
        _number(values, _RETRY_MAX, default.retry_ms_max, 1, _MS_MAX),
    )


def check_callback_handler(class_name: str) -> None:
    """Raise ValueError unless that is Kafka's validator: its other handler accepts tokens without a signature."""
    if class_name and class_name not in _VALIDATORS:
        raise ValueError(f"{CALLBACK_KEY}={class_name}: expected {_VALIDATORS[0]}, or nothing")


def _claim(values: Mapping[str, str], key: str, default: str) -> str:
    return values.get(key, default).strip() or default


def _number(values: Mapping[str, str], key: str, default: int, least: int, most: int) -> int:
    text = values.get(key, str(default)).strip()
    if not text.isascii() or not text.isdecimal() or len(text) > 12 or not least <= int(text) <= most:
        raise ValueError(f"{key}={text}: expected a number from {least} to {most}")
    return int(text)
