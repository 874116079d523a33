"""How a client connects and authenticates, by the properties of Kafka's own clients: Java's, and librdkafka's where
they have other names.

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=….ScramLoginModule required username="alice" password="secret";
    ssl.truststore.location=/etc/kafka/ca.crt

`barnabas.cluster.access.token_properties` has those of OAUTHBEARER.
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas.client.access_tokens import TokenSource
from barnabas.client.kerberos import GSSAPI, GssapiClient, KerberosLogin, kerberos_login
from barnabas.client.sasl import OAuthBearerClient, PlainClient, SaslClient, ScramClient
from barnabas.cluster.access.token_properties import OAUTHBEARER, token_settings
from barnabas.cluster.jaas import PLAIN_MODULE, SCRAM_MODULE, login_options
from barnabas.cluster.scram import MECHANISMS_BY_NAME

PLAIN: Final = "PLAIN"
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = (PLAIN, *MECHANISMS_BY_NAME, OAUTHBEARER, GSSAPI)


@dataclass(slots=True, frozen=True)
class ClientSecurity:
    """`mechanism` is empty without SASL, `context` None without TLS."""

    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    context: ssl.SSLContext | None = None
    is_token: bool = False
    """The user is the id of a delegation token, and the password its HMAC in base64 (KIP-48)."""
    tokens: TokenSource | None = None
    """Of OAUTHBEARER."""
    kerberos: KerberosLogin | None = None

    def create_sasl_client(self, host: str) -> SaslClient:
        """Begin an exchange with the broker at `host`. Raises OSError if there is no access token."""
        if self.tokens is not None:
            return OAuthBearerClient(self.tokens.token().text, self.tokens.extensions)
        if self.kerberos is not None:
            return GssapiClient(self.kerberos, host)
        if self.mechanism == PLAIN:
            return PlainClient(self.user, self.password)
        mechanism, nonce = MECHANISMS_BY_NAME[self.mechanism], secrets.token_urlsafe(18)
        return ScramClient(mechanism, self.user, self.password, nonce, is_token=self.is_token)


def client_security(properties: Mapping[str, str]) -> ClientSecurity:
    """Return what the properties say; those of other matters are ignored. Raises ValueError that names the property."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise ValueError(f"security.protocol={protocol}: expected one of {', '.join(_PROTOCOLS)}")
    context = _tls_context(properties) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL"):
        return ClientSecurity(context=context)
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", ""))
    if mechanism == OAUTHBEARER:
        return ClientSecurity(mechanism, context=context, tokens=TokenSource(token_settings(properties)))
    if mechanism == GSSAPI:
        return ClientSecurity(mechanism, context=context, kerberos=kerberos_login(properties))
    if mechanism not in _MECHANISMS:
        raise ValueError(f"sasl.mechanism={mechanism}: expected one of {', '.join(_MECHANISMS)}")
    options = _login(properties, mechanism)
    is_token = mechanism != PLAIN and options.get("tokenauth", "false").lower() == "true"
    return ClientSecurity(mechanism, options["username"], options["password"], context, is_token)


def _login(properties: Mapping[str, str], mechanism: str) -> dict[str, str]:
    """Return options of a login module, with user name and password."""
    jaas = properties.get("sasl.jaas.config")
    if jaas is None:
        options = {name: properties.get(f"sasl.{name}", "") for name in ("username", "password")}
    else:
        try:
            options = login_options(jaas, PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE)
        except ValueError as error:
            raise ValueError(f"sasl.jaas.config: {error}") from None
    if not options.get("username") or not options.get("password"):
        raise ValueError("sasl.jaas.config has no username and password (nor are sasl.username, sasl.password set)")
    return options


def _tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    trusted = properties.get("ssl.truststore.location", properties.get("ssl.ca.location"))
    inline = properties.get("ssl.truststore.certificates", properties.get("ssl.ca.pem"))
    key = properties.get("ssl.keystore.location", properties.get("ssl.key.location"))
    chain = properties.get("ssl.certificate.location", key)
    for name in ("ssl.truststore.type", "ssl.keystore.type"):
        if properties.get(name, "PEM").upper() != "PEM":
            raise ValueError(f"{name}={properties[name]}: this client reads PEM only")
    try:
        context = ssl.create_default_context(cafile=trusted, cadata=inline)
        if key and chain:
            password = properties.get("ssl.key.password", "")
            context.load_cert_chain(chain, key, lambda: password)
    except OSError as error:
        names = ", ".join(path for path in (trusted, key) if path)
        raise ValueError(f"ssl.truststore.location, ssl.keystore.location: {names}: {error}") from None
    if properties.get("ssl.endpoint.identification.algorithm", "https") == "":
        context.check_hostname = False
    return context
