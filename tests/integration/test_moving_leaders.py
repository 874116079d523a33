"""A few seconds of `make moving-leaders`: the Java client's producers while all leaders of their topic move."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.kafka_tools import kafka_libs

pytestmark = [pytest.mark.integration, pytest.mark.java, pytest.mark.slow, pytest.mark.deep]

ROOT = Path(__file__).parents[2]
SECONDS = 6
PROCESSORS = 2
RUN_SECONDS_MAX = 400
MOVES_MIN = 20
RECORDS_MIN = 1000


@pytest.mark.timeout(RUN_SECONDS_MAX + 30)
def test_every_record_is_where_it_was_reported_once_and_in_order(tmp_path: Path) -> None:
    kafka_libs()
    shape = ["--seconds", str(SECONDS), "--partitions", "12", "--producers", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.moving_leaders", "--client", "java", *shape, "--keep", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    verdict, summary = done.stdout.splitlines()[-2:]
    counts = re.search(
        r"(\d+) moves, (\d+) acknowledged, failed 0, failed though in the log 0, lost 0, doubled 0, out of order 0, "
        r"other offset 0;",
        verdict,
    )
    assert counts is not None, done.stdout
    assert summary == "1 runs, ok"
    moves, acknowledged = map(int, counts.groups())
    assert moves >= MOVES_MIN
    assert acknowledged >= RECORDS_MIN
    assert list(tmp_path.iterdir()) == [], "nothing is kept of a run that was well"
