"""One restart of each member of etcd under producers; `make rolling-etcd` does it again and again, and measures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.deep,
    pytest.mark.minutes(
        "three restarts, each until all is in sync again; test_rolling_groups kills one of three members, "
        "test_rolling_kills the only one"
    ),
]

ROOT = Path(__file__).parents[2]
RUN_SECONDS_MAX = 300
RECORDS_MIN = 1800


@pytest.mark.timeout(RUN_SECONDS_MAX + 30)
def test_no_acknowledged_record_is_lost(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.rolling_etcd", "--times", "1"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = re.fullmatch(
        r"3 restarts of etcd members, (\d+) acknowledged, lost 0, duplicated 0, reordered 0; longest silence \d+ ms, "
        r"\d+ new controller epochs",
        done.stdout.splitlines()[-1],
    )
    assert last is not None, done.stdout
    assert int(last[1]) >= RECORDS_MIN
