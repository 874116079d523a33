"""The cluster that leader changes are measured in: one loaded logstore, its successor, one that stands still, one idle.

The one that stands still (SIGSTOP) stays in the ISR, as leases and `replica.lag.time.max.ms` are long: so nothing
written with acks=all is committed, and every such produce is parked until its epoch ends. The idle one takes the same
load instead of the loaded one, where only the load on the machine is to be compared.
"""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from barnabas.cli import ports
from barnabas.cli.layout import HOST, ClusterDirectory, ClusterLayout
from barnabas.cli.local_cluster import LocalCluster, cluster_to_start
from barnabas.cli.processes import ProcessIdentity, signal_session
from barnabas.cli.services import Role, Service
from bench.control.admin import Admin
from bench.control.backlog import Backlog
from bench.control.designs import Design
from bench.control.recording import EpochKey, Event, Noted, read_recordings

LOADED, SUCCESSOR, STANDING_STILL, IDLE = range(4)
MOVED_TOPIC = "moved"
PARTITIONS = 10
"""Of the topic whose leaders change, and of those that take the load."""
_LOAD_PARTITIONS = 4
_PORTS = range(28_800, 29_800, 100)
_PATIENCE_MS = "600000"
# What the load has written goes again, so that the disk is not what is measured.
_LOAD_CONFIGS = {"segment.bytes": str(64 << 20), "retention.bytes": str(64 << 20), "file.delete.delay.ms": "0"}
_PROPERTIES = {
    Role.LOGSTORE: {
        "lease.ttl.ms": _PATIENCE_MS,
        "replica.lag.time.max.ms": _PATIENCE_MS,
        "log.retention.check.interval.ms": "500",
    },
    Role.CONTROLLER: {"auto.leader.rebalance.enable": "false"},
    # One processor, and so one stream to each logstore: what is sent later is not written before.
    Role.GATEWAY: {"num.network.threads": "1"},
}


def _free_layout() -> ClusterLayout:
    """On ports that nobody has now."""
    for port in _PORTS:
        layout = ClusterLayout(port, port + 40, logstores=4)
        if all(ports.is_free(each) for each in layout.ports_used):
            return layout
    raise AssertionError(f"no block of free ports in {_PORTS}")


class MeasuredCluster:
    """Use it as a context manager."""

    def __init__(self, directory: Path, design: Design, value_bytes: int) -> None:
        """`value_bytes` is the size of the load's records, one a request."""
        self._value_bytes = value_bytes
        self._directory = directory
        layout = _free_layout()
        self.local: LocalCluster = cluster_to_start(ClusterDirectory(directory), layout, lambda _: None)
        control_address = f"{HOST}:{layout.logstore_control_port(LOADED)}"
        self._recordings = [directory / "controller.events", directory / "core.events"]
        hosts = {
            str(Role.CONTROLLER): ["bench.control.controller", control_address, str(self._recordings[0])],
            f"logstore-{LOADED}": self._host(LOADED, design, self._recordings[1]),
            f"logstore-{IDLE}": self._host(IDLE, Design.SEPARATE, directory / "idle.events"),
        }
        self.local.services = [self._measured(service, hosts.get(service.name)) for service in self.local.services]
        self._connections = ExitStack()
        self.backlogs: dict[int, Backlog] = {}
        """At the loaded logstore and at the idle one."""

    def _host(self, node: int, design: Design, recording: Path) -> list[str]:
        return ["bench.control.logstore", design, str(recording), str(self._backlog_path(node))]

    def _backlog_path(self, node: int) -> Path:
        return self._directory / f"backlog-{node}.json"

    @staticmethod
    def _measured(service: Service, host: list[str] | None) -> Service:
        argv = service.argv if host is None else [sys.executable, "-m", *host, *service.argv[3:]]
        return replace(service, argv=argv, properties=service.properties | _PROPERTIES.get(service.role, {}))

    def __enter__(self) -> MeasuredCluster:
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in self._recordings:
            path.touch()
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        self.local.start(lambda _: None)
        self.admin = self._connections.enter_context(Admin(*self.address))
        assignment = [LOADED, SUCCESSOR, STANDING_STILL]
        self.topic_id = self.admin.create(MOVED_TOPIC, dict.fromkeys(range(PARTITIONS), assignment)).hex()
        for node in (LOADED, IDLE):
            self.backlogs[node] = self._make_backlog(node)
        signal_session(self._identity(STANDING_STILL), signal.SIGSTOP)

    def _make_backlog(self, node: int) -> Backlog:
        topic = f"load-{node}"
        replicas = {number: [node] for number in range(_LOAD_PARTITIONS)}
        topic_id = self.admin.create(topic, replicas, _LOAD_CONFIGS)
        ((_, leader_epoch),) = set(self.admin.leaders(topic).values())
        return Backlog(self._backlog_path(node), topic_id, _LOAD_PARTITIONS, leader_epoch, self._value_bytes)

    def __exit__(self, *_: object) -> None:
        self._connections.close()
        identity = self.local.identity(self.local.service(f"logstore-{STANDING_STILL}"))
        if identity is not None:
            signal_session(identity, signal.SIGCONT)
        self.local.stop()

    def _identity(self, node: int) -> ProcessIdentity:
        identity = self.local.identity(self.local.service(f"logstore-{node}"))
        assert identity is not None, "it was started"
        return identity

    def events(self) -> dict[EpochKey, dict[Event, Noted]]:
        return read_recordings(self._recordings)

    @property
    def address(self) -> tuple[str, int]:
        """For Kafka clients."""
        return HOST, self.local.layout.kafka_port
