"""Quix Streams, a stream processor over librdkafka with state in RocksDB, which counts exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.acceptance.outcomes import Outcomes
from tests.acceptance.python import VERSIONS, bring
from tests.acceptance.suite import Broker, Suite
from tests.acceptance.suites.stream_processors import Case, run_cases

_RECORDS: Final = 20_000
_CASES: Final = (
    Case("killed, started on its state", _RECORDS),
    Case("killed, started without its state", _RECORDS, keeps_state=False),
    Case("two processes, one of them killed at a time", _RECORDS, processes=2),
)


def _run(directory: Path, broker: Broker, logs: Path) -> Outcomes:
    def arguments(bootstrap: str, name: str, state: Path) -> list[str]:
        return [str(directory / "venv/bin/python"), str(directory / "quix_counts.py"), bootstrap, name, str(state)]

    return run_cases("quixstreams", _CASES, arguments, broker, logs)


SUITE: Final = Suite(
    "quixstreams", f"Quix Streams {VERSIONS['quixstreams']}, exactly once, killed", lambda: bring("quixstreams"), _run
)
