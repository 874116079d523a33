"""The listeners of the clusters that suites are run against, as Kafka's settings have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas_cli.local.layout import HOST, ClusterLayout
from barnabas_gateway.core.model.addresses import broker_port
from barnabas_gateway.core.model.config import AddressPolicy
from tests.acceptance.suite import Addresses

PROXIED: Final = "PROXIED"
"""Beside the listeners named by their protocols: the one whose brokers are advertised where a suite's proxy listens."""
_PROTOCOLS: Final = {"PLAINTEXT": "PLAINTEXT", "SASL_PLAINTEXT": "SASL_PLAINTEXT", PROXIED: "PLAINTEXT"}


@dataclass(slots=True, frozen=True)
class Listener:
    name: str
    port: int
    advertised_port: int

    @property
    def protocol(self) -> str:
        return f"{self.name}:{_PROTOCOLS[self.name]}"


def listeners_at(plain: int, sasl: int, proxied: Listener | None = None) -> list[Listener]:
    """Return the listeners at these ports, which are advertised, and the one behind a proxy if there is one."""
    advertised = [Listener("PLAINTEXT", plain, plain), Listener("SASL_PLAINTEXT", sasl, sasl)]
    return advertised if proxied is None else [*advertised, proxied]


def settings_of(listeners: Sequence[Listener]) -> dict[str, str]:
    """Return the settings by which a gateway, or a broker of Apache Kafka, has these listeners."""
    return {
        "listeners": ",".join(f"{each.name}://{HOST}:{each.port}" for each in listeners),
        "advertised.listeners": ",".join(f"{each.name}://{HOST}:{each.advertised_port}" for each in listeners),
        "listener.security.protocol.map": ",".join(each.protocol for each in listeners),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }


def gateway_listener(addresses: Addresses, port: int) -> Listener:
    """Return the listener of a gateway whose bootstrap port is `port` and which advertises brokers at `addresses`."""
    return Listener(PROXIED, port, addresses.first_port - _port_of(addresses.first_id, 0))


def gateway_ports(addresses: Addresses, brokers: Iterable[int], port: int) -> dict[int, int]:
    """Return where that listener listens for each of these brokers, by the port that it is advertised at."""
    return {addresses.port_of(broker): _port_of(broker, port) for broker in brokers}


def _port_of(broker: int, bootstrap_port: int) -> int:
    return broker_port(AddressPolicy.PER_BROKER_PORT, bootstrap_port, broker)


@dataclass(slots=True, frozen=True)
class NumberedLayout(ClusterLayout):
    """The layout of a cluster whose ids start at another number than 0."""

    first_id: int = 0

    @property
    def logstore_ids(self) -> range:
        return range(self.first_id, self.first_id + self.logstores)


def numbered(layout: ClusterLayout, first_id: int) -> NumberedLayout:
    """Return the same layout with other ids."""
    return NumberedLayout(
        layout.kafka_port, layout.internal_port, layout.logstores, layout.format, layout.secure, first_id
    )
