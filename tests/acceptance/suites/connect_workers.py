"""Workers of Kafka Connect in distributed mode, each a process of Java, and their REST interface."""

from __future__ import annotations

import http.client
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from barnabas_cli.local.layout import HOST
from tests.acceptance.suite import Broker
from tests.acceptance.suites.java_process import JavaProcess, java
from tests.acceptance.suites.steps import StepError
from tests.compat.matrix.toolchains import PEER_LIBS
from tests.integration.reserved_ports import free_port

CONFIGS: Final = "connect-configs"
OFFSETS: Final = "connect-offsets"
STATUSES: Final = "connect-statuses"
_STORAGE_PARTITIONS: Final = 4
SECONDS_MAX: Final = 240.0
_ANSWER_SECONDS_MAX: Final = 30.0
_PAUSE_SECONDS: Final = 0.5
_NOT_YET: Final = frozenset({404, 409, 500, 503})
"""A worker that has not heard of a connector yet, a group that rebalances, a leader that is gone."""
ASKED: Final[Mapping[str, tuple[int, Mapping[str, str]]]] = {
    CONFIGS: (1, {"cleanup.policy": "compact", "min.insync.replicas": "2"}),
    OFFSETS: (_STORAGE_PARTITIONS, {"cleanup.policy": "compact", "segment.bytes": "10485760"}),
    STATUSES: (_STORAGE_PARTITIONS, {"cleanup.policy": "compact", "max.message.bytes": "2097152"}),
}
"""How many partitions and which settings the workers ask for when they create their topics."""


class RestError(StepError):
    """No worker did what it was asked; the message has what the last one answered."""


def worker_settings(bootstrap: str, replicas: int, port: int) -> dict[str, str]:
    """Return what a worker is started with. The cleanup policy is not among it: Connect asks for that of its own."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "connect-workers",
        "listeners": f"http://{HOST}:{port}",
        "exactly.once.source.support": "enabled",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "plugin.discovery": "service_load",
        "offset.flush.interval.ms": "1000",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1500",
        "scheduled.rebalance.max.delay.ms": "0",
    }
    for kind, topic in (("config", CONFIGS), ("offset", OFFSETS), ("status", STATUSES)):
        partitions, asked = ASKED[topic]
        settings |= {f"{kind}.storage.topic": topic, f"{kind}.storage.replication.factor": str(replicas)}
        if topic is not CONFIGS:
            settings[f"{kind}.storage.partitions"] = str(partitions)
        settings |= {f"{kind}.storage.{name}": value for name, value in asked.items() if name != "cleanup.policy"}
    return settings


class Worker(JavaProcess):
    """One process, known by the port of its REST interface."""

    def __init__(self, directory: Path, broker: Broker, logs: Path) -> None:
        self.port = free_port()
        self.is_suspended = False
        super().__init__(
            f"worker-{self.port}",
            logs,
            [*java("256M"), "org.apache.kafka.connect.cli.ConnectDistributed"],
            worker_settings(broker.bootstrap, min(broker.brokers, 3), self.port),
            f"{directory}:{directory / 'classes'}:{PEER_LIBS}/*",
            "org.apache.kafka.connect.runtime",
        )

    def suspend(self) -> None:
        self.send_signal(signal.SIGSTOP)
        self.is_suspended = True

    def wake(self) -> None:
        self.send_signal(signal.SIGCONT)
        self.is_suspended = False

    def answers(self) -> bool:
        try:
            ask(self.port, "GET", "/")
        except (OSError, http.client.HTTPException):
            return False
        return True


def ask(port: int, method: str, path: str, body: object = None) -> Any:
    """Send one request to one worker. Raises HTTPError where it is refused, another OSError if there is no answer."""
    data = None if body is None else msgspec.json.encode(body)
    request = urllib.request.Request(f"http://{HOST}:{port}{path}", data, method=method)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS_MAX) as response:
        content = response.read()
    return msgspec.json.decode(content) if content else None


class Rest:
    """The workers' REST interface: any of them that is not suspended answers, or forwards to the leader."""

    def __init__(self, workers: list[Worker]) -> None:
        self._workers = workers

    def call(self, method: str, path: str, body: object = None, seconds_max: float = SECONDS_MAX) -> Any:
        """Ask the workers in turn until one does it. Raises RestError."""
        deadline = time.monotonic() + seconds_max
        last = "none was asked"
        while True:
            for worker in self._workers:
                if worker.is_suspended:
                    continue
                try:
                    return ask(worker.port, method, path, body)
                except urllib.error.HTTPError as refused:
                    last = f"{refused.code} {refused.read().decode(errors='replace')}"
                    if refused.code not in _NOT_YET:
                        raise RestError(f"{method} {path}: {last}") from None
                except (OSError, http.client.HTTPException) as error:
                    last = repr(error)
            if time.monotonic() > deadline:
                raise RestError(f"{method} {path}: not done within {seconds_max:.0f} s: {last}")
            time.sleep(_PAUSE_SECONDS)
