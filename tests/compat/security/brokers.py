"""Barnabas and Apache Kafka with the same listeners, certificates and users."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from barnabas.cli.local.certificates import create_authority, issue, write_authority
from barnabas.cli.local.layout import HOST
from bench.apache_kafka import ApacheKafka
from tests.compat.security.cells import LISTENERS, PASSWORD, PORTS, USER
from tests.integration.reserved_ports import reserve_ports
from tests.integration.running_cluster import RunningCluster

_READY_SECONDS_MAX: Final = 120
_JAAS: Final = "org.apache.kafka.common.security"
_FIRST_PORT_AT: Final = 80


def write_secrets(directory: Path) -> None:
    """Write an authority, the brokers' key and a client's, and a client's key of another authority."""
    now = datetime.fromtimestamp(time.time(), UTC)
    authority = create_authority("security matrix", now)
    write_authority(directory, authority)
    (directory / "broker.pem").write_bytes(issue(authority, "broker", (HOST, "localhost"), now))
    (directory / "client.pem").write_bytes(issue(authority, USER, (), now))
    (directory / "foreign.pem").write_bytes(issue(create_authority("another", now), USER, (), now))


def _shared_settings(secrets: Path) -> dict[str, str]:
    """What both brokers are configured by, in Kafka's words."""
    settings = {"ssl.keystore.location": str(secrets / "broker.pem"), "ssl.keystore.type": "PEM"}
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
        for scram in mechanisms[1:]:
            settings[f"{prefix}{scram.lower()}.sasl.jaas.config"] = f"{_JAAS}.scram.ScramLoginModule required;"
    return settings


def _listeners(plaintext_port: int, first_port: int) -> str:
    secured = [f"{name}://{HOST}:{first_port + PORTS[name]}" for name in LISTENERS]
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
            "listeners": _listeners(first_port - _FIRST_PORT_AT, first_port),
            "listener.security.protocol.map": _protocol_map(),
            **_shared_settings(secrets),
        }

    with RunningCluster(directory, 1, properties) as running:
        _create_users(running.bootstrap)
        yield found


@contextmanager
def apache_kafka(directory: Path, _secrets: Path) -> Iterator[int]:
    """Yield the port of the first listener."""
    port, lock = reserve_ports()
    first_port, controller = port + _FIRST_PORT_AT, port + 1
    listeners = _listeners(port, first_port)
    settings = {
        "listeners": f"{listeners},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": f"{_protocol_map()},PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        **_shared_settings(_secrets),
    }
    broker = ApacheKafka(directory / "kafka", port, controller, "512M", settings)
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
