"""TLS of one listener, by Kafka's keys, and the context that OpenSSL serves it by."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas_gateway.core.model.principal_mapping import MappingRule, parse_mapping_rules
from barnabas_gateway.shell.tls.cipher_suites import choose_suites, openssl_name
from barnabas_gateway.shell.tls.key_stores import Store, load_key, load_trusted

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PROTOCOLS: Final = ("TLS", *_VERSIONS)
"""`ssl.protocol` names the context of a Java broker; `ssl.enabled.protocols` says which versions there are."""
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
TLS_KEYS: Final = (
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.client.auth",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.protocol",
    "ssl.principal.mapping.rules",
)
"""The keys of TLS, for all listeners or, with a prefix, for one."""


@dataclass(slots=True, frozen=True)
class TlsConfig:
    key_store: Store
    trust_store: Store
    client_auth: str
    versions: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    """By Java's names, the preferred one first; empty: those that OpenSSL serves."""
    mapping_rules: tuple[MappingRule, ...]

    def files(self) -> tuple[str, ...]:
        """The files whose change brings other certificates."""
        return tuple(store.location for store in (self.key_store, self.trust_store) if store.location)


def tls_config(values: Mapping[str, str]) -> TlsConfig:
    """Return the TLS of a listener from its keys, `TLS_KEYS` without empty ones. Raises ValueError."""
    versions = tuple(each.strip() for each in values.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3").split(","))
    for version in versions:
        if version not in _VERSIONS:
            raise ValueError(f"ssl.enabled.protocols={version}: expected some of {', '.join(_VERSIONS)}")
    protocol = values.get("ssl.protocol", "TLSv1.3")
    if protocol not in _PROTOCOLS:
        raise ValueError(f"ssl.protocol={protocol}: expected one of {', '.join(_PROTOCOLS)}")
    cipher_suites = tuple(each.strip() for each in values.get("ssl.cipher.suites", "").split(",") if each.strip())
    for suite in cipher_suites:
        openssl_name(suite)
    client_auth = values.get("ssl.client.auth", "none").lower()
    if client_auth not in _CLIENT_AUTH:
        raise ValueError(f"ssl.client.auth={client_auth}: expected one of {', '.join(_CLIENT_AUTH)}")
    stores = {}
    for key, certificates in (
        ("ssl.keystore", "ssl.keystore.certificate.chain"),
        ("ssl.truststore", "ssl.truststore.certificates"),
    ):
        store_type = values.get(f"{key}.type", "")
        if store_type.upper() not in ("", "PEM", "PKCS12", "JKS"):
            raise ValueError(f"{key}.type={store_type}: expected PEM or PKCS12")
        stores[key] = Store(
            key,
            values.get(f"{key}.location", ""),
            store_type,
            values.get(f"{key}.password", ""),
            values.get(certificates, ""),
            values.get("ssl.keystore.key", "") if key == "ssl.keystore" else "",
            values.get("ssl.key.password", "") if key == "ssl.keystore" else "",
        )
    if not stores["ssl.keystore"].is_given:
        raise ValueError("ssl.keystore.location is needed: a PEM or PKCS12 file with the listener's private key")
    if client_auth != "none" and not stores["ssl.truststore"].is_given:
        raise ValueError(f"ssl.truststore.location is needed for ssl.client.auth={client_auth}")
    rules = parse_mapping_rules(values.get("ssl.principal.mapping.rules", ""))
    return TlsConfig(stores["ssl.keystore"], stores["ssl.truststore"], client_auth, versions, cipher_suites, rules)


def create_context(config: TlsConfig) -> ssl.SSLContext:
    """Read the stores. Raises ValueError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    enabled = [_VERSIONS[version] for version in config.versions]
    context.minimum_version, context.maximum_version = min(enabled), max(enabled)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    if config.cipher_suites:
        choose_suites(context, config.cipher_suites)
    load_key(context, config.key_store)
    context.verify_mode = _CLIENT_AUTH[config.client_auth]
    if config.trust_store.is_given:
        load_trusted(context, config.trust_store)
    return context


class ReloadedContext:
    """The context of a listener, which follows its files: what replaces a file is used from the next handshake on."""

    __slots__ = ("_log_failure", "_seen", "config", "context")

    def __init__(self, config: TlsConfig, log_failure: Callable[[str], None]) -> None:
        """Raises ValueError; later failures are logged, and the last good context stays."""
        self.config = config
        self._log_failure = log_failure
        self._seen = self._look()
        self.context = create_context(config)

    def reload(self) -> bool:
        """Read the files again if they have changed. Return whether there is another context."""
        seen = self._look()
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            self.context = create_context(self.config)
        except ValueError as error:
            self._log_failure(str(error))
            return False
        return True

    def _look(self) -> tuple[tuple[int, ...], ...]:
        return tuple(_identity(path) for path in self.config.files())


def _identity(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns
