"""MirrorMaker 2 in its dedicated mode: one process that mirrors two clusters into each other, exactly once."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.acceptance.clusters import CACHE
from tests.acceptance.suite import Broker
from tests.acceptance.suites.java_process import JavaProcess, java
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
_HEAP: Final = "384M"
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


class MirrorMaker(JavaProcess):
    """Its process."""

    def __init__(self, directory: Path, here: Broker, other: Broker, logs: Path) -> None:
        self.directory = directory
        super().__init__(
            "mirror",
            logs,
            [*java(_HEAP), "org.apache.kafka.connect.mirror.MirrorMaker"],
            mirror_settings(here, other),
            f"{directory / 'libs'}/*",
            "org.apache.kafka.connect.mirror",
        )

    def translate(self, bootstrap: str, alias: str, group: str) -> Translated:
        """Ask the cluster at `bootstrap` by RemoteClusterUtils. Raises OSError and TimeoutError."""
        class_path = f"{self.directory / 'classes'}:{self.directory / 'libs'}/*"
        command = [*java(_HEAP), "-cp", class_path, "Translate", bootstrap, alias, group]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TRANSLATE_SECONDS_MAX, check=False)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"RemoteClusterUtils has not answered within {_TRANSLATE_SECONDS_MAX:.0f} s") from None
        if done.returncode:
            raise OSError(f"RemoteClusterUtils failed: {done.stderr[-400:]}")
        return parse_translated(done.stdout)
