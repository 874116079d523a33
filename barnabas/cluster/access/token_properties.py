"""Where a client's access tokens of OAUTHBEARER come from, by the properties of Java's clients (KIP-768, KIP-1139) and
of librdkafka.

    sasl.mechanism=OAUTHBEARER
    sasl.oauthbearer.token.endpoint.url=https://login.example.com/token
    sasl.oauthbearer.client.credentials.client.id=orders
    sasl.oauthbearer.client.credentials.client.secret=secret

or a file with a token, `file:///run/secrets/token`, as the URL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from barnabas.cluster.jaas import OAUTHBEARER_MODULE, login_options

OAUTHBEARER: Final = "OAUTHBEARER"

_PREFIX: Final = "org.apache.kafka.common.security.oauthbearer"
_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_SCOPE: Final = "sasl.oauthbearer.scope"
_HANDLER: Final = "sasl.login.callback.handler.class"
_RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
_JAVAS_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_JAVAS_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
_URLENCODE: Final = "sasl.oauthbearer.header.urlencode"
_METHOD: Final = "sasl.oauthbearer.method"
_GRANT: Final = "sasl.oauthbearer.grant.type"
_ID: Final = "sasl.oauthbearer.client.id"
_SECRET: Final = "sasl.oauthbearer.client.secret"
_EXTENSIONS: Final = "sasl.oauthbearer.extensions"
_CA_LOCATION: Final = "https.ca.location"
_CA_PEM: Final = "https.ca.pem"
TOKEN_PROPERTIES: Final = (
    *(_URL, _SCOPE, _HANDLER, _RETRIEVER, _JAVAS_ID, _JAVAS_SECRET, _URLENCODE),
    *(_METHOD, _GRANT, _ID, _SECRET, _EXTENSIONS, _CA_LOCATION, _CA_PEM),
)
"""Java's, then librdkafka's; some names are the same."""
_CLASSES: Final = {
    _HANDLER: ("OAuthBearerLoginCallbackHandler", "secured.OAuthBearerLoginCallbackHandler"),
    _RETRIEVER: ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever"),
}
_VALUES: Final = {_METHOD: ("oidc",), _GRANT: ("client_credentials",), _URLENCODE: ("true", "false")}
_OPTIONS: Final = ("clientId", "clientSecret", "scope", "ssl.truststore.location", "ssl.truststore.type")
_JAAS_EXTENSION: Final = "extension_"
_EXTENSION: Final = re.compile(r"([A-Za-z]+)=([\x21-\x7e \t\r\n]+)")


@dataclass(slots=True, frozen=True)
class TokenSettings:
    """`url` names a file, or the token endpoint of an issuer, where `client_id` and `client_secret` are those of the
    OAuth client.
    """

    url: str
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    extensions: tuple[tuple[str, str], ...] = ()
    """Sent with the token (RFC 7628), in order."""
    authority_path: str = ""
    """A PEM file for the endpoint's certificate; this and `authority_pem` empty: those that OpenSSL trusts."""
    authority_pem: str = field(default="", repr=False)
    is_header_encoded: bool = False
    """Whether id and secret are URL-encoded in the header (RFC 6749, 2.3.1), which some issuers need."""

    @property
    def path(self) -> str:
        """The file with the token; empty: it comes from an endpoint."""
        parts = urlsplit(self.url)
        return unquote(parts.path) if parts.scheme == "file" else ""


def token_settings(properties: Mapping[str, str]) -> TokenSettings:
    """Return what the properties say. Raises ValueError that names the property and shows no secret."""
    for name, allowed in _CLASSES.items():
        if properties.get(name, f"{_PREFIX}.{allowed[0]}") not in (f"{_PREFIX}.{each}" for each in allowed):
            raise ValueError(f"{name}={properties[name]}: expected {_PREFIX}.{allowed[0]}")
    for name, values in _VALUES.items():
        if properties.get(name, values[0]).lower() not in values:
            raise ValueError(f"{name}={properties[name]}: expected {' or '.join(values)}")
    options = _jaas_options(properties)
    if options.get("ssl.truststore.type", "PEM").upper() != "PEM":
        raise ValueError("sasl.jaas.config: ssl.truststore.type: this client reads PEM only")
    found = TokenSettings(
        properties.get(_URL, "").strip(),
        properties.get(_JAVAS_ID) or properties.get(_ID) or options.get("clientId", ""),
        properties.get(_JAVAS_SECRET) or properties.get(_SECRET) or options.get("clientSecret", ""),
        properties.get(_SCOPE) or options.get("scope", ""),
        _extensions(properties, options),
        properties.get(_CA_LOCATION) or options.get("ssl.truststore.location", ""),
        properties.get(_CA_PEM, ""),
        properties.get(_URLENCODE, "false").lower() == "true",
    )
    _check(found)
    return found


def librdkafka_token_properties(settings: TokenSettings) -> dict[str, str]:
    """Return the settings by librdkafka's names, which `token_settings` reads back as they are."""
    values = {
        _METHOD: "oidc",
        _URL: settings.url,
        _ID: settings.client_id,
        _SECRET: settings.client_secret,
        _SCOPE: settings.scope,
        _EXTENSIONS: ",".join(f"{name}={value}" for name, value in settings.extensions),
        _CA_LOCATION: settings.authority_path,
        _CA_PEM: settings.authority_pem,
        _URLENCODE: "true" if settings.is_header_encoded else "",
    }
    return {name: value for name, value in values.items() if value}


def _jaas_options(properties: Mapping[str, str]) -> dict[str, str]:
    text = properties.get("sasl.jaas.config")
    if text is None:
        return {}
    try:
        options = login_options(text, OAUTHBEARER_MODULE)
    except ValueError as error:
        raise ValueError(f"sasl.jaas.config: {error}") from None
    for name in options:
        if name not in _OPTIONS and not name.startswith(_JAAS_EXTENSION):
            raise ValueError(f"sasl.jaas.config: {name} is not supported")
    return options


def _extensions(properties: Mapping[str, str], options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    texts = [each.strip() for each in properties.get(_EXTENSIONS, "").split(",") if each.strip()]
    for name, value in options.items():
        if name.startswith(_JAAS_EXTENSION):
            texts.append(f"{name.removeprefix(_JAAS_EXTENSION)}={value}")
    found = {}
    for text in texts:
        pair = _EXTENSION.fullmatch(text)
        if pair is None or pair[1] == "auth":
            raise ValueError(f"{_EXTENSIONS}: {text!r} is not NAME=VALUE, with letters alone in the name, nor auth")
        found[pair[1]] = pair[2]
    return tuple(found.items())


def _check(settings: TokenSettings) -> None:
    parts = urlsplit(settings.url)
    match parts.scheme:
        case "file" if parts.netloc in ("", "localhost") and parts.path.startswith("/"):
            return
        case "https" | "http" if parts.hostname:
            if not settings.client_id or not settings.client_secret:
                raise ValueError(f"{_JAVAS_ID} and {_JAVAS_SECRET} are needed for {_URL}={settings.url}")
        case _:
            raise ValueError(f"{_URL}={settings.url}: expected https://HOST/…, or file:///PATH of a file with a token")
