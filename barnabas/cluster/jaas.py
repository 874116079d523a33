"""JAAS configurations as Kafka's `sasl.jaas.config` has them: one login module with options."""

from __future__ import annotations

import re
from typing import Final

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"

_TOKEN: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s="; ]+)|([=;]))', re.DOTALL)
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")


def login_options(text: str, module: str) -> dict[str, str]:
    """Return the options of the one module that `text` has, which has to be `module`.

    Raises ValueError with a message that shows no option.
    """
    tokens: list[str] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"not a JAAS configuration: see character {position}")
        quoted, bare, sign = match.groups()
        tokens.append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else bare or sign)
        position = match.end()
    if len(tokens) < 3 or tokens[0] != module or tokens[1].lower() not in _FLAGS or tokens[-1] != ";":
        raise ValueError(f"expected {module} required …; with one module")
    options = tokens[2:-1]
    if len(options) % 3 or any(sign != "=" for sign in options[1::3]):
        raise ValueError("expected options NAME=\"VALUE\" between 'required' and ';'")
    return dict(zip(options[::3], options[2::3], strict=True))


def quoted(text: str) -> str:
    """Return a value as it is written in a configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
