"""The layout of a local cluster: its directory, its services and their ports.

data/cluster.json                this layout: ports and the number of logstores
data/conf/<service>.properties   the configuration of each service
data/run/<service>.pid           the identity of its process
data/run/restarts.jsonl          what the supervisor has restarted, and why
data/logs/<service>.log          its log
data/etcd, data/logstore-<id>    its data
data/secrets                     keys and passwords, with `up --secure` (`cli/barnabas_cli/local/secrets.py`)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from barnabas.cluster.keys import Role

HOST: Final = "127.0.0.1"
"""Services of a local cluster connect and listen on the loopback interface only: nothing authenticates them yet."""

LOGSTORES_MAX: Final = 50
FORMAT: Final = 1

_INTERNAL_PORTS_OFFSETS: Final = (*range(10_000, 15_000, 200), *range(-10_000, -5_000, 200))
"""Where the internal ports may begin, from the bootstrap port; the first block that is free is taken."""
_MEMBERSHIP_OFFSET: Final = 2 * LOGSTORES_MAX + 8
_LOGSTORE_METRICS_OFFSET: Final = 2 * LOGSTORES_MAX + 10
_INTERNAL_PORTS: Final = _LOGSTORE_METRICS_OFFSET + LOGSTORES_MAX
_PORT_MIN: Final = 1_024
_PORT_MAX: Final = 65_535


class LayoutError(Exception):
    """The directory has no valid cluster, or the settings don't fit it; the message says what to do."""


@dataclass(slots=True, frozen=True)
class ClusterLayout:
    """What is decided when the cluster is created. Only the number of logstores can change later."""

    kafka_port: int
    """The bootstrap port; broker `id` is advertised at `kafka_port + 1 + id`."""
    internal_port: int
    """The first of the services' internal ports."""
    logstores: int
    format: int = FORMAT
    secure: bool = False
    """Whether clients need TLS and a password."""

    @property
    def logstore_ids(self) -> range:
        """Kafka's broker ids, which start at 0."""
        return range(self.logstores)

    @property
    def etcd_client_port(self) -> int:
        return self.internal_port

    @property
    def etcd_peer_port(self) -> int:
        return self.internal_port + 1

    @property
    def operations_port(self) -> int:
        """The controller's port for operators."""
        return self.internal_port + 2

    @property
    def membership_port(self) -> int:
        """The controller's port for the other services."""
        return self.internal_port + _MEMBERSHIP_OFFSET

    @property
    def purgatory_port(self) -> int:
        return self.internal_port + 3

    @property
    def gateway_ops_port(self) -> int:
        return self.internal_port + 4

    def logstore_data_port(self, logstore_id: int) -> int:
        return self.internal_port + 8 + 2 * logstore_id

    def logstore_control_port(self, logstore_id: int) -> int:
        return self.internal_port + 9 + 2 * logstore_id

    @property
    def controller_metrics_port(self) -> int:
        return self.internal_port + 5

    @property
    def purgatory_metrics_port(self) -> int:
        return self.internal_port + 6

    @property
    def gateway_metrics_port(self) -> int:
        return self.internal_port + 7

    def logstore_metrics_port(self, logstore_id: int) -> int:
        return self.internal_port + _LOGSTORE_METRICS_OFFSET + logstore_id

    @property
    def ports_used(self) -> Iterator[int]:
        yield from range(self.kafka_port, self.kafka_port + self.logstores + 1)
        yield from range(self.internal_port, self.logstore_control_port(self.logstores - 1) + 1)
        yield self.membership_port
        yield from (self.logstore_metrics_port(logstore_id) for logstore_id in self.logstore_ids)


def new_layout(kafka_port: int, logstores: int, is_free: Callable[[int], bool] | None = None) -> ClusterLayout:
    """Return the layout of a cluster on its own block of internal ports: by `is_free` the first that no other cluster
    has, also when either of them grows; the first that exists if none is free, or if `is_free` is not given.
    """
    firsts = [kafka_port + offset for offset in _INTERNAL_PORTS_OFFSETS]
    possible = [first for first in firsts if _PORT_MIN <= first <= _PORT_MAX - _INTERNAL_PORTS]
    free = [] if is_free is None else (first for first in possible if all(map(is_free, _block(first))))
    return ClusterLayout(kafka_port=kafka_port, internal_port=next(iter(free), possible[0]), logstores=logstores)


def _block(internal_port: int) -> range:
    return range(internal_port, internal_port + _INTERNAL_PORTS)


@dataclass(slots=True, frozen=True)
class ClusterDirectory:
    """The directory of a cluster, as an absolute path."""

    path: Path

    @property
    def layout_path(self) -> Path:
        return self.path / "cluster.json"

    @property
    def etcd_path(self) -> Path:
        return self.path / "etcd"

    def logstore_path(self, logstore_id: int) -> Path:
        return self.path / f"logstore-{logstore_id}"

    def config_path(self, service: str) -> Path:
        return self.path / "conf" / f"{service}.properties"

    def pid_path(self, service: str) -> Path:
        return self.path / "run" / f"{service}.pid"

    def log_path(self, service: str) -> Path:
        return self.path / "logs" / f"{service}.log"

    @property
    def secrets_path(self) -> Path:
        return self.path / "secrets"

    @property
    def client_properties_path(self) -> Path:
        """What clients of a secure cluster need, by Kafka's names."""
        return self.secrets_path / "client.properties"

    def read_layout(self) -> ClusterLayout | None:
        """Return None if there is no cluster here. Raises LayoutError for one that this version can't read."""
        try:
            layout = msgspec.json.decode(self.layout_path.read_bytes(), type=ClusterLayout)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise LayoutError(f"{self.layout_path} can't be read ({error}); `make clean` deletes the data") from None
        if layout.format != FORMAT:
            raise LayoutError(f"{self.path} was created by another version of Barnabas (format {layout.format})")
        return layout

    def require_layout(self) -> ClusterLayout:
        layout = self.read_layout()
        if layout is None:
            raise LayoutError(f"no cluster in {self.path}; start one with `make up` or `barnabas up`")
        return layout

    def write_layout(self, layout: ClusterLayout) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        temporary = self.layout_path.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(layout)) + b"\n")
        temporary.replace(self.layout_path)


def members_of(layout: ClusterLayout) -> list[tuple[str, Role, str]]:
    """Return the services that are members: the name of each, its role, and the id that it registers."""
    alone = [(role.value, role, role.value) for role in (Role.CONTROLLER, Role.GATEWAY, Role.PURGATORY)]
    return alone + [(f"logstore-{each}", Role.LOGSTORE, str(each)) for each in layout.logstore_ids]


def settle_layout(
    directory: ClusterDirectory,
    kafka_port: int | None,
    logstores: int | None,
    secure: bool | None = None,
    is_free: Callable[[int], bool] | None = None,
) -> ClusterLayout:
    """Return the layout to start: the stored one, with logstores added, or a new one on ports that are free by
    `is_free`. Raises LayoutError.

    `secure` None leaves it as it is.
    """
    known = directory.read_layout()
    if logstores is not None and not 1 <= logstores <= LOGSTORES_MAX:
        raise LayoutError(f"the number of logstores must be between 1 and {LOGSTORES_MAX}, not {logstores}")
    if known is None:
        return replace(new_layout(kafka_port or 9092, logstores or 1, is_free), secure=bool(secure))
    if kafka_port is not None and kafka_port != known.kafka_port:
        raise LayoutError(
            f"the cluster in {directory.path} uses port {known.kafka_port}; for another cluster on {kafka_port} "
            f"use another directory (--data-dir, or make up DATA=…)"
        )
    known = known if secure is None else replace(known, secure=secure)
    if logstores is None or logstores == known.logstores:
        return known
    if logstores < known.logstores:
        raise LayoutError(
            f"the cluster in {directory.path} has {known.logstores} logstores with partitions on them; "
            f"to start over with {logstores}, run make clean, then make up LOGSTORES={logstores}"
        )
    return replace(known, logstores=logstores)
