"""Barnabas and Apache Kafka, each with a PLAINTEXT and an SSL listener, and the same certificate."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from barnabas_cli.local.certificates import create_authority, issue, write_authority
from barnabas_cli.local.layout import HOST
from barnabas_cli.local.services import Role
from bench.loads import Settings
from bench.sides import KAFKA_PORT, ApacheKafkaSide, BarnabasSide, Side

OURS: Final = "Barnabas"
KAFKA: Final = "Apache Kafka"
_OURS_PORT: Final = 28_600
_SSL_AT: Final = 10
"""From a side's PLAINTEXT port to its SSL listener."""


@dataclass(slots=True, frozen=True)
class Secured:
    """A side, with what a client needs."""

    side: Side
    port: int
    authority: Path

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def settings(self) -> Settings:
        """librdkafka's."""
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.authority)}


@contextmanager
def running_secured(directory: Path) -> Iterator[dict[str, Secured]]:
    """Start both sides, and stop them at the end."""
    now = datetime.fromtimestamp(time.time(), UTC)
    authority = create_authority("bench", now)
    write_authority(directory, authority)
    key_store = directory / "broker.pem"
    key_store.write_bytes(issue(authority, "broker", (HOST, "localhost"), now))
    shared = {"ssl.keystore.location": str(key_store), "ssl.keystore.type": "PEM"}
    ours = BarnabasSide(directory / "barnabas", port=_OURS_PORT)
    ports = {OURS: _OURS_PORT + _SSL_AT, KAFKA: KAFKA_PORT + _SSL_AT}
    gateway = {"listeners": _listeners(_OURS_PORT, ports[OURS]), **shared}
    for key, value in gateway.items():
        ours.set(Role.GATEWAY, key, value)
    listeners = _listeners(KAFKA_PORT, ports[KAFKA])
    kafka = ApacheKafkaSide(
        directory / "kafka",
        settings={
            "listeners": f"{listeners},CONTROLLER://{HOST}:{KAFKA_PORT + 1}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            **shared,
        },
    )
    sides: dict[str, Side] = {OURS: ours, KAFKA: kafka}
    with ExitStack() as stack:
        for side in sides.values():
            stack.callback(side.stop)
            side.start()
        yield {name: Secured(side, ports[name], directory / "ca.crt") for name, side in sides.items()}


def _listeners(plaintext_port: int, ssl_port: int) -> str:
    return f"PLAINTEXT://{HOST}:{plaintext_port},SSL://{HOST}:{ssl_port}"
