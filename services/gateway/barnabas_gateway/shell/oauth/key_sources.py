"""JwksSource: the keys of a token's issuer from a file or by HTTPS, read in a thread, and again in time.

By HTTPS every `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and early when a token names a key that is not known: no
more than once in ten seconds, since any client can name one. A file is looked at every two seconds. Keys that can't be
read again stay as they were; before the first ones no token is valid.
"""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import unquote, urlsplit

from barnabas.runtime.logs import get_logger
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas.runtime.tokens.verification_keys import VerificationKeys, fetch_keys, read_key_file, read_keys
from barnabas_gateway.core.model.config import OAuthConfig
from barnabas_gateway.shell.containment import KEYS

MISSING_KEY_S: Final = 10.0
"""How often a key that is not known may cause a request."""
_FILE_S: Final = 2.0

_log = get_logger("gateway.oauth")


class JwksSource:
    """It reads as long as the loop runs, until `stop`."""

    def __init__(self, config: OAuthConfig) -> None:
        self._url = config.jwks_url
        self._is_file = urlsplit(config.jwks_url).scheme == "file"
        self._refresh_s = _FILE_S if self._is_file else config.refresh_ms / 1000
        self._retry_s = config.retry_ms / 1000
        self._retry_s_max = max(config.retry_ms, config.retry_ms_max) / 1000
        self.keys: VerificationKeys | None = None
        self._content = b""
        self._missing = asyncio.Event()
        self._following = BackgroundTasks(KEYS).keep(self._follow)

    def key_missing(self) -> None:
        self._missing.set()

    def stop(self) -> None:
        self._following.cancel()

    async def _follow(self) -> None:
        retry_s = self._retry_s
        while True:
            try:
                content = await asyncio.to_thread(self._read)
                if content != self._content:
                    keys = await asyncio.to_thread(read_keys, content)
                    self.keys, self._content = keys, content
                    _log.info("keys of access tokens read", url=self._url, keys=len(keys))
            except (OSError, ValueError) as error:
                fields = {"url": self._url, "reason": str(error), "limit_key": f"keys of {self._url}"}
                _log.error("keys of access tokens can't be read", **fields)
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, self._retry_s_max)
                continue
            retry_s = self._retry_s
            await self._wait()

    async def _wait(self) -> None:
        """Wait until it is time to read again."""
        pause_s = min(MISSING_KEY_S, self._refresh_s)
        await asyncio.sleep(pause_s)
        if self._refresh_s > pause_s:
            try:
                async with asyncio.timeout(self._refresh_s - pause_s):
                    await self._missing.wait()
            except TimeoutError:
                pass
        self._missing.clear()

    def _read(self) -> bytes:
        """Raises OSError or ValueError."""
        return read_key_file(unquote(urlsplit(self._url).path)) if self._is_file else fetch_keys(self._url)
