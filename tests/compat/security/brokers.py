"""Barnabas and Apache Kafka with the same listeners, certificates, users, keys of tokens and Kerberos realm."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from joserfc import jwt
from joserfc.jwk import RSAKey

from barnabas_cli.local.certificates import create_authority, issue, write_authority
from barnabas_cli.local.layout import HOST
from bench.apache_kafka import ApacheKafka
from tests.compat.security.cells import LISTENERS, NAME, PASSWORD, PORTS, SCRAMS, USER
from tests.integration.kerberos_realm import REALM, SERVICE, KerberosRealm
from tests.integration.reserved_ports import reserve_ports
from tests.integration.running_cluster import RunningCluster

_READY_SECONDS_MAX: Final = 120
_JAAS: Final = "org.apache.kafka.common.security"
_VALIDATOR: Final = f"{_JAAS}.oauthbearer.OAuthBearerValidatorCallbackHandler"
_ISSUER: Final = "https://issuer.example"
_TOKEN_SECONDS: Final = 24 * 3600
_FIRST_PORT_AT: Final = 80


def write_secrets(directory: Path) -> None:
    """Write an authority, the brokers' key and a client's, and a client's key of another authority; the key of an
    issuer of tokens, a token of it, and one by another key of the same name.
    """
    now = datetime.fromtimestamp(time.time(), UTC)
    authority = create_authority("security matrix", now)
    write_authority(directory, authority)
    (directory / "broker.pem").write_bytes(issue(authority, "broker", (HOST, NAME), now))
    (directory / "client.pem").write_bytes(issue(authority, USER, (), now))
    (directory / "foreign.pem").write_bytes(issue(create_authority("another", now), USER, (), now))
    keys = {name: RSAKey.generate_key(2048, {"kid": "key", "use": "sig"}) for name in ("client", "foreign")}
    (directory / "keys.json").write_text(json.dumps({"keys": [keys["client"].as_dict(private=False)]}))
    issued_s = int(now.timestamp()) - 1
    claims = {"iss": _ISSUER, "aud": "kafka", "sub": USER, "iat": issued_s, "exp": issued_s + _TOKEN_SECONDS}
    for name, key in keys.items():
        (directory / f"{name}.jwt").write_text(jwt.encode({"alg": "RS256", "kid": "key"}, claims, key))


@contextmanager
def kerberos_realm(secrets: Path) -> Iterator[dict[str, str]]:
    """Yield the environment of a realm with the brokers' principal, another service's, and a client with a ticket."""
    directory = secrets / "realm"
    directory.mkdir()
    with KerberosRealm(directory) as realm:
        realm.add_principal(f"other/{NAME}")
        realm.add_principal(USER)
        realm.keytab(SERVICE, "broker")
        yield {**realm.environment, "KRB5CCNAME": realm.ticket_cache(USER)}


def _shared_settings(secrets: Path) -> dict[str, str]:
    """What both brokers are configured by, in Kafka's words."""
    keytab = secrets / "realm/broker.keytab"
    kerberos = f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{SERVICE}@{REALM}"'
    settings = {
        "ssl.keystore.location": str(secrets / "broker.pem"),
        "ssl.keystore.type": "PEM",
        "sasl.oauthbearer.jwks.endpoint.url": (secrets / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.issuer": _ISSUER,
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.kerberos.service.name": "kafka",
    }
    for name, (protocol, version, mechanisms) in LISTENERS.items():
        prefix = f"listener.name.{name.lower()}."
        if version:
            settings[f"{prefix}ssl.enabled.protocols"] = version
        if protocol == "SSL":
            settings[f"{prefix}ssl.client.auth"] = "required"
            settings[f"{prefix}ssl.truststore.location"] = str(secrets / "ca.crt")
            settings[f"{prefix}ssl.truststore.type"] = "PEM"
            continue
        settings[f"{prefix}sasl.enabled.mechanisms"] = ",".join(mechanisms)
        settings[f"{prefix}plain.sasl.jaas.config"] = (
            f'{_JAAS}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        )
        for scram in SCRAMS:
            settings[f"{prefix}{scram.lower()}.sasl.jaas.config"] = f"{_JAAS}.scram.ScramLoginModule required;"
        settings[f"{prefix}oauthbearer.sasl.jaas.config"] = f"{_JAAS}.oauthbearer.OAuthBearerLoginModule required;"
        settings[f"{prefix}oauthbearer.sasl.server.callback.handler.class"] = _VALIDATOR
        settings[f"{prefix}gssapi.sasl.jaas.config"] = (
            f"com.sun.security.auth.module.Krb5LoginModule required {kerberos};"
        )
    return settings


def _listeners(host: str, plaintext_port: int, first_port: int) -> str:
    secured = [f"{name}://{host}:{first_port + PORTS[name]}" for name in LISTENERS]
    return ",".join([f"PLAINTEXT://{HOST}:{plaintext_port}", *secured])


def _protocol_map() -> str:
    return ",".join(f"{name}:{protocol}" for name, (protocol, _, _) in LISTENERS.items())


@contextmanager
def barnabas(directory: Path, secrets: Path) -> Iterator[int]:
    """Yield the port of the first listener."""
    found = 0

    def properties(first_port: int) -> dict[str, str]:
        nonlocal found
        found = first_port
        return {
            "listeners": _listeners(HOST, first_port - _FIRST_PORT_AT, first_port),
            "advertised.listeners": _listeners(NAME, first_port - _FIRST_PORT_AT, first_port),
            "listener.security.protocol.map": _protocol_map(),
            **_shared_settings(secrets),
        }

    with RunningCluster(directory, 1, properties) as running:
        _create_users(running.bootstrap)
        yield found


@contextmanager
def apache_kafka(directory: Path, secrets: Path) -> Iterator[int]:
    """Yield the port of the first listener."""
    port, lock = reserve_ports()
    first_port, controller = port + _FIRST_PORT_AT, port + 1
    settings = {
        "listeners": f"{_listeners(HOST, port, first_port)},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": _listeners(NAME, port, first_port),
        "listener.security.protocol.map": f"{_protocol_map()},PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        **_shared_settings(secrets),
    }
    broker = ApacheKafka(directory / "kafka", port, controller, "512M", settings)
    keys = secrets / "keys.json"
    broker.jvm_flags += [
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()},file:{keys}",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={keys}",
        f"-Djava.security.krb5.conf={secrets / 'realm/krb5.conf'}",
    ]
    with lock:
        broker.start()
        try:
            _wait(broker)
            _create_users(broker.bootstrap)
            yield first_port
        finally:
            broker.stop()


def _wait(broker: ApacheKafka) -> None:
    deadline = time.monotonic() + _READY_SECONDS_MAX
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    while True:
        try:
            admin.list_topics(timeout=2)
            return
        except KafkaException:
            if time.monotonic() > deadline:
                raise RuntimeError(broker.explain()) from None


def _create_users(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # Apache Kafka refuses two credentials of a user in one request.
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        upsertion = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result(timeout=30)
