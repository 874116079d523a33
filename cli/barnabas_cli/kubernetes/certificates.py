"""Certificates and passwords that the chart generates, as Secrets: created if missing, replaced in time.

    {"certificates": [{"secret": "barnabas-gateway-tls", "authority": "barnabas-internal-ca",
                       "commonName": "gateway", "names": ["gateway.barnabas.internal"]}],
     "passwords": [{"secret": "barnabas-user-alice", "user": "alice"}],
     "labels": {"app.kubernetes.io/instance": "barnabas"}}

A Secret of a certificate has `tls.key`, `tls.crt` (with the chain), `ca.crt`, and `keystore.pem`, which is the first
two in one file, for key stores of Kafka's listeners. The Secret of an authority has its key: only this job reads it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from barnabas_cli.kubernetes.api import KubernetesError, Objects, Stored
from barnabas_cli.local.certificates import Authority, authority_of, create_authority, issue

CERTIFICATE_DAYS: Final = 90
RENEWED_BEFORE: Final = timedelta(days=30)
_AUTHORITY_WARNING: Final = timedelta(days=365)
_CHAIN: Final = b"-----BEGIN CERTIFICATE"
_PASSWORD_BYTES: Final = 18


class WantedCertificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A Secret with a certificate of an authority, which is a Secret too."""

    secret: str
    authority: str
    common_name: str
    names: tuple[str, ...] = ()
    """Host names and addresses."""


class WantedPassword(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Secret with a random password: `username` and `password`."""

    secret: str
    user: str


class WantedSecrets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What there should be, and the labels of all of it."""

    certificates: tuple[WantedCertificate, ...] = ()
    passwords: tuple[WantedPassword, ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict)


def ensure_secrets(objects: Objects, wanted: WantedSecrets, now: datetime) -> Iterator[str]:
    """Create and replace what has to be; yield a line for each change and warning. `now` is in UTC.

    Raises KubernetesError. What has been done until then stays, and the next run continues.
    """
    authorities: dict[str, Authority] = {}
    for each in wanted.certificates:
        if each.authority not in authorities:
            authorities[each.authority], created = _ensure_authority(objects, each.authority, wanted.labels, now)
            if created:
                yield f"created the authority {each.authority}"
            elif authorities[each.authority].certificate.not_valid_after_utc - now < _AUTHORITY_WARNING:
                yield f"the authority {each.authority} ends within a year: replace it"
        authority = authorities[each.authority]
        present = objects.read("secrets", each.secret)
        reason = why_to_issue(None if present is None else present.data, each, authority, now)
        if reason:
            data = certificate_data(authority, issue(authority, each.common_name, each.names, now, CERTIFICATE_DAYS))
            objects.write("secrets", each.secret, data, wanted.labels, present)
            yield f"issued {each.secret}: {reason}"
    for password in wanted.passwords:
        if objects.read("secrets", password.secret) is None:
            content = {"username": password.user, "password": secrets.token_urlsafe(_PASSWORD_BYTES)}
            data = {key: text.encode() for key, text in content.items()}
            objects.write("secrets", password.secret, data, wanted.labels, None)
            yield f"created {password.secret}"


def certificate_data(authority: Authority, pem: bytes) -> dict[str, bytes]:
    """Return the data of a Secret from a private key that is followed by its chain."""
    key, chain = pem[: pem.index(_CHAIN)], pem[pem.index(_CHAIN) :]
    return {"tls.key": key, "tls.crt": chain, "ca.crt": authority.pem, "keystore.pem": pem}


def why_to_issue(
    data: Mapping[str, bytes] | None, wanted: WantedCertificate, authority: Authority, now: datetime
) -> str:
    """Return why a certificate has to be issued; empty if the present one is good for longer."""
    if data is None:
        return "it was missing"
    try:
        certificate = x509.load_pem_x509_certificate(data["tls.crt"])
        has_its_key = certificate.public_key() == load_pem_private_key(data["tls.key"], None).public_key()
        certificate.verify_directly_issued_by(authority.certificate)
    except (KeyError, ValueError):
        return "it could not be read"
    except (InvalidSignature, TypeError):
        return "it was of another authority"
    if not has_its_key or data.keys() != {"tls.key", "tls.crt", "ca.crt", "keystore.pem"}:
        return "it was incomplete"
    if _names(certificate) != set(wanted.names):
        return "it was for other names"
    ends = certificate.not_valid_after_utc
    return f"it ended at {ends:%Y-%m-%d %H:%M} UTC" if ends - now < RENEWED_BEFORE else ""


def _names(certificate: x509.Certificate) -> set[str]:
    try:
        names: Any = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(each.value) for each in names}


def _ensure_authority(objects: Objects, name: str, labels: Mapping[str, str], now: datetime) -> tuple[Authority, bool]:
    """Return the authority, and whether it was created. One that can't be read is never replaced: others trust it."""
    present: Stored | None = objects.read("secrets", name)
    if present is None:
        authority = create_authority(name, now)
        data = {"tls.key": authority.key_pem, "tls.crt": authority.pem}
        objects.write("secrets", name, data, labels, None)
        return authority, True
    try:
        return authority_of(present.data["tls.key"], present.data["tls.crt"]), False
    except (KeyError, ValueError) as error:
        raise KubernetesError(f"secrets {name} has no authority that can be used: {error}") from None
