"""The two sides of a comparison, each with its own directory, ports and flags."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from barnabas.cores import running
from barnabas_cli.local.cluster import LocalCluster, cluster_to_start
from barnabas_cli.local.layout import HOST, ClusterDirectory, ClusterLayout
from barnabas_cli.local.processes import ProcessIdentity
from barnabas_cli.local.services import Role, Service
from barnabas_cli.record_client import KafkaError, RecordClient
from bench.apache_kafka import VERSION, ApacheKafka, new_cluster_id
from tests.checkouts import import_path, module_of

NETWORK_THREADS = 3
"""Of both sides, so that neither has more hands at the network."""
IO_THREADS = 8

_THREADS = {
    Role.GATEWAY: {"num.network.threads": str(NETWORK_THREADS)},
    Role.LOGSTORE: {"num.io.threads": str(IO_THREADS)},
}
_BARNABAS_PORT = 28_000
KAFKA_PORT: Final = 28_100
"""Of the first broker; its controller's is the next one."""
_READY_SECONDS_MAX = 60


class Side(Protocol):
    name: str
    bootstrap: str

    @property
    def flags(self) -> dict[str, str]:
        """All that differs from its defaults."""

    @property
    def sessions(self) -> list[ProcessIdentity]:
        """What to hold to account."""

    def start(self) -> None:
        """Return when a client can produce."""

    def stop(self) -> None: ...


class BarnabasSide:
    name = "Barnabas"

    def __init__(
        self,
        directory: Path,
        logstores: int = 1,
        port: int = _BARNABAS_PORT,
        checkout: Path | None = None,
        lane: str | None = None,
        cores: str | None = None,
    ) -> None:
        """`checkout`: another one than this, of a version that may know nothing of metrics. `lane`: "on" or "off"
        instead of what the environment says; `cores`: "compiled" or "interpreted" instead of those of this process.
        """
        self.bootstrap = f"{HOST}:{port}"
        self._lane = lane
        self.cores = cores or running()
        layout = ClusterLayout(port, port + 40, logstores)
        self.cluster: LocalCluster = cluster_to_start(ClusterDirectory(directory), layout, print)
        self.cluster.services = [
            replace(service, properties=service.properties | _THREADS.get(service.role, {}))
            for service in self.cluster.services
        ]
        if checkout is not None:
            self.cluster.services = [_of_checkout(service, checkout) for service in self.cluster.services]
        # By argument, not by this process's environment: sides of either kind may start at the same time.
        self.cluster.services = [
            _with_environment(service, BARNABAS_LANE=self.lane, BARNABAS_CORES=self.cores)
            for service in self.cluster.services
        ]

    def set(self, role: Role, key: str, value: str) -> None:
        """Before the start."""
        self.cluster.services = [
            replace(service, properties=service.properties | {key: value}) if service.role == role else service
            for service in self.cluster.services
        ]

    @property
    def lane(self) -> str:
        """Whether messages between its processes go by Unix sockets: "on", or "off" for gRPC."""
        return self._lane or lane_of_environment()

    @property
    def flags(self) -> dict[str, str]:
        return {"BARNABAS_LANE": self.lane, "BARNABAS_CORES": self.cores} | {
            f"{service.name} {key}": value
            for service in self.cluster.services
            for key, value in service.properties.items()
        }

    @property
    def sessions(self) -> list[ProcessIdentity]:
        identities = [self.cluster.identity(service) for service in self.cluster.services]
        return [identity for identity in identities if identity is not None]

    def start(self) -> None:
        """Start what does not run, and return when a client can produce."""
        self.cluster.start(print)

    def stop(self) -> None:
        self.cluster.stop()


def lane_of_environment() -> str:
    return "off" if os.environ.get("BARNABAS_LANE") == "off" else "on"


def _of_checkout(service: Service, checkout: Path) -> Service:
    if service.role is Role.ETCD:
        return service
    properties = {key: value for key, value in service.properties.items() if key != "metrics.listeners"}
    interpreter, option, _, *arguments = service.argv
    command = [interpreter, option, module_of(checkout, service.role), *arguments]
    of_checkout = replace(service, properties=properties, argv=command)
    return _with_environment(of_checkout, PYTHONPATH=import_path(checkout.resolve()), PYTHONSAFEPATH="1")


def _with_environment(service: Service, **variables: str) -> Service:
    """Set these beside the environment that it inherits."""
    settings = [f"{name}={value}" for name, value in variables.items()]
    return replace(service, argv=[shutil.which("env") or "env", *settings, *service.argv])


class ApacheKafkaSide:
    """Brokers from id 1 on, each of them a controller too."""

    name = f"Apache Kafka {VERSION}"
    bootstrap = f"{HOST}:{KAFKA_PORT}"

    def __init__(self, directory: Path, brokers: int = 1, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        """`settings`: of all brokers, beside their own."""
        cluster_id = new_cluster_id()
        voters = ",".join(f"{number + 1}@{HOST}:{KAFKA_PORT + 2 * number + 1}" for number in range(brokers))
        self._brokers = [
            ApacheKafka(
                directory / f"broker-{number + 1}",
                KAFKA_PORT + 2 * number,
                KAFKA_PORT + 2 * number + 1,
                "1G",
                {
                    "num.network.threads": str(NETWORK_THREADS),
                    "num.io.threads": str(IO_THREADS),
                    "node.id": str(number + 1),
                    "controller.quorum.voters": voters,
                    "offsets.topic.replication.factor": str(min(3, brokers)),
                    **settings,
                },
                cluster_id,
            )
            for number in range(brokers)
        ]

    @property
    def flags(self) -> dict[str, str]:
        first = self._brokers[0]
        return {"brokers": str(len(self._brokers)), "java": " ".join(first.jvm_flags), **first.settings}

    @property
    def sessions(self) -> list[ProcessIdentity]:
        return [broker.identity for broker in self._brokers if broker.is_started]

    def start(self) -> None:
        # Each formats its directory, by a virtual machine of its own, before it starts.
        with ThreadPoolExecutor() as starting:
            list(starting.map(ApacheKafka.start, self._brokers))
        deadline = time.monotonic() + _READY_SECONDS_MAX
        while not self._is_ready():
            if time.monotonic() > deadline:
                raise RuntimeError("\n".join(broker.explain() for broker in self._brokers))
            time.sleep(0.2)

    def _is_ready(self) -> bool:
        """Whether all brokers are known to the first."""
        try:
            with RecordClient(HOST, KAFKA_PORT, 5) as client:
                return len(client.metadata().brokers) == len(self._brokers)
        except KafkaError:
            return False

    def stop(self) -> None:
        for broker in self._brokers:
            broker.stop()
