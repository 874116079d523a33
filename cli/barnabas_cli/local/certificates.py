"""An authority and its certificates for a local cluster: one command instead of an afternoon with openssl.

Keys are ECDSA over P-256. The authority's key stays in the cluster's directory. A user who can read it can be any
server or client of this cluster: it is for development, and for nothing else.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS: Final = 3650
CERTIFICATE_DAYS: Final = 825
"""What clients accept at most (CA/Browser Forum, Apple)."""
_CLOCK_SKEW: Final = timedelta(hours=1)


@dataclass(slots=True, frozen=True)
class Authority:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        """The certificate, for trust stores."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return _key_pem(self.key)


def create_authority(name: str, now: datetime) -> Authority:
    """Create an authority that signs its own certificate; `now` is in UTC."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(key, certificate)


def read_authority(directory: Path) -> Authority:
    """Read what `write_authority` has written. Raises OSError, ValueError."""
    try:
        return authority_of((directory / "ca.key").read_bytes(), (directory / "ca.crt").read_bytes())
    except ValueError as error:
        raise ValueError(f"{directory / 'ca.key'}: {error}") from None


def authority_of(key_pem: bytes, certificate_pem: bytes) -> Authority:
    """Return the authority of a key and its certificate, both as PEM. Raises ValueError."""
    key = serialization.load_pem_private_key(key_pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not a key that Barnabas has created")
    return Authority(key, x509.load_pem_x509_certificate(certificate_pem))


def write_authority(directory: Path, authority: Authority) -> None:
    """Write `ca.key` and `ca.crt`."""
    write_secret(directory / "ca.key", authority.key_pem)
    (directory / "ca.crt").write_bytes(authority.pem)


def issue(
    authority: Authority, common_name: str, hosts: tuple[str, ...], now: datetime, days: int = CERTIFICATE_DAYS
) -> bytes:
    """Return a private key and its chain as PEM, for a server at `hosts` (names, addresses, URIs), or a client."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name_of(host) for host in hosts]), critical=False)
    certificate = builder.sign(authority.key, hashes.SHA256())
    return _key_pem(key) + certificate.public_bytes(serialization.Encoding.PEM) + authority.pem


def expires(pem: bytes) -> datetime:
    """Return when the first certificate of a file with a key and its chain ends. Raises ValueError."""
    return x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERTIFICATE") :]).not_valid_after_utc


def names(pem: bytes) -> tuple[str, ...]:
    """Return the alternative names of that certificate, in its order. Raises ValueError."""
    certificate = x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERTIFICATE") :])
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple([str(name.value) for name in found])


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner reads; a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.touch(mode=0o600)
    temporary.write_bytes(content)
    temporary.replace(path)


def _name_of(host: str) -> x509.GeneralName:
    if "://" in host:
        return x509.UniformResourceIdentifier(host)
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
