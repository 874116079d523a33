"""How listeners are secured, from Kafka's keys: protocols by name, keys and certificates, SASL mechanisms and users.

    listener.security.protocol.map=CLIENTS:SASL_SSL
    ssl.keystore.location=/etc/barnabas/gateway.pem
    sasl.enabled.mechanisms=SCRAM-SHA-256,PLAIN
    listener.name.clients.sasl.enabled.mechanisms=SCRAM-SHA-512
    listener.name.clients.plain.sasl.jaas.config=….PlainLoginModule required user_alice="secret";
    listener.name.clients.scram-sha-512.connections.max.reauth.ms=3600000

A listener's name is in lower case in a key, and so is a mechanism's; a key of a listener overrides the one without a
prefix, a key of a mechanism that of its listener.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from barnabas.cluster.jaas import KERBEROS_MODULE, OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE, login_options
from barnabas_gateway.core.connections.connection_rates import UNLIMITED
from barnabas_gateway.core.model.config import KerberosConfig, OAuthConfig, SaslConfig
from barnabas_gateway.core.sasl.sasl_server import GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN
from barnabas_gateway.shell.kerberos.kerberos_config import KERBEROS_KEYS, kerberos_config
from barnabas_gateway.shell.oauth.oauth_config import (
    ALLOW_UNVERIFIED,
    CALLBACK_KEY,
    OAUTH_KEYS,
    check_callback_handler,
    oauth_config,
)
from barnabas_gateway.shell.tls.tls_config import TLS_KEYS, TlsConfig, tls_config

_PREFIX: Final = "listener.name."
_MECHANISMS_KEY: Final = "sasl.enabled.mechanisms"
_JAAS_KEY: Final = "sasl.jaas.config"
_REAUTHENTICATION_KEY: Final = "connections.max.reauth.ms"
_RECEIVE_KEY: Final = "sasl.server.max.receive.size"
_CONNECTION_RATE_KEY: Final = "max.connection.creation.rate"
_USER: Final = "user_"
_MODULES: Final = {PLAIN: PLAIN_MODULE, OAUTHBEARER: OAUTHBEARER_MODULE, GSSAPI: KERBEROS_MODULE}


class SecurityProtocol(Enum):
    """Kafka's SecurityProtocol: (SASL, TLS)."""

    PLAINTEXT = False, False
    SSL = False, True
    SASL_PLAINTEXT = True, False
    SASL_SSL = True, True

    def __init__(self, has_sasl: bool, has_tls: bool) -> None:
        self.has_sasl = has_sasl
        self.has_tls = has_tls


@dataclass(slots=True, frozen=True)
class SecurityDefaults:
    """The keys without a listener's prefix."""

    mechanisms: Sequence[str]
    receive_bytes_max: int
    reauthentication_ms: int
    oauth: Mapping[str, str]
    """Of `OAUTH_KEYS`, those that are set."""
    kerberos: Mapping[str, str]
    """Of `KERBEROS_KEYS`, those that are set."""
    tls: Mapping[str, str] = field(repr=False)
    """Of `TLS_KEYS`, those that are set."""


@dataclass(slots=True, frozen=True)
class ListenerSecurity:
    """How one listener is secured."""

    protocol: SecurityProtocol
    sasl: SaslConfig | None
    tls: TlsConfig | None
    connection_rate_max: int
    """`max.connection.creation.rate` of its own."""


def listener_securities(
    names: Sequence[str], protocol_map: Sequence[str], keys: Mapping[str, str], defaults: SecurityDefaults
) -> dict[str, ListenerSecurity]:
    """Return how each of these listeners is secured; `keys` are those after "listener.name.". Raises ValueError."""
    protocols = _parse_protocol_map(protocol_map)
    left = dict(keys)
    securities: dict[str, ListenerSecurity] = {}
    for name in names:
        protocol = _protocol_of(name, protocols)
        prefix = f"{name.lower()}."
        own = {key.removeprefix(prefix): left.pop(key) for key in keys if key.startswith(prefix) and key in left}
        sasl = _sasl_config(name, own, defaults) if protocol.has_sasl else None
        tls = _tls_config(name, own, defaults) if protocol.has_tls else None
        connection_rate_max = _number(name, own, _CONNECTION_RATE_KEY, UNLIMITED)
        if own:
            raise ValueError(_why_not(name, next(iter(own)), protocol))
        securities[name] = ListenerSecurity(protocol, sasl, tls, connection_rate_max)
    if left:
        raise ValueError(f"{_PREFIX}{next(iter(left))}: no listener has this name; names are in lower case in a key")
    return securities


def kerberos_configs(securities: Mapping[str, ListenerSecurity]) -> list[KerberosConfig]:
    """Return the listeners' configurations of GSSAPI, each once."""
    found = [security.sasl.kerberos for security in securities.values() if security.sasl is not None]
    return list(dict.fromkeys(each for each in found if each is not None))


def oauth_configs(securities: Mapping[str, ListenerSecurity]) -> list[OAuthConfig]:
    """Return the listeners' configurations of OAUTHBEARER, each once."""
    found = [security.sasl.oauth for security in securities.values() if security.sasl is not None]
    return list(dict.fromkeys(each for each in found if each is not None))


def tls_configs(securities: Mapping[str, ListenerSecurity]) -> dict[str, TlsConfig]:
    """Return the configurations of the listeners with TLS, by listener name."""
    return {name: security.tls for name, security in securities.items() if security.tls is not None}


def _parse_protocol_map(texts: Sequence[str]) -> dict[str, SecurityProtocol]:
    """By name, the four protocols' own names included; an entry overrides these."""
    protocols = {protocol.name: protocol for protocol in SecurityProtocol}
    for text in texts:
        name, _, protocol_name = text.partition(":")
        if not name or protocol_name not in SecurityProtocol.__members__:
            allowed = ", ".join(SecurityProtocol.__members__)
            raise ValueError(f"listener.security.protocol.map={text}: expected NAME:PROTOCOL, one of {allowed}")
        protocols[name] = SecurityProtocol[protocol_name]
    return protocols


def _protocol_of(name: str, protocols: Mapping[str, SecurityProtocol]) -> SecurityProtocol:
    """Clear text when encryption was configured would be worse than no listener."""
    protocol = protocols.get(name)
    if protocol is None:
        raise ValueError(f"listener.security.protocol.map is needed for {name}: {name}:PLAINTEXT")
    return protocol


def _sasl_config(name: str, own: dict[str, str], defaults: SecurityDefaults) -> SaslConfig:
    """Take what concerns SASL from a listener's own keys."""
    given = own.pop(_MECHANISMS_KEY, None)
    mechanisms = defaults.mechanisms if given is None else [each.strip() for each in given.split(",") if each.strip()]
    if not mechanisms:
        raise ValueError(f"{_MECHANISMS_KEY} is needed for {name}: some of {', '.join(MECHANISMS)}")
    for mechanism in mechanisms:
        if mechanism not in MECHANISMS:
            raise ValueError(f"{_MECHANISMS_KEY}={mechanism}: expected some of {', '.join(MECHANISMS)}")
    reauthentication_ms = _number(name, own, _REAUTHENTICATION_KEY, defaults.reauthentication_ms)
    by_mechanism = {
        each: _number(name, own, f"{each.lower()}.{_REAUTHENTICATION_KEY}", reauthentication_ms) for each in mechanisms
    }
    users: dict[str, str] = {}
    kerberos: KerberosConfig | None = None
    for mechanism in mechanisms:
        key = f"{mechanism.lower()}.{_JAAS_KEY}"
        options = _jaas_options(f"{_PREFIX}{name.lower()}.{key}", own.pop(key, ""), mechanism)
        if mechanism == OAUTHBEARER and options:
            raise ValueError(f"{_PREFIX}{name.lower()}.{key}: {next(iter(options))} is an option of clients")
        if mechanism == GSSAPI:
            kerberos = _kerberos_config(name, own, defaults, options)
        if mechanism == PLAIN:
            users = {option[len(_USER) :]: text for option, text in options.items() if option.startswith(_USER)}
            if not users:
                raise ValueError(
                    f'{_PREFIX}{name.lower()}.{key} has no users: {PLAIN_MODULE} required user_NAME="PASSWORD";'
                )
    oauth = _oauth_config(name, own, defaults) if OAUTHBEARER in mechanisms else None
    receive_bytes_max = _number(name, own, _RECEIVE_KEY, defaults.receive_bytes_max)
    return SaslConfig(tuple(dict.fromkeys(mechanisms)), users, by_mechanism, oauth, kerberos, receive_bytes_max)


def _of_mechanism(
    mechanism: str, keys: Sequence[str], own: dict[str, str], defaults: Mapping[str, str]
) -> dict[str, str]:
    """Take these keys from a listener's own, and from those of its mechanism."""
    values = dict(defaults)
    for key in keys:
        for own_key in (key, f"{mechanism.lower()}.{key}"):
            if own_key in own:
                values[key] = own.pop(own_key)
    return values


def _kerberos_config(
    name: str, own: dict[str, str], defaults: SecurityDefaults, options: Mapping[str, str]
) -> KerberosConfig:
    """Take what concerns GSSAPI from a listener's own keys."""
    values = _of_mechanism(GSSAPI, KERBEROS_KEYS, own, defaults.kerberos)
    try:
        return kerberos_config(options, {key: text for key, text in values.items() if text})
    except ValueError as error:
        raise ValueError(f"listener {name}: {error}") from None


def _oauth_config(name: str, own: dict[str, str], defaults: SecurityDefaults) -> OAuthConfig:
    """Take what concerns OAUTHBEARER from a listener's own keys."""
    values = _of_mechanism(OAUTHBEARER, (*OAUTH_KEYS, *ALLOW_UNVERIFIED.values()), own, defaults.oauth)
    try:
        check_callback_handler(own.pop(f"{OAUTHBEARER.lower()}.{CALLBACK_KEY}", ""))
        return oauth_config(values)
    except ValueError as error:
        raise ValueError(f"listener {name}: {error}") from None


def _tls_config(name: str, own: dict[str, str], defaults: SecurityDefaults) -> TlsConfig:
    """Take what concerns TLS from a listener's own keys."""
    values = dict(defaults.tls)
    for key in TLS_KEYS:
        if key in own:
            values[key] = own.pop(key)
    try:
        return tls_config({key: text for key, text in values.items() if text})
    except ValueError as error:
        raise ValueError(f"listener {name}: {error}") from None


def _number(name: str, own: dict[str, str], key: str, default: int) -> int:
    text = own.pop(key, None)
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise ValueError(f"{_PREFIX}{name.lower()}.{key}={text}: expected a number of 0 or more")
    return int(text)


def _jaas_options(key: str, text: str, mechanism: str) -> dict[str, str]:
    if not text.strip():
        return {}
    try:
        return login_options(text, _MODULES.get(mechanism, SCRAM_MODULE))
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _why_not(name: str, key: str, protocol: SecurityProtocol) -> str:
    of_sasl = (_MECHANISMS_KEY, _REAUTHENTICATION_KEY, _RECEIVE_KEY, f"plain.{_JAAS_KEY}", *OAUTH_KEYS, *KERBEROS_KEYS)
    known = (*TLS_KEYS, *of_sasl, _CONNECTION_RATE_KEY)
    whole = f"{_PREFIX}{name.lower()}.{key}"
    if not protocol.has_tls and key in TLS_KEYS:
        return f"{whole}: listener {name} is {protocol.name}, without TLS"
    if not protocol.has_sasl and key.endswith(of_sasl):
        return f"{whole}: listener {name} is {protocol.name}, without SASL"
    nearest = difflib.get_close_matches(key, known, n=1)
    return f"unknown key {whole}" + (f"; did you mean {nearest[0]}?" if nearest else "")
