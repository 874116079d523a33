"""Certificates and passwords in Secrets: created once, replaced in time, and nothing of others is touched."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cryptography import x509

from barnabas_cli.kubernetes.api import KubernetesError, Stored
from barnabas_cli.kubernetes.certificates import (
    CERTIFICATE_DAYS,
    RENEWED_BEFORE,
    WantedCertificate,
    WantedPassword,
    WantedSecrets,
    ensure_secrets,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GATEWAY = WantedCertificate("gateway-tls", "ca", "gateway", ("gateway.barnabas.internal", "10.0.0.1"))
WANTED = WantedSecrets((GATEWAY,), (WantedPassword("alice", "alice"),), {"app": "barnabas"})


class Memory:
    """Secrets in memory, as the API keeps them."""

    def __init__(self) -> None:
        self.stored: dict[str, Stored] = {}
        self.writes: list[str] = []

    def read(self, kind: str, name: str) -> Stored | None:
        assert kind == "secrets"
        return self.stored.get(name)

    def write(
        self, kind: str, name: str, data: Mapping[str, bytes], labels: Mapping[str, str], present: Stored | None
    ) -> None:
        if present is not None and not present.is_ours:
            raise KubernetesError(f"{name} was not created by Barnabas")
        assert labels == WANTED.labels
        self.stored[name] = Stored(dict(data), str(len(self.writes)), is_ours=True)
        self.writes.append(name)


@pytest.fixture
def objects() -> Memory:
    memory = Memory()
    list(ensure_secrets(memory, WANTED, NOW))
    memory.writes.clear()
    return memory


def certificate(objects: Memory) -> x509.Certificate:
    return x509.load_pem_x509_certificate(objects.stored["gateway-tls"].data["tls.crt"])


def test_what_is_missing_is_created(objects: Memory) -> None:
    found = certificate(objects)
    authority = x509.load_pem_x509_certificate(objects.stored["ca"].data["tls.crt"])
    found.verify_directly_issued_by(authority)
    assert found.not_valid_after_utc == NOW + timedelta(days=CERTIFICATE_DAYS)
    data = objects.stored["gateway-tls"].data
    assert data["keystore.pem"] == data["tls.key"] + data["tls.crt"]
    assert data["ca.crt"] == objects.stored["ca"].data["tls.crt"]
    assert objects.stored["alice"].data["username"] == b"alice"
    assert len(objects.stored["alice"].data["password"]) >= 24


def test_a_second_run_changes_nothing(objects: Memory) -> None:
    assert list(ensure_secrets(objects, WANTED, NOW)) == []
    assert objects.writes == []


def test_a_certificate_is_replaced_before_it_ends_and_not_earlier(objects: Memory) -> None:
    due = NOW + timedelta(days=CERTIFICATE_DAYS) - RENEWED_BEFORE
    before = certificate(objects)
    assert list(ensure_secrets(objects, WANTED, due - timedelta(minutes=1))) == []
    (line,) = ensure_secrets(objects, WANTED, due + timedelta(minutes=1))
    assert line == "issued gateway-tls: it ended at 2026-04-01 00:00 UTC"
    assert certificate(objects).serial_number != before.serial_number
    assert objects.writes == ["gateway-tls"]


def test_a_certificate_for_other_names_is_replaced(objects: Memory) -> None:
    wanted = msgspec.structs.replace(GATEWAY, names=("gateway.example",))
    (line,) = ensure_secrets(objects, WantedSecrets((wanted,), (), WANTED.labels), NOW)
    assert line == "issued gateway-tls: it was for other names"


def test_certificates_of_a_lost_authority_are_replaced(objects: Memory) -> None:
    del objects.stored["ca"]
    lines = list(ensure_secrets(objects, WANTED, NOW))
    assert lines == ["created the authority ca", "issued gateway-tls: it was of another authority"]


@pytest.mark.parametrize("broken", ["tls.crt", "tls.key", "keystore.pem", "ca.crt"])
def test_a_secret_that_lacks_a_part_is_made_whole(objects: Memory, broken: str) -> None:
    del objects.stored["gateway-tls"].data[broken]
    assert len(list(ensure_secrets(objects, WANTED, NOW))) == 1
    assert broken in objects.stored["gateway-tls"].data


def test_what_others_have_created_is_not_replaced(objects: Memory) -> None:
    objects.stored["gateway-tls"] = Stored({"tls.crt": b"theirs"}, "1", is_ours=False)
    with pytest.raises(KubernetesError, match="not created by Barnabas"):
        list(ensure_secrets(objects, WANTED, NOW))


def test_an_authority_that_cannot_be_read_is_never_replaced(objects: Memory) -> None:
    objects.stored["ca"].data["tls.key"] = b"broken"
    with pytest.raises(KubernetesError, match="has no authority that can be used"):
        list(ensure_secrets(objects, WANTED, NOW))
    assert objects.writes == []


def test_an_authority_that_ends_is_warned_of(objects: Memory) -> None:
    late = NOW + timedelta(days=3650 - 300)
    assert "the authority ca ends within a year: replace it" in list(ensure_secrets(objects, WANTED, late))
