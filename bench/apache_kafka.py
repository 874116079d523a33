"""Runs one Apache Kafka broker (KRaft, combined mode) from the jars that `make peer` gets."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import uuid
from pathlib import Path

import click

from barnabas_cli.local.processes import ProcessIdentity, is_alive, last_lines, spawn, stop

VERSION = "4.4.0"
LIBS = Path(__file__).parents[1] / ".cache/peer/libs"

_LOG4J = """<Configuration status="WARN">
  <Appenders><Console name="out"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
  <Loggers>
    <Logger name="org.apache.kafka.storage.internals.log" level="INFO"/>
    <Root level="WARN"><AppenderRef ref="out"/></Root>
  </Loggers>
</Configuration>
"""


def need_apache_kafka() -> None:
    """Raises ClickException: its jars of this version, or a Java to run them, are not here."""
    if shutil.which("java") is None or not (LIBS / f".complete-{VERSION}").exists():
        raise click.ClickException(f"Apache Kafka {VERSION} is not here: make peer (needs a JDK 17 and Maven)")


def new_cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")


class ApacheKafka:
    """One broker on loopback ports, in a directory of its own."""

    def __init__(
        self,
        directory: Path,
        port: int,
        controller_port: int,
        heap: str,
        settings: dict[str, str],
        cluster_id: str = "",
    ) -> None:
        """`cluster_id` as Kafka writes it, the same for all brokers of a cluster; none: one that is new."""
        self.bootstrap = f"127.0.0.1:{port}"
        self.jvm_flags = [f"-Xmx{heap}", f"-Xms{heap}", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
        """Heap and collector as in Kafka's own start script."""
        self.settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(directory / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **settings,
        }
        self._cluster_id = cluster_id or new_cluster_id()
        self._directory = directory
        self._identity: ProcessIdentity | None = None

    @property
    def is_started(self) -> bool:
        return self._identity is not None

    @property
    def identity(self) -> ProcessIdentity:
        assert self._identity is not None, "start comes first"
        return self._identity

    @property
    def log_path(self) -> Path:
        return self._directory / "broker.log"

    def start(self) -> None:
        """Format the directory and start; the caller waits until it answers. Raises CalledProcessError."""
        java = shutil.which("java")
        assert java is not None, "java is on PATH"
        self._directory.mkdir(parents=True, exist_ok=True)
        properties = self._directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        log4j = self._directory / "log4j2.xml"
        log4j.write_text(_LOG4J)
        run = [java, "-cp", f"{LIBS}/*", f"-Dlog4j2.configurationFile={log4j}"]
        if not (self._directory / "data").exists():
            subprocess.run(
                [*run, "kafka.tools.StorageTool", "format", "-t", self._cluster_id, "-c", str(properties)],
                check=True,
                capture_output=True,
            )
        argv = [*run, *self.jvm_flags, "kafka.Kafka", str(properties)]
        self._identity = spawn(argv, self.log_path, dict(os.environ))

    def stop(self) -> None:
        stop([self.identity], grace_seconds=20)

    def explain(self) -> str:
        """Why it may not answer."""
        state = "runs" if is_alive(self.identity) else "is dead"
        return f"Apache Kafka {state}; its last lines:\n" + "\n".join(last_lines(self.log_path, 5))
