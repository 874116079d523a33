"""The clusters whose leaders move: three logstores of Barnabas, three brokers of Apache Kafka, or those of the grid.

The brokers of Apache Kafka are controllers too, as `make bench` has them.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol

from barnabas_cli.local import processes
from barnabas_cli.local.layout import HOST, ClusterDirectory
from bench.apache_kafka import VERSION, ApacheKafka, new_cluster_id
from tests.faults.cluster import FaultCluster, UnhealthyError
from tests.faults.machines import LOGSTORES, broker_id, logstore_of
from tests.faults.topics import brokers_known
from tests.integration.reserved_ports import reserve_ports
from tests.integration.running_cluster import ROOT, RunningCluster, reaper_of

BROKERS: Final = 3
STOP_SECONDS_MAX: Final = 60.0
START_SECONDS_MAX: Final = 90.0
_HEAP: Final = "512M"
_POLL_SECONDS: Final = 0.1


class Cluster(Protocol):
    """Brokers are named by their ids; logstores are brokers."""

    name: str
    broker_ids: Sequence[int]

    @property
    def servers(self) -> Mapping[str, tuple[str, int]]:
        """Host and port of whatever answers requests, by name."""

    def is_alive(self, broker: int) -> bool: ...

    def terminate(self, broker: int) -> None:
        """SIGTERM; returns when it has ended. Raises UnhealthyError where it does not."""

    def kill(self, broker: int) -> None:
        """kill -9, children included; returns when they are gone."""

    def spawn(self, broker: int) -> None:
        """Start it on what the one before it left; nothing is waited for."""

    def log_directories(self) -> list[Path]:
        """Of all brokers."""

    def process_logs(self) -> Path:
        """The directory of what the processes say."""


def bootstrap_of(cluster: Cluster) -> str:
    return ",".join(f"{host}:{port}" for host, port in cluster.servers.values())


class BarnabasCluster:
    """Started as `make up LOGSTORES=3` starts one, on ports of its own. Use it as a context manager."""

    name = "barnabas"
    broker_ids: Sequence[int] = range(BROKERS)

    def __init__(self, directory: Path) -> None:
        self._running = RunningCluster(directory, BROKERS)

    def __enter__(self) -> BarnabasCluster:
        self._running.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.__exit__()

    @property
    def servers(self) -> dict[str, tuple[str, int]]:
        return {"gateway": (HOST, self._running.local.layout.kafka_port)}

    def is_alive(self, broker: int) -> bool:
        return processes.is_alive(self._identity(broker))

    def terminate(self, broker: int) -> None:
        if processes.stop([self._identity(broker)], STOP_SECONDS_MAX):
            raise UnhealthyError(f"{logstore_of(broker)} did not stop within {STOP_SECONDS_MAX:.0f} s of SIGTERM")

    def kill(self, broker: int) -> None:
        _kill(self._identity(broker))

    def spawn(self, broker: int) -> None:
        self._running.start(logstore_of(broker))

    def log_directories(self) -> list[Path]:
        return [self._running.directory.logstore_path(broker) for broker in self.broker_ids]

    def process_logs(self) -> Path:
        return self._running.directory.log_path("any").parent

    def _identity(self, broker: int) -> processes.ProcessIdentity:
        identity = self._running.local.identity(self._running.local.service(logstore_of(broker)))
        assert identity is not None, "it was started"
        return identity


class KafkaCluster:
    """Use it as a context manager. Whatever becomes of this process, no broker outlives it."""

    name = "kafka"
    version = VERSION
    broker_ids: Sequence[int] = range(1, BROKERS + 1)

    def __init__(self, directory: Path) -> None:
        self._directory = ClusterDirectory(directory)
        self._cleanup = ExitStack()
        self._ports: dict[int, int] = {}
        self._brokers: dict[int, ApacheKafka] = {}

    def __enter__(self) -> KafkaCluster:
        block, lock = reserve_ports()
        self._cleanup.enter_context(lock)
        self._cleanup.enter_context(reaper_of(self._directory.path))
        self._ports = {broker: block + 2 * broker for broker in self.broker_ids}
        voters = ",".join(f"{broker}@{HOST}:{port + 1}" for broker, port in self._ports.items())
        cluster_id = new_cluster_id()
        settings = {
            "controller.quorum.voters": voters,
            "offsets.topic.replication.factor": str(BROKERS),
            "transaction.state.log.replication.factor": str(BROKERS),
            "transaction.state.log.min.isr": "2",
            "auto.create.topics.enable": "false",
        }
        self._brokers = {
            broker: ApacheKafka(
                self._directory.path / f"broker-{broker}",
                port,
                port + 1,
                _HEAP,
                {"node.id": str(broker), **settings},
                cluster_id,
            )
            for broker, port in self._ports.items()
        }
        try:
            for broker in self.broker_ids:
                self._cleanup.callback(self._stop, broker)
                self.spawn(broker)
            self._wait_until_all_know_all()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def servers(self) -> dict[str, tuple[str, int]]:
        return {f"broker-{broker}": (HOST, port) for broker, port in self._ports.items()}

    def is_alive(self, broker: int) -> bool:
        return processes.is_alive(self._brokers[broker].identity)

    def terminate(self, broker: int) -> None:
        if processes.stop([self._brokers[broker].identity], STOP_SECONDS_MAX):
            raise UnhealthyError(f"broker-{broker} did not stop within {STOP_SECONDS_MAX:.0f} s of SIGTERM")

    def kill(self, broker: int) -> None:
        _kill(self._brokers[broker].identity)

    def spawn(self, broker: int) -> None:
        self._brokers[broker].start()
        processes.write_pid_file(self._directory.pid_path(f"broker-{broker}"), self._brokers[broker].identity)

    def log_directories(self) -> list[Path]:
        return [self._directory.path / f"broker-{broker}" / "data" for broker in self.broker_ids]

    def process_logs(self) -> Path:
        """What the brokers say, copied together."""
        logs = self._directory.log_path("any").parent
        logs.mkdir(parents=True, exist_ok=True)
        for broker, apache_kafka in self._brokers.items():
            (logs / f"broker-{broker}.log").write_bytes(apache_kafka.log_path.read_bytes())
        return logs

    def _stop(self, broker: int) -> None:
        """The data is of no use any more: no controlled shutdown is waited for."""
        if self._directory.pid_path(f"broker-{broker}").exists() and self.is_alive(broker):
            self.kill(broker)

    def _wait_until_all_know_all(self) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while (why := brokers_known(self, BROKERS)) is not None:
            if time.monotonic() > deadline:
                raise UnhealthyError("\n".join([why, *(each.explain() for each in self._brokers.values())]))
            time.sleep(_POLL_SECONDS)


class GridCluster:
    """The cluster of the grid's cells, which has started."""

    name = "barnabas"
    broker_ids: Sequence[int] = [broker_id(logstore) for logstore in LOGSTORES]

    def __init__(self, cluster: FaultCluster) -> None:
        self._cluster = cluster

    @property
    def servers(self) -> dict[str, tuple[str, int]]:
        return self._cluster.layout.servers

    def is_alive(self, broker: int) -> bool:
        return self._cluster.is_alive(logstore_of(broker))

    def terminate(self, broker: int) -> None:
        self._cluster.terminate(logstore_of(broker), STOP_SECONDS_MAX)

    def kill(self, broker: int) -> None:
        self._cluster.kill(logstore_of(broker))

    def spawn(self, broker: int) -> None:
        self._cluster.spawn(logstore_of(broker))

    def log_directories(self) -> list[Path]:
        return self._cluster.log_directories()

    def process_logs(self) -> Path:
        return self._cluster.layout.directory / "logs"


def kafka_is_lacking() -> str:
    """Why there can be no cluster of Apache Kafka here; empty where there can be one."""
    if not list((ROOT / ".cache/peer/libs").glob(f"kafka_2.13-{VERSION}.jar")):
        return "no jars of Apache Kafka (make peer)"
    return ""


def _kill(identity: processes.ProcessIdentity) -> None:
    processes.signal_session(identity, signal.SIGKILL)
    while processes.is_alive(identity) or processes.session_members(identity):
        time.sleep(_POLL_SECONDS / 10)
