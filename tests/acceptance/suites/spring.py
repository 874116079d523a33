"""Spring for Apache Kafka: a transactional listener container, and the template that it sends results with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.acceptance.clusters import CACHE
from tests.acceptance.outcomes import Outcomes
from tests.acceptance.suite import Broker, Suite
from tests.acceptance.suites.java_process import java
from tests.acceptance.suites.stream_processors import Case, run_cases
from tests.compat.building import build, need

_VERSION: Final = "4.1.2"
_SOURCES: Final = Path(__file__).parents[1] / "java/spring"
_RECORDS: Final = 20_000
_CASES: Final = (
    Case("killed, started again", _RECORDS),
    Case("two processes, one of them killed at a time", _RECORDS, processes=2),
)


def _bring() -> Path:
    need("java", "javac", "mvn")
    copy = ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
    return build(_SOURCES, CACHE / "spring", [copy, ["javac", "-d", "classes", "-cp", "libs/*", "Copies.java"]])


def _run(directory: Path, broker: Broker, logs: Path) -> Outcomes:
    def arguments(bootstrap: str, name: str, _: Path) -> list[str]:
        return [*java("256M"), "-cp", f"{directory / 'classes'}:{directory / 'libs'}/*", "Copies", bootstrap, name]

    return run_cases("spring", _CASES, arguments, broker, logs)


SUITE: Final = Suite("spring", f"Spring for Apache Kafka {_VERSION}, transactions, killed", _bring, _run)
