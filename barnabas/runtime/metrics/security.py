"""Who may scrape: TLS of the metrics endpoint, scrapers' certificates, and a bearer token (RFC 6750)."""

from __future__ import annotations

import hmac
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.runtime.logs import get_logger
from barnabas.runtime.pem_files import ReloadedPem, TlsFiles, check_server_files

_TOKEN_BYTES_MAX: Final = 4096
_BEARER: Final = "bearer "

_log = get_logger("metrics")


@dataclass(slots=True, frozen=True)
class MetricsSecurity:
    """Paths; empty ones are not used. With an authority a scraper needs a certificate of it, with a token file the
    token in it: with both, both.
    """

    authority: str = ""
    certificate: str = ""
    key: str = ""
    token_file: str = ""

    def check(self) -> None:
        """Raises ValueError, for a service's configuration."""
        check_server_files("metrics.tls", TlsFiles(self.authority, self.certificate, self.key))
        if self.token_file and not self.certificate:
            raise ValueError("metrics.token.file needs metrics.tls.certificate: tokens are secrets")


OPEN: Final = MetricsSecurity()
"""In the clear, to all who reach the listener."""


class ScrapeGuard:
    """Carries out a `MetricsSecurity`, on the threads of requests. Files are read again when they are replaced."""

    def __init__(self, security: MetricsSecurity) -> None:
        """Raises OSError: files that can't be used."""
        self._security = security
        self._files = TlsFiles(security.authority, security.certificate, security.key)
        self._pem = ReloadedPem(self._files) if security.certificate else None
        self._lock = threading.Lock()
        self._generation = 0
        self._context: ssl.SSLContext | None = None
        if security.token_file:
            _read_token(security.token_file)

    def context(self) -> ssl.SSLContext | None:
        """Return the context of the next connection; None: there is no TLS. Raises OSError."""
        if self._pem is None:
            return None
        with self._lock:
            self._pem.read()
            if self._context is None or self._generation != self._pem.generation:
                self._context, self._generation = _new_context(self._files), self._pem.generation
            return self._context

    def is_allowed(self, authorization: str) -> bool:
        """Return whether that is the header of a request that may be answered."""
        if not self._security.token_file:
            return True
        try:
            token = _read_token(self._security.token_file)
        except OSError as error:
            _log.error("the token of the metrics can't be read", reason=str(error), limit_key="metrics token")
            return False
        given = authorization[len(_BEARER) :].strip() if authorization.lower().startswith(_BEARER) else ""
        return hmac.compare_digest(given.encode("utf-8", "replace"), token)


def _new_context(files: TlsFiles) -> ssl.SSLContext:
    """Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key, lambda: b"")
    if files.authority:
        context.load_verify_locations(files.authority)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _read_token(path: str) -> bytes:
    """Raises OSError: also for a file without a token."""
    with Path(path).open("rb") as file:
        token = file.read(_TOKEN_BYTES_MAX).strip()
    if not token:
        raise OSError(f"{path}: there is no token in it")
    return token
