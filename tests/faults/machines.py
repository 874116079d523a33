"""The machines of the cluster under faults, and how the service of each is started.

Every machine has an address of its own, on a switch of network namespaces or, where there can be none, on the loopback
network; so the same ports are free everywhere, and runs beside each other do not meet.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas_cli.local.services import Role

LOGSTORES: Final = ("logstore-0", "logstore-1", "logstore-2")
CONTROLLERS: Final = ("controller-0", "controller-1")
GATEWAYS: Final = ("gateway-0", "gateway-1")
PURGATORIES: Final = ("purgatory-0", "purgatory-1")
ETCD: Final = ("etcd-0", "etcd-1", "etcd-2")
SERVICES: Final = (*ETCD, *CONTROLLERS, *LOGSTORES, *PURGATORIES, *GATEWAYS)
"""In the order in which they start."""
CLIENTS: Final = "clients"
"""Where the clients run, and this process itself."""
MACHINES: Final = (*SERVICES, CLIENTS)

ETCD_CLIENT_PORT: Final = 2379
ETCD_PEER_PORT: Final = 2380
CONTROLLER_PORT: Final = 9091
OPERATIONS_PORT: Final = 9090
LOGSTORE_PORT: Final = 9300
PURGATORY_PORT: Final = 9600
KAFKA_PORT: Final = 9092

LEASE_TTL_MS: Final = 6000
"""The default of every service."""
REPLICA_LAG_MS_MAX: Final = 4000
"""Kafka's default is 30 s: where a follower is cut off its leader alone, writes would wait as long as a cell lasts."""

_GATEWAY_OPS_PORT: Final = 9600
_ETCD_HEARTBEAT_MS: Final = 100
_ETCD_ELECTION_MS: Final = 1000


@dataclass(slots=True, frozen=True)
class Layout:
    """Where everything is."""

    directory: Path
    etcd: Path
    """The binary."""
    address: Callable[[str], str]
    """Of a machine."""

    def log_directories(self, logstore: str) -> list[Path]:
        """Two each; the second one is small where it is a file system of its own."""
        return [self.directory / f"{logstore}-{letter}" for letter in "ab"]

    def etcd_directory(self, member: str) -> Path:
        return self.directory / member

    @property
    def servers(self) -> dict[str, tuple[str, int]]:
        return {gateway: (self.address(gateway), KAFKA_PORT) for gateway in GATEWAYS}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self.address(gateway)}:{KAFKA_PORT}" for gateway in GATEWAYS)

    @property
    def etcd_endpoints(self) -> str:
        return ",".join(f"{self.address(member)}:{ETCD_CLIENT_PORT}" for member in ETCD)


def role_of(service: str) -> Role:
    return Role(service.rpartition("-")[0])


def broker_id(logstore: str) -> int:
    return int(logstore.rpartition("-")[2])


def logstore_of(broker: int) -> str:
    return f"logstore-{broker}"


def command_of(layout: Layout, service: str, config_path: Path) -> list[str]:
    """What runs on the machine of this name; Python services read their properties from the path."""
    if role_of(service) is Role.ETCD:
        return _etcd_command(layout, service)
    return [sys.executable, "-m", f"barnabas_{role_of(service)}", "--config", str(config_path)]


def properties_of(layout: Layout, service: str) -> dict[str, str]:
    """Of a Python service. Everything that is not said here is as the defaults have it."""
    address = layout.address(service)
    common = {
        "etcd.endpoints": layout.etcd_endpoints,
        "lease.ttl.ms": str(LEASE_TTL_MS),
        "log.format": "console",
    }
    match role_of(service):
        case Role.CONTROLLER:
            own = {
                "controller.id": service,
                "listeners": f"{address}:{CONTROLLER_PORT}",
                "operations.listeners": f"{address}:{OPERATIONS_PORT}",
                "operations.authentication": "none",
            }
        case Role.LOGSTORE:
            own = {
                "node.id": str(broker_id(service)),
                "log.dirs": ",".join(map(str, layout.log_directories(service))),
                "listeners": f"{address}:{LOGSTORE_PORT}",
                "control.listeners": f"{address}:{LOGSTORE_PORT + 1}",
                "replica.lag.time.max.ms": str(REPLICA_LAG_MS_MAX),
                "log.segment.delete.delay.ms": "1000",
            }
        case Role.PURGATORY:
            own = {"pod.id": service, "listeners": f"{address}:{PURGATORY_PORT}"}
        case Role.GATEWAY:
            own = {
                "gateway.id": service,
                "listeners": f"PLAINTEXT://{address}:{KAFKA_PORT}",
                "ops.listeners": f"{address}:{_GATEWAY_OPS_PORT}",
                "num.network.threads": "1",
                "auto.create.topics.enable": "false",
            }
        case Role.ETCD:
            raise AssertionError("etcd is configured by its command line")
    return {**own, **common}


def _etcd_command(layout: Layout, member: str) -> list[str]:
    client_url = f"http://{layout.address(member)}:{ETCD_CLIENT_PORT}"
    members = ",".join(f"{each}=http://{layout.address(each)}:{ETCD_PEER_PORT}" for each in ETCD)
    peer_url = f"http://{layout.address(member)}:{ETCD_PEER_PORT}"
    return [
        str(layout.etcd),
        f"--name={member}",
        f"--data-dir={layout.etcd_directory(member)}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster={members}",
        f"--heartbeat-interval={_ETCD_HEARTBEAT_MS}",
        f"--election-timeout={_ETCD_ELECTION_MS}",
        "--logger=zap",
        "--log-level=warn",
    ]
