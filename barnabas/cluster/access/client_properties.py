"""The properties of Kafka clients that say how they connect and authenticate: Java's names, and librdkafka's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.cluster.jaas import PLAIN_MODULE, SCRAM_MODULE, login_options

_BOTH: Final = ("security.protocol", "ssl.key.password", "ssl.endpoint.identification.algorithm")
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
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.key.location",
    "ssl.certificate.location",
)
SECURITY_PROPERTIES: Final = (*_BOTH, *_JAVAS, *_LIBRDKAFKAS)
"""Those that `barnabas.client.client_security` understands."""
_RENAMED: Final = {
    "sasl.mechanism": "sasl.mechanisms",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
}


def librdkafka_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with librdkafka's names in the place of Java's. Raises ValueError that names the property.

    A key store in PEM is its private key's file and its certificate's; others librdkafka does not read.
    """
    renamed: dict[str, str] = {}
    for name, value in properties.items():
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
    for module in (SCRAM_MODULE, PLAIN_MODULE):
        if module in text:
            try:
                options = login_options(text, module)
            except ValueError as error:
                raise ValueError(f"sasl.jaas.config: {error}") from None
            return {f"sasl.{name}": options[name] for name in ("username", "password") if name in options}
    raise ValueError(f"sasl.jaas.config: expected {SCRAM_MODULE} or {PLAIN_MODULE}")
