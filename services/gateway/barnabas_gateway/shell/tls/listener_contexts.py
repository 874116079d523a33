"""ListenerContexts: the TLS contexts of a processor's listeners, which follow their files."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

from barnabas.runtime.contained import CONTAINED
from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas_gateway.core.model.principal_mapping import DEFAULT_RULES, MappingRule
from barnabas_gateway.shell.containment import CERTIFICATES
from barnabas_gateway.shell.tls.tls_config import ReloadedContext, TlsConfig

RELOAD_S: Final = 2.0
"""How often the files of keys and certificates are looked at."""

_log = get_logger("gateway.tls")


class ListenerContexts:
    """By listener name. The files are looked at as long as the loop runs, until `stop`."""

    def __init__(self, configs: Mapping[str, TlsConfig]) -> None:
        """`configs`: those of the listeners with TLS, by listener name. Raises ValueError if a store can't be used."""
        self._by_listener = {
            name: ReloadedContext(config, lambda reason, name=name: _log_kept(name, reason))  # type: ignore[misc]
            for name, config in configs.items()
        }
        self._following = BackgroundTasks(CERTIFICATES).keep(self._follow) if self._by_listener else None

    def context_of(self, listener: str) -> ssl.SSLContext | None:
        """Return the context for a new connection; None: the listener has no TLS."""
        reloaded = self._by_listener.get(listener)
        return None if reloaded is None else reloaded.context

    def rules_of(self, listener: str) -> tuple[MappingRule, ...]:
        reloaded = self._by_listener.get(listener)
        return DEFAULT_RULES if reloaded is None else reloaded.config.mapping_rules

    def stop(self) -> None:
        if self._following is not None:
            self._following.cancel()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_S)
            for name, reloaded in self._by_listener.items():
                try:
                    # In a thread, since the key of a PKCS12 store takes a tenth of a second.
                    if await asyncio.to_thread(reloaded.reload):
                        _log.info("certificates reloaded", listener=name)
                except Exception as error:
                    CONTAINED.contain(CERTIFICATES, error, {"listener": name})


def _log_kept(listener: str, reason: str) -> None:
    _log.error("certificates not reloaded: the last good ones stay", listener=listener, reason=reason)
