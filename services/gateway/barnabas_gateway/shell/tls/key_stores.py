"""Keys and certificates from the stores that Kafka's keys name: PEM and PKCS12, in files or in the configuration."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_PEM: Final = b"-----BEGIN"
_JKS: Final = bytes.fromhex("feedfeed")
STORE_BYTES_MAX: Final = 1 << 20


class StoreError(ValueError):
    """A store that can't be used; the message names the key and the file, and no secret."""


@dataclass(slots=True, frozen=True)
class Store:
    """A key store or a trust store: a file, or PEM in the configuration itself (KIP-651)."""

    key: str
    """The key in the configuration that names it, for messages: "ssl.keystore"."""
    location: str = ""
    store_type: str = ""
    """"PEM", "PKCS12", or empty: by the content of the file."""
    password: str = field(default="", repr=False)
    certificates: str = ""
    """PEM in the configuration: the chain, or the trusted certificates."""
    private_key: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)

    @property
    def is_given(self) -> bool:
        return bool(self.location or self.certificates)


@dataclass(slots=True, frozen=True)
class PemEntries:
    """What a store has, as PEM."""

    chain: bytes
    private_key: bytes = field(default=b"", repr=False)
    key_password: str = field(default="", repr=False)


def read_store(store: Store) -> PemEntries:
    """Return the entries of a store. Raises StoreError."""
    if store.certificates:
        return PemEntries(_lines(store.certificates), _lines(store.private_key), store.key_password)
    where = f"{store.key}.location={store.location}"
    try:
        with Path(store.location).open("rb") as file:
            content = file.read(STORE_BYTES_MAX + 1)
    except OSError as error:
        raise StoreError(f"{where}: {error.strerror}") from None
    if len(content) > STORE_BYTES_MAX:
        raise StoreError(f"{where}: larger than {STORE_BYTES_MAX} bytes")
    if content.startswith(_JKS) or store.store_type.upper() == "JKS":
        raise StoreError(
            f"{where} is a JKS store, which only Java reads; convert it: keytool -importkeystore "
            f"-srckeystore {store.location} -destkeystore {Path(store.location).stem}.p12 -deststoretype PKCS12"
        )
    is_pem = store.store_type.upper() == "PEM" or (not store.store_type and _PEM in content)
    if is_pem:
        if _PEM not in content:
            raise StoreError(f"{where}: no PEM in it")
        return PemEntries(content, content, store.key_password or store.password)
    return _read_pkcs12(where, content, store.password)


def _read_pkcs12(where: str, content: bytes, password: str) -> PemEntries:
    # It takes 30 ms to import, and most gateways have PEM or no TLS.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        found = pkcs12.load_pkcs12(content, password.encode() or None)
    except ValueError:
        raise StoreError(f"{where}: not a PKCS12 store, or its password is another one") from None
    certificates = [each.certificate for each in (found.cert, *found.additional_certs) if each is not None]
    chain = b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)
    if found.key is None:
        return PemEntries(chain)
    private_key = found.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return PemEntries(chain, private_key)


def load_key(context: ssl.SSLContext, store: Store) -> None:
    """Load the private key and its certificates. Raises StoreError."""
    entries = read_store(store)
    if not entries.private_key:
        raise StoreError(f"{store.key} has no private key")
    password = entries.key_password.encode()
    try:
        with _memory_file(entries.chain) as chain, _memory_file(entries.private_key) as private_key:
            # A callback, since OpenSSL would ask for a missing password on the terminal.
            context.load_cert_chain(chain, private_key, lambda: password)
    except ssl.SSLError as error:
        reason = error.reason or "no private key and certificate that belong together, or another password"
        raise StoreError(f"{store.key}: {reason}") from None


def load_trusted(context: ssl.SSLContext, store: Store) -> None:
    """Load the certificates of authorities whose clients are trusted. Raises StoreError."""
    entries = read_store(store)
    try:
        context.load_verify_locations(cadata=entries.chain.decode())
    except (ssl.SSLError, ValueError):
        raise StoreError(f"{store.key}: no certificates in it") from None


@contextmanager
def _memory_file(content: bytes) -> Iterator[str]:
    """Yield the path of a file that is never on a disk: OpenSSL reads keys from paths alone."""
    descriptor = os.memfd_create("store", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _lines(text: str) -> bytes:
    """Return PEM that a properties file may have on one line."""
    return text.replace("\\n", "\n").encode()
