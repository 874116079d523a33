"""ListenerTokens: the validators of access tokens of a processor's listeners."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping

from barnabas_gateway.core.model.config import OAuthConfig
from barnabas_gateway.core.sasl.oauthbearer import AccessToken
from barnabas_gateway.shell.listener_security import ListenerSecurity
from barnabas_gateway.shell.oauth.access_tokens import AccessTokenValidator
from barnabas_gateway.shell.oauth.key_sources import JwksSource


def usable_configs(securities: Mapping[str, ListenerSecurity]) -> list[OAuthConfig]:
    """Return the listeners' configurations of OAUTHBEARER, each once. Raises OSError if its library is not there."""
    found = [each.sasl.oauth for each in securities.values() if each.sasl is not None and each.sasl.oauth is not None]
    if found and importlib.util.find_spec("joserfc") is None:
        raise OSError("joserfc, which OAUTHBEARER needs, is not installed: pip install 'barnabas[gateway]'")
    return list(dict.fromkeys(found))


class ListenerTokens:
    """By configuration: listeners with the same share one source of keys. Reads them as long as the loop runs, until
    `stop`.
    """

    def __init__(self, securities: Mapping[str, ListenerSecurity], wall_ms: Callable[[], int]) -> None:
        """Raises OSError if the library that verifies signatures is not installed."""
        self._sources = {oauth: JwksSource(oauth) for oauth in usable_configs(securities)}
        self._validators = {
            oauth: AccessTokenValidator(oauth, source, wall_ms) for oauth, source in self._sources.items()
        }

    def validate(self, oauth: OAuthConfig, token: str) -> AccessToken:
        """Raises InvalidToken."""
        return self._validators[oauth].validate(token)

    def stop(self) -> None:
        for source in self._sources.values():
            source.stop()
