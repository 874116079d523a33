"""One Apache Kafka broker (KRaft, combined) on a log directory that it is given, with topics that it did not make."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from barnabas_cli.local.processes import ProcessIdentity, is_alive, last_lines, signal_session, spawn, stop
from barnabas_logstore.core.storage.checkpoints import DirectoryIdentity, uuid_to_text
from tests.compat.java_programs import SHORT_LIVED
from tests.integration.kafka_tools import KafkaTools, kafka_libs
from tests.integration.reserved_ports import free_port

_STARTED_SECONDS_MAX = 120
_HOST = "127.0.0.1"
# New metadata would give ids to producers that those in an old log have.
_first_producer_ids = itertools.count(10**9, 10**9)
_LOG4J = """<Configuration status="WARN">
  <Appenders><Console name="out"><PatternLayout pattern="%p %m (%c)%n"/></Console></Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


@dataclass(slots=True, frozen=True)
class OldPartition:
    """A partition that the log directory has when Kafka starts on it for the first time."""

    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int


class KafkaBroker:
    """Kafka's cluster metadata is made beside the log directory, which is used as it is."""

    def __init__(
        self,
        tools: KafkaTools,
        work: Path,
        log_dir: Path,
        identity: DirectoryIdentity,
        partitions: list[OldPartition],
        **settings: str,
    ) -> None:
        self._work = work
        self._log_dir = log_dir
        port, controller_port = free_port(), free_port()
        self.bootstrap = f"{_HOST}:{port}"
        self._node_id = identity.node_id
        work.mkdir(parents=True)
        (work / "log4j2.xml").write_text(_LOG4J)
        self._properties = work / "server.properties"
        lines = {
            "process.roles": "broker,controller",
            "node.id": str(identity.node_id),
            "controller.quorum.voters": f"{identity.node_id}@{_HOST}:{controller_port}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{_HOST}:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(log_dir),
            "metadata.log.dir": str(work / "metadata"),
            # Not fifty of each, nor 10 MiB: of each partition a broker that is killed leaves two such indexes.
            "log.index.size.max.bytes": str(1 << 20),
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": "2",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        # A directory that has its meta.properties already is left as it is.
        formatting = ("format", "--ignore-formatted", "-t", identity.cluster_id, "-c", str(self._properties))
        tools.both_outputs("kafka.tools.StorageTool", *formatting)
        directory_id = uuid_to_text(identity.directory_id)
        topics = [
            f"{each.topic} {uuid_to_text(each.topic_id)} {each.partition} {identity.node_id} {directory_id} "
            f"{each.leader_epoch}"
            for each in partitions
        ]
        tools.output("BootstrapTopics", str(work / "metadata"), str(next(_first_producer_ids)), *topics)
        self._identity: ProcessIdentity | None = None

    def start(self) -> None:
        """Return when it leads every partition. Raises AssertionError where it ends, or does not come so far."""
        java = shutil.which("java")
        assert java is not None
        flags = (f"-Dlog4j2.configurationFile={self._work / 'log4j2.xml'}", "-Xmx512M", *SHORT_LIVED)
        command = [java, "-cp", f"{kafka_libs()}/*", *flags, "kafka.Kafka", str(self._properties)]
        self._identity = spawn(command, self._work / "broker.log", dict(os.environ))
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 0})
        deadline = time.monotonic() + _STARTED_SECONDS_MAX
        while time.monotonic() < deadline and is_alive(self._identity):
            with contextlib.suppress(KafkaException):
                topics = admin.list_topics(timeout=1).topics
                if all(partition.leader >= 0 for topic in topics.values() for partition in topic.partitions.values()):
                    return
            time.sleep(0.1)
        raise AssertionError("\n".join(["Kafka does not answer", *last_lines(self._work / "broker.log", 20)]))

    def stop(self) -> None:
        """SIGTERM, and wait: a clean shutdown."""
        if self._identity is not None:
            stop([self._identity], grace_seconds=40)
            self._identity = None

    def kill(self) -> None:
        """kill -9; returns when it is gone."""
        assert self._identity is not None
        signal_session(self._identity, signal.SIGKILL)
        while is_alive(self._identity):
            time.sleep(0.02)
        self._identity = None

    def said(self) -> list[str]:
        """Its log, whole."""
        return (self._work / "broker.log").read_text().splitlines()
