"""What a client of librdkafka is created with: properties, and a callback that gets its access tokens."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from barnabas.client.access_tokens import TokenSource
from barnabas.cluster.access.token_properties import OAUTHBEARER, TOKEN_PROPERTIES, token_settings

_LIFETIME_S: Final = 300.0
"""Of a token that does not say when it ends: librdkafka asks for another when 80 % of it are over."""


def librdkafka_config(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a client by librdkafka's own names (`librdkafka_properties`).

    Tokens of OAUTHBEARER come from where the readers' come from (`barnabas.client.access_tokens`), a file too.
    """
    if properties.get("sasl.mechanisms") != OAUTHBEARER:
        return dict(properties)
    source = TokenSource(token_settings(properties))

    def next_token(_: str) -> tuple[str, float, str, dict[str, str]]:
        token = source.token()
        expires_s = token.expires_s if token.expires_s is not None else time.time() + _LIFETIME_S
        return token.text, expires_s, "", dict(source.extensions)

    return {
        **{name: value for name, value in properties.items() if name not in TOKEN_PROPERTIES},
        "oauth_cb": next_token,
    }
