"""The properties of Kafka clients that say how they connect and authenticate: Java's names, and librdkafka's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.cluster.access.token_properties import (
    OAUTHBEARER,
    TOKEN_PROPERTIES,
    librdkafka_token_properties,
    token_settings,
)
from barnabas.cluster.jaas import KERBEROS_MODULE, PLAIN_MODULE, SCRAM_MODULE, login_options

_BOTH: Final = (
    "security.protocol",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "sasl.kerberos.service.name",
)
_JAVAS: Final = (
    "sasl.mechanism",
    "sasl.jaas.config",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.certificates",
    "ssl.keystore.location",
    "ssl.keystore.type",
)
_LIBRDKAFKAS: Final = (
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.kerberos.keytab",
    "sasl.kerberos.principal",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.key.location",
    "ssl.certificate.location",
)
SECURITY_PROPERTIES: Final = (*_BOTH, *_JAVAS, *_LIBRDKAFKAS, *TOKEN_PROPERTIES)
"""Those that `barnabas.client.client_security` understands."""
_RENAMED: Final = {
    "sasl.mechanism": "sasl.mechanisms",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
_USER: Final = {"username": "sasl.username", "password": "sasl.password"}
_OPTIONS_BY_MODULE: Final = {
    SCRAM_MODULE: _USER,
    PLAIN_MODULE: _USER,
    KERBEROS_MODULE: {
        "keyTab": "sasl.kerberos.keytab",
        "principal": "sasl.kerberos.principal",
        "serviceName": "sasl.kerberos.service.name",
    },
}


def librdkafka_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with librdkafka's names in the place of Java's. Raises ValueError that names the property.

    A key store in PEM is its private key's file and its certificate's; others librdkafka does not read. Of OAUTHBEARER
    they are what `token_settings` reads: librdkafka itself knows no file with a token.
    """
    renamed: dict[str, str] = {}
    left = dict(properties)
    if properties.get("sasl.mechanism", properties.get("sasl.mechanisms")) == OAUTHBEARER:
        renamed |= librdkafka_token_properties(token_settings(properties))
        left = {name: value for name, value in left.items() if name not in (*TOKEN_PROPERTIES, "sasl.jaas.config")}
    for name, value in left.items():
        match name:
            case "sasl.jaas.config":
                renamed |= _login(value)
            case "ssl.truststore.type" | "ssl.keystore.type":
                if value.upper() != "PEM":
                    raise ValueError(f"{name}={value}: only PEM is possible")
            case "ssl.keystore.location":
                renamed |= {"ssl.key.location": value, "ssl.certificate.location": value}
            case "ssl.endpoint.identification.algorithm":
                renamed[name] = value or "none"
            case _:
                renamed[_RENAMED.get(name, name)] = value
    return renamed


def _login(text: str) -> dict[str, str]:
    for module, names in _OPTIONS_BY_MODULE.items():
        if module in text:
            try:
                options = login_options(text, module)
            except ValueError as error:
                raise ValueError(f"sasl.jaas.config: {error}") from None
            if options.get("tokenauth", "false").lower() == "true":
                raise ValueError("sasl.jaas.config: tokenauth: librdkafka has no delegation tokens")
            return {renamed: options[name] for name, renamed in names.items() if name in options}
    raise ValueError(f"sasl.jaas.config: expected {' or '.join(_OPTIONS_BY_MODULE)}")
