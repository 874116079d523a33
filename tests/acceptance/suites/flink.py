"""Flink's source and exactly-once sink of Kafka, with a cluster in one process, whose tasks and process fail."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.acceptance.clusters import CACHE
from tests.acceptance.outcomes import Outcomes
from tests.acceptance.suite import Broker, Suite
from tests.acceptance.suites.java_process import java
from tests.acceptance.suites.stream_processors import Case, run_cases
from tests.compat.building import build, need

_VERSION: Final = "2.2.1"
_CONNECTOR_VERSION: Final = "5.0.0"
_SOURCES: Final = Path(__file__).parents[1] / "java/flink"
_CASES: Final = (Case("a task fails, the process is killed and started on its last checkpoint", 20_000),)
_OPENS: Final = tuple(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util"))
"""What Flink's serializers of Java's own classes ask for."""


def _bring() -> Path:
    need("java", "javac", "mvn")
    copy = ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
    return build(_SOURCES, CACHE / "flink", [copy, ["javac", "-d", "classes", "-cp", "libs/*", "Counts.java"]])


def _run(directory: Path, broker: Broker, logs: Path) -> Outcomes:
    class_path = f"{directory / 'classes'}:{directory / 'libs'}/*"

    def arguments(bootstrap: str, name: str, state: Path) -> list[str]:
        return [*java("512M"), *_OPENS, "-cp", class_path, "Counts", bootstrap, name, str(state)]

    return run_cases("flink", _CASES, arguments, broker, logs)


SUITE: Final = Suite("flink", f"Flink {_VERSION}, connector {_CONNECTOR_VERSION}, exactly once, killed", _bring, _run)
