"""ListenerTokens: the validators of access tokens of a processor's listeners."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection

from barnabas_gateway.core.model.config import OAuthConfig
from barnabas_gateway.core.sasl.oauthbearer import AccessToken
from barnabas_gateway.shell.oauth.access_tokens import AccessTokenValidator
from barnabas_gateway.shell.oauth.key_sources import JwksSource


def require_library(configs: Collection[OAuthConfig]) -> None:
    """Raise OSError if there is a configuration of OAUTHBEARER, but not the library that verifies signatures."""
    if configs and importlib.util.find_spec("joserfc") is None:
        raise OSError("joserfc, which OAUTHBEARER needs, is not installed: pip install 'barnabas[gateway]'")


class ListenerTokens:
    """By configuration: listeners with the same share one source of keys. Reads them as long as the loop runs, until
    `stop`.
    """

    def __init__(self, configs: Collection[OAuthConfig], wall_ms: Callable[[], int]) -> None:
        """Raises OSError if the library that verifies signatures is not installed."""
        require_library(configs)
        self._sources = {oauth: JwksSource(oauth) for oauth in configs}
        self._validators = {
            oauth: AccessTokenValidator(oauth, source, wall_ms) for oauth, source in self._sources.items()
        }

    def validate(self, oauth: OAuthConfig, token: str) -> AccessToken:
        """Raises InvalidToken."""
        return self._validators[oauth].validate(token)

    def stop(self) -> None:
        for source in self._sources.values():
            source.stop()
