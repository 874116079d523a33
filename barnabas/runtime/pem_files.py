"""PEM files of one party in TLS, read again when they are replaced."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.runtime.logs import get_logger

_log = get_logger("tls")


class PemError(OSError):
    """Files that can't be used; the message names them."""


@dataclass(slots=True, frozen=True)
class TlsFiles:
    """Paths. `authority` has the certificates that others are checked by; `certificate`, with its chain, and `key` are
    this party's own, and may be one file. What is not needed is empty.
    """

    authority: str
    certificate: str = ""
    key: str = ""

    def paths(self) -> tuple[str, ...]:
        return tuple(path for path in (self.authority, self.certificate, self.key) if path)


def check_server_files(prefix: str, files: TlsFiles) -> None:
    """Check the files of a server whose clients may do without a certificate: `prefix` is that of their keys.

    Raises ValueError, for a service's configuration.
    """
    if bool(files.certificate) != bool(files.key):
        raise ValueError(f"{prefix}.certificate and {prefix}.key are needed together")
    if files.authority and not files.certificate:
        raise ValueError(f"{prefix}.authority needs {prefix}.certificate and {prefix}.key")


@dataclass(slots=True, frozen=True)
class Pem:
    """The content of the files; None for what is not given."""

    authority: bytes | None
    certificate: bytes | None
    key: bytes | None = field(repr=False)


class ReloadedPem:
    """The files' content. After a replacement that can't be used, such as a certificate whose key is yet to be written,
    the last good content stays, and the reason is logged.
    """

    __slots__ = ("_files", "_pem", "_seen", "generation")

    def __init__(self, files: TlsFiles) -> None:
        """Raises PemError."""
        self._files = files
        self._seen = _identities(files)
        self._pem = _read(files)
        self.generation = 1
        """Goes up when the content changes; `read` finds out."""

    def read(self) -> Pem:
        """Return the present content, with a look at the files."""
        seen = _identities(self._files)
        if seen != self._seen:
            self._seen = seen
            try:
                pem = _read(self._files)
            except PemError as error:
                _log.error("certificates can't be used: those before stay", reason=str(error), limit_key="pem files")
            else:
                if pem != self._pem:
                    self._pem = pem
                    self.generation += 1
                    _log.info("certificates were replaced", files=self._files.paths())
        return self._pem


def _read(files: TlsFiles) -> Pem:
    """Raises PemError."""
    try:
        contents = [
            Path(path).read_bytes() if path else None for path in (files.authority, files.certificate, files.key)
        ]
        if files.certificate:
            # A callback, since OpenSSL would ask for the password of an encrypted key on the terminal.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate, files.key, lambda: b"")
        if files.authority:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(files.authority)
    except ssl.SSLError as error:
        raise PemError(f"{', '.join(files.paths())}: not a key, its certificate and an authority: {error}") from None
    except OSError as error:
        raise PemError(f"{error.filename or ', '.join(files.paths())}: {error.strerror or error}") from None
    return Pem(*contents)


def _identities(files: TlsFiles) -> tuple[tuple[int, ...], ...]:
    return tuple(_identity(path) for path in files.paths())


def _identity(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns
