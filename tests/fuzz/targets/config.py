"""Configuration files of the services: the first byte picks the service, the rest is a properties file.

Keys and values are read whatever they are; what a service can't use raises ConfigError, one line, and nothing else. The
text alone is read as a JAAS configuration and as rules for principals too: what these are not raises ValueError.
"""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec

from barnabas.cluster.jaas import PLAIN_MODULE, login_options, quoted
from barnabas.runtime.configuration.config import ConfigError, build_config
from barnabas.runtime.configuration.properties import parse_properties
from barnabas_controller.shell.config import ControllerConfig
from barnabas_gateway.core.model.principal_mapping import mapped_name, parse_mapping_rules
from barnabas_gateway.shell.config import GatewayProperties
from barnabas_logstore.shell.config import LogstoreSettings
from barnabas_purgatory.shell.config import PurgatoryConfig
from tests.fuzz.target import Target

_STRUCTS: Final[tuple[type[msgspec.Struct], ...]] = (
    ControllerConfig,
    GatewayProperties,
    LogstoreSettings,
    PurgatoryConfig,
)
_VALUES: Final = (
    "",
    "1",
    "-1",
    "0",
    "true",
    "a:1",
    "A://h:1,B://:2",
    "é",
    "99999999999999999999",
    "1.5",
    "a\\\n  b",
    "\\u00e9",
)


def check(data: bytes) -> None:
    if not data:
        return
    try:
        text = data[1:].decode()
    except UnicodeDecodeError:
        return
    _check_own_languages(text)
    properties = parse_properties(text)
    struct_type = _STRUCTS[data[0] % len(_STRUCTS)]
    try:
        build_config(struct_type, {key: (value, "file") for key, value in properties.items()})
    except ConfigError:
        pass


def _check_own_languages(text: str) -> None:
    try:
        login_options(text, PLAIN_MODULE)
    except ValueError:
        pass
    try:
        rules = parse_mapping_rules(text[:200])
    except ValueError:
        return
    # A pattern is the operator's own, and may take as long as it likes.
    if not any(each.pattern is not None for each in rules):
        mapped_name(rules, "CN=a,O=b")


def build(random: Random) -> bytes:
    if random.random() < 0.2:
        user = quoted(random.choice(("secret", 'a"b', "")))
        jaas = f"{PLAIN_MODULE} required user_alice={user};"
        return b"\0" + random.choice((jaas, "RULE:^CN=(.*?),.*$/$1/L,DEFAULT")).encode()
    number = random.randrange(len(_STRUCTS))
    keys = [field.encode_name.replace("_", ".") for field in msgspec.structs.fields(_STRUCTS[number])]
    lines = ["# comment", "! another", ""]
    for _ in range(random.randint(1, 6)):
        lines.append(random.choice(keys) + random.choice(("=", ":", " ", " = ")) + random.choice(_VALUES))
    return bytes([number]) + random.choice(("\n", "\r\n")).join(lines).encode()


TARGET = Target("config", check, build)
