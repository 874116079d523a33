"""The properties of Kafka's clients, and a connection by them to a listener that wants TLS and a password."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from barnabas.client.client_security import client_security
from barnabas_cli.local.certificates import create_authority, issue, write_authority

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SCRAM = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}


def test_without_properties_there_is_no_security() -> None:
    found = client_security({"bootstrap.servers": "x:1", "acks": "all"})
    assert (found.mechanism, found.context) == ("", None)


@pytest.mark.parametrize(
    "user",
    [
        {"sasl.jaas.config": f'{MODULE} required username="a\\"b" password="c;d";'},
        {"sasl.username": 'a"b', "sasl.password": "c;d"},
    ],
)
def test_users_by_javas_and_by_librdkafkas_names(user: dict[str, str]) -> None:
    found = client_security(SCRAM | user)
    assert (found.mechanism, found.user, found.password) == ("SCRAM-SHA-256", 'a"b', "c;d")
    assert "c;d" not in repr(found)


def test_authorities_and_certificates_in_pem(tmp_path: Path) -> None:
    authority = create_authority("test", NOW)
    write_authority(tmp_path, authority)
    (tmp_path / "client.pem").write_bytes(issue(authority, "alice", (), NOW))
    given = {"security.protocol": "SSL", "ssl.truststore.location": str(tmp_path / "ca.crt")}
    context = client_security(given | {"ssl.keystore.location": str(tmp_path / "client.pem")}).context
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    context = client_security(given | {"ssl.endpoint.identification.algorithm": ""}).context
    assert context is not None
    assert not context.check_hostname
    context = client_security({"security.protocol": "ssl", "ssl.ca.pem": authority.pem.decode()}).context
    assert context is not None


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"security.protocol": "TLS"}, "expected one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "expected one of PLAIN, SCRAM-SHA-256"),
        (SCRAM, "sasl.username"),
        (SCRAM | {"sasl.jaas.config": f"{MODULE} required username=a;"}, "no username and password"),
        (SCRAM | {"sasl.jaas.config": "x.Other required;"}, f"expected {MODULE}"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "JKS"}, "PEM only"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "absent.pem"}, "absent.pem"),
    ],
)
def test_what_can_not_be_is_named(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        client_security(properties)
