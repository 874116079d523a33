"""Three brokers to kill: Barnabas' logstores with the services that belong to them, or Apache Kafka's own."""

from __future__ import annotations

import signal
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from barnabas_cli.local import processes
from barnabas_cli.local.cluster import LocalCluster, cluster_to_start
from barnabas_cli.local.layout import HOST, ClusterDirectory, ClusterLayout
from barnabas_cli.local.processes import ProcessIdentity
from barnabas_cli.local.services import Role, Service
from barnabas_cli.record_client import KafkaError, RecordClient
from bench.apache_kafka import VERSION, ApacheKafka, new_cluster_id

BROKERS = 3
LEASE_TTL_SECONDS = 6.0
"""The default of a logstore, and of Kafka's brokers: `broker.session.timeout.ms` is 9 s there, set to this one."""

_BARNABAS_PORT = 27_000
_KAFKA_PORT = 27_200
_READY_SECONDS_MAX = 120.0
_POLL_SECONDS = 0.01
_ETCD_COUNTERS = {
    "transactions": "etcd_debugging_mvcc_current_revision",
    "puts": "etcd_mvcc_put_total",
    "deletes": "etcd_mvcc_delete_total",
}
"""Every transaction that changes something is one revision."""


class Trio(Protocol):
    """By broker id, from 0 to 2."""

    name: str
    bootstrap: str

    @property
    def flags(self) -> dict[str, str]: ...

    @property
    def sessions(self) -> list[ProcessIdentity]:
        """All processes, to hold to account."""

    def start(self) -> None:
        """Return when a client can produce."""

    def stop(self) -> None: ...

    def identity(self, broker: int) -> ProcessIdentity: ...

    def restart(self, broker: int) -> None:
        """Start one that has ended; nothing is waited for."""

    def etcd_counters(self) -> dict[str, int]:
        """Transactions and keys written since etcd's start; empty where there is no etcd."""


def kill(trio: Trio, broker: int) -> None:
    """SIGKILL to all of its processes at once, as a pod dies."""
    processes.signal_session(trio.identity(broker), signal.SIGKILL)


def pause(trio: Trio, broker: int) -> None:
    processes.signal_session(trio.identity(broker), signal.SIGSTOP)


def resume(trio: Trio, broker: int) -> None:
    processes.signal_session(trio.identity(broker), signal.SIGCONT)


def terminate(trio: Trio, broker: int) -> None:
    """SIGTERM to the main process, and nothing is waited for."""
    processes.signal_process(trio.identity(broker), signal.SIGTERM)


def wait_for_end(trio: Trio, broker: int) -> float:
    """The moment (monotonic) at which its main process had ended."""
    identity = trio.identity(broker)
    while processes.is_alive(identity):
        time.sleep(_POLL_SECONDS)
    return time.monotonic()


class BarnabasTrio:
    name = "Barnabas"
    bootstrap = f"{HOST}:{_BARNABAS_PORT}"

    def __init__(self, directory: Path) -> None:
        layout = ClusterLayout(_BARNABAS_PORT, _BARNABAS_PORT + 40, logstores=BROKERS)
        self.cluster: LocalCluster = cluster_to_start(ClusterDirectory(directory), layout, print)
        self.cluster.services = [_configured(service) for service in self.cluster.services]

    @property
    def flags(self) -> dict[str, str]:
        return {
            f"{service.name} {key}": value
            for service in self.cluster.services
            for key, value in service.properties.items()
        }

    @property
    def sessions(self) -> list[ProcessIdentity]:
        identities = [self.cluster.identity(service) for service in self.cluster.services]
        return [identity for identity in identities if identity is not None]

    def start(self) -> None:
        self.cluster.start(print)

    def stop(self) -> None:
        self.cluster.stop()

    def identity(self, broker: int) -> ProcessIdentity:
        identity = self.cluster.identity(self.cluster.service(f"logstore-{broker}"))
        assert identity is not None, "start comes first"
        return identity

    def restart(self, broker: int) -> None:
        self.cluster.spawn(self.cluster.service(f"logstore-{broker}"))

    def etcd_counters(self) -> dict[str, int]:
        with urllib.request.urlopen(f"http://{HOST}:{self.cluster.layout.etcd_client_port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: int(float(values[metric])) for name, metric in _ETCD_COUNTERS.items()}


def _configured(service: Service) -> Service:
    """Leaders are balanced by the measurement, not meanwhile."""
    own = {"auto.leader.rebalance.enable": "false"} if service.role is Role.CONTROLLER else {}
    return replace(service, properties=service.properties | own)


class ApacheKafkaTrio:
    """Each of the three is broker and controller."""

    name = f"Apache Kafka {VERSION}"
    bootstrap = f"{HOST}:{_KAFKA_PORT}"

    def __init__(self, directory: Path) -> None:
        voters = ",".join(f"{each}@{HOST}:{_KAFKA_PORT + 10 + each}" for each in range(BROKERS))
        cluster_id = new_cluster_id()
        self._brokers = [
            ApacheKafka(
                directory / f"broker-{each}",
                _KAFKA_PORT + each,
                _KAFKA_PORT + 10 + each,
                "1G",
                {
                    "node.id": str(each),
                    "controller.quorum.voters": voters,
                    "auto.leader.rebalance.enable": "false",
                    "broker.session.timeout.ms": str(int(LEASE_TTL_SECONDS * 1000)),
                },
                cluster_id,
            )
            for each in range(BROKERS)
        ]

    @property
    def flags(self) -> dict[str, str]:
        return {"java": " ".join(self._brokers[0].jvm_flags), **self._brokers[0].settings}

    @property
    def sessions(self) -> list[ProcessIdentity]:
        return [broker.identity for broker in self._brokers]

    def start(self) -> None:
        processes.raise_open_files_limit()
        for broker in self._brokers:
            broker.start()
        deadline = time.monotonic() + _READY_SECONDS_MAX
        while True:
            try:
                with RecordClient(HOST, _KAFKA_PORT, 5) as client:
                    if len(client.metadata().brokers) == BROKERS:
                        return
            except KafkaError:
                pass
            if time.monotonic() > deadline:
                raise RuntimeError("\n".join(broker.explain() for broker in self._brokers))
            time.sleep(0.2)

    def stop(self) -> None:
        for broker in self._brokers:
            broker.stop()

    def identity(self, broker: int) -> ProcessIdentity:
        return self._brokers[broker].identity

    def restart(self, broker: int) -> None:
        self._brokers[broker].start()

    def etcd_counters(self) -> dict[str, int]:
        return {}
