"""The processes of a local cluster: how each is started and configured."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from barnabas_cli.etcd_binary import cache_path
from barnabas_cli.local.layout import HOST, ClusterDirectory, ClusterLayout
from barnabas_cli.local.secrets import (
    gateway_secrets_path,
    gateway_security,
    inside_security,
    operations_security,
)

ETCD_HEARTBEAT_MS = 100
ETCD_ELECTION_MS = 500
"""An etcd of one member elects itself after one to five heartbeats, while the other processes load their code; nothing
is read or written before. Its default of 1 s is for members that are slow to hear from each other, of which a local
cluster has none. Each heartbeat wakes it up, also when it has nothing to do."""

_PACKAGES: Final = (
    "barnabas",
    "barnabas_controller",
    "barnabas_gateway",
    "barnabas_logstore",
    "barnabas_protos",
    "barnabas_purgatory",
)


class Role(StrEnum):
    ETCD = "etcd"
    CONTROLLER = "controller"
    LOGSTORE = "logstore"
    PURGATORY = "purgatory"
    GATEWAY = "gateway"


@dataclass(slots=True, frozen=True)
class Service:
    """One process. It is restarted when its properties change."""

    name: str
    role: Role
    argv: list[str]
    ports: dict[str, int]
    """The ports it listens on, by the name that operators know."""
    properties: dict[str, str] = field(default_factory=dict)
    """Empty for etcd, which is configured only by its command line and environment."""
    environment: dict[str, str] = field(default_factory=dict)
    """Beside `service_environment()`."""

    @property
    def addresses(self) -> dict[str, str]:
        return {name: f"{HOST}:{port}" for name, port in self.ports.items()}

    @property
    def properties_text(self) -> str:
        """Write Java's properties syntax, in which a backslash escapes the next character."""
        return "".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in self.properties.items())


def services_of(directory: ClusterDirectory, layout: ClusterLayout, etcd: Path) -> list[Service]:
    """Return all services in the order in which they start; they stop in reverse."""
    return [
        _etcd(directory, layout, etcd),
        _controller(directory, layout),
        *(_logstore(directory, layout, logstore_id) for logstore_id in layout.logstore_ids),
        _purgatory(directory, layout),
        _gateway(directory, layout),
    ]


def service_environment() -> dict[str, str]:
    """Return this process's environment, with its import path.

    If PYTHONDONTWRITEBYTECODE keeps bytecode from being written beside the sources, it is written to the cache instead:
    otherwise a dozen processes would compile the same modules at every start, which doubles its duration.
    """
    search_path = [*_package_folders(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(search_path), "PYTHONUNBUFFERED": "1"}
    if environment.pop("PYTHONDONTWRITEBYTECODE", ""):
        environment.setdefault("PYTHONPYCACHEPREFIX", str(cache_path() / "bytecode"))
    return environment


def _package_folders() -> list[str]:
    """Where this process found Barnabas' packages, unless every process of this interpreter looks there."""
    specs = [importlib.util.find_spec(name) for name in _PACKAGES]
    origins = [spec.origin for spec in specs if spec is not None and spec.origin is not None]
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    folders = dict.fromkeys(Path(origin).resolve().parents[1] for origin in origins)
    return [str(folder) for folder in folders if folder not in installed]


def _etcd(directory: ClusterDirectory, layout: ClusterLayout, etcd: Path) -> Service:
    scheme = "https" if layout.secure else "http"
    client_url = f"{scheme}://{HOST}:{layout.etcd_client_port}"
    peer_url = f"{scheme}://{HOST}:{layout.etcd_peer_port}"
    argv = [
        str(etcd),
        "--name=etcd",
        f"--data-dir={directory.etcd_path}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=etcd={peer_url}",
        f"--heartbeat-interval={ETCD_HEARTBEAT_MS}",
        f"--election-timeout={ETCD_ELECTION_MS}",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=1h",
        "--logger=zap",
        "--log-level=warn",
        *(_etcd_tls(directory) if layout.secure else ()),
    ]
    ports = {"client": layout.etcd_client_port, "peer": layout.etcd_peer_port}
    # With more threads at once, each of etcd's ticks and answers wakes up several of them, to look for work.
    return Service(Role.ETCD, Role.ETCD, argv, ports, environment={"GOMAXPROCS": "1"})


def _etcd_tls(directory: ClusterDirectory) -> list[str]:
    """Return the options by which etcd accepts certificates of its own authority alone."""
    authority, own = directory.secrets_path / "etcd" / "ca.crt", directory.secrets_path / "etcd" / "etcd.pem"
    return [
        f"--cert-file={own}",
        f"--key-file={own}",
        f"--trusted-ca-file={authority}",
        "--client-cert-auth",
        f"--peer-cert-file={own}",
        f"--peer-key-file={own}",
        f"--peer-trusted-ca-file={authority}",
        "--peer-client-cert-auth",
        "--peer-cert-allowed-cn=etcd",
    ]


def _python_service(
    directory: ClusterDirectory,
    layout: ClusterLayout,
    role: Role,
    name: str,
    ports: dict[str, int],
    own: dict[str, str],
) -> Service:
    properties = {
        **own,
        "metrics.listeners": f"{HOST}:{ports['metrics']}",
        "etcd.endpoints": f"{HOST}:{layout.etcd_client_port}",
        "log.format": "console",
        **(inside_security(directory, name) if layout.secure else {}),
    }
    argv = [sys.executable, "-m", f"barnabas_{role}", "--config", str(directory.config_path(name))]
    return Service(name, role, argv, ports, properties)


def _controller(directory: ClusterDirectory, layout: ClusterLayout) -> Service:
    name = str(Role.CONTROLLER)
    ports = {
        "ops": layout.operations_port,
        "membership": layout.membership_port,
        "metrics": layout.controller_metrics_port,
    }
    own = {
        "controller.id": name,
        "listeners": f"{HOST}:{layout.membership_port}",
        "operations.listeners": f"{HOST}:{layout.operations_port}",
    }
    if layout.secure:
        own |= operations_security(directory)
    return _python_service(directory, layout, Role.CONTROLLER, name, ports, own)


def _logstore(directory: ClusterDirectory, layout: ClusterLayout, logstore_id: int) -> Service:
    ports = {
        "data": layout.logstore_data_port(logstore_id),
        "control": layout.logstore_control_port(logstore_id),
        "metrics": layout.logstore_metrics_port(logstore_id),
    }
    own = {
        "node.id": str(logstore_id),
        "log.dirs": str(directory.logstore_path(logstore_id)),
        "listeners": f"{HOST}:{ports['data']}",
        "control.listeners": f"{HOST}:{ports['control']}",
    }
    return _python_service(directory, layout, Role.LOGSTORE, f"logstore-{logstore_id}", ports, own)


def _purgatory(directory: ClusterDirectory, layout: ClusterLayout) -> Service:
    name = str(Role.PURGATORY)
    ports = {"park": layout.purgatory_port, "metrics": layout.purgatory_metrics_port}
    own = {"pod.id": name, "listeners": f"{HOST}:{layout.purgatory_port}"}
    return _python_service(directory, layout, Role.PURGATORY, name, ports, own)


def _gateway(directory: ClusterDirectory, layout: ClusterLayout) -> Service:
    name = str(Role.GATEWAY)
    own = {
        "gateway.id": name,
        "listeners": f"PLAINTEXT://{HOST}:{layout.kafka_port}",
        "ops.listeners": f"{HOST}:{layout.gateway_ops_port}",
    }
    if layout.secure:
        own |= gateway_security(directory, layout)
    # Tells clients the port of each broker id: a new logstore needs a new port.
    brokers = {f"broker-{logstore_id}": layout.kafka_port + 1 + logstore_id for logstore_id in layout.logstore_ids}
    ports = {
        "kafka": layout.kafka_port,
        **brokers,
        "health": layout.gateway_ops_port,
        "metrics": layout.gateway_metrics_port,
    }
    service = _python_service(directory, layout, Role.GATEWAY, name, ports, own)
    if layout.secure:
        service.argv.extend(("--config", str(gateway_secrets_path(directory))))
    return service
