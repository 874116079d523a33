"""MirrorMaker 2 in its dedicated mode: one process that mirrors two clusters into each other, exactly once."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.acceptance.clusters import CACHE
from tests.acceptance.suite import Broker
from tests.acceptance.suites.mirror_results import Translated, parse_translated
from tests.compat.building import build, need

VERSION: Final = "4.3.1"
SOURCES: Final = Path(__file__).parents[1] / "java/mirror"
HERE: Final = "here"
OTHER: Final = "other"
"""Aliases of the clusters: the one that the suite is run against, and one of Apache Kafka."""
TOPIC: Final = "orders"
GROUPS: Final = "readers-of-"
_TRANSLATE_SECONDS_MAX: Final = 180.0
_JAVA: Final = ("java", "-Xmx384M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOG4J: Final = """<Configuration status="ERROR">
  <Appenders><Console name="out"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
  <Loggers>
    <Logger name="org.apache.kafka.connect.mirror" level="INFO"/>
    <Root level="WARN"><AppenderRef ref="out"/></Root>
  </Loggers>
</Configuration>
"""
_STORAGES: Final = ("config", "offset", "status")


def bring() -> Path:
    """Return the directory of MirrorMaker's jars and the program that translates. Raises UnavailableError."""
    need("java", "javac", "mvn")
    copy = ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
    return build(SOURCES, CACHE / "mirror", [copy, ["javac", "-d", "classes", "-cp", "libs/*", "Translate.java"]])


def replicas_in(broker: Broker) -> int:
    return min(broker.brokers, 3)


def mirror_settings(here: Broker, other: Broker) -> dict[str, str]:
    """Return what MirrorMaker is started with.

    The topics to mirror include those that were mirrored, so that only its own rule keeps it from mirroring them back.
    """
    clusters = {HERE: here, OTHER: other}
    settings = {
        "clusters": ", ".join(clusters),
        "topics": f".*{TOPIC}",
        "groups": f"{GROUPS}.*",
        "tasks.max": "1",
        "refresh.topics.interval.seconds": "2",
        "refresh.groups.interval.seconds": "2",
        "sync.topic.configs.interval.seconds": "2",
        "emit.heartbeats.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }
    for alias, broker in clusters.items():
        settings |= {
            f"{alias}.bootstrap.servers": broker.bootstrap,
            f"{alias}.exactly.once.source.support": "enabled",
            f"{alias}.offset.flush.interval.ms": "1000",
            f"{alias}.session.timeout.ms": "6000",
            f"{alias}.heartbeat.interval.ms": "1500",
            f"{alias}.scheduled.rebalance.max.delay.ms": "0",
            **{f"{alias}.{each}.storage.replication.factor": str(replicas_in(broker)) for each in _STORAGES},
        }
    for source, target in ((HERE, OTHER), (OTHER, HERE)):
        flow, in_target = f"{source}->{target}", str(replicas_in(clusters[target]))
        settings |= {
            f"{flow}.enabled": "true",
            f"{flow}.consumer.isolation.level": "read_committed",
            f"{flow}.transaction.boundary": "interval",
            f"{flow}.transaction.boundary.interval.ms": "1000",
            f"{flow}.replication.factor": in_target,
            f"{flow}.heartbeats.topic.replication.factor": in_target,
            f"{flow}.checkpoints.topic.replication.factor": in_target,
            f"{flow}.offset-syncs.topic.replication.factor": str(replicas_in(clusters[source])),
        }
    return settings


class MirrorMaker:
    """Its process."""

    def __init__(self, directory: Path, here: Broker, other: Broker, logs: Path) -> None:
        self.ended_unasked = 0
        self.directory = directory
        properties, log4j = logs / "mirror.properties", logs / "log4j2.xml"
        properties.write_text("".join(f"{key}={value}\n" for key, value in mirror_settings(here, other).items()))
        log4j.write_text(_LOG4J)
        main = ["-cp", f"{directory / 'libs'}/*", "org.apache.kafka.connect.mirror.MirrorMaker", str(properties)]
        self._argv = [*_JAVA, f"-Dlog4j2.configurationFile={log4j}", *main]
        self._log = logs / "mirror.log"
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as output:
            return subprocess.Popen(
                self._argv,
                cwd=self._log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def start_again(self) -> None:
        self._process = self._start()

    def restart_if_ended(self) -> None:
        """Start it again if it ended of its own accord, as a supervisor does."""
        if self._process.poll() is not None:
            self.ended_unasked += 1
            self.start_again()

    def translate(self, bootstrap: str, alias: str, group: str) -> Translated:
        """Ask the cluster at `bootstrap` by RemoteClusterUtils. Raises OSError and TimeoutError."""
        class_path = f"{self.directory / 'classes'}:{self.directory / 'libs'}/*"
        command = [*_JAVA, "-cp", class_path, "Translate", bootstrap, alias, group]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TRANSLATE_SECONDS_MAX, check=False)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"RemoteClusterUtils has not answered within {_TRANSLATE_SECONDS_MAX:.0f} s") from None
        if done.returncode:
            raise OSError(f"RemoteClusterUtils failed: {done.stderr[-400:]}")
        return parse_translated(done.stdout)
